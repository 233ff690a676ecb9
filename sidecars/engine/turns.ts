export interface Turns {
  /** Throws what the options say, and the reason of a signal that is aborted before. */
  enter(signal?: AbortSignal): Promise<void>
  /** The place goes to the one who has waited longest. */
  leave(): void
}

export interface TurnsOptions {
  /** Inside at once. */
  max: number
  waitingMax: number
  /** So many wait already. */
  full(waiting: number): Error
  /** The signal was aborted while its owner waited. */
  gaveUp(signal: AbortSignal): unknown
}

/** Lets so many in at once; the others wait in the order they came. */
export function makeTurns({ max, waitingMax, full, gaveUp }: TurnsOptions): Turns {
  const waiting: (() => void)[] = []
  let inside = 0
  return {
    async enter(signal) {
      signal?.throwIfAborted()
      if (inside < max) {
        inside += 1
        return
      }
      if (waiting.length >= waitingMax) throw full(waiting.length)
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      const giveUp = () => {
        const place = waiting.indexOf(resolve)
        if (place < 0 || signal === undefined) return
        waiting.splice(place, 1)
        reject(gaveUp(signal))
      }
      waiting.push(resolve)
      signal?.addEventListener('abort', giveUp, { once: true })
      await promise.finally(() => signal?.removeEventListener('abort', giveUp))
    },
    leave() {
      const next = waiting.shift()
      if (next === undefined) inside -= 1
      else next()
    },
  }
}
