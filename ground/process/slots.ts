// The only semaphore of all processes. Callers beyond its size wait in order of arrival.

export interface Slots {
  /**
   * Acquires a slot and resolves to its release function, which takes effect once. Rejects with `tooMany` when too many callers
   * wait, and with the signal's reason after an abort.
   */
  acquire(signal?: AbortSignal): Promise<() => void>
}

export class TooMany extends Error {}

export function makeSlots(
  size: number,
  waitingMax: number,
  tooMany: () => Error = () => new TooMany(`queue full: ${waitingMax} callers wait for a slot`),
): Slots {
  let acquired = 0
  /** In the order of arrival. */
  const waiting = new Set<() => void>()

  function makeRelease(): () => void {
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      const [next] = waiting
      if (next === undefined) acquired -= 1
      else next()
    }
  }

  return {
    acquire(signal) {
      if (signal?.aborted) return Promise.reject(signal.reason)
      if (acquired < size) {
        acquired += 1
        return Promise.resolve(makeRelease())
      }
      if (waiting.size >= waitingMax) return Promise.reject(tooMany())
      return new Promise((resolve, reject) => {
        // A slot passes directly to the next waiter, so a new caller cannot overtake.
        const proceed = () => {
          waiting.delete(proceed)
          signal?.removeEventListener('abort', abandon)
          resolve(makeRelease())
        }
        const abandon = () => {
          waiting.delete(proceed)
          reject(signal?.reason)
        }
        waiting.add(proceed)
        signal?.addEventListener('abort', abandon, { once: true })
      })
    },
  }
}
