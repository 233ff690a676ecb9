import { fileURLToPath } from 'node:url'
import type { Subprocess } from 'bun'
import {
  type AnswerOf,
  EngineFault,
  type EngineRequest,
  type FromEngine,
  isAnswerOf,
  isFromEngine,
  type RequestKind,
  type ToEngine,
} from './engine-messages.ts'
import { limits } from './limits.ts'

// One engine process: spawned by path with an empty environment, called over IPC, ended when it does not obey.
// What runs in it is other people's SQL, so what comes out of it is checked before it is believed.

/** The process is gone, and with it what was being worked on. */
export class EngineEnded extends Error {}

interface Pending {
  kind: RequestKind
  resolve(value: unknown): void
  reject(error: unknown): void
}

const ENTRY = fileURLToPath(new URL('./engine.main.ts', import.meta.url))
/** Runs of users never take the processor from the service itself. */
const NICENESS = '10'

export class EngineProcess {
  /** Resolves when the process answers calls; rejects if it ends before. */
  readonly ready: Promise<void>
  /** Resolves, to how it ended, when the process is gone. */
  readonly exited: Promise<string>
  /** As the process said last. */
  rssBytes = 0
  #child: Subprocess<'ignore', 'ignore', 'inherit'>
  #pending = new Map<number, Pending>()
  #calls = 0
  #ended: string | null = null

  /** @param directory of this process alone; it becomes its working directory. */
  constructor(directory: string) {
    const ready = Promise.withResolvers<void>()
    const exited = Promise.withResolvers<string>()
    this.ready = ready.promise
    this.exited = exited.promise
    this.ready.catch(() => {})
    const command = [process.execPath, ENTRY]
    const nice = Bun.which('nice')
    this.#child = Bun.spawn(nice === null ? command : [nice, '-n', NICENESS, ...command], {
      cwd: directory,
      env: {},
      stdin: 'ignore',
      stdout: 'ignore',
      stderr: 'inherit',
      serialization: 'advanced',
      ipc: (message: unknown) => {
        if (!isFromEngine(message)) this.end()
        else if (message.type === 'ready') ready.resolve()
        else this.#settle(message)
      },
      onExit: (_, code, signal) => {
        this.#ended = signal === null ? `exit code ${code}` : String(signal)
        const error = new EngineEnded(`engine process ended (${this.#ended})`)
        ready.reject(error)
        for (const { reject } of this.#pending.values()) reject(error)
        this.#pending.clear()
        exited.resolve(this.#ended)
      },
    })
    const late = setTimeout(() => this.end(), limits.engineStartMs)
    ready.promise.then(
      () => clearTimeout(late),
      () => clearTimeout(late),
    )
  }

  get pid(): number {
    return this.#child.pid
  }

  get hasEnded(): boolean {
    return this.#ended !== null
  }

  /**
   * Asks the process for something. Throws EngineFault for what it could not do, EngineEnded when it is gone, and the
   * signal's reason when that is aborted: the work is interrupted then, and the process ended if it goes on.
   */
  async call<R extends EngineRequest>(request: R, signal?: AbortSignal): Promise<AnswerOf<R['kind']>> {
    signal?.throwIfAborted()
    if (this.#ended !== null) throw new EngineEnded(`engine process ended (${this.#ended})`)
    this.#calls += 1
    const id = this.#calls
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    this.#pending.set(id, { kind: request.kind, resolve, reject })
    let grace: ReturnType<typeof setTimeout> | undefined
    const interrupt = () => {
      this.#send({ type: 'interrupt', id })
      grace = setTimeout(() => this.end(), limits.cancelGraceMs)
    }
    signal?.addEventListener('abort', interrupt, { once: true })
    this.#send({ type: 'call', id, request })
    try {
      const answer = await promise
      signal?.throwIfAborted()
      // #settle has checked it against the kind.
      return answer as AnswerOf<R['kind']>
    } catch (error) {
      signal?.throwIfAborted()
      throw error
    } finally {
      clearTimeout(grace)
      signal?.removeEventListener('abort', interrupt)
      this.#pending.delete(id)
    }
  }

  /** Ends the process at once. */
  end(): void {
    if (this.#ended === null) this.#child.kill('SIGKILL')
  }

  #send(message: ToEngine): void {
    try {
      if (this.#ended === null) this.#child.send(message)
    } catch {
      // The process is ending, and the one who waits for the answer will be told so.
    }
  }

  #settle(message: Exclude<FromEngine, { type: 'ready' }>): void {
    this.rssBytes = message.rssBytes
    const pending = this.#pending.get(message.id)
    if (pending === undefined) return
    if (message.type === 'fault') pending.reject(new EngineFault(message.fault))
    else if (isAnswerOf(pending.kind, message.answer)) pending.resolve(message.answer)
    else {
      pending.reject(new EngineEnded('engine process ended (it gave an answer that is none)'))
      this.end()
    }
  }
}
