import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import sql from 'postgres'
import { until } from '../../tools/kit/until.ts'
import { type Postgres, startPostgres } from './postgres.ts'
import { isAlive, temporaryDirectory } from './testing.ts'

let directory: Awaited<ReturnType<typeof temporaryDirectory>>
let server: Postgres
const start = (port?: number) => startPostgres({ dataDir: directory.path, port, log: () => {} })

beforeAll(async () => {
  directory = await temporaryDirectory()
  // The state after an initdb that was killed half way.
  await mkdir(join(directory.path, 'postgres.new', 'data', 'base'), { recursive: true })
  await writeFile(join(directory.path, 'postgres.new', 'data', 'PG_VERSION'), '18')
  server = await start()
})
afterAll(async () => {
  await server.stop()
  await directory[Symbol.asyncDispose]()
})

async function query(text: string, url = server.url): Promise<Record<string, unknown>[]> {
  const client = sql(url, { max: 1, onnotice: () => {} })
  try {
    return [...(await client.unsafe(text))]
  } finally {
    await client.end({ timeout: 1 })
  }
}

test('a set-up that was killed half way starts over', async () => {
  expect(await query('select 1 as one')).toEqual([{ one: 1 }])
})

test('commits are durable and text is UTF-8', async () => {
  const names = ['fsync', 'synchronous_commit', 'full_page_writes', 'server_encoding']
  const settings = await query(
    `select name, setting from pg_settings where name in ('${names.join("','")}') order by 1`,
  )
  expect(settings.map((row) => row.setting)).toEqual(['on', 'on', 'UTF8', 'on'])
})

test('only the owner can read the password, and connections need it', async () => {
  expect((await stat(join(directory.path, 'postgres'))).mode & 0o777).toBe(0o700)
  expect((await stat(join(directory.path, 'postgres', 'password'))).mode & 0o777).toBe(0o600)
  const wrong = new URL(server.url)
  wrong.password = 'guess'
  await expect(query('select 1', wrong.href)).rejects.toThrow('password authentication failed')
})

test('a killed server restarts at the same address with every commit', async () => {
  await query('create table kept (n int); insert into kept values (7)')
  process.kill(server.pid, 'SIGKILL')
  expect(await server.exited).toBe(137)
  const { url, port } = server
  server = await start(port)
  expect(server.url).toBe(url)
  expect(await query('select n from kept')).toEqual([{ n: 7 }])
})

test('a busy backend of a killed server does not block the restart', async () => {
  const busy = query('select count(*) from generate_series(1, 1000000000)').catch(() => {})
  await until(
    async () =>
      (
        await query(`select 1 from pg_stat_activity
          where datname = current_database() and query like 'select count%' and state = 'active'`)
      ).length > 0,
  )
  process.kill(server.pid, 'SIGKILL')
  await server.exited
  server = await start()
  expect(await query('select n from kept')).toEqual([{ n: 7 }])
  await busy
})

test('a start ends a server that still runs on the directory', async () => {
  const orphan = server
  server = await start()
  expect(await orphan.exited).toBe(0)
  expect(await query('select n from kept')).toEqual([{ n: 7 }])
})

test('a postmaster.pid that names a foreign process does not block the start', async () => {
  await server.stop()
  await writeFile(join(directory.path, 'postgres', 'data', 'postmaster.pid'), `${process.pid}\n`)
  server = await start()
  expect(await query('select 1 as one')).toEqual([{ one: 1 }])
})

test('Postgres ends when the process that started it is killed', async () => {
  await server.stop()
  const source = `
    const { startPostgres } = await import('${join(import.meta.dirname, 'postgres.ts')}')
    const server = await startPostgres({ dataDir: ${JSON.stringify(directory.path)}, log: () => {} })
    console.log(server.pid)
    setInterval(() => {}, 1e6)`
  const parent = Bun.spawn([process.execPath, '-e', source], { stdin: 'ignore', stdout: 'pipe' })
  const pid = Number(new TextDecoder().decode((await parent.stdout.getReader().read()).value))
  expect(isAlive(pid)).toBe(true)
  parent.kill('SIGKILL')
  await until(() => !isAlive(pid))
  server = await start()
})

test('a failed start reports the reason from Postgres', async () => {
  await server.stop()
  const version = join(directory.path, 'postgres', 'data', 'PG_VERSION')
  const right = await readFile(version, 'utf8')
  await writeFile(version, '12\n')
  await expect(start()).rejects.toThrow(/did not start: FATAL: .*database files are incompatible/)
  await writeFile(version, right)
  server = await start()
})
