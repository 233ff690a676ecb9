// All attempts at one runner over one stream, submitted many at a time: what a call and a stream cost is paid per batch and
// not per run. Runners that do not offer it, and attempts that come while the stream is not open, go one by one.
import { newId } from '../../app/core/ids.ts'
import { limits } from '../../app/core/limits.ts'
import { failureOf, type Remote, type RunnerClient } from '../../app/rpc/clients.ts'
import type {
  AttemptNews,
  FollowRunsResponse,
  SubmitPipelinesResponse,
} from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { type AttemptReport, LOST, verdictOf } from './attempt-report.ts'
import { GRACE_MS, LATE_MS, pause, RETRY_MS } from './follower.ts'

/** A stream that nobody needs now is tried again after this time; one that a runner does not offer, after that. */
const IDLE_RETRY_MS = 500
const OFFER_RETRY_MS = 10_000
/** One that breaks earlier than this may well break again. */
const LASTING_MS = 1_000
/** How often silence is looked for. */
const WATCH_MS = 250
/** A runner is told that lines are stored after so many bytes of an attempt: half of what it tells at least before it waits. */
const ACKNOWLEDGE_BYTES = 32_768
/** What a line counts besides its text. */
const LINE_BYTES = 32

/** What an attempt on the stream came to: it was told to the end (or is followed no more), or it goes on alone. */
export type Followed = 'done' | { alone: string | null }

export interface RunnerStream {
  /** False: attempts are to be followed one by one. */
  isOpen(): boolean
  /** Submits the attempt, if it is new, and follows it. `alone`: someone else is to go on, from this boot id on. */
  follow(report: AttemptReport): Promise<Followed>
}

export interface StreamDeps {
  runner: Remote<RunnerClient>
  /** Resolves when all lines told so far are stored: a runner tells no more than fits until then. */
  stored(): Promise<void>
  /** Aborted when this replica stops following. */
  signal: AbortSignal
}

interface Attempt {
  report: AttemptReport
  /** Null until the runner has taken it. */
  boot: string | null
  /** The stream that tells of it. */
  on: string
  /** Since when silence counts. */
  since: number
  /** Told before the runner's answer to its submission was here, and by which start of it. */
  early: { boot: string; news: AttemptNews }[]
  /** Bytes heard that the runner has not been told to be stored. */
  unstored: number
  finish(came: Followed): void
}

export function openRunnerStream({ runner, stored, signal }: StreamDeps): RunnerStream {
  const { service } = runner
  const attempts = new Map<string, Attempt>()
  const unsubmitted: Attempt[] = []
  const unacknowledged = new Set<Attempt>()
  let isAcknowledging = false
  /** The stream that is open, and which start of the runner tells on it. */
  let open: { id: string; boot: string } | null = null
  let isOffered = true
  let cut = new AbortController()
  let heardAt = performance.now()
  let triedAt = heardAt
  let watchedAt = heardAt

  async function keepOpen() {
    let replaces = ''
    while (!signal.aborted) {
      const id = newId()
      let wasOpen = false
      triedAt = performance.now()
      cut = new AbortController()
      const told = [...attempts.values()].filter(({ boot }) => boot !== null)
      for (const attempt of told) attempt.on = id
      try {
        const request = { streamId: id, attempts: told.map(positionOf), replaces }
        const messages = service.followRuns(request, { signal: AbortSignal.any([signal, cut.signal]) })
        for await (const message of messages) {
          heardAt = performance.now()
          if (!wasOpen) begin(id, message.bootId)
          wasOpen = true
          hear(message)
        }
      } catch (error) {
        if (signal.aborted) break
        const failure = failureOf(error)
        if (failure === 'unreachable') for (const { report } of attempts.values()) report.deps.onUnreachable()
        isOffered = wasOpen || (failure !== 'notOffered' && failure !== 'noRoom')
      }
      open = null
      replaces = id
      if (!isOffered) for (const attempt of attempts.values()) if (attempt.boot !== null) leaveAlone(attempt)
      // One that breaks is there again at once; one that does not last or cannot be opened is not asked for all the time.
      const hasLasted = wasOpen && performance.now() - triedAt > LASTING_MS
      await pause(
        hasLasted ? 0 : !isOffered ? OFFER_RETRY_MS : attempts.size > 0 ? RETRY_MS : IDLE_RETRY_MS,
        signal,
      )
    }
    open = null
    for (const attempt of attempts.values()) end(attempt, 'done')
  }

  /** The runner tells on this stream from now on. */
  function begin(id: string, boot: string) {
    open = { id, boot }
    isOffered = true
    const late: Attempt[] = []
    for (const attempt of attempts.values()) {
      if (attempt.boot === null) continue
      if (attempt.boot !== boot) lose(attempt, LOST.restarted)
      else if (attempt.on !== id) late.push(attempt)
    }
    join(late)
  }

  /** A runner that starts again may take the same attempt anew: what the start before told of it is of another execution. */
  function hear({ news, bootId }: FollowRunsResponse) {
    for (const one of news) {
      const attempt = attempts.get(one.handle)
      if (attempt === undefined) continue
      if (attempt.boot === null) attempt.early.push({ boot: bootId, news: one })
      else if (attempt.boot === bootId) pass(attempt, attempt.boot, one)
    }
  }

  function pass(attempt: Attempt, boot: string, { entries, phases, facts, isUnknown }: AttemptNews) {
    const { report } = attempt
    if (isUnknown) return lose(attempt, LOST.restarted)
    for (const phase of phases) report.entered(phase)
    for (const entry of entries) {
      report.said(entry)
      attempt.unstored += Buffer.byteLength(entry.message) + LINE_BYTES
    }
    const verdict = facts === undefined ? 'running' : verdictOf(facts, boot)
    if (verdict === 'ended' && facts !== undefined) {
      report.ended(facts)
      return end(attempt, 'done')
    }
    if (typeof verdict === 'object') return lose(attempt, verdict.lost)
    if (attempt.unstored < ACKNOWLEDGE_BYTES) return
    unacknowledged.add(attempt)
    if (!isAcknowledging) void acknowledge()
  }

  /** Tells the runner what is stored, so that it tells more. */
  async function acknowledge() {
    isAcknowledging = true
    while (unacknowledged.size > 0) {
      const some = [...unacknowledged]
      const positions = some.map(positionOf)
      unacknowledged.clear()
      for (const attempt of some) attempt.unstored = 0
      await stored()
      await update(some, positions)
    }
    isAcknowledging = false
  }

  function join(late: Attempt[]) {
    if (open === null || late.length === 0) return
    for (const attempt of late) attempt.on = open.id
    void update(late)
  }

  /**
   * Until the runner has heard it, or tells on another stream, which begins with every position. What it does not take on
   * this one is followed alone.
   */
  async function update(some: readonly Attempt[], positions = some.map(positionOf)) {
    const id = open?.id
    const isLeft = (attempt: Attempt | undefined) =>
      attempt !== undefined && attempts.get(attempt.report.handle) === attempt
    while (id !== undefined && open?.id === id && !signal.aborted) {
      const left = positions.filter((_, n) => isLeft(some[n]))
      if (left.length === 0) return
      try {
        const request = { streamId: id, attempts: left }
        const { isOpen } = await service.updateFollowing(request, { signal: deadline() })
        if (!isOpen && open?.id === id) cut.abort()
        return
      } catch (error) {
        const failure = failureOf(error)
        if (!signal.aborted && open?.id === id && (failure === 'noRoom' || failure === 'notOffered')) {
          for (const attempt of some) if (isLeft(attempt)) leaveAlone(attempt)
          return
        }
        await pause(RETRY_MS, signal)
      }
    }
  }

  function submitAll() {
    for (const batch of batchesOf(unsubmitted.splice(0))) void submit(batch)
  }

  /** An unclear answer is asked for again of the same runner only. */
  async function submit(batch: Attempt[]) {
    const giveUpAt = performance.now() + limits.runnerSilenceMs
    const each = (act: (attempt: Attempt) => void) => {
      for (const attempt of batch) act(attempt)
    }
    while (!signal.aborted) {
      const streamId = open?.id ?? ''
      try {
        const requests = batch.map(({ report }) => report.request())
        const answer = await service.submitPipelines({ requests, streamId }, { signal: deadline() })
        return take(batch, streamId, answer)
      } catch (error) {
        if (signal.aborted) return
        const failure = failureOf(error)
        // That all of it is too much does not say that each is.
        if (failure === 'notOffered' || (failure === 'noRoom' && batch.length > 1)) return each(leaveAlone)
        if (failure === 'noRoom' || failure === 'unreachable') return each((one) => refuse(one, failure))
        if (performance.now() > giveUpAt) return each((one) => lose(one, LOST.unclear))
        await pause(RETRY_MS, signal)
      }
    }
  }

  function take(
    batch: Attempt[],
    streamId: string,
    { results, bootId, isFollowed, ...room }: SubmitPipelinesResponse,
  ) {
    const taken: Attempt[] = []
    for (const [n, attempt] of batch.entries()) {
      const result = results[n]
      if (result?.code === RESOURCE_EXHAUSTED) refuse(attempt, 'noRoom')
      // What else it may say to one of them it says again, in full, to that one alone.
      else if (result?.handle !== attempt.report.handle) leaveAlone(attempt)
      else taken.push(attempt)
    }
    const late: Attempt[] = []
    for (const attempt of taken) {
      attempt.boot = bootId
      attempt.on = isFollowed ? streamId : ''
      attempt.since = performance.now()
      attempt.report.accepted(bootId, room)
      if (!isOffered) {
        leaveAlone(attempt)
        continue
      }
      if (attempt.on !== open?.id) late.push(attempt)
      // The end may be among it, even twice.
      for (const { boot, news } of attempt.early.splice(0))
        if (boot === bootId && attempts.has(news.handle)) pass(attempt, bootId, news)
    }
    join(late)
  }

  function refuse(attempt: Attempt, why: 'noRoom' | 'unreachable') {
    attempt.report.refused(why)
    end(attempt, 'done')
  }

  function lose(attempt: Attempt, why: string) {
    attempt.report.lost(why)
    end(attempt, 'done')
  }

  const leaveAlone = (attempt: Attempt) => end(attempt, { alone: attempt.boot })

  function end(attempt: Attempt, came: Followed) {
    attempts.delete(attempt.report.handle)
    unacknowledged.delete(attempt)
    attempt.finish(came)
  }

  /** Silence ends a stream as surely as an error does; those that nobody has spoken of for too long are lost. */
  const watch = setInterval(() => {
    const now = performance.now()
    // This process has slept, so the runner gets another moment.
    if (now - watchedAt > WATCH_MS + LATE_MS)
      heardAt = Math.max(heardAt, now - limits.runnerSilenceMs + GRACE_MS)
    watchedAt = now
    if (now - heardAt < limits.runnerSilenceMs) return
    if (now - triedAt >= limits.runnerSilenceMs) cut.abort()
    for (const attempt of attempts.values())
      if (attempt.boot !== null && now - attempt.since >= limits.runnerSilenceMs) lose(attempt, LOST.silent)
  }, WATCH_MS)

  const deadline = () => AbortSignal.any([signal, AbortSignal.timeout(limits.runnerSilenceMs)])

  void keepOpen().finally(() => clearInterval(watch))

  return {
    isOpen: () => open !== null,
    follow: (report) =>
      new Promise((finish) => {
        const { runnerBoot: boot } = report.attempt
        const since = performance.now()
        const attempt: Attempt = { report, boot, on: '', since, early: [], unstored: 0, finish }
        attempts.set(report.handle, attempt)
        if (boot === null) {
          if (unsubmitted.push(attempt) === 1) queueMicrotask(submitAll)
        } else if (open !== null && open.boot !== boot) lose(attempt, LOST.restarted)
        else join([attempt])
      }),
  }
}

/** The code of google.rpc that says that a runner has no room now. */
const RESOURCE_EXHAUSTED = 8

const positionOf = ({ report }: Attempt) => ({ handle: report.handle, afterSeq: BigInt(report.lastLine) })

/** As many as one transaction starts, and no more landing files in one call than a single attempt may have. */
function* batchesOf(attempts: readonly Attempt[]): Generator<Attempt[]> {
  let batch: Attempt[] = []
  let files = 0
  for (const attempt of attempts) {
    const more = filesOf(attempt)
    if (
      batch.length === limits.dispatchBatch ||
      (batch.length > 0 && files + more > limits.landingFilesPerAttempt)
    ) {
      yield batch
      batch = []
      files = 0
    }
    batch.push(attempt)
    files += more
  }
  if (batch.length > 0) yield batch
}

const filesOf = ({ report: { attempt } }: Attempt) =>
  Object.keys(attempt.pins).length + attempt.landing.reduce((sum, { files }) => sum + files.length, 0)
