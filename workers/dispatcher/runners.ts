import { Code, ConnectError } from '@connectrpc/connect'
import { limits } from '../../app/core/limits.ts'
import type { Remote, RunnerClient } from '../../app/rpc/clients.ts'
import { NO_OFFER, type RunnerOffer, type RunnerSlot } from '../../app/runs/placement.ts'
import { backoffMs } from '../../ground/process/backoff.ts'

/** Assumed free slots of a runner before its first answer. */
const ASSUMED_FREE_SLOTS = 4
/** First and longest interval between probes of a runner that is down or full; the interval doubles. */
const PROBE_AFTER_MS = 500
const PROBE_AFTER_MAX_MS = 5_000
/** A runner may restart with other labels before anybody notices that it was down. */
const DESCRIBE_MS = 30_000

interface Runner {
  remote: Remote<RunnerClient>
  isUp: boolean
  /** Null: the runner has not described itself since it came up. */
  offer: RunnerOffer | null
  describedAt: number
  /** Free slots, as far as this replica knows. */
  freeSlots: number
  /** Slots that this replica has acquired and not released. */
  held: number
  /** Attempts that the runner executes at once; null: unknown. */
  slots: number | null
  checkedAt: number
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
const freeSlotsOf = ({ held, slots }: Runner, free: number): number =>
  Math.max(0, slots === null ? free : Math.min(free, slots - held))

/** The runners that this replica knows, with their free slots. `reach` makes the client of a runner. */
export function makeRunners(
  urls: readonly string[],
  reach: (url: string) => Remote<RunnerClient>,
  probeAfterMs = PROBE_AFTER_MS,
) {
  const runners = urls.map(
    (url): Runner => ({
      remote: reach(url),
      isUp: true,
      offer: null,
      describedAt: Number.NEGATIVE_INFINITY,
      freeSlots: ASSUMED_FREE_SLOTS,
      held: 0,
      slots: null,
      checkedAt: Number.NEGATIVE_INFINITY,
      refusals: 0,
    }),
  )
  const runnerOf = (url: string) => runners.find(({ remote }) => remote.url === url)
  let turn = 0

  /** Acquires up to `max` slots, round-robin over available runners. */
  function acquireSlots(max: number): RunnerSlot[] {
    turn += 1
    const rotated = runners.map((_, n) => runners[(n + turn) % runners.length])
    const slots: RunnerSlot[] = []
    for (let progressed = true; progressed && slots.length < max; ) {
      progressed = false
      for (const runner of rotated) {
        if (runner === undefined || !runner.isUp || runner.freeSlots <= 0 || slots.length >= max) continue
        runner.freeSlots -= 1
        runner.held += 1
        if (runner.freeSlots === 0) runner.checkedAt = performance.now()
        slots.push({ url: runner.remote.url, ...(runner.offer ?? NO_OFFER) })
        progressed = true
      }
    }
    return slots
  }

  return {
    acquireSlots,
    /** Whether runners differ in what they offer, so that a waiting run may need the slot of one of them. */
    differ: () => new Set(runners.map(({ offer }) => JSON.stringify(offer ?? NO_OFFER))).size > 1,
    /** The offers of the runners that have described themselves. */
    offers: (): RunnerOffer[] => runners.flatMap(({ offer }) => offer ?? []),
    /** Asks runners for their offers, when they came up and every half minute. True: an offer is new. */
    async describe(): Promise<boolean> {
      const now = performance.now()
      const unknown = runners.filter(
        ({ isUp, offer, describedAt }) => isUp && (offer === null || now - describedAt >= DESCRIBE_MS),
      )
      return (await Promise.all(unknown.map(describeRunner))).includes(true)
    },
    /** The configured runners. */
    remotes: runners.map(({ remote }) => remote),
    /** Releases an acquired slot. */
    release(url: string) {
      const runner = runnerOf(url)
      if (runner === undefined) return
      runner.held -= 1
      runner.freeSlots = freeSlotsOf(runner, runner.freeSlots + 1)
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
        runner.freeSlots = freeSlotsOf(runner, freeSlots)
        if (runner.freeSlots === 0) runner.checkedAt = performance.now()
      }
      return runner.freeSlots > 0
    },
    /** Notes a refusal. An acquired slot turned out not to exist, so it does not become free. */
    refused(url: string, hadSlot: boolean) {
      const runner = runnerOf(url)
      if (runner === undefined) return
      if (hadSlot) runner.held -= 1
      runner.refusals += 1
      runner.freeSlots = 0
      runner.checkedAt = performance.now()
    },
    isDown(url: string) {
      const runner = runnerOf(url)
      // Further reports must not delay the next probe of a runner that is already down.
      if (runner === undefined || !runner.isUp) return
      runner.isUp = false
      runner.offer = null
      runner.checkedAt = performance.now()
    },
    /** Probes due runners that are down or full. True: at least one has a free slot. */
    async probe(): Promise<boolean> {
      const now = performance.now()
      const due = runners.filter(
        ({ isUp, freeSlots, checkedAt, refusals }) =>
          (!isUp || freeSlots <= 0) &&
          now - checkedAt >= backoffMs(1 + refusals, { firstMs: probeAfterMs, limitMs: PROBE_AFTER_MAX_MS }),
      )
      return (await Promise.all(due.map(probeRunner))).includes(true)
    },
  }
}

/** True: the runner has a free slot. */
async function probeRunner(runner: Runner): Promise<boolean> {
  runner.checkedAt = performance.now()
  try {
    await runner.remote.check(AbortSignal.timeout(limits.readinessTimeoutMs))
  } catch {
    runner.isUp = false
    runner.offer = null
    return false
  }
  runner.isUp = true
  // The runner would refuse every attempt, so runs stay pending.
  if ((runner.remote.waitsFor?.() ?? null) !== null) {
    runner.freeSlots = 0
    return false
  }
  runner.freeSlots = Math.max(runner.freeSlots, freeSlotsOf(runner, 1))
  return runner.freeSlots > 0
}

/**
 * Asks a runner for its labels and its memory. A runner of another vendor may not know the call: it offers nothing special. True:
 * the offer is new.
 */
async function describeRunner(runner: Runner): Promise<boolean> {
  const before = JSON.stringify(runner.offer)
  try {
    const signal = AbortSignal.timeout(limits.readinessTimeoutMs)
    const { labels, runMemoryBytes } = await runner.remote.service.describeRunner({}, { signal })
    runner.offer = { labels, memoryBytes: Number(runMemoryBytes) }
  } catch (error) {
    if (ConnectError.from(error).code !== Code.Unimplemented) return false
    runner.offer = NO_OFFER
  }
  runner.describedAt = performance.now()
  return JSON.stringify(runner.offer) !== before
}
