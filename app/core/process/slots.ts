// The one semaphore: so many callers work at once, and the others wait in the order of arrival.

export interface Slots {
  /**
   * Resolves when there is a place, to what gives it back (once, however often it is called). Rejects with `tooMany` when
   * too many wait already, and with the signal's reason when that is aborted first.
   */
  take(signal?: AbortSignal): Promise<() => void>
}

export class TooMany extends Error {}

export function makeSlots(
  size: number,
  waitingMax: number,
  tooMany: () => Error = () => new TooMany(`${waitingMax} wait already`),
): Slots {
  let taken = 0
  /** In the order of arrival. */
  const waiting = new Set<() => void>()

  function place(): () => void {
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      const [next] = waiting
      if (next === undefined) taken -= 1
      else next()
    }
  }

  return {
    take(signal) {
      if (signal?.aborted) return Promise.reject(signal.reason)
      if (taken < size) {
        taken += 1
        return Promise.resolve(place())
      }
      if (waiting.size >= waitingMax) return Promise.reject(tooMany())
      return new Promise((resolve, reject) => {
        // A place is handed over, never free in between: whoever comes meanwhile stands behind.
        const go = () => {
          waiting.delete(go)
          signal?.removeEventListener('abort', giveUp)
          resolve(place())
        }
        const giveUp = () => {
          waiting.delete(go)
          reject(signal?.reason)
        }
        waiting.add(go)
        signal?.addEventListener('abort', giveUp, { once: true })
      })
    },
  }
}
