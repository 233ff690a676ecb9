import { makeSlots, type Slots } from '../../ground/process/slots.ts'
import { limits } from './limits.ts'

/** No engine for a query: too many queries wait, the wait was too long, or no engine can be started. */
export class NoSlot extends Error {}

/** Slots that limit concurrent queries. Acquiring one throws NoSlot, also after an abort of the signal. */
export function makeQuerySlots(max: number): Slots {
  const full = () => new NoSlot(`${limits.waiting} queries are already waiting`)
  const slots = makeSlots(max, limits.waiting, full)
  return {
    acquire: (signal) =>
      slots.acquire(signal).catch((error: unknown) => {
        throw signal?.aborted
          ? new NoSlot('no query engine became free within the time limit of the query')
          : error
      }),
  }
}
