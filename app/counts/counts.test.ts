import { afterAll, beforeAll, beforeEach, expect, setDefaultTimeout, test } from 'bun:test'
import fc from 'fast-check'
import postgres from 'postgres'
import type { Sql } from '../../drizzle/client.ts'
import { type TestDatabase, testDatabase } from '../../tools/test/database.ts'
import { until } from '../../tools/test/until.ts'
import { newId } from '../core/ids.ts'
import { foldCounts } from './counts.ts'

setDefaultTimeout(60_000)

let database: TestDatabase
let sql: postgres.Sql
/** Each works by itself, beside the others. */
const WRITERS = 3
beforeAll(async () => {
  database = await testDatabase()
  sql = postgres(database.url, { max: WRITERS + 3, onnotice: () => {} })
})
afterAll(async () => {
  await sql.end()
  await database.drop()
})
beforeEach(async () => void (await sql`truncate run, audit_entry`))

const NAMESPACES = ['default', 'sales']
const LAYERS = ['silver', 'gold']
const STATUSES = ['pending', 'success', 'failed', 'cancelled']

interface Statement {
  kind: 'insert' | 'update' | 'delete' | 'untouched' | 'moved'
  namespace: number
  layer: number
  status: number
  rows: number
}
interface Work {
  statements: Statement[]
  end: 'commit' | 'rollback' | 'savepoint'
}

const statement = fc.record<Statement>({
  kind: fc.constantFrom('insert', 'insert', 'update', 'delete', 'untouched', 'moved'),
  namespace: fc.nat(NAMESPACES.length - 1),
  layer: fc.nat(LAYERS.length - 1),
  status: fc.nat(STATUSES.length - 1),
  rows: fc.integer({ min: 1, max: 9 }),
})
const work = fc.record<Work>({
  statements: fc.array(statement, { minLength: 1, maxLength: 4 }),
  end: fc.constantFrom('commit', 'commit', 'rollback', 'savepoint'),
})
const scenario = fc.array(fc.array(work, { minLength: 1, maxLength: 6 }), {
  minLength: WRITERS,
  maxLength: WRITERS,
})

async function perform(
  on: postgres.TransactionSql | Sql,
  { kind, namespace, layer, status, rows }: Statement,
) {
  const [ns, of, to] = [NAMESPACES[namespace] ?? '', LAYERS[layer] ?? '', STATUSES[status] ?? '']
  // Whoever holds a row has it: two writers never wait for each other in a circle.
  const some = on`any(array(select id from run where namespace = ${ns} limit ${rows} for update skip locked))`
  if (kind === 'insert') {
    const ids = Array.from({ length: rows }, newId)
    await on`
      insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones, snapshot,
        machine_version, status, created_at)
      select id, id, ${ns}, ${of}, 'p', 'sql', 'manual', '{}', '[]', '{}', 1, ${to},
        timestamptz '2026-01-01' + n * interval '20 minutes' from unnest(${ids}::uuid[]) with ordinality as t(id, n)`
    await on`insert into audit_entry (id, user_id, action, resource, ip)
      select id, '', 'post', '/', '' from unnest(${ids}::uuid[]) id on conflict do nothing`
  } else if (kind === 'update') await on`update run set status = ${to}, layer = ${of} where id = ${some}`
  else if (kind === 'moved')
    await on`update run set created_at = created_at - interval '1 hour' where id = ${some}`
  else if (kind === 'untouched') await on`update run set phase = 'testing' where id = ${some}`
  else {
    await on`delete from run where id = ${some}`
    await on`delete from audit_entry where id = any(array(
      select id from audit_entry limit ${rows} for update skip locked))`
  }
}

async function write({ statements, end }: Work) {
  await sql
    .begin(async (tx) => {
      for (const one of statements) await perform(tx, one)
      if (end === 'rollback') throw new RolledBack()
      if (end === 'savepoint')
        await tx
          .savepoint(async (inner) => {
            for (const one of statements) await perform(inner, one)
            throw new RolledBack()
          })
          .catch(isRolledBack)
    })
    .catch(isRolledBack)
}
class RolledBack extends Error {}
const isRolledBack = (error: unknown) => {
  if (!(error instanceof RolledBack)) throw error
}

/** Where what the counts say differs from what is there, as one snapshot has both. */
const differences = async () => [
  ...(await sql`
    select of, namespace, layer, status, sum(rows)::int as too_many from (
      select of, namespace, layer, status, rows from row_count
      union all select 'run', namespace, layer, status, -1 from run
      union all select 'audit_entry', null, null, null, -1 from audit_entry) told
    group by of, namespace, layer, status having sum(rows) <> 0
    union all
    select 'hours', hour::text, null, null, sum(rows)::int from (
      select hour, rows from run_hour
      union all select date_bin('1 hour', created_at, '2000-01-01 00:00+00'), -1 from run) told
    group by hour having sum(rows) <> 0`),
]

async function fold(over = sql) {
  // A fold leaves few differences alone; here they are to be folded.
  await over`insert into row_count (of, rows) select 'run', 0 from generate_series(1, 200)`
  await over`insert into run_hour (hour, rows) select '2026-01-01', 0 from generate_series(1, 200)`
  await foldCounts(over)
}

test('counts are exact at every moment, whatever is written, taken back and folded at once', async () => {
  await fc.assert(
    fc.asyncProperty(scenario, async (writers) => {
      let isOver = false
      const writing = Promise.all(
        writers.map(async (works) => {
          for (const one of works) await write(one)
        }),
      ).finally(() => {
        isOver = true
      })
      const folding = [0, 1].map(async () => {
        while (!isOver) await fold()
      })
      while (!isOver) expect(await differences()).toEqual([])
      await Promise.all([writing, ...folding])
      expect(await differences()).toEqual([])
      await fold()
      expect(await differences()).toEqual([])
    }),
    { numRuns: 25 },
  )
})

test('what is folded is one sum for each kind of row', async () => {
  for (let n = 0; n < 3; n++)
    await perform(sql, { kind: 'insert', namespace: 0, layer: 0, status: 0, rows: 2 })
  await fold()
  const rows = await sql`select of, status, rows::int, is_sum from row_count order by of`
  expect([...rows]).toEqual([
    { of: 'audit_entry', status: null, rows: 6, is_sum: true },
    { of: 'run', status: 'pending', rows: 6, is_sum: true },
  ])
})

test('a fold that is not committed yet is not seen, and another passes over what it holds', async () => {
  await perform(sql, { kind: 'insert', namespace: 0, layer: 0, status: 0, rows: 5 })
  await sql.begin(async (tx) => {
    await fold(tx as unknown as postgres.Sql)
    expect(await differences()).toEqual([])
    await fold()
    expect(await differences()).toEqual([])
  })
  expect(await differences()).toEqual([])
})

test('a table that is emptied at once has a count of none, also when a fold was under way', async () => {
  await perform(sql, { kind: 'insert', namespace: 0, layer: 0, status: 0, rows: 5 })
  const { emptied } = await sql.begin(async (tx) => {
    await fold(tx as unknown as postgres.Sql)
    const truncating = sql`truncate run`.execute()
    await until(
      () => sql`select from pg_locks join pg_database d on d.oid = database
        where d.datname = current_database() and not granted and relation = 'row_count'::regclass`,
      (waiting) => waiting.length > 0,
    )
    return { emptied: truncating }
  })
  await emptied
  expect(await differences()).toEqual([])
})
