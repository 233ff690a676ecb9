import { makeSlots, type Slots } from '../../app/core/process/slots.ts'
import { limits } from './limits.ts'

/** There is no engine for a query: too many wait already, it has waited too long, or none can be started. */
export class NoTurn extends Error {}

/** Queries take turns: so many at once. Taking one throws NoTurn, also when the signal is aborted. */
export function makeTurns(max: number): Slots {
  const full = () => new NoTurn(`${limits.waiting} queries are waiting already`)
  const slots = makeSlots(max, limits.waiting, full)
  return {
    take: (signal) =>
      slots.take(signal).catch((error: unknown) => {
        throw signal?.aborted ? new NoTurn('no engine became free in time') : error
      }),
  }
}
