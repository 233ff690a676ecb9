/** A worker is a loop around a tick: the loop owns the timer, the nudges and the stop; the tick owns the meaning. */
export interface Loop {
  /** Asks for a tick now. Any number of nudges during a tick make one more tick. */
  nudge(): void
  /** Asks for a tick within this time, so that what comes until then shares it. */
  nudgeWithin(ms: number): void
  /** Resolves when the tick under way, if there is one, has ended; none follows. */
  stop(): Promise<void>
}

export interface LoopOptions {
  /** A tick at least this often, in milliseconds: what finds whatever a lost hint missed. */
  everyMs: number
  /** True: there was more than one batch, so tick again at once. */
  tick(): Promise<boolean>
  /** A tick that fails is tried again after the interval. */
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
