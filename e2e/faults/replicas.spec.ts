// Two API replicas share one Postgres and one bucket. A request to either is performed once, and each replica reads the other's
// writes. A replica that dies during an upload leaves no file that counts.
import { expect, test } from '@playwright/test'
import postgres from 'postgres'
import { startTestStore, type TestStore } from '../kit/object-store.ts'
import { freePort } from '../kit/own-service.ts'
import { holding, startTree, type Tree, until } from './tree.ts'

const FILES = 12
const PIPELINES = 4

test.describe.configure({ mode: 'serial' })

let store: TestStore
let replicas: [Tree, Tree]
let databaseUrl: string
let sql: postgres.Sql

test.beforeAll(async () => {
  store = await startTestStore()
  // The sidecars of the first replica serve both. They share a token and may call the second replica too.
  const secondPort = await freePort()
  const SIDECAR_TOKEN = 'sidecar-token-of-both-replicas-0123456789'
  const API_URLS = `http://127.0.0.1:${secondPort}`
  const one = await startTree({ ...store.env, SIDECAR_TOKEN, API_URLS })
  databaseUrl = await one.databaseUrl()
  const urlOf = (part: string) => new RegExp(`${part} +listening on (http://\\S+)`).exec(one.log())?.[1] ?? ''
  const shared = {
    DATABASE_URL: databaseUrl,
    RUNNER_URLS: urlOf('runner'),
    QUERY_URLS: urlOf('query'),
    SIDECAR_TOKEN,
  }
  replicas = [one, await startTree({ ...store.env, ...shared, PORT: String(secondPort) })]
  sql = postgres(databaseUrl, { max: 2, onnotice: () => {} })
})
test.afterAll(async () => {
  await sql?.end({ timeout: 1 })
  await replicas?.[1].stop()
  await replicas?.[0].stop()
  await store?.stop()
})

const replica = (n: number) => replicas[n % 2] ?? replicas[0]

const call = <Answer>(n: number, method: string, path: string, body?: object) =>
  replica(n).call<Answer>(method, path, body)

async function published(name: string, content: string, config?: string) {
  const ref = { namespace: 'default', layer: 'gold', name }
  expect((await call(0, 'POST', '/pipelines', ref)).status).toBe(201)
  await call(1, 'PUT', `/files/default/pipelines/gold/${name}/pipeline.sql`, { content })
  if (config) await call(0, 'PUT', `/files/default/pipelines/gold/${name}/config.yaml`, { content: config })
  expect((await call(0, 'POST', `/pipelines/default/gold/${name}/publish`)).status).toBe(200)
}

function csv(n: number) {
  const form = new FormData()
  form.append('file', new Blob([`n\n${n}\n`], { type: 'text/csv' }), `file_${n}.csv`)
  return form
}

async function outcomeOf(id: string, n: number) {
  const { status, error } = await replica(n).ended(id)
  return [status, error]
}

const succeeded = async (id: string, n: number) => expect(await outcomeOf(id, n)).toEqual(['success', null])
const run = (pipeline: string, n: number) => replica(n).requestRun(pipeline)
const rowsOf = async (n: number, query: string) =>
  (await call<{ rows: unknown[] }>(n, 'POST', '/query', { sql: query })).body.rows

test('files uploaded to two replicas are read once, by one run', async () => {
  expect((await call(0, 'POST', '/landing-zones', { namespace: 'default', name: 'drop' })).status).toBe(201)
  const uploads = Array.from({ length: FILES }, (_, n) =>
    call(n, 'POST', '/landing-zones/default/drop/files', csv(n)),
  )
  expect((await Promise.all(uploads)).map(({ status }) => status)).toEqual(Array(FILES).fill(201))
  await published(
    'counted',
    `select sum(n)::bigint as total, count(*) as files from read_csv('{{ landing_zone("drop") }}')`,
    'archive_landing_zones: true',
  )
  const ids = await Promise.all([0, 1].map((n) => run('counted', n)))
  const outcomes = await Promise.all(ids.map((id, n) => outcomeOf(id, n + 1)))
  expect(outcomes.sort()).toEqual([
    ['failed', expect.stringContaining('landing zone drop has no files')],
    ['success', null],
  ])
  const [archived] = await sql`
    select count(*)::int as files, count(distinct archived_by_run)::int as by, count(archived_by_run)::int as archived
    from landing_file`
  expect(archived).toEqual({ files: FILES, by: 1, archived: FILES })
})

test('runs of two replicas merge as one commit each, visible to both', async () => {
  const names = Array.from({ length: PIPELINES }, (_, n) => `merged_${n}`)
  for (const name of names) await published(name, 'select range as n from range(100)')
  const [before] = await sql`select number::int as number from lake_ref where name = 'main'`
  const ids = await Promise.all(names.flatMap((name) => [0, 1].map((n) => run(name, n))))
  await Promise.all(ids.map((id, n) => succeeded(id, n + 1)))
  const [after] = await sql`select number::int as number from lake_ref where name = 'main'`
  const [merges] =
    await sql`select count(distinct merged_commit)::int as count from run where id = any(${ids}::uuid[])`
  expect([after?.number - before?.number, merges?.count]).toEqual([ids.length, ids.length])
  for (const n of [0, 1])
    for (const name of names)
      expect(await rowsOf(n, `select count(*)::int as rows from gold.${name}`)).toEqual([{ rows: 100 }])
})

test('a replica killed during an upload leaves no file and recovers later', async () => {
  const held = holding(postgres(databaseUrl, { max: 1 }), 'lock table landing_file in exclusive mode')
  await held.taken
  const [known] = await sql`select count(*)::int as files from landing_file`
  // The bytes are stored; the row is not yet.
  const cut = call(1, 'POST', '/landing-zones/default/drop/files', csv(100)).catch(() => 'cut off')
  await until(
    () => sql`
      select 1 from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' and query like '%landing_file%'`,
    (rows) => rows.length > 0,
  )
  process.kill(await replica(1).pidOf('api'), 'SIGKILL')
  expect(await cut).toBe('cut off')
  // The statement that records the file still waits in Postgres. Ending its backend has the same effect as a statement that
  // never arrived.
  await sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock' and query like '%landing_file%'`
  await held.release()
  expect(await sql`select count(*)::int as files from landing_file`).toEqual([known] as never)
  // The other replica continues meanwhile.
  await succeeded(await run('merged_0', 0), 0)
  await until(
    () => call(1, 'POST', '/landing-zones/default/drop/files', csv(101)),
    ({ status }) => status === 201,
  )
  const listed = await call<{ files: { filename: string }[] }>(0, 'GET', '/landing-zones/default/drop/files')
  expect(listed.body.files.map(({ filename }) => filename.replace(/^\d+_\d+_/, ''))).toEqual(['file_101.csv'])
})

test('two replicas reap old data concurrently and keep the tables readable', async () => {
  await sql`update lake_commit set created_at = created_at - interval '60 days'`
  await sql`update lake_ref set closed_at = closed_at - interval '60 days' where closed_at is not null`
  const ticks = await Promise.all(
    [0, 1].map((n) => call<{ failures: unknown[] }>(n, 'POST', '/admin/retention/run')),
  )
  expect(ticks.map(({ status, body }) => [status, body.failures])).toEqual([
    [202, []],
    [202, []],
  ])
  const [past] = await sql`select count(*)::int as entries from main_entry where to_commit is not null`
  expect(past).toEqual({ entries: 0 })
  for (const n of [0, 1])
    expect(await rowsOf(n, 'select count(*)::int as rows from gold.merged_0')).toEqual([{ rows: 100 }])
  await succeeded(await run('merged_0', 1), 0)
})
