// Sends requests at a constant rate, however long responses take, and measures the duration of each request.
import { type Caller, openCaller } from './requests.ts'

/** Sends one request of a kind; `n` counts all requests. */
type Send = (caller: Caller, n: number) => Promise<unknown>
/** Durations in milliseconds by kind of request. */
export type Samples = Map<string, number[]>

interface SteadyLoad {
  /** Sends requests and adds to `samples` until `over` is settled. Then waits for the pending responses. */
  until(samples: Samples, over: Promise<unknown>): Promise<void>
  close(): void
}

/** Prepares a load of `perSecond` requests of each kind per second. */
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
