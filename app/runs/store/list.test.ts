import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import postgres from 'postgres'
import { type TestDatabase, testDatabase } from '../../../tools/service/database.ts'
import { RUN_SORT_KEYS, type RunSortKey } from '../schema.ts'
import { foldRunTotal, listRuns, type RunFilter } from './list.ts'

setDefaultTimeout(60_000)

const RUNS = 300
const PIPELINES = 30

interface Stored
  extends Record<RunSortKey | 'namespace' | 'layer' | 'pipeline' | 'branch', string | number | Date | null> {
  id: string
  pipeline_id: string
  created_at: Date
}

let database: TestDatabase
let sql: postgres.Sql
let stored: Stored[]
beforeAll(async () => {
  database = await testDatabase()
  sql = postgres(database.url, { max: 2, onnotice: () => {} })
  await sql`
    insert into pipeline (id, namespace, layer, name, type, draft_snapshot, draft_machine_version, draft_dirty, deleted_at)
    select gen_random_uuid(), case n % 3 when 0 then 'sales' else 'default' end, (array['silver', 'gold'])[1 + n % 2],
      'p' || n % ${PIPELINES / 2}, 'sql', '{}', 1, false, case when n >= ${PIPELINES / 2} then now() end
    from generate_series(0, ${PIPELINES - 1}) n`
  // Several runs have the same creation time; then their ids decide the order.
  await sql`
    with numbered as (select *, row_number() over (order by id) - 1 as number from pipeline)
    insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones, snapshot,
      machine_version, status, branch, waiting, created_at, started_at, finished_at, duration_ms)
    select md5(n::text)::uuid, p.id, p.namespace, p.layer, p.name, 'sql', (array['manual', 'webhook'])[1 + n % 2], '{}', '[]',
      '{}', 1, (array['success', 'failed', 'cancelled'])[1 + n % 3],
      (array['main', 'main', 'dev', 'other', 'main'])[1 + n % 5], false,
      timestamptz '2026-01-01' + (n / 7) * interval '1 minute',
      case when n % 5 > 0 then timestamptz '2026-01-01' + (n / 11) * interval '1 minute' end,
      case when n % 6 > 0 then timestamptz '2026-01-01' + (n / 13) * interval '1 minute' end,
      case when n % 5 > 0 then n * 7919 % 1000 end
    from generate_series(1, ${RUNS}) n join numbered p on p.number = n * 7907 % ${PIPELINES}`
  stored = [
    ...(await sql<Stored[]>`
      select id, pipeline_id, namespace, layer, pipeline, status, branch, trigger, created_at, started_at, finished_at,
        duration_ms::int from run`),
  ]
})
afterAll(async () => {
  await sql.end()
  await database.drop()
})

/** The same list, computed in memory from all runs. */
function expected(filter: RunFilter, { key, descending }: { key: RunSortKey; descending: boolean }) {
  const way = descending ? -1 : 1
  return stored
    .filter(
      (run) =>
        (['namespace', 'layer', 'pipeline', 'status', 'branch'] as const).every(
          (name) => filter[name] === undefined || run[name] === filter[name],
        ) &&
        (filter.visible === undefined ||
          filter.visible === 'all' ||
          filter.visible.includes(run.pipeline_id)) &&
        (filter.from === undefined || run.created_at >= filter.from) &&
        (filter.to === undefined || run.created_at < filter.to),
    )
    .toSorted((a, b) => {
      const [left, right] = [a[key], b[key]]
      if (left !== null && right !== null && +(left > right) - +(left < right) !== 0)
        return left > right ? way : -way
      if (left === null && right !== null) return 1
      if (left !== null && right === null) return -1
      return a.id > b.id ? way : -way
    })
}

const FILTERS: Record<string, RunFilter> = {
  everything: {},
  'a status': { status: 'failed' },
  'a namespace': { namespace: 'sales' },
  'a namespace that is not there': { namespace: 'nobody' },
  'a layer': { layer: 'gold' },
  'a namespace, a layer and a status': { namespace: 'default', layer: 'silver', status: 'success' },
  'a pipeline, deleted ones of the name too': { namespace: 'default', layer: 'gold', pipeline: 'p1' },
  'a name in any namespace': { pipeline: 'p2', status: 'success' },
  'a time': { from: new Date('2026-01-01T01:00Z'), to: new Date('2026-01-01T06:59Z') },
  'all since the last minute there is': { from: new Date('9999-12-31T23:59Z') },
  'all since some time': { from: new Date('2026-01-01T01:20Z') },
  'all until some time': { to: new Date('2026-01-01T05:00Z') },
  'some minutes': { from: new Date('2026-01-01T01:20Z'), to: new Date('2026-01-01T01:50Z') },
  'the branch main': { branch: 'main' },
  'a branch': { branch: 'dev' },
  'a branch without runs': { branch: 'absent' },
  'a pipeline on main with a status': { branch: 'main', pipeline: 'p2', status: 'success' },
  'a pipeline on a branch': { branch: 'other', pipeline: 'p1' },
  'main in a time': { branch: 'main', from: new Date('2026-01-01T01:00Z'), status: 'failed' },
  'a time, a namespace and a status': {
    from: new Date('2026-01-01T02:00Z'),
    namespace: 'default',
    status: 'failed',
  },
}

test.each(Object.entries(FILTERS))('a list of %s has the right runs, order and total', async (_, filter) => {
  const ids = [...new Set(stored.map((run) => run.pipeline_id))].toSorted()
  await expectLists(filter, RUN_SORT_KEYS)
  await expectLists({ ...filter, visible: ids.filter((_, n) => n % 3 === 0) }, ['created_at', 'duration_ms'])
  await expectLists({ ...filter, visible: [] }, ['created_at'])
})

async function expectLists(filter: RunFilter, keys: readonly RunSortKey[]) {
  for (const key of keys)
    for (const descending of [true, false]) {
      const all = expected(filter, { key, descending })
      for (const offset of [0, 49, all.length - 2, all.length, all.length + 5_000]) {
        const page = { limit: 50, offset: Math.max(0, offset) }
        const { runs, total } = await listRuns(sql, filter, { key, descending }, page)
        expect(total).toBe(all.length)
        expect(runs.map((run) => run.id)).toEqual(
          all.slice(page.offset, page.offset + page.limit).map((run) => run.id),
        )
      }
    }
}

test('the total of all runs stays exact during inserts, deletes and folds', async () => {
  const totalOf = async () =>
    (await listRuns(sql, {}, { key: 'created_at', descending: true }, { limit: 1, offset: 0 })).total
  for (let n = 0; n < 101; n++)
    await sql`insert into run select (r).* from (
    select jsonb_populate_record(run, jsonb_build_object('id', gen_random_uuid())) as r from run limit 1) copy`
  await sql`delete from run where id in (select id from run limit 1)`
  expect(await totalOf()).toBe(RUNS + 100)
  await Promise.all([
    foldRunTotal(sql),
    foldRunTotal(sql),
    totalOf().then((total) => expect(total).toBe(RUNS + 100)),
  ])
  expect([...(await sql`select change::int from run_total`)]).toEqual([{ change: RUNS + 100 }])
  await sql`truncate run`
  expect(await totalOf()).toBe(0)
})
