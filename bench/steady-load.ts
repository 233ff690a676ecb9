// Requests that come evenly, whatever the answers take, and how long each took. What goes on at the same time slows several
// that follow each other, so samples are kept by the stretch of time they belong to, and drawn again as such.
import { figuresOf } from './figures.ts'
import { type Caller, openCaller } from './requests.ts'

/** How a kind of request is sent; `n` counts all requests. */
export type Send = (caller: Caller, n: number) => Promise<unknown>
/** By kind, and within it by stretch: milliseconds. */
export type Samples = Map<string, number[][]>

export interface SteadyLoad {
  /** Adds to `samples` until the promise is settled, and waits for what is still to be answered. */
  until(samples: Samples, over: Promise<unknown>): Promise<void>
  close(): void
}

const STRETCH_MS = 500
const RESAMPLINGS = 400

/** So many requests of each kind a second. */
export function startSteadyLoad(url: string, kinds: Record<string, Send>, perSecond: number): SteadyLoad {
  const callers: Caller[] = []
  const idle: Caller[] = []
  const named = Object.entries(kinds)
  let sent = 0

  async function request(stretches: number[][], stretch: number, send: Send) {
    let caller = idle.pop()
    if (caller === undefined) {
      caller = await openCaller(url)
      callers.push(caller)
    }
    const since = performance.now()
    await send(caller, sent++)
    stretches[stretch]?.push(performance.now() - since)
    idle.push(caller)
  }

  return {
    async until(samples, over) {
      let isOver = false
      void over.finally(() => {
        isOver = true
      })
      const open: Promise<void>[] = []
      const since = performance.now()
      const firstStretch = new Map(named.map(([kind]) => [kind, samples.get(kind)?.length ?? 0]))
      for (let due = 0; !isOver; ) {
        const elapsed = performance.now() - since
        for (; due <= (elapsed * perSecond * named.length) / 1_000; due++) {
          const [kind, send] = named[due % named.length] as [string, Send]
          const stretches = samples.get(kind) ?? []
          samples.set(kind, stretches)
          const stretch = (firstStretch.get(kind) ?? 0) + Math.floor(elapsed / STRETCH_MS)
          while (stretches.length <= stretch) stretches.push([])
          open.push(request(stretches, stretch, send))
        }
        await new Promise((resolve) => setTimeout(resolve, 1))
      }
      await Promise.all(open)
    },
    close() {
      for (const caller of callers) caller.close()
    },
  }
}

/**
 * How many times the p99 of `limit` that of `samples` is, and where nine of ten ratios lie when the stretches of both are
 * drawn again from themselves: few samples, and a few bad moments, show as a wide range.
 */
export function ratioOfP99(samples: readonly number[][], limit: readonly number[][]) {
  const drawn = (from: readonly number[][]) =>
    from.map(() => from[Math.floor(Math.random() * from.length)] ?? [])
  const ratioOf = (a: readonly number[][], b: readonly number[][]) =>
    figuresOf(a.flat()).p99 / figuresOf(b.flat()).p99
  const ratios = Array.from({ length: RESAMPLINGS }, () => ratioOf(drawn(samples), drawn(limit))).toSorted(
    (a, b) => a - b,
  )
  const [low = Number.NaN, high = Number.NaN] = [ratios[RESAMPLINGS * 0.05], ratios[RESAMPLINGS * 0.95]]
  return { ratio: ratioOf(samples, limit), low, high }
}
