import { limits } from '../app/limits.ts'
import { type Remote, type RpcObserver, type RunnerClient, runnerAt } from '../app/rpc/clients.ts'

/** Before a runner has said how much room it has. */
const UNKNOWN_ROOM = 4
const PROBE_EVERY_MS = 500

interface Runner {
  remote: Remote<RunnerClient>
  isUp: boolean
  /** Attempts it would take now, as far as this replica knows. */
  room: number
  /** When it was last asked: one that is down or full is not asked at every tick. */
  askedAt: number
}

export type Runners = ReturnType<typeof makeRunners>

/** The runners this replica knows, and where there is room. */
export function makeRunners(urls: readonly string[], observe: RpcObserver) {
  const runners = new Map<string, Runner>(
    urls.map((url) => [url, { remote: runnerAt(url, observe), isUp: true, room: UNKNOWN_ROOM, askedAt: 0 }]),
  )

  /** One address per free slot, taken in turn from the runners that are up; the slots count as taken. */
  function takePlaces(max: number): string[] {
    const places: string[] = []
    for (let progressed = true; progressed && places.length < max; ) {
      progressed = false
      for (const [url, runner] of runners) {
        if (!runner.isUp || runner.room <= 0 || places.length >= max) continue
        runner.room -= 1
        places.push(url)
        progressed = true
      }
    }
    return places
  }

  const give = (url: string) => {
    const runner = runners.get(url)
    if (runner) runner.room += 1
  }

  return {
    takePlaces,
    /** A slot that was taken is free (again). */
    give,
    remoteAt: (url: string) => runners.get(url)?.remote ?? runnerAt(url, observe),
    /** What a runner said about its room. */
    hasRoom(url: string, room: number | undefined) {
      const runner = runners.get(url)
      if (runner === undefined || room === undefined) return
      runner.room = room
      runner.askedAt = performance.now()
    },
    isDown(url: string) {
      const runner = runners.get(url)
      if (runner) runner.isUp = false
    },
    /** Asks those that are down or full whether they are back. True: one is. */
    async probe(): Promise<boolean> {
      const now = performance.now()
      const asked = [...runners.values()].filter(
        (runner) => (!runner.isUp || runner.room <= 0) && now - runner.askedAt >= PROBE_EVERY_MS,
      )
      const answers = await Promise.all(
        asked.map(async (runner) => {
          runner.askedAt = now
          try {
            await runner.remote.check(AbortSignal.timeout(limits.sweepMs))
            runner.isUp = true
            runner.room = Math.max(runner.room, 1)
            return true
          } catch {
            runner.isUp = false
            return false
          }
        }),
      )
      return answers.includes(true)
    },
  }
}
