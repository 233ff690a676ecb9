import { readFileSync } from 'node:fs'
import type { Subprocess } from 'bun'
import { bytesOf, type Cost, costOfAll, cpuSecondsOf, memoryOf, NO_COST } from '../../core/process-usage.ts'
import { PipeWriter } from '../../engine/pipe-writer.ts'
import type { Launch } from '../../sandbox/ladder.ts'
import { type Call, type FromInterpreter, type Job, type Outcome, readMessage } from './messages.ts'

// One Python process in its sandbox. It is started in advance, executes one job, and ends with everything that it started.

const source = (path: string) => readFileSync(new URL(path, import.meta.url), 'utf8')
/** These modules are sent over the pipe, because the sandbox shows no file of the service. */
const MODULES = {
  confine: source('../../sandbox/confine.py'),
  values: source('../python/values.py'),
  queries: source('../python/queries.py'),
  interpreter: source('../python/interpreter.py'),
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
/** Isolated mode: no variable and no directory of a user changes which modules are imported. */
export const PYTHON_ARGS = ['-I', '-B', '-X', 'utf8', '-c', BOOT]

const MIB = 1_048_576
const START_MS = 20_000
/** Time for the process to exit after it has sent its result. After that it is killed. */
const FAREWELL_MS = 500
/** One message of an interpreter. The largest messages have the text of a query and its parameters. */
const MESSAGE_BYTES_MAX = 16 * MIB
/** Answers that wait in this process because the interpreter does not read. One answer is a path or a list of columns. */
const QUEUED_BYTES_MAX = 16 * MIB
/** Time for a process to notice the end of its children, before the whole group is ended. */
const GROUP_GRACE_MS = 200
/** Everything that an interpreter sends or prints in one job. The limit of its log is far lower. */
const OUTPUT_BYTES_MAX = 64 * MIB

export class InterpreterEnded extends Error {
  constructor(readonly why: string) {
    super(why)
  }
}

interface Listener {
  /** Executes a call. Returns its value, or an error text for the author of the pipeline. */
  answer(call: Call): Promise<{ value: unknown } | { error: string }>
  log(level: 'debug' | 'info' | 'warn' | 'error', message: string): void
  /** Counts lines that the interpreter did not send. */
  dropped(lines: number): void
}

interface InterpreterOptions extends Launch {
  niceness: number
  env: Record<string, string>
}

const MUTE: Listener = {
  answer: async () => ({ error: 'no job is running' }),
  log: () => {},
  dropped: () => {},
}

export class Interpreter {
  /** Resolves when the process waits for its job in its sandbox. Rejects with InterpreterEnded. */
  readonly ready: Promise<void>
  /** Resolves when the process is gone, with the way it ended. */
  readonly exited: Promise<string>
  readonly #child: Subprocess<'pipe', 'pipe', 'pipe'>
  readonly #ready = Promise.withResolvers<void>()
  readonly #outcome = Promise.withResolvers<Outcome>()
  readonly #incoming: PipeWriter
  #listener: Listener = MUTE
  /** True while a call waits for its answer. An interpreter makes one call at a time. */
  #isCalling = false
  /** True when the runner has ended the interpreter. Its remaining messages are ignored. */
  #isIgnored = false
  #outputBytes = 0
  #lastErrorLine = ''
  #ended: string | null = null
  /** As of the last reading. */
  #cost: Cost = NO_COST

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
      // The interpreter leads a process group, so that processes that it may start end with it.
      detached: true,
    })
    this.#incoming = new PipeWriter(this.#child.stdin, QUEUED_BYTES_MAX, () =>
      this.end('protocol error: the process does not read the answers to its calls'),
    )
    this.exited = this.#settle()
    this.#send({ modules: MODULES, spec: confinement })
    const startTimeout = setTimeout(() => this.end(`not started within ${START_MS / 1_000} s`), START_MS)
    void this.ready.catch(() => {}).then(() => clearTimeout(startTimeout))
  }

  get pid(): number {
    return this.#child.pid
  }

  /** The first process within the namespaces of the sandbox. Without namespaces, the process itself. */
  get innerPid(): number {
    return childrenOf(this.pid)[0] ?? this.pid
  }

  /**
   * The cost of the process and its descendants since its start. After its end: as of its result. A process that ended without
   * a result has only its processor time, and not even that within namespaces.
   */
  cost(): Cost {
    const costs = treeOf(this.pid).flatMap((pid) => {
      const cpuSeconds = cpuSecondsOf(pid)
      const { peakBytes } = memoryOf(pid)
      return cpuSeconds === null ? [] : [{ cpuSeconds, ...bytesOf(pid), peakMemoryBytes: peakBytes }]
    })
    if (!this.hasEnded && costs.length > 0) this.#cost = costOfAll(costs)
    const seconds = Number(this.#child.resourceUsage()?.cpuTime.total ?? 0) / 1e6
    return { ...this.#cost, cpuSeconds: Math.max(this.#cost.cpuSeconds, seconds) }
  }

  get hasEnded(): boolean {
    return this.#ended !== null || this.#child.exitCode !== null || this.#child.signalCode !== null
  }

  /**
   * Sends the job, which is possible once. Resolves when the outcome is known and the process is gone. Throws InterpreterEnded.
   * After an abort, ends the process at once and throws the signal's reason.
   */
  async work(job: Job, listener: Listener, signal: AbortSignal): Promise<Outcome> {
    signal.throwIfAborted()
    this.#listener = listener
    const abort = () => this.end('cancelled by the runner')
    signal.addEventListener('abort', abort, { once: true })
    try {
      await this.ready
      this.#send(job)
      const outcome = await this.#outcome.promise
      const endTimeout = setTimeout(
        () => this.end(`not ended within ${FAREWELL_MS} ms after the result`),
        FAREWELL_MS,
      )
      await this.exited
      clearTimeout(endTimeout)
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
    this.cost()
    this.#ended = why
    this.#isIgnored = true
    const children = childrenOf(this.pid)
    // With namespaces, the started process waits for its children. If they end first, it notices their end and leaves none
    // behind.
    for (const pid of children) signal(pid)
    if (children.length === 0) this.#endGroup()
    else setTimeout(() => this.#endGroup(), GROUP_GRACE_MS).unref()
  }

  #endGroup(): void {
    signal(-this.pid)
    this.#child.kill('SIGKILL')
  }

  async #settle(): Promise<string> {
    const reading = Promise.allSettled([
      this.#eachLine(this.#child.stdout, (line) => this.#consumeLine(line)),
      this.#eachLine(this.#child.stderr, (line) => {
        this.#lastErrorLine = line
        this.#listener.log('info', line)
      }),
    ])
    const code = await this.#child.exited
    this.#ended ??= endOf(code)
    // Other processes of its group may hold the pipes open.
    this.#endGroup()
    await reading
    const reason = this.#ended
    this.#ready.reject(
      new InterpreterEnded(this.#lastErrorLine === '' ? reason : `${reason}: ${this.#lastErrorLine}`),
    )
    this.#outcome.reject(new InterpreterEnded(reason))
    return reason
  }

  #send(message: object): void {
    this.#incoming.write(`${JSON.stringify(message)}\n`)
  }

  #consumeLine(line: string): void {
    const message = readMessage(line)
    if (message === null) this.end('protocol error: invalid message')
    else if (!('call' in message)) this.#note(message)
    else if (this.#isCalling) this.end('protocol error: a call while another call was open')
    else void this.#answer(message)
  }

  async #answer(call: Call): Promise<void> {
    this.#isCalling = true
    const answer = await this.#listener.answer(call)
    // The interpreter may call again as soon as it has read the answer.
    this.#isCalling = false
    this.#send({ answer: call.call, ...answer })
  }

  #note(message: FromInterpreter): void {
    if ('ready' in message) this.#ready.resolve()
    else if ('unavailable' in message) this.#ready.reject(new InterpreterEnded(message.unavailable))
    else if ('log' in message) this.#listener.log(message.log, message.message)
    else if ('dropped' in message) this.#listener.dropped(message.dropped)
    else {
      this.cost()
      this.#outcome.resolve(message)
    }
  }

  async #eachLine(stream: ReadableStream<Uint8Array>, consume: (line: string) => void): Promise<void> {
    const decoder = new TextDecoder()
    /** The pieces of an unfinished line, and their length. */
    let pieces: string[] = []
    let length = 0
    for await (const bytes of stream) {
      if (this.#isIgnored) return
      this.#outputBytes += bytes.length
      if (this.#outputBytes > OUTPUT_BYTES_MAX)
        return this.end(`output exceeds ${OUTPUT_BYTES_MAX / MIB} MiB`)
      const [first = '', ...others] = decoder.decode(bytes, { stream: true }).split('\n')
      pieces.push(first)
      length += first.length
      if (length > MESSAGE_BYTES_MAX)
        return this.end(`one line of output exceeds ${MESSAGE_BYTES_MAX / MIB} MiB`)
      for (const next of others) {
        consume(pieces.join(''))
        // That message may have ended the process, so later messages are ignored.
        if (this.#isIgnored) return
        pieces = [next]
        length = next.length
      }
    }
    if (length > 0) consume(pieces.join(''))
  }
}

function childrenOf(pid: number): number[] {
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
    return text.trim().split(' ').filter(Boolean).map(Number)
  } catch {
    return []
  }
}

/** The process and its descendants. */
const treeOf = (pid: number): number[] => [pid, ...childrenOf(pid).flatMap(treeOf)]

function signal(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // The process is gone already.
  }
}

const SHELL_SIGNAL = 128
const XCPU = 24

/** bwrap reports a signal like a shell: 128 plus its number. */
function endOf(code: number): string {
  if (code === SHELL_SIGNAL + XCPU) return CPU_USED_UP
  const signal = SIGNALS[code - SHELL_SIGNAL]
  return signal === undefined ? `exit code ${code} before the result` : signal
}

export const CPU_USED_UP = 'processor time limit exceeded (PYTHON_CPU_LIMIT)'
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
