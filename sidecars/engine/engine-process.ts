import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Subprocess } from 'bun'
import { ENGINE_ENVIRONMENT, type Wall } from '../sandbox/wall.ts'

// One engine process: spawned by path without an environment, called over IPC, ended when it does not obey. What runs
// in it is other people's SQL, so what comes out of it is checked before it is believed.

export type ToEngine<Request> =
  | { type: 'call'; id: number; request: Request }
  | { type: 'interrupt'; id: number }

export type FromEngine<Fault> =
  | { type: 'ready' }
  | { type: 'answer'; id: number; answer: unknown }
  | { type: 'fault'; id: number; fault: Fault }

export interface EngineProcessOptions<Kind extends string, Fault> {
  /** The entry file. */
  entry: URL
  /** Of this process alone; it becomes its working directory. */
  directory: string
  /** People's SQL never takes the processor from the service itself. */
  niceness: number
  /** What stands between the process and the machine. */
  wall: Wall
  /** The process is ended when it holds more during a call: the engine's own limit does not cover everything. */
  residentBytesMax: number
  /** Of a cancel that is not honoured; tests may give more. */
  cancelGraceMs?: number
  isFromEngine(message: unknown): message is FromEngine<Fault>
  /** Whether this can be the answer to a request of that kind. */
  isAnswerOf(kind: Kind, answer: unknown): boolean
  /** What a call throws for a fault. */
  errorOf(fault: Fault): Error
}

/**
 * How an engine process ended. `ordered`: this process ended it. `killed`: somebody else did, as the kernel does when memory
 * is short. `crashed`: the process itself went wrong.
 */
export type EngineEnd = 'ordered' | 'killed' | 'crashed'

/** The process is gone, and with it what was being worked on. */
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
 * Does work once more if its engine process was killed from outside: for work that changes nothing, in another engine.
 * Throws what the work throws, and the signal's reason.
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

/** Signals that are sent by somebody else. Others come from what the process did itself. */
const KILLING: readonly string[] = ['SIGKILL', 'SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT']

/** Why a process is ended that holds too much. */
export const OUT_OF_MEMORY = 'it used up its memory'

/** A start takes 0.1 s; a machine under load may need this. */
const START_MS = 20_000
/** Cancelled SQL stops within milliseconds; a process in which it does not is ended. */
const CANCEL_GRACE_MS = 500
const RESIDENT_CHECK_MS = 200
/** From the end of its channel to that of the process, if it ends by itself. */
const DISCONNECT_GRACE_MS = 500

interface Pending<Kind> {
  kind: Kind
  resolve(answer: unknown): void
  reject(error: unknown): void
}

export class EngineProcess<
  Request extends { kind: string },
  Answers extends Record<Request['kind'], unknown>,
  Fault,
> {
  /** Resolves when the process answers calls; rejects with EngineEnded if it ends before. */
  readonly ready: Promise<void>
  /** Resolves, to how it ended, when the process is gone. */
  readonly exited: Promise<string>
  readonly #options: EngineProcessOptions<Request['kind'], Fault>
  readonly #child: Subprocess<'ignore', 'ignore', 'inherit'>
  readonly #pending = new Map<number, Pending<Request['kind']>>()
  #calls = 0
  #ended: EngineEnded | null = null

  constructor(options: EngineProcessOptions<Request['kind'], Fault>) {
    this.#options = options
    const ready = Promise.withResolvers<void>()
    const exited = Promise.withResolvers<string>()
    this.ready = ready.promise
    this.exited = exited.promise
    this.ready.catch(() => {})
    const { directory, niceness } = options
    const command = options.wall.command({ entry: fileURLToPath(options.entry), directory, niceness })
    this.#child = Bun.spawn(command, {
      cwd: directory,
      env: ENGINE_ENVIRONMENT,
      stdin: 'ignore',
      // SQL can print there.
      stdout: 'ignore',
      stderr: 'inherit',
      serialization: 'advanced',
      ipc: (message: unknown) => {
        if (!options.isFromEngine(message)) this.end('it said what makes no sense')
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
      // An engine that ends closes its channel, too: only one that lives on is ended for that.
      onDisconnect: () =>
        void setTimeout(() => this.end('it closed its channel'), DISCONNECT_GRACE_MS).unref(),
    })
    const late = setTimeout(() => this.end('it did not start in time'), START_MS)
    void this.ready.catch(() => {}).then(() => clearTimeout(late))
  }

  get pid(): number {
    return this.#child.pid
  }

  /** True from the moment its end is decided. */
  get hasEnded(): boolean {
    return this.#ended !== null
  }

  /** What it holds in memory; 0 where the system does not tell, as all but Linux. */
  get residentBytes(): number {
    try {
      const status = readFileSync(`/proc/${this.pid}/status`, 'utf8')
      return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1_024
    } catch {
      return 0
    }
  }

  /**
   * Asks the process for something. Throws what `errorOf` makes of what it could not do, EngineEnded when it is gone,
   * and the signal's reason when that is aborted: the work is interrupted then, and the process ended if it goes on.
   */
  async call<R extends Request>(request: R, signal?: AbortSignal): Promise<Answers[R['kind']]> {
    signal?.throwIfAborted()
    if (this.#ended !== null) throw this.#ended
    this.#calls += 1
    const id = this.#calls
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    this.#pending.set(id, { kind: request.kind, resolve, reject })
    let grace: ReturnType<typeof setTimeout> | undefined
    const interrupt = () => {
      this.#send({ type: 'interrupt', id })
      grace = setTimeout(
        () => this.end('it did not stop when told to'),
        this.#options.cancelGraceMs ?? CANCEL_GRACE_MS,
      )
    }
    signal?.addEventListener('abort', interrupt, { once: true })
    const watch = setInterval(() => {
      if (this.residentBytes > this.#options.residentBytesMax) this.end(OUT_OF_MEMORY)
    }, RESIDENT_CHECK_MS)
    this.#send({ type: 'call', id, request })
    try {
      const answer = await promise
      signal?.throwIfAborted()
      // It has been checked against the kind.
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

  /** Ends the process at once; `why` completes "engine process ended (...)". */
  end(why: string): void {
    if (this.#ended !== null) return
    this.#ended = new EngineEnded(why)
    this.#child.kill('SIGKILL')
  }

  #send(message: ToEngine<Request>): void {
    try {
      if (this.#ended === null) this.#child.send(message)
    } catch {
      // The process is ending, and the one who waits for the answer will be told so.
    }
  }

  #settle(message: Exclude<FromEngine<Fault>, { type: 'ready' }>): void {
    const pending = this.#pending.get(message.id)
    if (pending === undefined) return
    if (message.type === 'fault') pending.reject(this.#options.errorOf(message.fault))
    else if (this.#options.isAnswerOf(pending.kind, message.answer)) pending.resolve(message.answer)
    else this.end('it gave an answer that is none')
  }
}

function endedBy(code: number | null, signal: string | null): EngineEnded {
  if (signal === null) return new EngineEnded(`exit code ${code}`, 'crashed')
  return new EngineEnded(signal, KILLING.includes(signal) ? 'killed' : 'crashed')
}
