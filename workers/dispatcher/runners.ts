import { limits } from '../../app/core/limits.ts'
import { backoffMs } from '../../app/core/process/backoff.ts'
import type { Remote, RunnerClient } from '../../app/rpc/clients.ts'

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
  /** Places taken here and not given back. */
  held: number
  /** Attempts it executes at once; null: it does not say. */
  slots: number | null
  askedAt: number
  /** Times in a row that it had no place for what it was sent. */
  refusals: number
}

export type Runners = ReturnType<typeof makeRunners>

/** What a runner says with its answer; one that is not ours may leave either out. */
export interface RunnerRoom {
  freeSlots?: number
  slots?: number
}

/**
 * What a runner says is free may be on its way to an attempt of ours, or free by an end that we have not heard of and will
 * count then: there is never more than what we do not hold.
 */
const roomOf = ({ held, slots }: Runner, free: number): number =>
  Math.max(0, slots === null ? free : Math.min(free, slots - held))

/** The runners this replica knows, and where there is room. `reach` makes the client of one of them. */
export function makeRunners(
  urls: readonly string[],
  reach: (url: string) => Remote<RunnerClient>,
  askAfterMs = ASK_AFTER_MS,
) {
  const runners = urls.map(
    (url): Runner => ({
      remote: reach(url),
      isUp: true,
      room: UNKNOWN_ROOM,
      held: 0,
      slots: null,
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
        runner.held += 1
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
    // Runs stay pending: sent there, each would come back.
    if ((runner.remote.waitsFor?.() ?? null) !== null) {
      runner.room = 0
      return false
    }
    runner.room = Math.max(runner.room, roomOf(runner, 1))
    return runner.room > 0
  }

  return {
    takePlaces,
    /** Those that are configured. */
    remotes: runners.map(({ remote }) => remote),
    /** A slot that was taken is free (again). */
    give(url: string) {
      const runner = runnerOf(url)
      if (runner === undefined) return
      runner.held -= 1
      runner.room = roomOf(runner, runner.room + 1)
    },
    /** Also one that is no longer configured: what runs there is followed to its end. */
    remoteAt: (url: string) => runnerOf(url)?.remote ?? reach(url),
    /** A runner has taken an attempt, and perhaps said how many more it would. True: one more. */
    accepted(url: string, { freeSlots, slots }: RunnerRoom): boolean {
      const runner = runnerOf(url)
      if (runner === undefined) return false
      runner.refusals = 0
      runner.slots = slots ?? null
      if (freeSlots !== undefined) {
        runner.room = roomOf(runner, freeSlots)
        if (runner.room === 0) runner.askedAt = performance.now()
      }
      return runner.room > 0
    },
    /** It has no room, so that the place, if one was taken for this, is none and not given back. */
    refused(url: string, hadPlace: boolean) {
      const runner = runnerOf(url)
      if (runner === undefined) return
      if (hadPlace) runner.held -= 1
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
          (!isUp || room <= 0) &&
          now - askedAt >= backoffMs(1 + refusals, { firstMs: askAfterMs, limitMs: ASK_AFTER_MAX_MS }),
      )
      return (await Promise.all(due.map(ask))).includes(true)
    },
  }
}
