// Processes that no longer answer are replaced, and a list of processes that cannot be written ends nothing. Only a whole tree has
// the watchdog of the supervisor.
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from '@playwright/test'
import { startTree, type Tree, until } from './tree.ts'

let tree: Tree
test.beforeAll(async () => {
  tree = await startTree()
})
test.afterAll(() => tree.stop())

const SILENCE_MS = 90_000

const isGone = (pid: number) => {
  try {
    process.kill(pid, 0)
    return false
  } catch {
    return true
  }
}

/** Whether `/health/ready` succeeds, which asks all dependencies. */
const isReady = async () => (await fetch(`${tree.url}/health/ready`).catch(() => null))?.ok === true

for (const part of ['query', 'runner', 'postgres', 'api'])
  test(`a frozen ${part} process is replaced within seconds`, async () => {
    const pid = await tree.pidOf(part)
    process.kill(pid, 'SIGSTOP')
    try {
      await until(
        async () => isGone(pid),
        (gone) => gone,
        SILENCE_MS,
      )
    } finally {
      if (!isGone(pid)) process.kill(pid, 'SIGCONT')
    }
    expect(tree.log()).toContain(`${part} does not answer for 10 s`)
    await until(isReady, (ready) => ready, SILENCE_MS)
    expect(await tree.pidOf(part)).not.toBe(pid)
    await tree.publish(`after_${part}`, 'select 1 as a')
    const run = await tree.ended(await tree.requestRun(`after_${part}`))
    expect(run.status).toBe('success')
  })

test('a paused tree continues without a replaced process', async () => {
  const registry = JSON.parse(await readFile(join(tree.dataDir, 'run', 'processes.json'), 'utf8'))
  const pids: number[] = [
    registry.supervisor_pid,
    ...registry.processes.map(({ pid }: { pid: number }) => pid),
  ]
  for (const pid of pids) process.kill(pid, 'SIGSTOP')
  // Longer than the watchdog waits: the pause itself is what this test is about.
  const paused = performance.now()
  await until(
    async () => performance.now() - paused,
    (ms) => ms > 15_000,
  )
  for (const pid of pids) process.kill(pid, 'SIGCONT')
  await until(isReady, (ready) => ready, SILENCE_MS)
  for (const { name, pid } of registry.processes) expect(await tree.pidOf(name)).toBe(pid)
})

test('the service continues while the list of processes cannot be written', async () => {
  const run = join(tree.dataDir, 'run')
  // A directory in the place of the new list lets every write fail, also for root.
  const blocked = join(run, 'processes.json.new')
  await mkdir(blocked)
  await writeFile(join(blocked, 'full'), '')
  const pid = await tree.pidOf('query')
  try {
    process.kill(pid, 'SIGKILL')
    await until(
      async () => tree.log(),
      (log) => log.includes('list of processes cannot be written'),
    )
    await until(isReady, (ready) => ready, SILENCE_MS)
  } finally {
    await rm(blocked, { recursive: true })
  }
  process.kill(await tree.pidOf('runner'), 'SIGKILL')
  await until(
    () => tree.pidOf('query'),
    (found) => found !== pid,
  )
})
