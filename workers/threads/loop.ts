/** A worker is a loop around a tick. The loop owns timer, nudges and shutdown; the tick does the work. */
export interface Loop {
  /** Requests a tick now. Any number of nudges during a tick cause one more tick. */
  nudge(): void
  /** Requests a tick within this time. All requests until then share the tick. */
  nudgeWithin(ms: number): void
  /** Resolves when the tick under way has ended; no other follows. */
  stop(): Promise<void>
}

interface LoopOptions {
  /** Maximum milliseconds between two ticks. The regular tick finds work whose hint was lost. */
  everyMs: number
  /** True: more than one batch waits, so the loop ticks again at once. */
  tick(): Promise<boolean>
  /** The loop repeats a failed tick after the interval. */
  onError(error: unknown): void
}

export function startLoop({ everyMs, tick, onError }: LoopOptions): Loop {
  let isStopped = false
  let isNudged = true
  let wake: () => void = () => {}

  const ended = (async () => {
    while (!isStopped) {
      if (!isNudged)
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, everyMs)
          wake = () => {
            clearTimeout(timer)
            resolve()
          }
        })
      if (isStopped) return
      isNudged = false
      try {
        if (await tick()) isNudged = true
      } catch (error) {
        onError(error)
        isNudged = false
      }
    }
  })()

  let soon: ReturnType<typeof setTimeout> | null = null
  function nudge() {
    if (soon !== null) clearTimeout(soon)
    soon = null
    isNudged = true
    wake()
  }

  return {
    nudge,
    nudgeWithin(ms) {
      soon ??= setTimeout(nudge, ms)
    },
    stop() {
      if (soon !== null) clearTimeout(soon)
      isStopped = true
      wake()
      return ended
    },
  }
}
