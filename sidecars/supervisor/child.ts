/** A supervised child process with its own session. Its stdin is its lifeline, and its output is forwarded line by line. */
import { eachLine } from './lines.ts'
import type { WriteLine } from './log.ts'
import type { Part, Running } from './tree.ts'
import type { Ask } from './watchdog.ts'

export type ChildOptions = {
  name: string
  command: string[]
  /** Called at each start. */
  env: () => Record<string, string | undefined>
  cwd: string
  port?: number
  /** Asks the process for a sign of life. */
  ask?: Ask
  /** The time between SIGTERM and SIGKILL. */
  stopDeadlineMs: number
  log: WriteLine
}

/** sysexits.h EX_CONFIG: the child has reported a wrong setting, and a restart would not help. */
const CONFIGURATION_ERROR = 78
/**
 * sysexits.h EX_UNAVAILABLE: a configured dependency cannot be used. At the first start this counts as a configuration error,
 * later as an outage.
 */
const UNAVAILABLE = 69
/** The number of error lines that are kept of a child. Several settings may be wrong at once. */
const ERROR_LINES_MAX = 5
/** The time limit for forwarding the last output of a dead child, because another process may hold the pipe open. */
const DRAIN_DEADLINE_MS = 2_000

export function childProcess(options: ChildOptions): Part {
  return {
    name: options.name,
    finalCode: CONFIGURATION_ERROR,
    firstFinalCode: UNAVAILABLE,
    ask: options.ask,
    start: async () => spawn(options),
  }
}

function spawn({ name, command, env, cwd, port, stopDeadlineMs, log }: ChildOptions): Running {
  const child = Bun.spawn(command, {
    env: { ...env(), SUPERVISED: '1' },
    cwd,
    // A separate session: Ctrl-C in a terminal reaches only the supervisor, which stops the tree in order.
    detached: true,
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const forward = (line: string) => log(name, line)
  const errorLines: string[] = []
  const forwardError = (line: string) => {
    errorLines.push(line)
    if (errorLines.length > ERROR_LINES_MAX) errorLines.shift()
    forward(line)
  }
  const drained = Promise.all([eachLine(child.stdout, forward), eachLine(child.stderr, forwardError)])
  const exited = child.exited.then(async (code) => {
    killGroup(child.pid)
    const deadline = Promise.withResolvers<void>()
    const timer = setTimeout(deadline.resolve, DRAIN_DEADLINE_MS)
    await Promise.race([drained, deadline.promise])
    clearTimeout(timer)
    return code
  })
  const stop = async () => {
    child.kill('SIGTERM')
    const deadline = setTimeout(() => killGroup(child.pid), stopDeadlineMs)
    await exited
    clearTimeout(deadline)
  }
  const kill = () => killGroup(child.pid)
  return { pid: child.pid, port, exited, stop, kill, lastWords: () => errorLines.join('; ') }
}

/** Kills the child and every process that it left in its process group. */
function killGroup(pid: number) {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // ESRCH: no process is left.
  }
}
