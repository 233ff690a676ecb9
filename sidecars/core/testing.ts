/** Helpers of tests that start the process of a sidecar and observe processes. */
import { readFile } from 'node:fs/promises'
import { until } from '../../tools/kit/until.ts'
import { TEST_TOKEN } from '../rpc/testing.ts'
import { eachLine } from '../supervisor/lines.ts'
import type { Log } from './log.ts'

export const silent: Log = { info() {}, warn() {}, error() {} }

/**
 * Starts an entry file on a free port and resolves when the file listens. `through` is a command that starts the entry file and
 * ends with it.
 */
export async function startSidecar(
  entry: string,
  env: Record<string, string>,
  { through, onLine }: { through: readonly string[]; onLine: (line: string) => void },
) {
  const child = Bun.spawn([...through, process.execPath, entry], {
    env: { PATH: process.env.PATH, SUPERVISED: '1', PORT: '0', SIDECAR_TOKEN: TEST_TOKEN, ...env },
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  void eachLine(child.stdout, (line) => {
    const [, url] = /listening on (\S+)/.exec(line) ?? []
    if (url !== undefined) resolve(url)
    onLine(line)
  })
  void child.exited.then((code) => reject(new Error(`${entry} ended with ${code}`)))
  return {
    url: await promise,
    pid: child.pid,
    /** Process ids of the sidecar's engines and interpreters. */
    children: () => childrenOf(child.pid),
    async stop(): Promise<void> {
      child.stdin.end()
      await child.exited
    },
  }
}

function childrenOf(pid: number): number[] {
  const { stdout } = Bun.spawnSync(['ps', '-o', 'pid=', '--ppid', String(pid)])
  return stdout.toString().trim().split(/\s+/).filter(Boolean).map(Number)
}

/** Whether a process is alive. A zombie, which waits for its new parent to reap it, is not. */
export function isAlive(pid: number): boolean {
  const state = Bun.spawnSync(['ps', '-o', 'stat=', '-p', String(pid)]).stdout.toString()
  return state !== '' && !state.startsWith('Z')
}

/** Processor time that each process has used so far, in ticks of 10 ms. */
export async function ticksOfEach(pids: readonly number[]): Promise<Map<number, number>> {
  return new Map(await Promise.all(pids.map(async (pid) => [pid, await ticksOf(pid)] as const)))
}

async function ticksOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null)
  if (stat === null) return 0
  const fields = stat.slice(stat.lastIndexOf(')')).split(' ')
  return Number(fields[12]) + Number(fields[13])
}

/**
 * Returns the first process that uses a second of CPU time from now on, so it executes a query. A process that only starts, or
 * only opens a DuckDB instance, uses less.
 */
export async function engineAtWork(engines: () => number[], ticksUsed = 100): Promise<number> {
  const before = await ticksOfEach(engines())
  return until(
    async () => {
      const used = [...(await ticksOfEach(engines()))]
      return used.find(([pid, ticks]) => ticks - (before.get(pid) ?? 0) >= ticksUsed)?.[0] ?? 0
    },
    (pid) => pid > 0,
  )
}
