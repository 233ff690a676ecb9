// Translates the runner's news about one attempt into outcomes and log lines. This file decides nothing.
import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt'
import { limits } from '../../app/core/limits.ts'
import type { EngineCost } from '../../app/core/metrics.ts'
import { engineCostOf } from '../../app/rpc/clients.ts'
import type { Outcome } from '../../app/runs/outcome.ts'
import {
  handleOf,
  type LogLevel as Level,
  type LogLine,
  type OpenAttempt,
  runnerLine,
  seqAfter,
  seqOfRunner,
} from '../../app/runs/service.ts'
import {
  type Cost,
  type GetRunStatusResponse,
  type LakeAccessSchema,
  type LogEntry,
  LogLevel,
  RunPhase,
  RunStatus,
  Severity,
} from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import type { RunnerSlots } from './runners.ts'

/** Stored bytes of log lines per run; a last line then states the number of dropped lines. */
const LOG_BYTES_PER_RUN = 8 * 1_048_576

export interface ReportDeps {
  /** The token and addresses with which the attempt reaches the lake. */
  lake: MessageInitShape<typeof LakeAccessSchema>
  report(outcome: Outcome): void
  appendLine(line: LogLine): void
  /** Called with the runner's free slots after it accepted this attempt. */
  onAccepted(slots: RunnerSlots): void
  onRefused(): void
  onUnreachable(): void
  /** Called with the cost of the ended attempt. */
  onCost(cost: EngineCost): void
}

const REFUSED_RETRY_MS = 250

/** The reports about one attempt. The dispatcher receives each report at least once. */
export class AttemptReport {
  readonly handle: string
  readonly #log: LimitedLog
  #runnerBoot: string | undefined
  /** True after the first phase or log line, because a runner emits those only while it executes the attempt. */
  #hasBegun: boolean

  constructor(
    readonly attempt: OpenAttempt,
    readonly deps: ReportDeps,
  ) {
    this.handle = handleOf(attempt.runId, attempt.attempt)
    this.#log = new LimitedLog(attempt, deps.appendLine)
    this.#runnerBoot = attempt.runnerBoot ?? undefined
    this.#hasBegun = this.lastLine > 0
  }

  /** The runner's number of the last received line. */
  get lastLine(): number {
    return this.#log.lastLine
  }

  /** The reason why this attempt cannot be submitted; null: it can. */
  refusal(): string | null {
    const files = this.attempt.landing.reduce((sum, zone) => sum + zone.files.length, 0)
    return files <= limits.landingFilesPerAttempt
      ? null
      : `rendering: ${files} landing files exceed the limit of ${limits.landingFilesPerAttempt} per run: delete files or split the landing zone`
  }

  request() {
    return requestOf(this.attempt, this.deps)
  }

  /** Reports that the runner accepted the attempt. */
  accepted(runnerBoot: string, slots: RunnerSlots): void {
    this.#runnerBoot = runnerBoot
    this.deps.onAccepted(slots)
    this.deps.report({ ...this.#identity(), kind: 'accepted', runnerBoot })
  }

  /** Reports that the runner certainly did not accept the attempt. */
  refused(why: 'noRoom' | 'unreachable'): void {
    if (why === 'noRoom') this.deps.onRefused()
    else this.deps.onUnreachable()
    this.deps.report({ ...this.#identity(), kind: 'refused', retryAfterMs: REFUSED_RETRY_MS })
  }

  entered(phase: RunPhase): void {
    if (phase !== RunPhase.UNSPECIFIED) this.#hasBegun = true
    if (phase === RunPhase.EXECUTING)
      this.deps.report({ ...this.#identity(), kind: 'entered', phase: 'executing' })
    if (phase === RunPhase.TESTING)
      this.deps.report({ ...this.#identity(), kind: 'entered', phase: 'testing' })
  }

  /** Forwards a log line. A line that was received before is ignored. */
  logged({ seq, timestamp, level, message }: LogEntry): void {
    this.#hasBegun = true
    const at = timestamp === undefined ? this.attempt.runStartedAt : timestampDate(timestamp)
    this.#log.appendEntry(Number(seq), { at, level: LEVELS[level], message })
  }

  /** Reports the final facts of the attempt. No further news may follow. */
  ended(facts: GetRunStatusResponse): void {
    this.#log.close()
    this.deps.report({ ...outcomeOf(this.attempt, facts), runnerBoot: this.#runnerBoot })
  }

  /** Reports the cost of an attempt that has ended in any way. Runners of other vendors may measure none. */
  cost(used: Cost | undefined): void {
    if (used !== undefined) this.deps.onCost(engineCostOf(used))
  }

  failed(error: string): void {
    this.deps.report({ ...this.#identity(), kind: 'failed', error })
  }

  lost(why: string): void {
    this.#log.close()
    this.deps.onUnreachable()
    this.deps.report({ ...this.#identity(), kind: 'lost', why, hasBegun: this.#hasBegun })
  }

  #identity() {
    return { runId: this.attempt.runId, attempt: this.attempt.attempt, runnerBoot: this.#runnerBoot }
  }
}

export const LOST = {
  restarted: 'the runner restarted',
  abandoned: 'the runner cancelled the attempt',
  silent: `no message from the runner for ${limits.runnerSilenceMs} ms`,
  unclear: 'the runner did not confirm the submission',
} as const

/** Interprets facts for an attempt that runner process `boot` accepted. `running`: the facts are not final yet. */
export function verdictOf(facts: GetRunStatusResponse, boot: string): 'ended' | 'running' | { lost: string } {
  if (facts.bootId !== boot) return { lost: LOST.restarted }
  if (facts.status === RunStatus.CANCELLED) return { lost: LOST.abandoned }
  return facts.status === RunStatus.COMPLETED || facts.status === RunStatus.FAILED ? 'ended' : 'running'
}

const requestOf = (attempt: OpenAttempt, { lake }: ReportDeps) => ({
  namespace: attempt.namespace,
  layer: attempt.layer,
  pipelineName: attempt.pipeline,
  trigger: attempt.trigger,
  traceparent: attempt.traceparent ?? '',
  tracestate: attempt.tracestate ?? '',
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
  tableMetadata: attempt.tableMetadata,
  isAlone: attempt.isAlone,
})

/** Forwards log lines up to the limits per run. `close` then emits one line with the number of dropped lines. */
class LimitedLog {
  /** The runner's number of the last received line. */
  lastLine: number
  #lines: number
  #bytes: number
  #dropped = 0
  #at: Date

  constructor(
    readonly attempt: OpenAttempt,
    readonly appendLine: (line: LogLine) => void,
  ) {
    this.lastLine = runnerLine(attempt.attempt, attempt.lastSeq)
    this.#lines = attempt.logLines
    this.#bytes = attempt.logBytes
    this.#at = attempt.runStartedAt
  }

  appendEntry(line: number, { at, level, message }: Pick<LogLine, 'at' | 'level' | 'message'>) {
    if (line <= this.lastLine) return
    this.lastLine = line
    this.#at = at
    const bytes = Buffer.byteLength(message)
    if (this.#lines >= limits.logLinesPerRun || this.#bytes + bytes > LOG_BYTES_PER_RUN) {
      this.#dropped += 1
      return
    }
    this.#lines += 1
    this.#bytes += bytes
    this.appendLine({
      runId: this.attempt.runId,
      seq: seqOfRunner(this.attempt.attempt, line),
      at,
      level,
      message,
    })
  }

  close() {
    if (this.#dropped === 0) return
    this.appendLine({
      runId: this.attempt.runId,
      seq: seqAfter(this.attempt.attempt, 0),
      at: this.#at,
      level: 'warn',
      message: `${this.#dropped} log lines dropped: a run stores at most ${limits.logLinesPerRun} lines or ${LOG_BYTES_PER_RUN / 1_048_576} MiB`,
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

function outcomeOf(
  { runId, attempt, traceparent }: OpenAttempt,
  facts: GetRunStatusResponse,
): Extract<Outcome, { kind: 'executed' | 'failed' | 'engineLost' }> {
  if (facts.isEngineLost) return { runId, attempt, kind: 'engineLost', why: facts.error }
  if (facts.status === RunStatus.FAILED) {
    const retry = { max: facts.maxRetries, delaySeconds: facts.retryDelaySeconds }
    return { runId, attempt, kind: 'failed', error: facts.error, retry }
  }
  return {
    runId,
    attempt,
    kind: 'executed',
    traceparent,
    testedCommit: facts.testedCommit === '' ? null : facts.testedCommit,
    rowsWritten: Number(facts.rowsWritten),
    tests: facts.tests.map((test) => ({
      name: test.name,
      severity: test.severity === Severity.WARN ? 'warn' : 'error',
      isPassed: test.passed,
      value: Number(test.value),
      durationMs: Number(test.durationMs),
      error: test.error === '' ? null : test.error,
      samples: test.samples,
    })),
    inputTables: facts.inputTables,
    landingFileIds: facts.landingFileIds,
    archivesLandingZones: facts.archiveLandingZones,
    keepFailedHours: facts.keepFailedHours,
    review: facts.review && {
      change: facts.review.change,
      timeoutHours: facts.review.timeoutHours,
      isFourEyes: facts.review.fourEyes,
    },
  }
}
