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
  finalCode?: number
  log: WriteLine
}

/** What a dead child wrote last is passed on before its end is reported, unless somebody else holds its pipe. */
const DRAIN_DEADLINE_MS = 500

export function childProcess(options: ChildOptions): Part {
  return { name: options.name, finalCode: options.finalCode, start: async () => spawn(options) }
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
  const drained = Promise.all([eachLine(child.stdout, pass), eachLine(child.stderr, pass)])
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
  return { pid: child.pid, port, exited, stop }
}

/** The child and whatever it left behind in its process group. */
function killGroup(pid: number) {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // ESRCH: nobody is left.
  }
}
