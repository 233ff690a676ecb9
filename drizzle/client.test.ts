import { expect, setDefaultTimeout, test } from 'bun:test'
import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import postgres from 'postgres'
import { until } from '../tools/kit/until.ts'
import { testDatabase } from '../tools/service/database.ts'
import { migrate, openDatabase } from './client.ts'
import { hasMet } from './errors.ts'

setDefaultTimeout(60_000)

test('replicas that start at once migrate an empty database once', async () => {
  const template = await testDatabase()
  const admin = postgres(template.url, { max: 1, onnotice: () => {} })
  const name = `empty_${randomUUID().replaceAll('-', '')}`
  await admin`create database ${admin(name)}`
  const url = new URL(template.url)
  url.pathname = `/${name}`
  await Promise.all(Array.from({ length: 4 }, () => migrate(url.href)))
  await migrate(url.href)
  const database = openDatabase(url.href, { connections: 1, rawConnections: 1, application: 'test' })
  expect(await database.sql`select name from namespace`).toHaveLength(1)
  expect(await database.sql`select name from lake_ref`).toHaveLength(1)
  const [secret] = await database.sql`select value from secret where name = 'attempt_token'`
  expect(secret?.value).toMatch(/^[0-9a-f]{64}$/)
  await database.close()
  await admin`drop database ${admin(name)} with (force)`
  await admin.end()
  await template.drop()
})

test('a database with unreleased migrations is refused and left unchanged', async () => {
  const database = await testDatabase()
  const sql = postgres(database.url, { max: 1, onnotice: () => {} })
  await sql`update drizzle.__drizzle_migrations set created_at = 1`
  await expect(migrate(database.url)).rejects.toThrow('unreleased')
  const [times] =
    await sql`select array_agg(distinct created_at::int) as found from drizzle.__drizzle_migrations`
  expect(times?.found).toEqual([1])
  await sql.end()
  await database.drop()
})

test('a blocked migration step lets other statements proceed, then succeeds', async () => {
  const database = await testDatabase()
  const sql = postgres(database.url, { max: 3, onnotice: () => {} })
  const folder = await mkdtemp(join(tmpdir(), 'sluice-migrations-'))
  const entry = { idx: 0, version: '7', when: 9_999_999_999_999, tag: '0000_next', breakpoints: true }
  await mkdir(join(folder, 'meta'))
  await writeFile(join(folder, 'meta', '_journal.json'), JSON.stringify({ entries: [entry] }))
  await writeFile(join(folder, '0000_next.sql'), 'alter table run add column next text')

  const begun = Promise.withResolvers<void>()
  const reading = Promise.withResolvers<void>()
  const dump = sql.begin(async (tx) => {
    await tx`select from run`
    begun.resolve()
    await reading.promise
  })
  await begun.promise
  const migrated = migrate(database.url, { folder, lockMs: 300 })
  const waiting = () => sql`
    select 1 from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock' and query like 'alter table run%'`
  await until(waiting, (steps) => steps.length > 0)
  // This statement waits behind the blocked step, while the dump continues.
  expect(await sql`select id from run`).toEqual([] as never)
  expect(await Promise.race([migrated, sql`select 'not yet' as is`])).toEqual([{ is: 'not yet' }] as never)
  reading.resolve()
  await Promise.all([dump, migrated])
  expect(await sql`select next from run`).toEqual([] as never)
  await rm(folder, { recursive: true })
  await sql.end()
  await database.drop()
})

test('hasMet recognizes only violations of the given unique indexes', async () => {
  const database = await testDatabase()
  const { sql, close } = openDatabase(database.url, {
    connections: 1,
    rawConnections: 1,
    application: 'test',
  })
  const error = await sql`insert into namespace (name, description) values ('default', '')`.catch((e) => e)
  expect(hasMet(error, ['namespace_pkey'])).toBe(true)
  expect(hasMet(error, ['run_attempt_one_open'])).toBe(false)
  expect(hasMet(new Error('namespace_pkey'), ['namespace_pkey'])).toBe(false)
  await close()
  await database.drop()
})
