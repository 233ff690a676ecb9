/** Child processes of the test scripts: each in a group of its own, with a time limit, and none left when we end. */
import { eachLine } from '../../sidecars/supervisor/lines.ts'
import { endWith, isEnding } from './scratch.ts'

export type RunOptions = {
  command: string[]
  limitMs: number
  cwd?: string
  env?: Record<string, string | undefined>
  /** Called for each line as it comes; without it output is only collected. */
  onLine?: (line: string) => void
}

export type RunResult = { code: number; output: string; isLate: boolean; seconds: number }

/** Runs a command to its end; past `limitMs` it is killed with everything it started. Never throws for a bad exit code. */
export async function run({ command, limitMs, cwd, env, onLine }: RunOptions): Promise<RunResult> {
  if (isEnding()) return never
  const startedMs = performance.now()
  const child = Bun.spawn(command, {
    cwd,
    env: { ...process.env, ...env },
    detached: true,
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const forget = endWith(async () => killGroup(child.pid))
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
  // A process that outlives the command holds its output open.
  const exited = child.exited.finally(() => killGroup(child.pid))
  await Promise.all([eachLine(child.stdout, take), eachLine(child.stderr, take), exited])
  clearTimeout(limit)
  if (isEnding()) return never
  forget()
  const seconds = Math.round((performance.now() - startedMs) / 1000)
  return { code: await child.exited, output: lines.join('\n'), isLate, seconds }
}

/** An interrupted command has nothing to say about what it killed, and starts nothing more. */
const never = new Promise<never>(() => {})

function killGroup(pid: number) {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // ESRCH: nobody is left.
  }
}
