import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { Code, ConnectError } from '@connectrpc/connect'
import { until } from '../../../tools/kit/until.ts'
import { engineAtWork } from '../../core/testing.ts'
import { useRunner } from '../test-runner.ts'
import { workDirectoriesOf } from '../testing.ts'
import { PREVIEWED, previewsOf } from './test-previews.ts'

setDefaultTimeout(60_000)

const ENDLESS = 'select sum(a.range * b.range) as n from range(1000000) a, range(1000000) b'

const { service, runner, publish } = await useRunner({
  RUNNER_CONCURRENCY: '1',
  ENGINE_MEMORY_LIMIT: '200MB',
})
const { preview, refusalOf } = previewsOf(runner, service)

const publishTable = (name: string, sql: string) => publish({ ...PREVIEWED, name }, sql)

const workDirectories = () => workDirectoriesOf(runner)

test('a preview returns the first rows, the total count and a profile', async () => {
  const answer = await preview(
    { 'pipeline.sql': 'select range as n, range * 1.5 as half from range(25000) order by n' },
    { limit: 2n },
  )
  expect(answer.columns).toEqual([
    { name: 'n', type: 'BIGINT' },
    { name: 'half', type: 'DECIMAL(21,1)' },
  ])
  expect(answer.rows).toEqual([
    [0, '0.0'],
    [1, '1.5'],
  ])
  expect(answer.totalRowCount).toBe(25_000n)
  expect(answer.phases.map(({ name }) => name)).toEqual(['template_render', 'sql_execute', 'profiling'])
  expect(answer.phases[1]?.metadata).toEqual({ rows: '25000', columns: '2' })
  expect(answer.explainOutput).toMatch(/ORDER_BY {2}25,000 rows, [\d.]+ ms/)
  expect(Number(answer.memoryPeakBytes)).toBeGreaterThan(100_000)
  expect(answer.warnings).toEqual([])
  expect(answer.logs.map(({ message }) => message.replace(/[\d.]+ m?s/, 'N'))).toEqual([
    'rendered pipeline.sql in N',
    '25,000 rows in N',
    'preview done in N: nothing was written',
  ])
  expect(await workDirectories()).toEqual([])
})

test('a preview without rows still has its columns', async () => {
  const answer = await preview({ 'pipeline.sql': 'select 1 as a where false' })
  expect([answer.columns, answer.rows, answer.totalRowCount]).toEqual([
    [{ name: 'a', type: 'INTEGER' }],
    [],
    0n,
  ])
})

test('a preview reads main, its own table and watermark, and writes nothing', async () => {
  await publishTable(PREVIEWED.name, 'select range as id, range % 3 as kind from range(10)')
  const head = () => service.sql`select max(number) as head from lake_commit`
  const before = await head()
  const answer = await preview({
    'pipeline.sql': `select count(*) as own, max(id)::text as top, '{{ watermark_value }}' as mark, {{ is_incremental() }} as again
      from {{ this }} join {{ ref('silver.previewed') }} other using (id)`,
    'config.yaml': 'merge_strategy: incremental\nunique_key: id\nwatermark_column: id\nsurprise: 1',
  })
  expect(answer.rows).toEqual([[10, '9', '9', true]])
  expect(answer.warnings).toEqual([
    'config.yaml line 4: unknown key "surprise" is ignored',
    'a run would fail: unique_key: the result has no column "id", it has own, top, mark, again',
  ])
  expect(answer.explainOutput).toContain('HASH_JOIN')
  expect(answer.explainOutput).not.toContain('/')
  expect(await head()).toEqual(before)
})

test('the code of the request replaces the source and its annotations', async () => {
  const answer = await preview(
    { 'pipeline.sql': 'this is no SQL' },
    { code: '-- @merge_strategy: append_only\nselect {{ is_append_only() }} as a' },
  )
  expect(answer.rows).toEqual([[true]])
})

describe('a rejected preview', () => {
  test.each<[string, string, RegExp]>([
    ['an undefined variable', 'select 1\n{{ nothing }}', /^pipeline\.sql line 2.*nothing/],
    ['an unknown column', 'select 1 as a\n, b', /^pipeline\.sql line 2: Binder Error/],
    ['a statement other than SELECT', 'create table t as select 1', /only a SELECT can be run, not CREATE/],
    ['two equal column names', 'select 1 as a, 2 as A', /two columns are named "A"/],
    ['SHOW', 'show tables', /syntax error at or near "show"/],
    ['PRAGMA', 'pragma version', /syntax error at or near "pragma"/],
    ['a parameter', 'select $1 as a', /parameter 1 of the query has no value/],
    [
      'a PIVOT without values',
      "pivot (select 1 as a, 'x' as b) on b using sum(a)",
      /a PIVOT must list its values/,
    ],
    [
      'a file outside the sandbox',
      "select * from read_text('/etc/hostname')",
      /^pipeline\.sql.*Permission Error/,
    ],
    [
      'a result over the size limit',
      "select repeat('x', 1000000) as x from range(100)",
      /result is larger than/,
    ],
  ])('names its cause: %s', async (_, sql, message) => {
    const refusal = await refusalOf({ 'pipeline.sql': sql })
    expect(refusal.message).toMatch(message)
    expect(refusal.code).toBe(Code.FailedPrecondition)
    expect(refusal.message).not.toContain(runner.scratchDir)
  })

  test('an invalid configuration is rejected with its line', async () => {
    const files = { 'pipeline.sql': 'select 1', 'config.yaml': 'merge_strategy: none' }
    expect((await refusalOf(files)).message).toMatch(/^config\.yaml line 1: .*merge_strategy/)
  })
})

test('a preview reads a landing zone whose name is computed', async () => {
  const id = await service.zone('orders')
  await service.upload(id, 'orders', 'a.csv', 'n\n1\n')
  const answer = await preview({
    'pipeline.sql': "select * from read_csv('{{ landing_zone('or' ~ 'ders') }}')",
  })
  expect(answer.rows).toEqual([[1]])
  expect(answer.logs.map(({ message }) => message)).toContain('reads landing zone orders: 1 file, 4 B')
  expect(answer.explainOutput).not.toContain(runner.scratchDir)
})

test('a preview warns about results that no run could write', async () => {
  await publishTable('narrow', 'select 1 as id')
  const warningsOf = async (name: string, config: string, sql: string) => {
    const answer = await preview({ 'pipeline.sql': sql, 'config.yaml': config }, { name })
    return answer.warnings
  }
  expect(await warningsOf('narrow', 'merge_strategy: append_only', "select 'x' as id")).toEqual([
    expect.stringMatching(
      /^a run would fail unless every value fits: column "id" is INTEGER in the table and VARCHAR in the new rows/,
    ),
  ])
  const withoutRows = "select 'x' as id where false"
  expect(await warningsOf('narrow', 'merge_strategy: append_only', withoutRows)).toEqual([])
  expect(await warningsOf('narrow', 'merge_strategy: append_only', 'select null as id')).toEqual([])
  expect(await warningsOf('new', 'merge_strategy: incremental\nunique_key: k', 'select 1 as id')).toEqual([
    'a run would fail: unique_key: the result has no column "k", it has id',
  ])
  expect(await warningsOf('new', 'merge_strategy: full_refresh', 'select null as id, 2 as b')).toEqual([])
  expect(
    await warningsOf(
      'narrow',
      'merge_strategy: append_only\nwatermark_column: gone',
      'select {{ watermark_value or 1 }} as id',
    ),
  ).toEqual(['watermark_value is none: the table has no column "gone"'])
})

test('a preview ends when its caller leaves, and leaves nothing behind', async () => {
  const caller = new AbortController()
  const before = (await workDirectories()).length
  const endless = preview({ 'pipeline.sql': ENDLESS }, { signal: caller.signal, name: 'endless' })
  await until(workDirectories, (paths) => paths.length > before)
  caller.abort()
  await expect(endless).rejects.toThrow()
  await until(workDirectories, (paths) => paths.length <= before)
  expect((await preview({ 'pipeline.sql': 'select 1 as a' })).rows).toEqual([[1]])
})

test('a preview that breaks its engine fails without affecting the next', async () => {
  const files = { 'pipeline.sql': 'select 1 as a', 'config.yaml': '' }
  const breaking = 'select is_histogram_other_bin((select max(a) from range(0) t(a))) as b'
  await preview(files)
  for (const code of [breaking, breaking]) {
    const refusal = await preview(files, { code }).catch((error: unknown) => error)
    expect(refusal).toBeInstanceOf(ConnectError)
    expect((refusal as ConnectError).rawMessage).toMatch(
      /internal error of the engine: INTERNAL Error: [^\n/]*$/,
    )
    expect((await preview(files)).rows).toHaveLength(1)
  }
})

test('a preview is repeated once after its engine was killed', async () => {
  const slow = 'select count(*) as n from range(60000) a, range(6000) b where hash(a.range, b.range) <> 1'
  const once = preview({ 'pipeline.sql': slow })
  process.kill(await engineAtWork(runner.engines), 'SIGKILL')
  expect((await once).rows).toEqual([[360_000_000]])
  const twice = preview({ 'pipeline.sql': ENDLESS }).catch((error: unknown) => ConnectError.from(error))
  process.kill(await engineAtWork(runner.engines), 'SIGKILL')
  process.kill(await engineAtWork(runner.engines), 'SIGKILL')
  expect(await twice).toMatchObject({
    code: Code.ResourceExhausted,
    rawMessage: 'the engine was killed from outside twice while it ran this preview (SIGKILL): try again',
  })
})

test('a preview of plain values has an empty profile', async () => {
  expect(await preview({ 'pipeline.sql': 'values (1, 2)' })).toMatchObject({
    rows: [[1, 2]],
    explainOutput: '',
  })
})

test('a number beyond DOUBLE in the text does not break a preview', async () => {
  expect(await preview({ 'pipeline.sql': 'select 1 as a where 1e400 > 1' })).toMatchObject({ rows: [[1]] })
})
