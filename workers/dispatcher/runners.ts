import { limits } from '../../app/core/limits.ts'
import { backoffMs } from '../../app/core/process/backoff.ts'
import type { Remote, RunnerClient } from '../../app/rpc/clients.ts'

/** Assumed free slots of a runner before its first answer. */
const UNKNOWN_ROOM = 4
/** First and longest interval between probes of a runner that is down or full; the interval doubles. */
const ASK_AFTER_MS = 500
const ASK_AFTER_MAX_MS = 5_000

interface Runner {
  remote: Remote<RunnerClient>
  isUp: boolean
  /** Free slots, as far as this replica knows. */
  room: number
  /** Slots that this replica has acquired and not released. */
  held: number
  /** Attempts that the runner executes at once; null: unknown. */
  slots: number | null
  askedAt: number
  /** Consecutive refusals for lack of a free slot. */
  refusals: number
}

export type Runners = ReturnType<typeof makeRunners>

/** The slots in a runner's answer. Runners of other vendors may omit either field. */
export interface RunnerSlots {
  freeSlots?: number
  slots?: number
}

/**
 * The free slots of a runner: at most `slots` minus the slots that this replica holds. The runner's own count may include a
 * slot for an attempt on its way there. It may also include a slot whose attempt has ended without our knowledge.
 */
const roomOf = ({ held, slots }: Runner, free: number): number =>
  Math.max(0, slots === null ? free : Math.min(free, slots - held))

/** The runners that this replica knows, with their free slots. `reach` makes the client of a runner. */
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

  /** Acquires up to `max` slots, round-robin over available runners. Returns one address per slot. */
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
    // The runner would refuse every attempt, so runs stay pending.
    if ((runner.remote.waitsFor?.() ?? null) !== null) {
      runner.room = 0
      return false
    }
    runner.room = Math.max(runner.room, roomOf(runner, 1))
    return runner.room > 0
  }

  return {
    takePlaces,
    /** The configured runners. */
    remotes: runners.map(({ remote }) => remote),
    /** Releases an acquired slot. */
    give(url: string) {
      const runner = runnerOf(url)
      if (runner === undefined) return
      runner.held -= 1
      runner.room = roomOf(runner, runner.room + 1)
    },
    /** Accepts a runner that is no longer configured, because its attempts are followed to their end. */
    remoteAt: (url: string) => runnerOf(url)?.remote ?? reach(url),
    /** Notes that a runner accepted an attempt, with its free slots if known. True: a slot is free. */
    accepted(url: string, { freeSlots, slots }: RunnerSlots): boolean {
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
    /** Notes a refusal. An acquired slot turned out not to exist, so it does not become free. */
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
      // Further reports must not delay the next probe of a runner that is already down.
      if (runner === undefined || !runner.isUp) return
      runner.isUp = false
      runner.askedAt = performance.now()
    },
    /** Probes due runners that are down or full. True: at least one has a free slot. */
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
