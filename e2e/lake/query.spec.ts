// Specification: Query and schema.
import { type APIRequestContext, expect, test } from '@playwright/test'
import { expectError, getJson, newNamespace, pipelineWith, writeFile } from '../kit/resources.ts'
import { newTable, runToSuccess } from '../kit/runs.ts'

const query = (request: APIRequestContext, data: object) => request.post('/api/v1/query', { data })
async function answerOf(request: APIRequestContext, data: object) {
  const response = await query(request, data)
  expect([response.status(), await response.json()]).toEqual([200, expect.anything()])
  return response.json()
}

test('a query reads a just merged table by both its names @query', async ({ request }) => {
  const namespace = await newNamespace(request)
  await newTable(
    request,
    { namespace, layer: 'gold', name: 'delays' },
    "select 'JFK' as origin, 1.25::decimal(14,2) as delay",
  )
  const expected = {
    columns: [
      { name: 'origin', type: 'VARCHAR' },
      { name: 'delay', type: 'DECIMAL(14,2)' },
    ],
    rows: [{ origin: 'JFK', delay: 1.25 }],
    total_rows: 1,
    truncated: false,
    duration_ms: expect.any(Number),
  }
  expect(await answerOf(request, { sql: 'select * from gold.delays;', namespace })).toEqual(expected)
  expect(await answerOf(request, { sql: `select * from "${namespace}".gold.delays` })).toEqual(expected)
  expect(await answerOf(request, { sql: 'show tables', namespace })).toMatchObject({
    rows: [{ name: 'gold.delays' }],
  })
})

test('a selective query reads only the files that can match @query.files', async ({ request }) => {
  const FILES = 40
  const namespace = await newNamespace(request)
  const pipeline = await pipelineWith(
    request,
    `select (i // 10)::integer as part, i as id, 'row ' || i as name from range(${FILES * 10}) t(i)`,
    { namespace, layer: 'gold', name: 'parts' },
  )
  const config = 'partition_by:\n  - {column: part, transform: identity}\n'
  await writeFile(request, `${pipeline.prefix}config.yaml`, config)
  await runToSuccess(request, pipeline)
  const skipped = async () => {
    const text = await (await request.get('/metrics')).text()
    return Number(/^sluice_query_files_total\{use="skipped"\} (\d+)$/m.exec(text)?.[1] ?? 0)
  }
  const before = await skipped()
  const sql = "select id from gold.parts where part = 7 and name like 'row 7%' order by id"
  const { rows } = await answerOf(request, { sql, namespace })
  expect(rows).toEqual(Array.from({ length: 10 }, (_, i) => ({ id: 70 + i })))
  expect((await skipped()) - before).toBeGreaterThanOrEqual(FILES - 1)
  const all = await answerOf(request, { sql: 'select count(*)::int as n from gold.parts', namespace })
  expect(all.rows).toEqual([{ n: FILES * 10 }])
})

test('a query returns at most 1,000 rows unless it sets a limit @limit.query-rows', async ({ request }) => {
  for (const [rows, limit, total_rows] of [
    [5_000, undefined, 1_000],
    [5_000, 0, 0],
    [5_000, -7, 1_000],
    [5_000, 4_999, 4_999],
    [5_000, 5_000, 5_000],
    [5, undefined, 5],
    [200_000, 1_000_000, 100_000],
  ] as const) {
    const answer = await answerOf(request, { sql: `select range as n from range(${rows})`, limit })
    expect(answer.rows).toHaveLength(total_rows)
    expect(answer).toMatchObject({ total_rows, truncated: total_rows < rows })
  }
})

test('a query that does more than read is refused @query.read-only', async ({ request }) => {
  for (const [sql, message] of [
    ['drop table gold.delays', /DROP is not allowed/],
    ['insert into gold.delays values (1)', /INSERT is not allowed/],
    ['select 1; select 2', /2 statements/],
    ["select * from read_csv('/etc/passwd')", /read_csv\(\)/],
    ["from '/etc/passwd'", /there is no table/],
    ["copy (select 1) to '/tmp/x.csv'", /COPY is not allowed/],
    ["set memory_limit = '1TB'", /SET is not allowed/],
    ["select getenv('PATH')", /getenv\(\)/],
    ["attach '/tmp/x.db'", /ATTACH is not allowed/],
    ['install httpfs', /INSTALL is not allowed/],
  ] as const)
    await expectError(await query(request, { sql }), 400, message)
})

test('a bad query request is 400 and explains the correction @query.400 @limit.sql', async ({ request }) => {
  for (const [data, message] of [
    [{}, /^sql: is required/],
    [{ sql: 5 }, /^sql: must be a string/],
    [{ sql: '' }, /^sql: there is no statement/],
    [{ sql: 'x'.repeat(102_401) }, /^sql: must be at most 102400 bytes/],
    [{ sql: 'select 1', limit: '1' }, /^limit: /],
    [{ sql: 'select 1', limit: 1.5 }, /^limit: /],
    [{ sql: 'select 1', namespace: 'No Name' }, /^namespace: /],
    [{ sql: 'select 1', namespace: 5 }, /^namespace: /],
    [{ sql: 'selec 1' }, /syntax error at or near "selec"/],
    [{ sql: 'from gold.nothing_here' }, /there is no table gold.nothing_here in the namespace default/],
    [{ sql: 'from gold.a', namespace: 'no-such' }, /there is no table gold.a in the namespace no-such/],
    [{ sql: "select 'x'::integer" }, /Could not convert string 'x'/],
    [{ sql: 'select nope from (select 1 as a)' }, /nope/],
    [{ sql: "select string_agg(repeat('x', 1_000_000), '') from range(100_000)" }, /memory/],
  ] as const)
    await expectError(await query(request, data), 400, message)
  expect(await answerOf(request, { sql: 'select 1 as a' })).toMatchObject({ rows: [{ a: 1 }] })
})

test('the schema lists the columns of tables in every namespace @schema', async ({ request }) => {
  const namespace = await newNamespace(request)
  const { name } = await newTable(request, { namespace, layer: 'bronze' }, 'select 1 as a, [now()] as b')
  const { tables } = await getJson(request, '/api/v1/schema')
  expect(tables).toContainEqual({
    namespace,
    layer: 'bronze',
    name,
    columns: [
      { name: 'a', type: 'INTEGER' },
      { name: 'b', type: 'TIMESTAMP WITH TIME ZONE[]' },
    ],
  })
})
