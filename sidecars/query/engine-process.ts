import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Subprocess } from 'bun'
import { ENGINE_ENVIRONMENT, type Wall } from '../sandbox/wall.ts'
import {
  type AnswerOf,
  EngineFault,
  type EngineRequest,
  isAnswerOf,
  isFromEngine,
  type RequestKind,
  type ToEngine,
} from './engine-messages.ts'
import { limits } from './limits.ts'

// One engine process: spawned by path with an empty environment, called over IPC, ended when it does not obey.

/** The process is gone, and with it what was being worked on. */
export class EngineEnded extends Error {}

const ENTRY = fileURLToPath(new URL('./engine.main.ts', import.meta.url))
/** Queries come after the service itself, and before pipelines. */
const NICENESS = 5

interface Pending {
  id: number
  kind: RequestKind
  resolve(answer: unknown): void
  reject(error: unknown): void
}

export class EngineProcess {
  /** Resolves when the process answers calls; rejects if it ends before. */
  readonly ready: Promise<void>
  /** Resolves, to how it ended, when the process is gone. */
  readonly exited: Promise<string>
  readonly #child: Subprocess<'ignore', 'ignore', 'inherit'>
  readonly #residentBytesMax: number
  #pending: Pending | undefined
  #calls = 0
  #ended: string | null = null

  /** @param directory of this process alone; it becomes its working directory. */
  constructor(directory: string, residentBytesMax: number, wall: Wall) {
    this.#residentBytesMax = residentBytesMax
    const ready = Promise.withResolvers<void>()
    const exited = Promise.withResolvers<string>()
    this.ready = ready.promise
    this.exited = exited.promise
    this.ready.catch(() => {})
    this.#child = Bun.spawn(wall.command({ entry: ENTRY, directory, niceness: NICENESS }), {
      cwd: directory,
      env: ENGINE_ENVIRONMENT,
      stdin: 'ignore',
      stdout: 'ignore',
      stderr: 'inherit',
      serialization: 'advanced',
      ipc: (message: unknown) => {
        if (!isFromEngine(message)) this.end('it said what makes no sense')
        else if (message.type === 'ready') ready.resolve()
        else if (message.id !== this.#pending?.id) return
        else if (message.type === 'fault') this.#pending.reject(new EngineFault(message.fault))
        else if (isAnswerOf(this.#pending.kind, message.answer)) this.#pending.resolve(message.answer)
        else this.end('it gave an answer that is none')
      },
      onExit: (_, code, signal) => {
        this.#ended ??= signal === null ? `exit code ${code}` : String(signal)
        const error = new EngineEnded(this.#ended)
        ready.reject(error)
        this.#pending?.reject(error)
        exited.resolve(this.#ended)
      },
    })
    const late = setTimeout(() => this.end('it did not start in time'), limits.engineStartMs)
    void this.ready.catch(() => {}).then(() => clearTimeout(late))
  }

  get pid(): number {
    return this.#child.pid
  }

  get hasEnded(): boolean {
    return this.#ended !== null
  }

  /**
   * Asks the process for something; one call at a time. Throws EngineFault for what it could not do, EngineEnded when it
   * is gone, and the signal's reason when that is aborted: the work is interrupted then, and the process ended if it
   * goes on.
   */
  async call<R extends EngineRequest>(request: R, signal?: AbortSignal): Promise<AnswerOf<R['kind']>> {
    signal?.throwIfAborted()
    if (this.#ended !== null) throw new EngineEnded(this.#ended)
    this.#calls += 1
    const id = this.#calls
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    this.#pending = { id, kind: request.kind, resolve, reject }
    let grace: ReturnType<typeof setTimeout> | undefined
    const interrupt = () => {
      this.#send({ type: 'interrupt', id })
      grace = setTimeout(() => this.end('it did not stop when told to'), limits.cancelGraceMs)
    }
    signal?.addEventListener('abort', interrupt, { once: true })
    const watch = setInterval(() => this.#checkResident(), limits.residentCheckMs)
    this.#send({ type: 'call', id, request })
    try {
      const answer = await promise
      signal?.throwIfAborted()
      // It has been checked against the kind.
      return answer as AnswerOf<R['kind']>
    } catch (error) {
      signal?.throwIfAborted()
      throw error
    } finally {
      clearInterval(watch)
      clearTimeout(grace)
      signal?.removeEventListener('abort', interrupt)
      this.#pending = undefined
    }
  }

  /** Ends the process at once. */
  end(why: string): void {
    if (this.#ended !== null) return
    this.#ended = why
    this.#child.kill('SIGKILL')
  }

  #send(message: ToEngine): void {
    if (this.#ended === null) this.#child.send(message)
  }

  /** The engine's own limit covers what it manages: texts of one batch of rows are beyond it. */
  #checkResident(): void {
    if (residentBytes(this.pid) > this.#residentBytesMax) this.end(OUT_OF_MEMORY)
  }
}

/** How the end of a process that took too much memory is called. */
export const OUT_OF_MEMORY = 'it used up its memory'

/** 0 where the system does not tell, as all but Linux. */
function residentBytes(pid: number): number {
  try {
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1_024
  } catch {
    return 0
  }
}
