import { limits } from '../app/limits.ts'
import { type Remote, type RpcObserver, type RunnerClient, runnerAt } from '../app/rpc/clients.ts'

/** Before a runner has said how much room it has. */
const UNKNOWN_ROOM = 4
/** One that is down or full is asked after this time, then after twice as long, and so on up to the greatest. */
const ASK_AFTER_MS = 500
const ASK_AFTER_MAX_MS = 5_000

interface Runner {
  remote: Remote<RunnerClient>
  isUp: boolean
  /** Attempts it would take now, as far as this replica knows. */
  room: number
  askedAt: number
  /** Times in a row that it had no place for what it was sent. */
  refusals: number
}

export type Runners = ReturnType<typeof makeRunners>

/** The runners this replica knows, and where there is room. `reach` may be another way than over the network. */
export function makeRunners(
  urls: readonly string[],
  observe: RpcObserver,
  reach: (url: string, observe: RpcObserver) => Remote<RunnerClient> = runnerAt,
) {
  const runners = urls.map(
    (url): Runner => ({
      remote: reach(url, observe),
      isUp: true,
      room: UNKNOWN_ROOM,
      askedAt: Number.NEGATIVE_INFINITY,
      refusals: 0,
    }),
  )
  const runnerOf = (url: string) => runners.find(({ remote }) => remote.url === url)
  let turn = 0

  /** One address per free slot, in turn from the runners that are up; the slots count as taken. */
  function takePlaces(max: number): string[] {
    turn += 1
    const inTurn = runners.map((_, n) => runners[(n + turn) % runners.length])
    const places: string[] = []
    for (let progressed = true; progressed && places.length < max; ) {
      progressed = false
      for (const runner of inTurn) {
        if (runner === undefined || !runner.isUp || runner.room <= 0 || places.length >= max) continue
        runner.room -= 1
        if (runner.room === 0) runner.askedAt = performance.now()
        places.push(runner.remote.url)
        progressed = true
      }
    }
    return places
  }

  async function ask(runner: Runner): Promise<boolean> {
    runner.askedAt = performance.now()
    try {
      await runner.remote.check(AbortSignal.timeout(limits.readinessTimeoutMs))
    } catch {
      runner.isUp = false
      return false
    }
    runner.isUp = true
    runner.room = Math.max(runner.room, 1)
    return true
  }

  return {
    takePlaces,
    /** Those that are configured. */
    remotes: runners.map(({ remote }) => remote),
    /** A slot that was taken is free (again). */
    give(url: string) {
      const runner = runnerOf(url)
      if (runner) runner.room += 1
    },
    /** Also one that is no longer configured: what runs there is followed to its end. */
    remoteAt: (url: string) => runnerOf(url)?.remote ?? reach(url, observe),
    /** A runner has taken an attempt, and perhaps said how many more it would. */
    accepted(url: string, room: number | undefined) {
      const runner = runnerOf(url)
      if (runner === undefined) return
      runner.refusals = 0
      if (room === undefined) return
      runner.room = room
      if (room <= 0) runner.askedAt = performance.now()
    },
    refused(url: string) {
      const runner = runnerOf(url)
      if (runner === undefined) return
      runner.refusals += 1
      runner.room = 0
      runner.askedAt = performance.now()
    },
    isDown(url: string) {
      const runner = runnerOf(url)
      // One that is known to be down is asked in its turn, however often it is said.
      if (runner === undefined || !runner.isUp) return
      runner.isUp = false
      runner.askedAt = performance.now()
    },
    /** Asks those that are down or full, when it is time, whether they are back. True: one is. */
    async probe(): Promise<boolean> {
      const now = performance.now()
      const due = runners.filter(
        ({ isUp, room, askedAt, refusals }) =>
          (!isUp || room <= 0) && now - askedAt >= Math.min(ASK_AFTER_MAX_MS, ASK_AFTER_MS * 2 ** refusals),
      )
      return (await Promise.all(due.map(ask))).includes(true)
    },
  }
}
