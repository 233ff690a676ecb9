// The only semaphore of all processes. Callers beyond its size wait in order of arrival.

export interface Slots {
  /**
   * Acquires a slot and resolves to its release function, which takes effect once. Rejects with `tooMany` when too many callers
   * wait, and with the signal's reason after an abort.
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
        // A slot passes directly to the next waiter, so a new caller cannot overtake.
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
