import { limits } from './limits.ts'

/** There is no engine for a query: too many wait already, it has waited too long, or none can be started. */
export class NoTurn extends Error {}

export interface Turns {
  /** Throws NoTurn, also when the signal is aborted while waiting. */
  enter(signal: AbortSignal): Promise<void>
  /** The place goes to the one who has waited longest. */
  leave(): void
}

/** Lets so many in at once; the others wait in the order they came. */
export function makeTurns(max: number): Turns {
  const waiting: (() => void)[] = []
  let inside = 0
  return {
    async enter(signal) {
      signal.throwIfAborted()
      if (inside < max) {
        inside += 1
        return
      }
      if (waiting.length >= limits.waiting) throw new NoTurn(`${waiting.length} queries are waiting already`)
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      const giveUp = () => {
        const place = waiting.indexOf(resolve)
        if (place < 0) return
        waiting.splice(place, 1)
        reject(new NoTurn('no engine became free in time'))
      }
      waiting.push(resolve)
      signal.addEventListener('abort', giveUp, { once: true })
      await promise.finally(() => signal.removeEventListener('abort', giveUp))
    },
    leave() {
      const next = waiting.shift()
      if (next === undefined) inside -= 1
      else next()
    },
  }
}
