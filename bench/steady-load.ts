// Requests that come evenly, whatever the answers take, and how long each took.
import { type Caller, openCaller } from './requests.ts'

/** How a kind of request is sent; `n` counts all requests. */
export type Send = (caller: Caller, n: number) => Promise<unknown>
/** Milliseconds by kind. */
export type Samples = Map<string, number[]>

export interface SteadyLoad {
  /** Adds to `samples` until the promise is settled, and waits for what is still to be answered. */
  until(samples: Samples, over: Promise<unknown>): Promise<void>
  close(): void
}

/** So many requests of each kind a second. */
export function startSteadyLoad(url: string, kinds: Record<string, Send>, perSecond: number): SteadyLoad {
  const callers: Caller[] = []
  const idle: Caller[] = []
  const named = Object.entries(kinds)
  let sent = 0

  async function request(times: number[], send: Send) {
    let caller = idle.pop()
    if (caller === undefined) {
      caller = await openCaller(url)
      callers.push(caller)
    }
    const since = performance.now()
    await send(caller, sent++)
    times.push(performance.now() - since)
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
      for (let due = 0; !isOver; ) {
        const elapsed = performance.now() - since
        for (; due <= (elapsed * perSecond * named.length) / 1_000; due++) {
          const [kind, send] = named[due % named.length] as [string, Send]
          const times = samples.get(kind) ?? []
          samples.set(kind, times)
          open.push(request(times, send))
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
