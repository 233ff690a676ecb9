import { expect, test } from 'bun:test'
import { testLog } from '../../app/composition/test-app.ts'
import type { Removal } from '../../app/core/removals.ts'
import type { ReaperObjects } from '../../app/retention/store/reaping.ts'
import { addRuns, runsLeft } from '../../app/retention/test-rows.ts'
import { agingLake, newId } from '../../app/versions/test-aging-lake.ts'
import { until } from '../../tools/kit/until.ts'
import { addPipeline } from '../testing.ts'
import { dryRun, type TickOptions, tick } from './reaper.ts'

const { lake, someTable, age, agedObjects } = agingLake()

const options = (objects: ReaperObjects = agedObjects()): TickOptions => ({
  sql: lake.catalog.sql,
  write: (work) =>
    lake.catalog.sql.begin(async (tx) => ({ value: await work(tx) })).then(({ value }) => value),
  objects,
  newId,
  log: testLog,
  branchMaxIdleDays: null,
  isRequested: true,
  pause: async () => {},
  checkRunning: () => {},
  onCompleted: () => {},
})

/** All rows of all tables, and all objects. */
async function everything() {
  const { sql } = lake.catalog
  const tables = await sql<{ name: string }[]>`
    select table_name as name from information_schema.tables
    where table_schema = 'public' and table_type = 'BASE TABLE' order by table_name`
  const rows = new Map<string, string>()
  for (const { name } of tables) {
    const [row] = await sql`select md5(string_agg(t::text, '|' order by t::text)) as hash from ${sql(name)} t`
    rows.set(name, String(row?.hash))
  }
  return { rows, objects: await keys() }
}
const keys = async () => {
  const { objects } = await lake.catalog.objects.list('', { limit: 10_000 })
  return objects.map(({ key }) => key)
}
const itemsOf = (removals: readonly Removal[], kind: Removal['kind']) =>
  removals
    .filter((removal) => removal.kind === kind)
    .flatMap(({ items }) => items)
    .toSorted()
const numbers = async () =>
  (
    await lake.catalog.sql<{ number: string }[]>`
      select number::text as number from lake_commit where number is not null`
  ).map(({ number }) => number)

/** A lake with old states, an orphan branch, old runs with log lines, and a deleted pipeline. */
async function oldService() {
  const { sql } = lake.catalog
  const { write, begin } = await someTable()
  for (let n = 0; n < 4; n++) await write(`select ${n} as a`)
  await age(20)
  // Files go only after the state that lists their snapshots has been replaced for long enough.
  await tick(options())
  for (let n = 0; n < 3; n++) await write(`select ${n} as a`)
  const orphan = await begin()
  await orphan.write('select 9 as a', 'overwrite')
  await sql`update run set status = 'failed', finished_at = clock_timestamp() where id = ${orphan.runId}`
  await sql`update run_attempt set state = 'closed' where run_id = ${orphan.runId}`
  const refused = await begin()
  await refused.write('select 10 as a', 'overwrite')
  await sql`update run set status = 'failed', finished_at = clock_timestamp() where id = ${refused.runId}`
  await sql`update run_attempt set state = 'closed' where run_id = ${refused.runId}`
  await sql`update lake_ref set state = 'deleted', kept_until = clock_timestamp() + interval '19 days'
    where name = ${refused.branch}`
  const { id } = await addPipeline(sql, 'old', { landingZones: [], nudge: () => {} })
  const pipeline = { namespace: 'default', layer: 'gold', name: 'old' }
  const runs = await addRuns(sql, { pipelineId: id, pipeline, count: 7, status: 'cancelled', daysAgo: 80 })
  const deleted = await addPipeline(sql, 'deleted', { landingZones: [], nudge: () => {} })
  await sql`update pipeline set deleted_at = clock_timestamp() - interval '31 days' where id = ${deleted.id}`
  await age(20)
  await sql`insert into idempotency_key (caller, operation, key, request_hash, status, body, created_at)
    values ('', '', '', '', 202, '{}', clock_timestamp() - interval '25 hours')`
  return runs
}

test('a dry run changes nothing and lists the removals of the next tick', async () => {
  const runs = await oldService()
  const before = await everything()
  const { would_remove: removals, incomplete } = await dryRun(options())
  expect(incomplete).toEqual([])
  expect(await everything()).toEqual(before)
  const [numbersBefore, sizes] = [await numbers(), await lake.catalog.objects.list('', { limit: 10_000 })]

  const done = await tick(options())
  expect(done?.failures).toEqual([])
  const left = await keys()
  const removed = before.objects.filter((key) => !left.includes(key))
  expect(removed.length).toBeGreaterThan(0)
  expect(itemsOf(removals, 'lake_files')).toEqual(removed)
  const bytes = sizes.objects
    .filter(({ key }) => removed.includes(key))
    .reduce((sum, { size }) => sum + size, 0)
  expect(removals.find(({ kind }) => kind === 'lake_files')?.size_bytes).toBe(bytes)
  expect(itemsOf(removals, 'runs')).toEqual(runs.toSorted())
  expect(await runsLeft(lake.catalog.sql, runs)).toEqual([])
  const numbersAfter = await numbers()
  expect(itemsOf(removals, 'commits')).toEqual(
    numbersBefore.filter((number) => !numbersAfter.includes(number)).toSorted(),
  )
  expect(itemsOf(removals, 'pipelines')).toEqual(['default.gold.deleted'])
  const total = (kind: Removal['kind']) =>
    removals.filter((removal) => removal.kind === kind).reduce((sum, found) => sum + found.total, 0)
  expect(done?.reaped).toMatchObject({
    logsPruned: total('log_lines'),
    branchesCleaned: total('open_branches') + total('kept_branches'),
    snapshotsExpired: total('snapshots'),
    lakeFilesRemoved: total('lake_files'),
    pipelinesPurged: 1,
    historyPruned: expect.any(Number),
  })
  for (const kind of [
    'open_branches',
    'kept_branches',
    'snapshots',
    'table_states',
    'commits',
    'idempotency_keys',
  ] as const)
    expect([kind, total(kind)]).not.toEqual([kind, 0])
})

test('a dry run names a failed duty and lists the removals of the others', async () => {
  const runs = await oldService()
  const { would_remove: removals, incomplete } = await dryRun(
    options({ ...agedObjects(), list: () => Promise.reject(new Error('the store is away')) }),
  )
  expect(incomplete).toEqual(['lake files'])
  expect(itemsOf(removals, 'runs')).toEqual(runs.toSorted())
})

test('a dry run skips the rows of a duty that another transaction has locked', async () => {
  await oldService()
  const { sql } = lake.catalog
  const [locked, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const holder = sql.begin(async (tx) => {
    await tx`lock table idempotency_key in access exclusive mode`
    locked.resolve()
    await release.promise
  })
  await locked.promise
  const result = await dryRun(options())
  expect(result.incomplete).toEqual(['idempotency keys'])
  release.resolve()
  await holder
  await until(async () => (await dryRun(options())).incomplete.length === 0)
})
