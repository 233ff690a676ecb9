/** A supervised child process: its own session, stdin as its lifeline, its output passed on line by line. */
import { eachLine } from './lines.ts'
import type { WriteLine } from './log.ts'
import type { Part, Running } from './tree.ts'

export type ChildOptions = {
  name: string
  command: string[]
  /** Asked at each start. */
  env: () => Record<string, string | undefined>
  cwd: string
  port?: number
  /** Between SIGTERM and SIGKILL. */
  stopDeadlineMs: number
  log: WriteLine
}

/** sysexits.h EX_CONFIG: the child has said what is wrong with its environment, and starting it again would not mend that. */
const CONFIGURATION_ERROR = 78
/** EX_UNAVAILABLE: what the environment names cannot be used. At the first start it is a mistake, later an outage. */
const UNAVAILABLE = 69
/** The complaints of a child that are kept: several settings may be wrong. */
const LAST_WORDS_LINES = 5
/** What a dead child wrote last is passed on before its end is reported, unless somebody else holds its pipe. */
const DRAIN_DEADLINE_MS = 2_000

export function childProcess(options: ChildOptions): Part {
  return {
    name: options.name,
    finalCode: CONFIGURATION_ERROR,
    firstFinalCode: UNAVAILABLE,
    start: async () => spawn(options),
  }
}

function spawn({ name, command, env, cwd, port, stopDeadlineMs, log }: ChildOptions): Running {
  const child = Bun.spawn(command, {
    env: { ...env(), SUPERVISED: '1' },
    cwd,
    // A session of its own: Ctrl-C in a terminal reaches the supervisor only, which stops the tree in order.
    detached: true,
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const pass = (line: string) => log(name, line)
  const complaints: string[] = []
  const complain = (line: string) => {
    complaints.push(line)
    if (complaints.length > LAST_WORDS_LINES) complaints.shift()
    pass(line)
  }
  const drained = Promise.all([eachLine(child.stdout, pass), eachLine(child.stderr, complain)])
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
  return { pid: child.pid, port, exited, stop, lastWords: () => complaints.join('; ') }
}

/** The child and whatever it left behind in its process group. */
function killGroup(pid: number) {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // ESRCH: nobody is left.
  }
}
