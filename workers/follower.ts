// One attempt from its submission to its facts. Nothing here decides: it reports what the runner says, at least once.
import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt'
import { limits } from '../app/limits.ts'
import { failureOf, type Remote, type RunnerClient } from '../app/rpc/clients.ts'
import type { OpenAttempt } from '../app/runs/attempts.ts'
import { handleOf } from '../app/runs/attempts.ts'
import { type LogLevel as Level, type LogLine, runnerLine, seqAfter, seqOfRunner } from '../app/runs/logs.ts'
import type { Outcome } from '../app/runs/outcomes.ts'
import {
  type GetRunStatusResponse,
  LogLevel,
  RunPhase,
  RunStatus,
  Severity,
  type StreamLogsResponse,
} from '../proto/gen/sluice/runner/v1/runner_pb.ts'

export interface FollowDeps {
  runner: Remote<RunnerClient>
  /** The token and addresses with which the attempt reaches the lake. */
  lake: { catalogUrl: string; objectsUrl: string; warehouse: string; token: string }
  report(outcome: Outcome): void
  tell(line: LogLine): void
  /** The runner's room after it took this attempt; undefined when it does not say. */
  onAccepted(room: number | undefined): void
  onRefused(): void
  onUnreachable(): void
  /** Aborted when this replica stops following; the attempt goes on. */
  signal: AbortSignal
}

const RETRY_MS = 100
/** A timer this late has slept with its process. */
const LATE_MS = 500
const GRACE_MS = 2_000
const REFUSED_RETRY_MS = 250

/** Resolves when the attempt has ended, is lost, or is followed no more. */
export async function followAttempt(attempt: OpenAttempt, deps: FollowDeps): Promise<void> {
  const { runId, attempt: number } = attempt
  const files = attempt.landing.reduce((sum, zone) => sum + zone.files.length, 0)
  if (files > limits.landingFilesPerAttempt) {
    const error = `rendering: ${files} landing files are waiting, and one run reads at most ${limits.landingFilesPerAttempt}`
    return deps.report({ runId, attempt: number, kind: 'failed', error })
  }
  const boot = attempt.runnerBoot ?? (await submit(attempt, deps))
  if (boot === null || deps.signal.aborted) return
  const log = new KeptLog(attempt, deps.tell)
  const facts = await readToEnd(attempt, boot, log, deps)
  if (facts === null) return
  log.close()
  if ('lost' in facts) {
    deps.onUnreachable()
    return deps.report({ runId, attempt: number, kind: 'lost', why: facts.lost })
  }
  deps.report(outcomeOf(attempt, facts))
}

/** The runner's boot id, or null when it did not take the attempt. An unclear answer is retried on the same runner only. */
async function submit(attempt: OpenAttempt, deps: FollowDeps): Promise<string | null> {
  const { runId, attempt: number } = attempt
  const giveUpAt = performance.now() + limits.runnerSilenceMs
  while (!deps.signal.aborted) {
    try {
      const { bootId, freeSlots } = await deps.runner.service.submitPipeline(requestOf(attempt, deps), {
        signal: AbortSignal.any([deps.signal, AbortSignal.timeout(limits.runnerSilenceMs)]),
      })
      deps.onAccepted(freeSlots)
      deps.report({ runId, attempt: number, kind: 'accepted', runnerBoot: bootId })
      return bootId
    } catch (error) {
      if (deps.signal.aborted) return null
      const failure = failureOf(error)
      if (failure === 'noRoom' || failure === 'unreachable') {
        if (failure === 'noRoom') deps.onRefused()
        else deps.onUnreachable()
        deps.report({ runId, attempt: number, kind: 'refused', retryAfterMs: REFUSED_RETRY_MS })
        return null
      }
      if (performance.now() > giveUpAt) {
        deps.onUnreachable()
        deps.report({ runId, attempt: number, kind: 'lost', why: 'the runner gives no clear answer' })
        return null
      }
      await pause(RETRY_MS, deps.signal)
    }
  }
  return null
}

const requestOf = (attempt: OpenAttempt, { lake }: FollowDeps) => ({
  namespace: attempt.namespace,
  layer: attempt.layer,
  pipelineName: attempt.pipeline,
  trigger: attempt.trigger,
  runId: attempt.runId,
  attempt: attempt.attempt,
  type: attempt.pipelineType,
  files: Object.entries(attempt.pins).map(([path, versionId]) => ({ path, versionId, sizeBytes: 0n })),
  landing: attempt.landing.map(({ namespace, zone, files }) => ({
    namespace,
    zone,
    files: files.map(({ id, filename, path, versionId, sizeBytes }) => ({
      id,
      filename,
      object: { path, versionId, sizeBytes: BigInt(sizeBytes) },
    })),
  })),
  lake,
  runStartedAt: timestampFromDate(attempt.runStartedAt),
})

/** Facts of an attempt that has ended, why it is lost, or null when it is followed no more. */
async function readToEnd(
  attempt: OpenAttempt,
  boot: string,
  log: KeptLog,
  deps: FollowDeps,
): Promise<GetRunStatusResponse | { lost: string } | null> {
  const handle = handleOf(attempt.runId, attempt.attempt)
  let heardAt = performance.now()
  let failures = 0
  while (!deps.signal.aborted) {
    // Silence ends a stream as surely as an error does.
    const silence = new AbortController()
    const silenceTimer = () => setTimeout(() => silence.abort(), limits.runnerSilenceMs)
    let timer = silenceTimer()
    let hasEnded = false
    let told: GetRunStatusResponse | undefined
    try {
      const signal = AbortSignal.any([deps.signal, silence.signal])
      const afterSeq = BigInt(log.lastLine)
      for await (const message of deps.runner.service.streamLogs({ handle, afterSeq }, { signal })) {
        heardAt = performance.now()
        clearTimeout(timer)
        timer = silenceTimer()
        if (message.bootId !== '' && message.bootId !== boot) return { lost: 'the runner was started again' }
        pass(message, attempt, log, deps)
        told = message.facts
      }
      hasEnded = true
      const facts =
        told ??
        (await deps.runner.service.getRunStatus(
          { handle },
          { signal: AbortSignal.any([deps.signal, AbortSignal.timeout(limits.runnerSilenceMs)]) },
        ))
      if (facts.bootId !== boot) return { lost: 'the runner was started again' }
      if (facts.status === RunStatus.CANCELLED) return { lost: 'the runner has given the attempt up' }
      if (facts.status === RunStatus.COMPLETED || facts.status === RunStatus.FAILED) return facts
      failures = 0
    } catch (error) {
      if (deps.signal.aborted) return null
      const failure = failureOf(error)
      if (failure === 'unknownHandle') return { lost: 'the runner was started again' }
      if (failure === 'unreachable') deps.onUnreachable()
      if (hasEnded && ++failures >= limits.factsRetries)
        return { lost: 'the runner does not tell what the attempt has come to' }
      const silentMs = performance.now() - heardAt
      // Longer than the timer was set for: it is this process that has paused, so the runner gets another moment.
      if (silentMs > limits.runnerSilenceMs + LATE_MS)
        heardAt = performance.now() - limits.runnerSilenceMs + GRACE_MS
      else if (silentMs > limits.runnerSilenceMs - RETRY_MS)
        return { lost: 'no sign of life from the runner' }
    } finally {
      clearTimeout(timer)
    }
    await pause(RETRY_MS, deps.signal)
  }
  return null
}

/** Passes one message on. */
function pass(message: StreamLogsResponse, attempt: OpenAttempt, log: KeptLog, deps: FollowDeps) {
  const { runId, attempt: number } = attempt
  if (message.phase === RunPhase.EXECUTING)
    deps.report({ runId, attempt: number, kind: 'entered', phase: 'executing' })
  if (message.phase === RunPhase.TESTING)
    deps.report({ runId, attempt: number, kind: 'entered', phase: 'testing' })
  const { entry } = message
  if (entry === undefined) return
  log.keep(Number(entry.seq), {
    at: entry.timestamp === undefined ? attempt.runStartedAt : timestampDate(entry.timestamp),
    level: LEVELS[entry.level],
    message: entry.message,
  })
}

/** The runner's lines of one run, up to what a run may keep; one line then says how many were dropped. */
class KeptLog {
  /** The runner's number of the last line seen. */
  lastLine: number
  #lines: number
  #bytes: number
  #dropped = 0
  #at: Date

  constructor(
    readonly attempt: OpenAttempt,
    readonly tell: (line: LogLine) => void,
  ) {
    this.lastLine = runnerLine(attempt.attempt, attempt.lastSeq)
    this.#lines = attempt.logLines
    this.#bytes = attempt.logBytes
    this.#at = attempt.runStartedAt
  }

  keep(line: number, { at, level, message }: Pick<LogLine, 'at' | 'level' | 'message'>) {
    if (line <= this.lastLine) return
    this.lastLine = line
    this.#at = at
    const bytes = Buffer.byteLength(message)
    if (this.#lines >= limits.logLinesPerRun || this.#bytes + bytes > limits.logBytesPerRun) {
      this.#dropped += 1
      return
    }
    this.#lines += 1
    this.#bytes += bytes
    this.tell({ runId: this.attempt.runId, seq: seqOfRunner(this.attempt.attempt, line), at, level, message })
  }

  close() {
    if (this.#dropped === 0) return
    this.tell({
      runId: this.attempt.runId,
      seq: seqAfter(this.attempt.attempt, 0),
      at: this.#at,
      level: 'warn',
      message: `${this.#dropped} lines were dropped: a run keeps ${limits.logLinesPerRun} lines or ${limits.logBytesPerRun / 1_048_576} MiB`,
    })
  }
}

const LEVELS: Record<LogLevel, Level> = {
  [LogLevel.UNSPECIFIED]: 'info',
  [LogLevel.DEBUG]: 'debug',
  [LogLevel.INFO]: 'info',
  [LogLevel.WARN]: 'warn',
  [LogLevel.ERROR]: 'error',
}

function outcomeOf({ runId, attempt }: OpenAttempt, facts: GetRunStatusResponse): Outcome {
  if (facts.status === RunStatus.FAILED) {
    const retry = { max: facts.maxRetries, delaySeconds: facts.retryDelaySeconds }
    return { runId, attempt, kind: 'failed', error: facts.error, retry }
  }
  return {
    runId,
    attempt,
    kind: 'executed',
    testedCommit: facts.testedCommit === '' ? null : facts.testedCommit,
    rowsWritten: Number(facts.rowsWritten),
    tests: facts.tests.map((test) => ({
      name: test.name,
      severity: test.severity === Severity.WARN ? 'warn' : 'error',
      isPassed: test.passed,
      value: Number(test.value),
      durationMs: Number(test.durationMs),
      error: test.error === '' ? null : test.error,
    })),
    landingFileIds: facts.landingFileIds,
    archivesLandingZones: facts.archiveLandingZones,
  }
}

const pause = (ms: number, signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    const done = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal.addEventListener('abort', done)
  })
