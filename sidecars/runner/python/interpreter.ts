import { readFileSync } from 'node:fs'
import type { Subprocess } from 'bun'
import { PipeWriter } from '../../engine/pipe-writer.ts'
import type { Launch } from '../../sandbox/ladder.ts'
import { type Call, type Job, type Outcome, readMessage, type Told } from './messages.ts'

// One Python process in its sandbox: started ahead, given one piece of work, ended with everything it began.

const source = (path: string) => readFileSync(new URL(path, import.meta.url), 'utf8')
/** Given over the pipe: the sandbox shows no file of the service. */
const MODULES = {
  confine: source('../../sandbox/confine.py'),
  values: source('./values.py'),
  queries: source('./queries.py'),
  interpreter: source('./interpreter.py'),
}
const BOOT = `
import sys, json, types
incoming = sys.stdin.buffer
begin = json.loads(incoming.readline())
for name, text in begin["modules"].items():
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, "<sluice " + name + ">", "exec"), module.__dict__)
sys.modules["interpreter"].main(incoming, begin["spec"])
`
/** Isolated: no variable, no directory of a user changes what is imported. */
export const PYTHON_ARGS = ['-I', '-B', '-X', 'utf8', '-c', BOOT]

const START_MS = 20_000
/** After its last word it ends by itself. */
const FAREWELL_MS = 500
/** One message of an interpreter. The text of a query and its parameters are the largest that a pipeline needs. */
const MESSAGE_BYTES_MAX = 16 * 1_048_576
/** Answers that wait in this process because the interpreter does not read. One answer is a path or a list of columns. */
const QUEUED_BYTES_MAX = 16 * 1_048_576
/** What waits for the others gets this long to do so. */
const GROUP_GRACE_MS = 200
/** Everything it says or prints in one piece of work; its own log stops far below. */
const SAID_BYTES_MAX = 64 * 1_048_576

export class InterpreterEnded extends Error {
  constructor(readonly why: string) {
    super(why)
  }
}

export interface Listener {
  /** Does what a call asks for; its message is for the author of the pipeline. Answers null to errors of its own. */
  answer(call: Call): Promise<{ value: unknown } | { error: string }>
  say(level: 'debug' | 'info' | 'warn' | 'error', message: string): void
  /** So many lines were not even sent. */
  dropped(lines: number): void
}

export interface InterpreterOptions extends Launch {
  niceness: number
  env: Record<string, string>
}

const MUTE: Listener = { answer: async () => ({ error: 'not now' }), say: () => {}, dropped: () => {} }

export class Interpreter {
  /** Resolves when it waits for its work in its sandbox; rejects with InterpreterEnded. */
  readonly ready: Promise<void>
  /** Resolves, to how it ended, when the process is gone. */
  readonly exited: Promise<string>
  readonly #child: Subprocess<'pipe', 'pipe', 'pipe'>
  readonly #ready = Promise.withResolvers<void>()
  readonly #outcome = Promise.withResolvers<Outcome>()
  readonly #incoming: PipeWriter
  #listener: Listener = MUTE
  /** A call waits for its answer: an interpreter makes one call at a time. */
  #isCalling = false
  /** This process has ended it: whatever else it says is ignored. */
  #isUnheard = false
  #saidBytes = 0
  #lastWords = ''
  #ended: string | null = null

  constructor({ command, confinement, niceness, env }: InterpreterOptions) {
    this.ready = this.#ready.promise
    this.ready.catch(() => {})
    this.#outcome.promise.catch(() => {})
    const nice = Bun.which('nice')
    this.#child = Bun.spawn(nice === null ? command : [nice, '-n', String(niceness), ...command], {
      cwd: confinement.own,
      env,
      stdin: 'pipe',
      stdout: 'pipe',
      stderr: 'pipe',
      // A process group of its own: what it starts, where it can, ends with it.
      detached: true,
    })
    this.#incoming = new PipeWriter(this.#child.stdin, QUEUED_BYTES_MAX, () =>
      this.end('protocol error: it does not read the answers to its calls'),
    )
    this.exited = this.#settle()
    this.#send({ modules: MODULES, spec: confinement })
    const late = setTimeout(() => this.end('it did not start in time'), START_MS)
    void this.ready.catch(() => {}).then(() => clearTimeout(late))
  }

  get pid(): number {
    return this.#child.pid
  }

  /** A process within its namespaces, where it has some; else the process itself. */
  get innerPid(): number {
    return this.#children()[0] ?? this.pid
  }

  get hasEnded(): boolean {
    return this.#ended !== null || this.#child.exitCode !== null || this.#child.signalCode !== null
  }

  /**
   * Gives it its work, once. Resolves when it has said how that ended and the process is gone. Throws InterpreterEnded,
   * and the signal's reason: the process is ended at once then.
   */
  async work(job: Job, listener: Listener, signal: AbortSignal): Promise<Outcome> {
    signal.throwIfAborted()
    this.#listener = listener
    const abort = () => this.end('it was told to')
    signal.addEventListener('abort', abort, { once: true })
    try {
      await this.ready
      this.#send(job)
      const outcome = await this.#outcome.promise
      const late = setTimeout(() => this.end('it did not end by itself'), FAREWELL_MS)
      await this.exited
      clearTimeout(late)
      signal.throwIfAborted()
      return outcome
    } catch (error) {
      signal.throwIfAborted()
      throw error
    } finally {
      signal.removeEventListener('abort', abort)
      this.#listener = MUTE
    }
  }

  /** Ends the process and its group at once. */
  end(why: string): void {
    if (this.#ended !== null) return
    this.#ended = why
    this.#isUnheard = true
    const children = this.#children()
    // With namespaces the process started is one that waits for the rest: it takes note of their end and leaves none behind.
    for (const pid of children) signal(pid)
    if (children.length === 0) this.#endGroup()
    else setTimeout(() => this.#endGroup(), GROUP_GRACE_MS).unref()
  }

  #endGroup(): void {
    signal(-this.pid)
    this.#child.kill('SIGKILL')
  }

  #children(): number[] {
    try {
      const text = readFileSync(`/proc/${this.pid}/task/${this.pid}/children`, 'utf8')
      return text.trim().split(' ').filter(Boolean).map(Number)
    } catch {
      return []
    }
  }

  async #settle(): Promise<string> {
    const reading = Promise.allSettled([
      this.#eachLine(this.#child.stdout, (line) => this.#hear(line)),
      this.#eachLine(this.#child.stderr, (line) => {
        this.#lastWords = line
        this.#listener.say('info', line)
      }),
    ])
    const code = await this.#child.exited
    this.#ended ??= endOf(code)
    // Its group may hold the pipes open.
    this.#endGroup()
    await reading
    const how = this.#ended
    this.#ready.reject(new InterpreterEnded(this.#lastWords === '' ? how : `${how}: ${this.#lastWords}`))
    this.#outcome.reject(new InterpreterEnded(how))
    return how
  }

  #send(message: object): void {
    this.#incoming.write(`${JSON.stringify(message)}\n`)
  }

  #hear(line: string): void {
    const message = readMessage(line)
    if (message === null) this.end('it said what makes no sense')
    else if (!('call' in message)) this.#note(message)
    else if (this.#isCalling) this.end('protocol error: a call while another call was open')
    else void this.#answer(message)
  }

  async #answer(call: Call): Promise<void> {
    this.#isCalling = true
    const answer = await this.#listener.answer(call)
    // The interpreter may call again as soon as it has read this.
    this.#isCalling = false
    this.#send({ answer: call.call, ...answer })
  }

  #note(told: Told): void {
    if ('ready' in told) this.#ready.resolve()
    else if ('unavailable' in told) this.#ready.reject(new InterpreterEnded(told.unavailable))
    else if ('log' in told) this.#listener.say(told.log, told.message)
    else if ('dropped' in told) this.#listener.dropped(told.dropped)
    else this.#outcome.resolve(told)
  }

  async #eachLine(stream: ReadableStream<Uint8Array>, take: (line: string) => void): Promise<void> {
    const decoder = new TextDecoder()
    /** Pieces of a line that has not ended, and their length. */
    let begun: string[] = []
    let length = 0
    for await (const bytes of stream) {
      if (this.#isUnheard) return
      this.#saidBytes += bytes.length
      if (this.#saidBytes > SAID_BYTES_MAX) return this.end('it printed too much')
      const [first = '', ...others] = decoder.decode(bytes, { stream: true }).split('\n')
      begun.push(first)
      length += first.length
      if (length > MESSAGE_BYTES_MAX) return this.end('it printed too much')
      for (const next of others) {
        take(begun.join(''))
        // That message may have ended the process: later ones are ignored.
        if (this.#isUnheard) return
        begun = [next]
        length = next.length
      }
    }
    if (length > 0) take(begun.join(''))
  }
}

function signal(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It is gone already.
  }
}

const SHELL_SIGNAL = 128
const XCPU = 24

/** bwrap tells a signal as a shell does. */
function endOf(code: number): string {
  if (code === SHELL_SIGNAL + XCPU) return CPU_USED_UP
  const signal = SIGNALS[code - SHELL_SIGNAL]
  return signal === undefined ? `it ended with code ${code} before its result` : `it ended with ${signal}`
}

export const CPU_USED_UP = 'it used up its processor time'
const SIGNALS: Record<number, string> = {
  4: 'SIGILL',
  6: 'SIGABRT',
  7: 'SIGBUS',
  8: 'SIGFPE',
  9: 'SIGKILL',
  11: 'SIGSEGV',
  15: 'SIGTERM',
  31: 'SIGSYS',
}
