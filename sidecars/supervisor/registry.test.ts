import { expect, test } from 'bun:test'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { claimDataDirectory } from './checks.ts'
import { endLeftovers, readRegistry, registryPath, writeRegistry } from './registry.ts'
import { isAlive, temporaryDirectory } from './testing.ts'

const about = { url: 'http://127.0.0.1:8080', databaseUrl: 'postgres://sluice:secret@127.0.0.1/sluice' }
const sleeper = () => Bun.spawn(['sleep', '1000'], { stdin: 'ignore' })

async function registered(pid: number) {
  await using directory = await temporaryDirectory()
  claimDataDirectory(directory.path, () => '').release()
  writeRegistry(directory.path, about, [
    { name: 'api', pid, port: 8080, restarts: 2, startedAt: new Date(0) },
  ])
  expect((await stat(registryPath(directory.path))).mode & 0o777).toBe(0o600)
  const registry = readRegistry(directory.path)
  if (!registry) throw new Error('there is no registry')
  return registry
}

test('the registry lists running processes with their addresses', async () => {
  expect(await registered(process.pid)).toEqual({
    supervisor_pid: process.pid,
    url: about.url,
    database_url: about.databaseUrl,
    processes: [
      {
        name: 'api',
        pid: process.pid,
        port: 8080,
        restarts: 2,
        started_at: '1970-01-01T00:00:00.000Z',
        kernel_start_time: expect.any(String),
      },
    ],
  })
})

test('a process that outlives its killed supervisor is killed', async () => {
  const leftover = sleeper()
  const logged: string[] = []
  await endLeftovers(await registered(leftover.pid), (message) => logged.push(message), 0)
  expect(await leftover.exited).toBe(137)
  expect(logged).toEqual(['waiting for leftover processes of a killed Sluice: api'])
})

test('a foreign process with a reused process id is not killed', async () => {
  const foreign = sleeper()
  const registry = await registered(foreign.pid)
  const processes = registry.processes.map((record) => ({ ...record, kernel_start_time: '1' }))
  await endLeftovers({ ...registry, processes }, () => {}, 0)
  expect(isAlive(foreign.pid)).toBe(true)
  foreign.kill()
})

test('a missing registry reads as undefined', () => {
  expect(readRegistry(join('/', 'nowhere'))).toBeUndefined()
})
