// Tests the reaper as the API process runs it: real threads, a real lease, a real store.
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  setDefaultTimeout,
  test,
} from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { testLog } from '../../app/composition/test-app.ts'
import { newId } from '../../app/core/ids.ts'
import { openObjectStore } from '../../app/objects/open.ts'
import type { ObjectStore } from '../../app/objects/port.ts'
import { addRuns, runsLeft } from '../../app/retention/test-rows.ts'
import { listen } from '../../app/runs/service.ts'
import { type Database, openDatabase, type Sql } from '../../drizzle/client.ts'
import { until } from '../../tools/kit/until.ts'
import { type TestDatabase, testDatabase } from '../../tools/service/database.ts'
import { startLeadership } from '../leadership/leadership.ts'
import type { FromWorker } from '../messages/channel.ts'
import { answerObjectCall, makeObjectCalls } from '../runtime/object-calls.ts'
import { addPipeline } from '../testing.ts'
import { makeReaper, type ReaperHost } from './reaper-host.ts'

setDefaultTimeout(60_000)
let directory: string
let objects: ObjectStore
let postgres: TestDatabase
let database: Database
let sql: Sql
let messages: FromWorker[]
const hosts: ReaperHost[] = []

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sluice-reaper-'))
  objects = await openObjectStore({ kind: 'disk', root: join(directory, 'objects') })
})
afterAll(async () => {
  await objects.close()
  await rm(directory, { recursive: true, force: true })
})
beforeEach(async () => {
  postgres = await testDatabase()
  database = openDatabase(postgres.url, { connections: 1, rawConnections: 4, application: 'test' })
  sql = database.sql
  messages = []
})
afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()))
  await database.close()
  await postgres.drop()
})

function start({
  databaseUrl = postgres.url,
  ...options
}: {
  sql?: Sql
  lookMs?: number
  databaseUrl?: string
} = {}): ReaperHost {
  const host = makeReaper({
    sql,
    answerObjectCall: (call) => answerObjectCall(objects, call),
    settings: { processId: newId(), databaseUrl, logFormat: 'text', tracing: null },
    log: testLog,
    onMessage: (message) => messages.push(message),
    ...options,
  })
  hosts.push(host)
  host.start()
  return host
}

async function somePipeline(name: string) {
  const { id } = await addPipeline(sql, name, { landingZones: [], nudge: () => {} })
  return (count: number, status: string, daysAgo: number) =>
    addRuns(sql, {
      pipelineId: id,
      pipeline: { namespace: 'default', layer: 'gold', name },
      count,
      status,
      daysAgo,
    })
}
const status = async () => (await sql`select * from reaper_status`)[0] ?? {}
async function startAnotherLeader() {
  const other = startLeadership({
    databaseUrl: postgres.url,
    role: 'reaper',
    holder: 'another replica',
    log: testLog,
  })
  await until(() => other.isLeading())
  return other
}
/** Waits until a thread competes with the leader called `another replica`. */
const challenged = () =>
  until(
    () => sql`
      select 1 from pg_stat_activity
      where datname = current_database() and application_name like 'sluice reaper %'
      and application_name <> 'sluice reaper another replica'`,
    (rows) => rows.length > 0,
  )
const ticked = () => until(status, ({ last_run_at }) => last_run_at !== null)

test('performs and records a tick at the start, then waits until due', async () => {
  const add = await somePipeline('p')
  const old = await add(3, 'cancelled', 100)
  const host = start()
  await ticked()
  expect(await status()).toMatchObject({ runs_pruned: '3', logs_pruned: '9' })
  expect(await runsLeft(sql, old)).toEqual([])
  await add(2, 'cancelled', 100)
  await host.run()
  expect(await status()).toMatchObject({ runs_pruned: '2' })
  expect(messages.filter(({ type }) => type === 'reaped')).toHaveLength(2)
})

test('a requested tick fails at once if the database is unreachable', async () => {
  const host = start({ databaseUrl: 'postgres://nobody@127.0.0.1:1/none' })
  await expect(host.run()).rejects.toThrow('reaper tick not completed')
})

test('a start performs exactly one tick even if none is due', async () => {
  await sql`update reaper_status set last_run_at = clock_timestamp() - interval '1 minute'`
  const add = await somePipeline('p')
  await add(1, 'cancelled', 100)
  let looks = 0
  const counted = new Proxy(sql, {
    apply(target, self, args) {
      looks += 1
      return Reflect.apply(target, self, args)
    },
  })
  start({ sql: counted, lookMs: 20 })
  await until(status, ({ runs_pruned }) => runs_pruned === '1')
  const { last_run_at } = await status()
  const before = looks
  await until(() => looks > before + 2)
  expect((await status()).last_run_at).toEqual(last_run_at)
  expect(messages.filter(({ type }) => type === 'reaped')).toHaveLength(1)
})

test("performs a tick when one is due by the database's time", async () => {
  await sql`update reaper_status set last_run_at = clock_timestamp() - interval '59 minutes'`
  const add = await somePipeline('p')
  const [old = ''] = await add(1, 'cancelled', 100)
  const host = start()
  await host.run()
  await add(1, 'cancelled', 100)
  await sql`update reaper_status set last_run_at = clock_timestamp() - interval '61 minutes'`
  start()
  await until(
    status,
    ({ runs_pruned, last_run_at }) => runs_pruned === '1' && Date.now() - last_run_at < 60_000,
  )
  expect(await runsLeft(sql, [old])).toEqual([])
})

test('a failing duty is named and does not stop the others', async () => {
  const add = await somePipeline('p')
  await add(1, 'cancelled', 100)
  await sql`insert into idempotency_key (caller, operation, key, request_hash, status, body, created_at)
    values ('', '', '', '', 202, '{}', clock_timestamp() - interval '25 hours')`
  await sql`alter table audit_entry rename to audit_entry_away`
  const host = start()
  await host.run()
  expect(await status()).toMatchObject({ failures: ['audit entries'] })
  expect(messages).toContainEqual({ type: 'reaped', failures: ['audit entries'] })
  expect(await sql`select 1 from idempotency_key`).toHaveLength(0)
  await sql`alter table audit_entry_away rename to audit_entry`
  await host.run()
  expect(await status()).toMatchObject({ failures: [] })
})

test('fails runs that exceed the time limit, and announces and counts them', async () => {
  const completed: string[] = []
  const listening = await listen(sql, (announcement) => {
    if ('completed' in announcement) completed.push(...announcement.completed.map(({ run_id }) => run_id))
  })
  const { id, request } = await addPipeline(sql, 'stuck', { landingZones: [], nudge: () => {} })
  const run = await request()
  await sql`update run set status = 'running', waiting = false, phase = 'executing', started_at = clock_timestamp() - interval '121 minutes',
    attempt = 1, snapshot = '{"value":{"running":"executing"},"context":{"attempt":1,"lostRunners":0,"conflicts":0},"status":"active"}'
    where id = ${run}`
  await sql`insert into run_attempt (run_id, attempt, pipeline_id, branch, base_commit, landing_watermark, runner_url)
    values (${run}, 1, ${id}, ${`run-${run}-1`}, 0, 0, 'http://127.0.0.1:1')`
  await sql`insert into lake_ref (name, state, base, run_id, attempt) values (${`run-${run}-1`}, 'open', 0, ${run}, 1)`
  const host = start()
  await host.run()
  const [row] =
    await sql`select r.status, r.error, (select state from lake_ref where run_id = r.id) as branch from run r where id = ${run}`
  expect(row).toMatchObject({
    status: 'failed',
    branch: 'deleted',
    error: expect.stringContaining('timed out'),
  })
  expect(messages).toContainEqual({ type: 'runsEnded', status: 'failed', count: 1 })
  await until(() => completed.includes(run))
  await listening.unlisten()
})

test('a requested tick waits for the leader; concurrent requests share one tick', async () => {
  const other = await startAnotherLeader()
  // No tick is due, so only the requests wait.
  await sql`update reaper_status set last_run_at = clock_timestamp()`
  const before = await status()
  const host = start()
  const requests = [host.run(), host.run(), host.run()]
  await challenged()
  expect(await status()).toEqual(before)
  await other.stop()
  await Promise.all(requests)
  expect(messages.filter(({ type }) => type === 'reaped')).toHaveLength(1)
})

test('stopping the host ends the tick and rejects its requests', async () => {
  const other = await startAnotherLeader()
  const host = start()
  const request = host.run().then(
    () => 'made',
    () => 'not made',
  )
  await challenged()
  await host.stop()
  expect(await request).toBe('not made')
  await other.stop()
})

describe('object calls across the channel', () => {
  const across = (store: ObjectStore) => {
    const calls = makeObjectCalls((id, call) => {
      void answerObjectCall(store, structuredClone(call)).then((answer) =>
        calls.answered(id, structuredClone(answer)),
      )
    })
    return calls.objects
  }

  test("object calls across the channel return the store's results", async () => {
    const remote = across(objects)
    await remote.put('across/a', new TextEncoder().encode('one'))
    await objects.put('across/a', new TextEncoder().encode('three'))
    expect(new TextDecoder().decode((await remote.read('across/a')) ?? undefined)).toBe('three')
    expect(await remote.read('across/none')).toBeNull()
    expect(await remote.list('across/', { limit: 10 })).toEqual(await objects.list('across/', { limit: 10 }))
    expect(await remote.versions('across/')).toEqual(await objects.versions('across/'))
    for (const { key, versionId } of (await remote.versions('across/')).versions)
      await remote.removeVersion(key, versionId)
    expect((await objects.versions('across/')).versions).toEqual([])
  })

  test('a failing store rejects the object call with its message', async () => {
    const remote = across({ ...objects, list: () => Promise.reject(new Error('the store is away')) })
    await expect(remote.list('a/', { limit: 1 })).rejects.toThrow('the store is away')
    await expect(remote.read('../a')).rejects.toThrow('object store read failed')
  })
})
