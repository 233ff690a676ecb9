// Follows all attempts at one runner over one stream, and submits attempts in batches. So the cost of a call and of a stream is
// per batch, not per run. One call and one stream per attempt reached 614 runs/s; batches reach 1,029 (aim: 1,000).
import { setTimeout as sleep } from 'node:timers/promises'
import { Code, ConnectError } from '@connectrpc/connect'
import { newId } from '../../app/core/ids.ts'
import { limits } from '../../app/core/limits.ts'
import { failureOf, type Remote, type RunnerClient } from '../../app/rpc/clients.ts'
import { backoffMs } from '../../ground/process/backoff.ts'
import type {
  AttemptNews,
  FollowRunsResponse,
  SubmitPipelinesResponse,
} from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { type AttemptReport, LOST, verdictOf } from './attempt-report.ts'

/** A stream that breaks earlier than this is likely to break again. */
const LASTING_MS = 1_000
/** Interval of the check for silence. */
const WATCH_MS = 250
/** A timer that is `LATE_MS` late means that the process slept. The runner then gets `GRACE_MS` more. */
const LATE_MS = 500
const GRACE_MS = 2_000
/**
 * Unacknowledged bytes of an attempt after which the dispatcher sends an acknowledgement. This is half of the bytes that a runner
 * sends at least before it waits.
 */
const ACKNOWLEDGE_BYTES = 32_768
/** Bytes counted per line in addition to its text. */
const LINE_BYTES = 32

interface StreamDeps {
  runner: Remote<RunnerClient>
  /** Resolves when all lines received so far are stored. This is the backpressure on the runner. */
  stored(): Promise<void>
  /** Aborted when this replica stops following; the attempts continue. */
  signal: AbortSignal
}

interface Attempt {
  report: AttemptReport
  /** The runner process that accepted the attempt; null: not accepted yet. */
  boot: string | null
  /** The id of the stream that carries the attempt's news; empty: none. */
  on: string
  /** Start of the period in which silence counts. */
  since: number
  /** News that arrived before the answer to the submission, with the runner process that sent it. */
  early: { boot: string; news: AttemptNews }[]
  /** Received bytes that are not acknowledged as stored. */
  unstored: number
  finish(): void
}

/** Follows the attempts of one runner until the signal is aborted. */
export class RunnerStream {
  readonly #deps: StreamDeps
  readonly #attempts = new Map<string, Attempt>()
  readonly #unsubmitted: Attempt[] = []
  readonly #unacknowledged = new Set<Attempt>()
  #isAcknowledging = false
  /** The open stream, and the runner process at its other end. */
  #open: { id: string; boot: string } | null = null
  #cut = new AbortController()
  #lastMessageAt = performance.now()
  #triedAt = this.#lastMessageAt
  #watchedAt = this.#lastMessageAt

  constructor(deps: StreamDeps) {
    this.#deps = deps
    const watch = setInterval(() => this.#watch(), WATCH_MS)
    void this.#reconnectLoop().finally(() => clearInterval(watch))
  }

  /** Whether the stream is open. */
  isOpen(): boolean {
    return this.#open !== null
  }

  /** Submits a new attempt. Resolves when it has ended, is refused, is lost, or is no longer followed. */
  follow(report: AttemptReport): Promise<void> {
    return new Promise((finish) => {
      const { runnerBoot: boot } = report.attempt
      const since = performance.now()
      const attempt: Attempt = { report, boot, on: '', since, early: [], unstored: 0, finish }
      this.#attempts.set(report.handle, attempt)
      if (boot === null) {
        if (this.#unsubmitted.push(attempt) === 1) queueMicrotask(() => this.#submitAll())
      } else if (this.#open !== null && this.#open.boot !== boot) this.#lose(attempt, LOST.restarted)
      else this.#join([attempt])
    })
  }

  async #reconnectLoop() {
    const { signal } = this.#deps
    let replaces = ''
    let failures = 0
    while (!signal.aborted) {
      const id = newId()
      this.#triedAt = performance.now()
      const wasOpen = await this.#read(id, replaces)
      this.#open = null
      replaces = id
      // A stream that lasted reopens at once. A stream that breaks early or cannot be opened reopens with backoff.
      const hasLasted = wasOpen && performance.now() - this.#triedAt > LASTING_MS
      failures = hasLasted ? 0 : failures + 1
      await pause(failures, signal)
    }
    for (const attempt of this.#attempts.values()) this.#end(attempt)
  }

  /** Reads one stream to its end. True: the stream was open. */
  async #read(id: string, replaces: string): Promise<boolean> {
    const { runner, signal } = this.#deps
    this.#cut = new AbortController()
    const accepted = [...this.#attempts.values()].filter(({ boot }) => boot !== null)
    for (const attempt of accepted) attempt.on = id
    let wasOpen = false
    try {
      const request = { streamId: id, attempts: accepted.map(positionOf), replaces }
      const eitherSignal = AbortSignal.any([signal, this.#cut.signal])
      for await (const message of runner.service.followRuns(request, { signal: eitherSignal })) {
        this.#lastMessageAt = performance.now()
        if (!wasOpen) this.#begin(id, message.bootId)
        wasOpen = true
        this.#consume(message)
      }
    } catch (error) {
      if (!signal.aborted && failureOf(error) === 'unreachable')
        for (const { report } of this.#attempts.values()) report.deps.onUnreachable()
    }
    return wasOpen
  }

  /** Marks the stream as open. Reports attempts of earlier runner processes as lost, and follows those of this process. */
  #begin(id: string, boot: string) {
    this.#open = { id, boot }
    const late: Attempt[] = []
    for (const attempt of this.#attempts.values()) {
      if (attempt.boot === null) continue
      if (attempt.boot !== boot) this.#lose(attempt, LOST.restarted)
      else if (attempt.on !== id) late.push(attempt)
    }
    this.#join(late)
  }

  /**
   * Ignores news of other runner processes: a restarted runner may accept the same attempt again, and news of the earlier
   * process belongs to another execution.
   */
  #consume({ news, bootId }: FollowRunsResponse) {
    for (const attemptNews of news) {
      const attempt = this.#attempts.get(attemptNews.handle)
      if (attempt === undefined) continue
      if (attempt.boot === null) attempt.early.push({ boot: bootId, news: attemptNews })
      else if (attempt.boot === bootId) this.#forward(attempt, attempt.boot, attemptNews)
    }
  }

  #forward(attempt: Attempt, boot: string, { entries, phases, facts, isUnknown }: AttemptNews) {
    const { report } = attempt
    if (isUnknown) return this.#lose(attempt, LOST.restarted)
    for (const phase of phases) report.entered(phase)
    for (const entry of entries) {
      report.logged(entry)
      attempt.unstored += Buffer.byteLength(entry.message) + LINE_BYTES
    }
    report.cost(facts?.cost)
    const verdict = facts === undefined ? 'running' : verdictOf(facts, boot)
    if (verdict === 'ended' && facts !== undefined) {
      report.ended(facts)
      return this.#end(attempt)
    }
    if (typeof verdict === 'object') return this.#lose(attempt, verdict.lost)
    if (attempt.unstored < ACKNOWLEDGE_BYTES) return
    this.#unacknowledged.add(attempt)
    if (!this.#isAcknowledging) void this.#acknowledge()
  }

  /** Acknowledges stored lines to the runner, so that it sends more. */
  async #acknowledge() {
    this.#isAcknowledging = true
    while (this.#unacknowledged.size > 0) {
      const batch = [...this.#unacknowledged]
      const positions = batch.map(positionOf)
      this.#unacknowledged.clear()
      for (const attempt of batch) attempt.unstored = 0
      await this.#deps.stored()
      await this.#update(batch, positions)
    }
    this.#isAcknowledging = false
  }

  #join(late: Attempt[]) {
    if (this.#open === null || late.length === 0) return
    for (const attempt of late) attempt.on = this.#open.id
    void this.#update(late)
  }

  /** Retries until the runner has the positions, or until another stream opens: a new stream sends all positions. */
  async #update(attempts: readonly Attempt[], positions = attempts.map(positionOf)) {
    const { runner, signal } = this.#deps
    const id = this.#open?.id
    const isFollowed = (attempt: Attempt | undefined) =>
      attempt !== undefined && this.#attempts.get(attempt.report.handle) === attempt
    for (let failures = 1; id !== undefined && this.#open?.id === id && !signal.aborted; failures++) {
      const remaining = positions.filter((_, n) => isFollowed(attempts[n]))
      if (remaining.length === 0) return
      try {
        const request = { streamId: id, attempts: remaining }
        const { isOpen } = await runner.service.updateFollowing(request, { signal: this.#deadline() })
        if (!isOpen && this.#open?.id === id) this.#cut.abort()
        return
      } catch {
        await pause(failures, signal)
      }
    }
  }

  #submitAll() {
    for (const batch of batchesOf(this.#unsubmitted.splice(0))) void this.#submit(batch)
  }

  /** Submits again when an answer is missing or unclear, at the same runner only. */
  async #submit(batch: Attempt[]) {
    const { runner, signal } = this.#deps
    const giveUpAt = performance.now() + limits.runnerSilenceMs
    for (let failures = 1; !signal.aborted; failures++) {
      const streamId = this.#open?.id ?? ''
      try {
        const requests = batch.map(({ report }) => report.request())
        const answer = await runner.service.submitPipelines(
          { requests, streamId },
          { signal: this.#deadline() },
        )
        return this.#acceptRuns(batch, streamId, answer)
      } catch (error) {
        if (signal.aborted) return
        const failure = failureOf(error)
        // A batch that is too large may contain attempts that fit.
        if (failure === 'noRoom' && batch.length > 1) {
          for (const attempt of batch) void this.#submit([attempt])
          return
        }
        const isGivenUp = performance.now() > giveUpAt
        if (isRefusal(failure)) for (const attempt of batch) this.#refuse(attempt, failure)
        else if (isGivenUp) for (const attempt of batch) this.#lose(attempt, LOST.unclear)
        if (isRefusal(failure) || isGivenUp) return
        await pause(failures, signal)
      }
    }
  }

  #acceptRuns(
    batch: Attempt[],
    streamId: string,
    { results, bootId, isFollowed, ...slots }: SubmitPipelinesResponse,
  ) {
    const accepted: Attempt[] = []
    for (const [n, attempt] of batch.entries()) {
      const result = results[n]
      const failure = failureOf(new ConnectError(result?.message ?? '', result?.code ?? Code.Unknown))
      if (result?.handle === attempt.report.handle) accepted.push(attempt)
      else if (isRefusal(failure)) this.#refuse(attempt, failure)
      else this.#lose(attempt, LOST.unclear)
    }
    const late: Attempt[] = []
    for (const attempt of accepted) {
      attempt.boot = bootId
      attempt.on = isFollowed ? streamId : ''
      attempt.since = performance.now()
      attempt.report.accepted(bootId, slots)
      if (attempt.on !== this.#open?.id) late.push(attempt)
      // The early news may contain the end of the attempt, even twice.
      for (const { boot, news } of attempt.early.splice(0))
        if (boot === bootId && this.#attempts.has(news.handle)) this.#forward(attempt, bootId, news)
    }
    this.#join(late)
  }

  #refuse(attempt: Attempt, why: Refusal) {
    attempt.report.refused(why === 'unreachable' ? why : 'noRoom')
    this.#end(attempt)
  }

  #lose(attempt: Attempt, why: string) {
    attempt.report.lost(why)
    this.#end(attempt)
  }

  #end(attempt: Attempt) {
    this.#attempts.delete(attempt.report.handle)
    this.#unacknowledged.delete(attempt)
    attempt.finish()
  }

  /** After `runnerSilenceMs` of silence, closes the stream. Reports the attempts that waited as long as lost. */
  #watch() {
    const now = performance.now()
    // This process has slept, so the runner gets more time.
    if (now - this.#watchedAt > WATCH_MS + LATE_MS)
      this.#lastMessageAt = Math.max(this.#lastMessageAt, now - limits.runnerSilenceMs + GRACE_MS)
    this.#watchedAt = now
    if (now - this.#lastMessageAt < limits.runnerSilenceMs) return
    if (now - this.#triedAt >= limits.runnerSilenceMs) this.#cut.abort()
    for (const attempt of this.#attempts.values())
      if (attempt.boot !== null && now - attempt.since >= limits.runnerSilenceMs)
        this.#lose(attempt, LOST.silent)
  }

  #deadline() {
    return AbortSignal.any([this.#deps.signal, AbortSignal.timeout(limits.runnerSilenceMs)])
  }
}

/** Failures after which the runner certainly has not accepted the attempt. A runner without these calls counts as full. */
type Refusal = 'noRoom' | 'unreachable' | 'notOffered'
const isRefusal = (failure: ReturnType<typeof failureOf>): failure is Refusal =>
  failure === 'noRoom' || failure === 'unreachable' || failure === 'notOffered'

const positionOf = ({ report }: Attempt) => ({ handle: report.handle, afterSeq: BigInt(report.lastLine) })

/** Batches of at most `dispatchBatch` attempts. A call has no more files than one attempt may have. */
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

/** Resolves when the next try is due or the signal is aborted. */
const pause = (failures: number, signal: AbortSignal) =>
  sleep(backoffMs(failures), undefined, { signal }).catch(() => {})
