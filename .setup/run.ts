/** Child processes of the test scripts: each in a group of its own, with a time limit, and none left when we end. */
import { eachLine } from '../sidecars/supervisor/lines.ts'

export type RunOptions = {
  command: string[]
  limitMs: number
  cwd?: string
  env?: Record<string, string | undefined>
  /** Called for each line as it comes; without it output is only collected. */
  onLine?: (line: string) => void
}

export type RunResult = { code: number; output: string; isLate: boolean }

const groups = new Set<number>()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    for (const pid of groups) killGroup(pid)
    process.exit(130)
  })
}

/** Runs a command to its end; past `limitMs` it is killed with everything it started. Never throws for a bad exit code. */
export async function run({ command, limitMs, cwd, env, onLine }: RunOptions): Promise<RunResult> {
  const child = Bun.spawn(command, {
    cwd,
    env: { ...process.env, ...env },
    detached: true,
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  groups.add(child.pid)
  let isLate = false
  const limit = setTimeout(() => {
    isLate = true
    killGroup(child.pid)
  }, limitMs)
  const lines: string[] = []
  const take = (line: string) => {
    lines.push(line)
    onLine?.(line)
  }
  await Promise.all([eachLine(child.stdout, take), eachLine(child.stderr, take), child.exited])
  clearTimeout(limit)
  groups.delete(child.pid)
  killGroup(child.pid)
  return { code: await child.exited, output: lines.join('\n'), isLate }
}

function killGroup(pid: number) {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // ESRCH: nobody is left.
  }
}
