import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import type { TableName } from '../../../ground/names.ts'
import { SMALL_FILES_LIMIT } from '../../../lake/iceberg/format/layout.ts'
import { makeManifestReader } from '../../../lake/iceberg/read/scan.ts'
import { newTable } from '../../../lake/iceberg/write/new-table.ts'
import { RunStatus } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import type { LakeSession } from '../session/lake-session.ts'
import { useRunner } from '../test-runner.ts'
import { runToEnd } from '../testing.ts'
import { commitResult, type StoredResult } from './table-write.ts'

setDefaultTimeout(60_000)

const { service, runner } = await useRunner({ RUNNER_CONCURRENCY: '1' })

async function run(table: TableName, sql: string, config: string) {
  const submit = await service.attempt(table, { 'pipeline.sql': sql, 'config.yaml': config })
  const { facts } = await runToEnd(runner.client, submit)
  if (facts.status === RunStatus.COMPLETED) await service.merge(submit, facts.testedCommit)
  return facts
}

test.each(['append_only', 'incremental', 'scd2'])(
  'a bare NULL column gets the type of its table column: %s',
  async (strategy) => {
    const table: TableName = { namespace: 'default', layer: 'silver', name: `nulls-${strategy}` }
    const config = `merge_strategy: ${strategy}\nunique_key: id`
    const first = "select 1 as id, 'a' as text, date '2026-01-01' as day, [1.5] as list"
    expect(await run(table, first, config)).toMatchObject({ error: '', rowsWritten: 1n })
    const nulls = 'select 2 as id, null as Text, null as day, case when false then null end as list'
    expect(await run(table, nulls, config)).toMatchObject({ error: '', rowsWritten: 1n })
    const integerText = 'select 3 as id, 7 as text'
    expect((await run(table, integerText, config)).error).toContain(
      '"text" is VARCHAR in the table and INTEGER',
    )
  },
)

describe.each(['full_refresh', 'append_only', 'incremental', 'delete_insert', 'scd2', 'snapshot'])(
  'on_schema_change with %s',
  (strategy) => {
    const keys = `merge_strategy: ${strategy}\nunique_key: id\npartition_column: id\n`
    const first = "select 1 as id, 2 as qty, date '2026-01-01' as day"
    const [removed, added] = ['select 2 as id, 7 as qty', "select 3 as id, 5 as qty, 'x' as more"]

    test('fail refuses every difference with values', async () => {
      const table: TableName = { namespace: 'default', layer: 'silver', name: `fail-${strategy}` }
      const config = `${keys}on_schema_change: fail`
      expect(await run(table, first, config)).toMatchObject({ error: '' })
      const other = "select 2 as id, 'x' as day, 7 as more"
      expect((await run(table, other, config)).error).toContain(
        'added "more" INTEGER; removed "qty" INTEGER; changed "day" from DATE to VARCHAR',
      )
      const wider = "select 2 as id, 3::bigint as qty, date '2026-01-01' as day"
      expect((await run(table, wider, config)).error).toContain('changed "qty" from INTEGER to BIGINT')
      const empty = "select 2 as id, nullif('', '') as QTY, date '2026-01-02' as day"
      expect(await run(table, empty, config)).toMatchObject({ error: '', rowsWritten: 1n })
    })

    test('ignore keeps the columns of the table', async () => {
      const table: TableName = { namespace: 'default', layer: 'silver', name: `ignore-${strategy}` }
      const config = `${keys}on_schema_change: ignore`
      for (const sql of [first, removed, added])
        expect(await run(table, sql, config)).toMatchObject({ error: '', rowsWritten: 1n })
      const misfit = await run(table, 'select 4 as id, 2.5 as qty', config)
      expect(misfit.error).toContain('where the value 2.5 does not fit')
      const shown = "select id, qty, error(concat_ws(' ', typeof(day), day is null, id, qty)) as day"
      const text = await run(table, `${shown} from {{ this }} where id = 3`, keys)
      expect(text.error).toContain('DATE true 3 5')
    })
  },
)

test('quality tests read each row once after files are compacted', async () => {
  const table: TableName = { namespace: 'default', layer: 'silver', name: 'compacted' }
  const config = 'merge_strategy: append_only'
  const write = async (sql: string, rows: number) => {
    const submit = await service.attempt(table, {
      'pipeline.sql': sql,
      'config.yaml': config,
      'tests/quality/rows.sql': `select * from (select count(*) as n from {{ this }}) where n <> ${rows}`,
    })
    const { facts } = await runToEnd(runner.client, submit)
    expect(facts).toMatchObject({ error: '', rowsWritten: 1n, tests: [{ passed: true }] })
    await service.merge(submit, facts.testedCommit)
  }
  for (let n = 1; n <= SMALL_FILES_LIMIT + 2; n += 1) await write(`select ${n} as id`, n)
  await write('select 5000000000 as id', SMALL_FILES_LIMIT + 3)
})

test('quality tests and later runs ignore rows that a run has deleted', async () => {
  const table: TableName = { namespace: 'default', layer: 'silver', name: 'marked' }
  const write = async (sql: string, count: number, sum: number) => {
    const submit = await service.attempt(table, {
      'pipeline.sql': sql,
      'config.yaml': 'merge_strategy: incremental\nunique_key: id',
      'tests/quality/rows.sql': `select * from (select count(*) as n, sum(v) as s from {{ this }}) where n <> ${count} or s <> ${sum}`,
    })
    const { facts, lines } = await runToEnd(runner.client, submit)
    expect(facts).toMatchObject({ error: '', tests: [{ passed: true }] })
    await service.merge(submit, facts.testedCommit)
    return lines.join('\n')
  }
  const rows = 'select i as id, 1 as v, sha256(i::varchar) as text from range(600000) t(i)'
  await write(rows, 600_000, 600_000)
  const scattered = "select i * 1000 as id, 2 as v, 'new' as text from range(600) t(i)"
  expect(await write(scattered, 600_000, 600_600)).toContain('600 rows inserted or changed, 0 files replaced')
  expect(await write(scattered.replace('2 as v', '3 as v'), 600_000, 601_200)).toContain('1 file replaced')
})

test('narrower types match existing keys and are written as table types', async () => {
  const table: TableName = { namespace: 'default', layer: 'silver', name: 'narrower' }
  const config = 'merge_strategy: incremental\nunique_key: [price, moment]'
  const run1 = `select 10.20::decimal(4,2) as price, timestamp '2026-01-01' as moment, 0.5::double as rate, 1 as n
    union all select 99.99, timestamp '2026-01-01 00:00:01', 1, 2`
  expect(await run(table, run1, config)).toMatchObject({ error: '', rowsWritten: 2n })
  const run2 = "select 10.2 as price, date '2026-01-01' as moment, 12.5 as rate, 3 as n"
  expect(await run(table, run2, config)).toMatchObject({ error: '', rowsWritten: 1n })
  const run3 = "select 12345 as price, date '2026-01-02' as moment, 2 as rate, 4 as n"
  expect(await run(table, run3, config)).toMatchObject({ error: '', rowsWritten: 1n })
  const reporting = `select error(string_agg(concat_ws(' ', price, moment, rate, n), ', ' order by n) || ' ' || any_value(typeof(price)))::decimal(4,2) as price, timestamp '2026-01-01' as moment
    from {{ this }}`
  expect((await run(table, reporting, config)).error).toContain(
    '99.99 2026-01-01 00:00:01 1.0 2, 10.20 2026-01-01 00:00:00 12.5 3, 12345.00 2026-01-02 00:00:00 2.0 4 DECIMAL(12,2)',
  )
})

test('a commit resolves only when all its files are durable', async () => {
  const metadata = newTable({
    uuid: crypto.randomUUID(),
    location: 's3://sluice/_lake/default/gold/t-01234567',
    schema: { type: 'struct', fields: [] },
    at: 0,
  })
  const change = {
    metadata,
    schema: { schema: metadata.schemas[0] },
    partitionSpec: { fields: [] },
    operation: 'append',
    files: [],
    replaced: [],
    compacted: { files: [], replaced: [] },
    rowsWritten: 0,
  } as unknown as StoredResult['change']
  const [committed, placed, written] = [
    Promise.withResolvers<string>(),
    Promise.withResolvers<string[]>(),
    Promise.withResolvers<void>(),
  ]
  const lake = {
    reader: makeManifestReader(() => Promise.reject(new Error('nothing is read'))),
    catalog: { commit: () => committed.promise },
    files: { write: () => written.promise },
  } as unknown as LakeSession
  const begin = () => {
    const state = { isDone: false }
    const result = commitResult(
      { change, files: [], placed: placed.promise },
      { name: { namespace: 'default', layer: 'gold', name: 't' }, table: null, runId: 'r' },
      lake,
    ).finally(() => {
      state.isDone = true
    })
    result.catch(() => {})
    return { state, result }
  }
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  const { state, result } = begin()
  committed.resolve('the commit')
  await turn()
  expect(state.isDone).toBe(false)
  placed.resolve([])
  await turn()
  expect(state.isDone).toBe(false)
  written.resolve()
  expect(await result).toBe('the commit')
  lake.files.write = () => Promise.reject(new Error('the disk is full'))
  await expect(begin().result).rejects.toThrow('the disk is full')
})
