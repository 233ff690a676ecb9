/** Child processes of the test scripts. Each has its own process group and a time limit, and none outlives the script. */
import { eachLine } from '../../sidecars/supervisor/lines.ts'
import { endWith, isEnding } from './scratch.ts'

export type RunOptions = {
  command: string[]
  limitMs: number
  cwd?: string
  env?: Record<string, string | undefined>
  /** Called for each line of output as it arrives. */
  onLine?: (line: string) => void
}

export type RunResult = { code: number; output: string; isLate: boolean; seconds: number }

/**
 * Runs a command to its end. After `limitMs`, kills the command and all processes of its group. Never throws for a nonzero exit
 * code.
 */
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
  const cancelCleanup = endWith(async () => killGroup(child.pid))
  let isLate = false
  const limit = setTimeout(() => {
    isLate = true
    killGroup(child.pid)
  }, limitMs)
  const lines: string[] = []
  const collect = (line: string) => {
    lines.push(line)
    onLine?.(line)
  }
  // A child that outlives the command keeps the output pipes open, so the group is killed at the command's exit.
  const exited = child.exited.finally(() => killGroup(child.pid))
  await Promise.all([eachLine(child.stdout, collect), eachLine(child.stderr, collect), exited])
  clearTimeout(limit)
  if (isEnding()) return never
  cancelCleanup()
  const seconds = Math.round((performance.now() - startedMs) / 1000)
  return { code: await child.exited, output: lines.join('\n'), isLate, seconds }
}

/** Never settles. An interrupted test script reports no result of a killed command, and starts no further command. */
const never = new Promise<never>(() => {})

function killGroup(pid: number) {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // ESRCH: the group has no process left.
  }
}
