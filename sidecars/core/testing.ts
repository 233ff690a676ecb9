/** How tests start the process of a sidecar, and what they see of processes. */
import { readFile } from 'node:fs/promises'
import { until } from '../../tools/test/until.ts'
import { TEST_TOKEN } from '../rpc/testing.ts'
import { eachLine } from '../supervisor/lines.ts'
import type { Log } from './log.ts'

export const silent: Log = { info() {}, warn() {}, error() {} }

/** Starts an entry file on a free port; resolves when it listens. `through`: a command that starts it, and ends with it. */
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
    /** Process ids of its engines and interpreters. */
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

/** A process that has ended and waits to be noticed by its new parent does not count. */
export function isAlive(pid: number): boolean {
  const state = Bun.spawnSync(['ps', '-o', 'stat=', '-p', String(pid)]).stdout.toString()
  return state !== '' && !state.startsWith('Z')
}

/** What each process has used of the processor so far, in ticks of 10 ms. */
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
 * The first of these processes that uses a second of processor time from now on: it executes something. A process that only
 * starts, or prepares an instance, uses less.
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
