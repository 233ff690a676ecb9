import { fileURLToPath } from 'node:url'
import type { Subprocess } from 'bun'
import {
  type BytesMoved,
  cpuSecondsOf,
  memoryOf,
  NO_COST,
  type ProcessUsage,
  resetPeak,
} from '../core/process-usage.ts'
import { ENGINE_ENVIRONMENT, type EngineSandbox } from '../sandbox/engine-sandbox.ts'

// An engine process is spawned by path without an environment, and called over IPC. It is ended when it does not obey. It
// executes SQL of users, so every message from it is validated.

export type ToEngine<Request> =
  | { type: 'call'; id: number; request: Request }
  | { type: 'interrupt'; id: number }

/** The progress of a long call, with the bytes moved since the start of the process. */
export interface CallProgress extends BytesMoved {
  /** Percentage of the input that the call has read. Null: unknown. */
  percent: number | null
}

export type FromEngine<Fault> =
  | { type: 'ready' }
  | ({ type: 'progress'; id: number } & CallProgress)
  | ({ type: 'answer'; id: number; answer: unknown } & BytesMoved)
  | ({ type: 'fault'; id: number; fault: Fault } & BytesMoved)

export interface EngineProcessOptions<Kind extends string, Fault> {
  /** The entry file. */
  entry: URL
  /** A directory that only this process uses; its working directory. */
  directory: string
  /** Lowers the priority, so that SQL of users does not take the processor from the service. */
  niceness: number
  /** The sandbox of the process. */
  sandbox: EngineSandbox
  /**
   * The process is ended when it holds more memory during a call. The engine's own limit does not cover everything. The limit
   * may change.
   */
  residentBytesMax(): number
  /** Time until the process must answer. Tests set a shorter time. */
  startMs?: number
  /** Time from an interrupt to the end of a process whose SQL goes on. Tests may set a longer time. */
  cancelGraceMs?: number
  isFromEngine(message: unknown): message is FromEngine<Fault>
  /** Whether `answer` is a valid answer to a request of this kind. */
  isAnswerOf(kind: Kind, answer: unknown): boolean
  /** Makes the error that a call throws for a fault. */
  errorOf(fault: Fault): Error
}

/**
 * How an engine process ended. `ordered`: this process ended it. `killed`: another process ended it, like the kernel when
 * memory is short. `crashed`: the engine process itself failed, or did not start in time.
 */
export type EngineEnd = 'ordered' | 'killed' | 'crashed'

/** The process is gone, and its current work with it. */
export class EngineEnded extends Error {
  constructor(
    readonly why: string,
    readonly end: EngineEnd = 'ordered',
  ) {
    super(`engine process ended (${why})`)
  }
}

const isKilledFromOutside = (error: unknown): boolean =>
  error instanceof EngineEnded && error.end === 'killed'

/**
 * Repeats the work once if its engine process was killed from outside. The work must change nothing, and must use another
 * engine for the second try. Throws the errors of the work, and the signal's reason.
 */
export async function onceMoreIfKilled<Answer>(
  work: () => Promise<Answer>,
  signal: AbortSignal,
): Promise<Answer> {
  try {
    return await work()
  } catch (error) {
    if (!isKilledFromOutside(error)) throw error
    signal.throwIfAborted()
    return work()
  }
}

/** Signals that other processes send. All other signals result from an action of the process itself. */
const KILLING: readonly string[] = ['SIGKILL', 'SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT']

/** The reason for ending a process that holds too much memory. */
export const OUT_OF_MEMORY = 'memory limit exceeded'

/** A start takes 0.1 s; a loaded machine may need this long. */
const START_MS = 20_000
/** Cancelled SQL stops within milliseconds. A process whose SQL goes on longer is ended. */
const CANCEL_GRACE_MS = 500
const RESIDENT_CHECK_MS = 200
/** Time for a process to end by itself after its channel has closed. */
const DISCONNECT_GRACE_MS = 500

interface Pending<Kind> {
  kind: Kind
  resolve(answer: unknown): void
  reject(error: unknown): void
  onProgress: ((progress: CallProgress) => void) | undefined
}

export class EngineProcess<
  Request extends { kind: string },
  Answers extends Record<Request['kind'], unknown>,
  Fault,
> {
  /** Resolves when the process answers calls. Rejects with EngineEnded if the process ends first. */
  readonly ready: Promise<void>
  /** Resolves when the process is gone, with the way it ended. */
  readonly exited: Promise<string>
  readonly #options: EngineProcessOptions<Request['kind'], Fault>
  readonly #child: Subprocess<'ignore', 'ignore', 'inherit'>
  readonly #pending = new Map<number, Pending<Request['kind']>>()
  #calls = 0
  #ended: EngineEnded | null = null
  /** As of the last readings. */
  #usage: ProcessUsage = NO_COST
  /** The kernel's peak at the last `beginPeak`, and the highest reading since then. */
  #peak = { kernelBefore: 0, bytes: 0 }

  constructor(options: EngineProcessOptions<Request['kind'], Fault>) {
    this.#options = options
    const ready = Promise.withResolvers<void>()
    const exited = Promise.withResolvers<string>()
    this.ready = ready.promise
    this.exited = exited.promise
    this.ready.catch(() => {})
    const { directory, niceness } = options
    const command = options.sandbox.command({ entry: fileURLToPath(options.entry), directory, niceness })
    this.#child = Bun.spawn(command, {
      cwd: directory,
      env: ENGINE_ENVIRONMENT,
      stdin: 'ignore',
      // SQL can print to the standard output.
      stdout: 'ignore',
      stderr: 'inherit',
      serialization: 'advanced',
      ipc: (message: unknown) => {
        if (!options.isFromEngine(message)) this.end('invalid message')
        else if (message.type === 'ready') ready.resolve()
        else this.#settle(message)
      },
      onExit: (_, code, signal) => {
        this.#ended ??= endedBy(code, signal === null ? null : String(signal))
        const error = this.#ended
        ready.reject(error)
        for (const { reject } of this.#pending.values()) reject(error)
        this.#pending.clear()
        exited.resolve(error.why)
      },
      // A process that ends also closes its channel. Only a process that lives on is ended for closing it.
      onDisconnect: () => void setTimeout(() => this.end('IPC channel closed'), DISCONNECT_GRACE_MS).unref(),
    })
    // No statement of an author is at fault, so a run is executed again.
    const startMs = options.startMs ?? START_MS
    const late = setTimeout(() => this.end(`not started within ${startMs / 1_000} s`, 'crashed'), startMs)
    void this.ready.catch(() => {}).then(() => clearTimeout(late))
  }

  get pid(): number {
    return this.#child.pid
  }

  /** True from the moment the end of the process is decided. */
  get hasEnded(): boolean {
    return this.#ended !== null
  }

  /** Resident memory of the process. 0 when it is unknown, as on every system but Linux. */
  get residentBytes(): number {
    const { bytes, peakBytes } = memoryOf(this.pid)
    // A peak that the kernel had before says nothing about this work.
    const highest = peakBytes > this.#peak.kernelBefore ? peakBytes : bytes
    this.#peak.bytes = Math.max(this.#peak.bytes, highest)
    return bytes
  }

  /** From now on, `peakBytes` counts again. */
  beginPeak(): void {
    resetPeak(this.pid)
    const { bytes, peakBytes } = memoryOf(this.pid)
    this.#peak = { kernelBefore: peakBytes, bytes }
  }

  /** The peak of `residentBytes` since the last `beginPeak`, which covers at least every fifth of a second of a call. */
  get peakBytes(): number {
    void this.residentBytes
    return this.#peak.bytes
  }

  /** The most memory that the process may hold during a call. */
  get residentBytesMax(): number {
    return this.#options.residentBytesMax()
  }

  /**
   * Counters since the start of the process. After its end: as of the last reading. Bytes are those at its last answer, because
   * the process lets nobody look into it.
   */
  usage(): ProcessUsage {
    const cpuSeconds = cpuSecondsOf(this.pid) ?? this.#usage.cpuSeconds
    this.#usage = { ...this.#usage, cpuSeconds }
    return this.#usage
  }

  /**
   * Sends a request and returns its answer. Throws EngineEnded when the process is gone, and the error of `errorOf` for a
   * fault. An aborted signal interrupts the work, and the call throws the signal's reason. If the work goes on, the process is
   * ended.
   */
  async call<R extends Request>(
    request: R,
    signal?: AbortSignal,
    onProgress?: (progress: CallProgress) => void,
  ): Promise<Answers[R['kind']]> {
    signal?.throwIfAborted()
    if (this.#ended !== null) throw this.#ended
    this.#calls += 1
    const id = this.#calls
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    this.#pending.set(id, { kind: request.kind, resolve, reject, onProgress })
    let grace: ReturnType<typeof setTimeout> | undefined
    const interrupt = () => {
      this.#send({ type: 'interrupt', id })
      const graceMs = this.#options.cancelGraceMs ?? CANCEL_GRACE_MS
      grace = setTimeout(() => this.end(`still running ${graceMs} ms after the interrupt`), graceMs)
    }
    signal?.addEventListener('abort', interrupt, { once: true })
    const watch = setInterval(() => {
      // A process that is killed has its usage of this moment.
      this.usage()
      if (this.residentBytes > this.residentBytesMax) this.end(OUT_OF_MEMORY)
    }, RESIDENT_CHECK_MS)
    this.#send({ type: 'call', id, request })
    try {
      const answer = await promise
      signal?.throwIfAborted()
      // `#settle` has checked the answer against the kind.
      return answer as Answers[R['kind']]
    } catch (error) {
      signal?.throwIfAborted()
      throw error
    } finally {
      clearTimeout(grace)
      clearInterval(watch)
      signal?.removeEventListener('abort', interrupt)
      this.#pending.delete(id)
    }
  }

  /** Ends the process at once. `why` completes "engine process ended (...)". */
  end(why: string, end: EngineEnd = 'ordered'): void {
    if (this.#ended !== null) return
    this.#ended = new EngineEnded(why, end)
    this.#child.kill('SIGKILL')
  }

  #send(message: ToEngine<Request>): void {
    try {
      if (this.#ended === null) this.#child.send(message)
    } catch {
      // The process is ending, and `onExit` rejects every pending call.
    }
  }

  #settle(message: Exclude<FromEngine<Fault>, { type: 'ready' }>): void {
    const { bytesRead, bytesWritten } = message
    this.#usage = { ...this.#usage, bytesRead, bytesWritten }
    const pending = this.#pending.get(message.id)
    if (pending === undefined) return
    if (message.type === 'progress') pending.onProgress?.(message)
    else if (message.type === 'fault') pending.reject(this.#options.errorOf(message.fault))
    else if (this.#options.isAnswerOf(pending.kind, message.answer)) pending.resolve(message.answer)
    else this.end(`invalid answer to ${pending.kind}`)
  }
}

function endedBy(code: number | null, signal: string | null): EngineEnded {
  if (signal === null) return new EngineEnded(`exit code ${code}`, 'crashed')
  return new EngineEnded(signal, KILLING.includes(signal) ? 'killed' : 'crashed')
}
