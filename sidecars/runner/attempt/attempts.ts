import { randomUUID } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { makeSlots } from '../../../app/core/process/slots.ts'
import { AuthorError } from '../../../lake/pipeline/author-error.ts'
import type { SubmitPipelineRequest } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { inClientTrace } from '../../../proto/trace.ts'
import { type Log, messageOf } from '../../core/log.ts'
import { limits } from '../limits.ts'
import { AttemptLog, type Phase } from './attempt-log.ts'

// The attempts this process works on, and for a while those that have ended: a replica that adopts a run must still
// learn how it ended. Submitting is idempotent, because an unclear answer is asked for again.

/** What an attempt has found out so far; complete when it has ended. */
export interface Facts {
  rowsWritten: number
  /** The branch's commit that was tested; '' when no table changed. */
  testedCommit: string
  tests: TestResult[]
  landingFileIds: string[]
  archiveLandingZones: boolean
  maxRetries: number
  retryDelaySeconds: number
}

export interface TestResult {
  name: string
  severity: 'error' | 'warn'
  passed: boolean
  value: bigint
  durationMs: number
  /** '' unless the test itself could not be evaluated. */
  error: string
  /** The first rows of a failed test that selects rows, for people. */
  samples: string[]
}

export type Status = 'running' | 'completed' | 'failed' | 'cancelled'

/** The attempt as the one who executes it sees it. */
export interface Work {
  request: SubmitPipelineRequest
  log: AttemptLog
  facts: Facts
  /** Aborted when the attempt is cancelled or has taken too long. */
  signal: AbortSignal
  enter(phase: Phase): void
}

/** Does the work. Resolves when its outcome is certain, with a promise of when nothing of it is left. */
export type Execute = (work: Work) => Promise<{ gone: Promise<void> }>

/** The engine process of the attempt was killed from outside, or crashed: the attempt may be executed again. */
export class AttemptLostEngine extends AuthorError {}

export class Attempt {
  readonly handle: string
  readonly log = new AttemptLog()
  readonly facts: Facts = {
    rowsWritten: 0,
    testedCommit: '',
    tests: [],
    landingFileIds: [],
    archiveLandingZones: false,
    maxRetries: 0,
    retryDelaySeconds: 0,
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
    this.ended = inClientTrace(request, () => this.#run(request, options))
  }

  /** Resolves when nothing of it runs any more; false when it has ended by itself. */
  async cancel(): Promise<boolean> {
    if (this.status !== 'running') return false
    this.#cancel.abort(new Cancelled())
    await this.ended
    return this.#isCancelled
  }

  async #run(request: SubmitPipelineRequest, { execute, log, seconds }: AttemptOptions): Promise<void> {
    const cancel = this.#cancel
    let late: ReturnType<typeof setTimeout> | undefined
    // An attempt that executes alone may wait for its turn as long as the others take.
    const begin = () => {
      if (seconds === undefined) return
      const stop = () =>
        cancel.abort(
          new AuthorError(`stopped at its time limit of ${seconds} s (RUN_TIMEOUT)`, { where: '' }),
        )
      late = setTimeout(stop, seconds * 1_000)
    }
    const enter = (phase: Phase) => {
      this.phase = phase
      this.log.enter(phase)
    }
    try {
      const work = { request, log: this.log, facts: this.facts, signal: cancel.signal, enter }
      const { gone } = await execute(work, begin)
      this.status = 'completed'
      this.log.end()
      await gone.catch((error: unknown) =>
        log.error('an attempt left something behind', { handle: this.handle, error: stackOf(error) }),
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
          log.error('an attempt broke', { handle: this.handle, error: stackOf(error) })
        // Whoever stores the log closes it with this error.
        this.status = 'failed'
      }
    } finally {
      clearTimeout(late)
      this.log.end()
    }
  }
}

class Cancelled extends Error {}

const stackOf = (error: unknown) => (error instanceof Error && error.stack) || messageOf(error)
const handleOf = ({ runId, attempt }: SubmitPipelineRequest) => `${runId}:${attempt}`

export interface Attempts {
  /** Another value with every start of the process: whoever remembers an older one knows that its attempts are gone. */
  readonly bootId: string
  /** The attempt of this run and number: a new one, or the one that is there. Null: no room now. */
  submit(request: SubmitPipelineRequest): Attempt | null
  find(handle: string): Attempt | null
  /** How many it executes at once, and how many more it would take now. */
  room(): { slots: number; freeSlots: number }
  /** Why no attempt is taken now, whatever room there is; null: nothing is in the way. */
  waitsFor(): string | null
}

export interface AttemptsOptions {
  /** Attempts that execute at once. */
  concurrency: number
  /** Time limit of one attempt from its turn on, by the clock; unlimited if left out. */
  seconds?: number
  execute: Execute
  /** Why no attempt begins now, whatever room there is; null: nothing is in the way. */
  waitsFor?(): string | null
  log: Log
}

const ALONE = 'a run executes alone, because its earlier attempts lost their runners'

/** Calls `begin` when the attempt has its turn. */
type ExecuteInTurn = (work: Work, begin: () => void) => ReturnType<Execute>
type AttemptOptions = Pick<AttemptsOptions, 'log' | 'seconds'> & { execute: ExecuteInTurn }

export function makeAttempts(options: AttemptsOptions): Attempts {
  /** Those that have ended and are still being cleared away among them. */
  const running = new Map<string, Attempt>()
  const execute = inTurn(options)
  /** Oldest first. */
  const ended = new LRUCache<string, Attempt>({
    max: limits.finishedKept,
    ttl: limits.finishedKeptMs,
    ttlAutopurge: true,
  })

  const working = () => [...running.values()].filter(({ status }) => status === 'running')
  /** Nothing is taken beside an attempt that executes alone, or waits for the others to end. */
  const waitsFor = () => options.waitsFor?.() ?? (working().some(({ isAlone }) => isAlone) ? ALONE : null)
  const freeSlots = () => (waitsFor() === null ? options.concurrency - working().length : 0)

  const find = (handle: string) => running.get(handle) ?? ended.peek(handle) ?? null
  return {
    bootId: randomUUID(),
    find,
    room: () => ({ slots: options.concurrency, freeSlots: freeSlots() }),
    waitsFor,
    submit(request) {
      const known = find(handleOf(request))
      if (known !== null) return known
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
 * Whoever hears that an attempt has ended sends the next one, which has its slot and begins when nothing of the other is
 * left: refused, it would be asked for again much later. An attempt that executes alone takes every turn.
 */
function inTurn({ concurrency, execute }: AttemptsOptions): ExecuteInTurn {
  const full = () => new Error(`${concurrency} attempts wait for their turn already`)
  const turns = makeSlots(concurrency, concurrency, full)
  return async (work, begin) => {
    const turnsNeeded = work.request.isAlone ? concurrency : 1
    const held: (() => void)[] = []
    const leave = () => {
      for (const leaveOne of held) leaveOne()
    }
    try {
      while (held.length < turnsNeeded) held.push(await turns.take(work.signal))
      begin()
      const { gone } = await execute(work)
      return { gone: gone.finally(leave) }
    } catch (error) {
      leave()
      throw error
    }
  }
}
