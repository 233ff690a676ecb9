import { randomUUID } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { makeSlots } from '../../../ground/process/slots.ts'
import { span } from '../../../ground/telemetry/spans.ts'
import { inClientTrace } from '../../../ground/telemetry/trace.ts'
import { AuthorError } from '../../../lake/pipeline/author-error.ts'
import type { SubmitPipelineRequest } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { type Log, messageOf } from '../../core/log.ts'
import { type Cost, usageAttributes } from '../../core/process-usage.ts'
import { limits } from '../core/limits.ts'
import { AttemptLog, type Phase } from '../session/attempt-log.ts'
import type { TestResult } from '../write/quality-gate.ts'

// The attempts that this process executes, and for some time those that have ended. A replica that adopts a run must still
// learn its outcome. Submitting is idempotent, because a submission with an unclear answer is repeated.

/** The results of an attempt so far. They are complete when the attempt has ended. */
export interface Facts {
  rowsWritten: number
  /** The branch's commit that was tested; '' when no table changed. */
  testedCommit: string
  tests: TestResult[]
  /** The tables and views that the attempt reads, as `namespace.layer.name`. */
  inputTables: string[]
  landingFileIds: string[]
  archiveLandingZones: boolean
  maxRetries: number
  retryDelaySeconds: number
  keepFailedHours: number
  /** Null: the attempt changed nothing, or its pipeline merges without a review. */
  review: { change: string; timeoutHours: number; isFourEyes: boolean } | null
  /** Null: the attempt has used no engine. */
  cost: Cost | null
}

type Status = 'running' | 'completed' | 'failed' | 'cancelled'

/** The parts of an attempt that its execution uses. */
export interface ExecutionContext {
  request: SubmitPipelineRequest
  log: AttemptLog
  facts: Facts
  /** Aborted when the attempt is cancelled or exceeds its time limit. */
  signal: AbortSignal
  enter(phase: Phase): void
}

/** Executes an attempt. Resolves when the outcome is certain; `gone` resolves after the clean-up. */
export type Execute = (context: ExecutionContext) => Promise<{ gone: Promise<void> }>

/** The engine process of the attempt was killed from outside or crashed. The attempt may be executed again. */
export class AttemptLostEngine extends AuthorError {}

export class Attempt {
  readonly handle: string
  readonly log = new AttemptLog()
  readonly facts: Facts = {
    rowsWritten: 0,
    testedCommit: '',
    tests: [],
    inputTables: [],
    landingFileIds: [],
    archiveLandingZones: false,
    maxRetries: 0,
    retryDelaySeconds: 0,
    keepFailedHours: 0,
    review: null,
    cost: null,
  }
  status: Status = 'running'
  phase: Phase = 'rendering'
  error = ''
  isEngineLost = false
  readonly isAlone: boolean
  /** Resolves when nothing of the attempt runs any more. */
  readonly ended: Promise<void>
  #cancel = new AbortController()
  #isCancelled = false

  constructor(request: SubmitPipelineRequest, options: AttemptOptions) {
    this.handle = handleOf(request)
    this.isAlone = request.isAlone
    this.ended = inClientTrace(request, () => this.#traced(request, options))
  }

  /** Resolves when nothing of the attempt runs any more. Returns false when the attempt ended by itself. */
  async cancel(): Promise<boolean> {
    if (this.status !== 'running') return false
    this.#cancel.abort(new Cancelled())
    await this.ended
    return this.#isCancelled
  }

  #traced(request: SubmitPipelineRequest, options: AttemptOptions): Promise<void> {
    const { runId, attempt, namespace, layer, pipelineName: name } = request
    const attributes = {
      'sluice.run_id': runId,
      'sluice.attempt': attempt,
      'sluice.pipeline': `${namespace}.${layer}.${name}`,
    }
    return span('attempt', attributes, async (active) => {
      await this.#run(request, options)
      const { rowsWritten, cost } = this.facts
      active.set({ 'sluice.status': this.status, 'sluice.rows_written': rowsWritten })
      if (cost !== null)
        active.set({ ...usageAttributes(cost), 'sluice.peak_memory_bytes': cost.peakMemoryBytes })
      if (this.status === 'failed') active.fail(new AttemptFailed())
    })
  }

  async #run(request: SubmitPipelineRequest, { execute, log, seconds }: AttemptOptions): Promise<void> {
    const cancel = this.#cancel
    let timeLimit: ReturnType<typeof setTimeout> | undefined
    // The time limit starts here, because an attempt that executes alone waits until the others end.
    const begin = () => {
      if (seconds === undefined) return
      const stop = () =>
        cancel.abort(
          new AuthorError(`the run exceeded its time limit of ${seconds} s (RUN_TIMEOUT)`, { where: '' }),
        )
      timeLimit = setTimeout(stop, seconds * 1_000)
    }
    const enter = (phase: Phase) => {
      this.phase = phase
      this.log.enter(phase)
    }
    try {
      const context = { request, log: this.log, facts: this.facts, signal: cancel.signal, enter }
      const { gone } = await execute(context, begin)
      this.status = 'completed'
      this.log.end()
      await gone.catch((error: unknown) =>
        log.error('clean-up after an attempt failed', { handle: this.handle, error: stackOf(error) }),
      )
    } catch (error) {
      if (error instanceof Cancelled) {
        this.log.write('warn', 'cancelled')
        this.status = 'cancelled'
        this.#isCancelled = true
      } else {
        this.isEngineLost = error instanceof AttemptLostEngine
        this.error = `${this.phase}: ${error instanceof AuthorError ? error.message : 'internal error'}`
        if (!(error instanceof AuthorError))
          log.error('attempt failed with an internal error', { handle: this.handle, error: stackOf(error) })
        // This error gets no log line here: the dispatcher stores it as the last line of the log.
        this.status = 'failed'
      }
    } finally {
      clearTimeout(timeLimit)
      this.log.end()
    }
  }
}

class Cancelled extends Error {}
/** The error of the span of a failed attempt. */
class AttemptFailed extends Error {}

const stackOf = (error: unknown) => (error instanceof Error && error.stack) || messageOf(error)
const handleOf = ({ runId, attempt }: SubmitPipelineRequest) => `${runId}:${attempt}`

export interface Attempts {
  /** A new value with every start of the process. A caller with an older value knows that its attempts are gone. */
  readonly bootId: string
  /** Returns the attempt of this run and number: a new one, or the existing one. Null: no free slot. */
  submit(request: SubmitPipelineRequest): Attempt | null
  find(handle: string): Attempt | null
  /** The number of attempts that execute at once, and the number that would be accepted now. */
  slots(): { slots: number; freeSlots: number }
  /** Why no attempt is accepted now, even with free slots. Null: attempts are accepted. */
  waitsFor(): string | null
}

interface AttemptsOptions {
  /** Attempts that execute at once. */
  concurrency: number
  /** Wall-clock limit of one attempt, counted from its turn. No limit if omitted. */
  seconds?: number
  execute: Execute
  /** Why no attempt may begin now, even with free slots. Null: attempts may begin. */
  waitsFor?(): string | null
  log: Log
}

const ALONE = 'a run executes alone'

/** Calls `begin` when the attempt gets its turn. */
type ExecuteInTurn = (context: ExecutionContext, begin: () => void) => ReturnType<Execute>
type AttemptOptions = Pick<AttemptsOptions, 'log' | 'seconds'> & { execute: ExecuteInTurn }

export function makeAttempts(options: AttemptsOptions): Attempts {
  /** Includes attempts that have ended and are still being cleaned up. */
  const running = new Map<string, Attempt>()
  const execute = inTurn(options)
  /** Oldest first. */
  const ended = new LRUCache<string, Attempt>({
    max: limits.finishedAttempts,
    ttl: limits.finishedKeptMs,
    ttlAutopurge: true,
  })

  const working = () => [...running.values()].filter(({ status }) => status === 'running')
  /** No attempt is accepted while another executes alone, or waits to execute alone. */
  const waitsFor = () => options.waitsFor?.() ?? (working().some(({ isAlone }) => isAlone) ? ALONE : null)
  const freeSlots = () => (waitsFor() === null ? options.concurrency - working().length : 0)

  const find = (handle: string) => running.get(handle) ?? ended.peek(handle) ?? null
  return {
    bootId: randomUUID(),
    find,
    slots: () => ({ slots: options.concurrency, freeSlots: freeSlots() }),
    waitsFor,
    submit(request) {
      const existing = find(handleOf(request))
      if (existing !== null) return existing
      if (freeSlots() <= 0) return null
      const attempt = new Attempt(request, { ...options, execute })
      running.set(attempt.handle, attempt)
      void attempt.ended.then(() => {
        running.delete(attempt.handle)
        ended.set(attempt.handle, attempt)
      })
      return attempt
    },
  }
}

/**
 * After an attempt has ended, the dispatcher sends the next one at once. The new attempt gets the free slot, and begins when
 * the clean-up of the ended attempt is done. A refused attempt would be sent again much later. An attempt that executes alone
 * takes every turn.
 */
function inTurn({ concurrency, execute }: AttemptsOptions): ExecuteInTurn {
  const queueFull = () => new Error(`${concurrency} attempts already wait for a slot`)
  const turns = makeSlots(concurrency, concurrency, queueFull)
  return async (context, begin) => {
    const turnsNeeded = context.request.isAlone ? concurrency : 1
    const releases: (() => void)[] = []
    const releaseAll = () => {
      for (const release of releases) release()
    }
    try {
      while (releases.length < turnsNeeded) releases.push(await turns.acquire(context.signal))
      begin()
      const { gone } = await execute(context)
      return { gone: gone.finally(releaseAll) }
    } catch (error) {
      releaseAll()
      throw error
    }
  }
}
