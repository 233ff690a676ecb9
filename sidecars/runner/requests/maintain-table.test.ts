import { expect, setDefaultTimeout, test } from 'bun:test'
import { Code, ConnectError } from '@connectrpc/connect'
import { headOfMain } from '../../../app/versions/store/branches.ts'
import { tableAt } from '../../../app/versions/store/tables.ts'
import type { TableName } from '../../../ground/names.ts'
import { keyIn } from '../../../lake/iceberg/format/location.ts'
import { currentSnapshot, parseMetadata } from '../../../lake/iceberg/format/metadata.ts'
import { until } from '../../../tools/kit/until.ts'
import { useRunner } from '../test-runner.ts'

setDefaultTimeout(120_000)
const { service, runner, aTable, publish, run, judgeMain } = await useRunner({ RUNNER_CONCURRENCY: '1' })

const RULES = { bytesLimit: 1_073_741_824n, isKeyed: false, sortColumns: [] }

async function maintain(table: TableName, rules = {}) {
  const { lake, branch, runId } = await service.attempt(table, {})
  const { namespace, layer, name: tableName } = table
  const answer = await runner.client.maintainTable({ namespace, layer, tableName, lake, ...RULES, ...rules })
  return { ...answer, branch, runId }
}

async function snapshotOf(table: TableName) {
  const found = await tableAt(service.sql, await headOfMain(service.sql), table)
  const file = found && (await service.objects.text(keyIn(found.metadataLocation)))
  if (!file) throw new Error('the table has no metadata')
  return currentSnapshot(parseMetadata(file.text))?.summary
}

/** A table of nine files with one row each. The next write would gather them. */
async function manyFiles(table: TableName, partition = '') {
  for (let n = 1; n <= 9; n++)
    await publish(table, `select ${10 - n} as id, 'row ${n}' as text, null::double as score`, {
      'config.yaml': `merge_strategy: append_only${partition}`,
    })
}

test('small files become one file with the same rows in a replace snapshot', async () => {
  const table = aTable()
  await manyFiles(table)
  const { commit, branch, runId, ...numbers } = await maintain(table, { sortColumns: ['ID', 'absent'] })
  expect(numbers).toMatchObject({ filesBefore: 9, filesAfter: 1 })
  expect(await service.merge({ branch, runId }, commit)).toBe('merged')
  expect(await snapshotOf(table)).toMatchObject({
    operation: 'replace',
    'added-records': '9',
    'deleted-records': '9',
    'total-records': '9',
    'total-data-files': '1',
  })
  const results = await judgeMain(table, {
    rows: `select * from (select string_agg(id::varchar, ',') as ids, count(score) as scores from {{ this }})
      where ids <> '1,2,3,4,5,6,7,8,9' or scores <> 0`,
  })
  expect(results).toMatchObject([{ passed: true, error: '' }])
  expect(await maintain(table)).toMatchObject({ commit: '', filesBefore: 0 })
})

test('files of different partitions are not combined', async () => {
  const table = aTable()
  await manyFiles(table, '\npartition_by: [{column: id, transform: identity}]')
  expect(await maintain(table)).toMatchObject({ commit: '' })
})

test('maintenance reads no more bytes than its limit', async () => {
  const table = aTable()
  await manyFiles(table)
  expect(await maintain(table, { bytesLimit: 100n })).toMatchObject({ commit: '' })
})

test('maintenance is refused while a run has the only slot', async () => {
  const table = aTable()
  await manyFiles(table)
  const slow = run(aTable(), 'select count(*) as n from range(100000000000) a where a.range % 7 = 3')
  const refused = await until(async () => {
    const code = await maintain(table).then(
      () => null,
      (error) => ConnectError.from(error).code,
    )
    return code === Code.ResourceExhausted
  })
  expect(refused).not.toBe(false)
  const handle = await service.sql`select id from run order by created_at desc limit 50`
  for (const { id } of handle) await runner.client.cancelRun({ handle: `${id}:1` })
  await slow
})
