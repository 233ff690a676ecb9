// Specification: Pipelines, Preview.
import { type APIRequestContext, expect, test } from '@playwright/test'
import { expectError, getJson, instant, newZone, pipelineWith, publish } from '../kit/resources.ts'
import { newTable } from '../kit/runs.ts'

/** Makes a pipeline with this source, and functions that preview it. */
async function previewed(request: APIRequestContext, sql: string) {
  const pipeline = await pipelineWith(request, sql, { layer: 'silver' })
  const ask = (data?: object, params: Record<string, string> = {}) =>
    request.post(`${pipeline.url}/preview`, { data, params })
  const preview = async (data?: object, params?: Record<string, string>) => {
    const response = await ask(data, params)
    const body = await response.json()
    expect([response.status(), body]).toEqual([200, expect.anything()])
    return body
  }
  return { ...pipeline, ask, preview }
}

test('a preview returns rows and statistics and changes nothing @pipelines.preview', async ({ request }) => {
  const { url, name, preview } = await previewed(
    request,
    "select range as n, 'x' || range as text from range(250)",
  )
  const before = await getJson(request, url)
  const body = await preview()
  expect(body).toEqual({
    columns: [
      { name: 'n', type: 'BIGINT' },
      { name: 'text', type: 'VARCHAR' },
    ],
    rows: expect.arrayContaining([[0, 'x0']]),
    total_row_count: 250,
    phases: [
      {
        name: 'template_render',
        duration_ms: expect.any(Number),
        metadata: expect.objectContaining({ file: 'pipeline.sql' }),
      },
      { name: 'sql_execute', duration_ms: expect.any(Number), metadata: { rows: 250, columns: 2 } },
      { name: 'profiling', duration_ms: expect.any(Number), metadata: expect.anything() },
    ],
    explain_output: expect.stringContaining('250 rows'),
    memory_peak_bytes: expect.any(Number),
    logs: expect.arrayContaining([{ timestamp: instant, level: 'info', message: expect.any(String) }]),
    warnings: [],
  })
  expect(body.rows).toHaveLength(100)
  expect(await getJson(request, url)).toEqual(before)
  const runs = await request.get('/api/v1/runs', { params: { namespace: 'default', pipeline: name } })
  expect(await runs.json()).toEqual({ runs: [], total: 0 })
  await expectError(await request.get(`/api/v1/tables/default/silver/${name}`), 404)
})

test('the body limit overrides the query limit, and both are clamped @limit.pipeline-preview', async ({
  request,
}) => {
  const { preview } = await previewed(request, 'select range as n from range(2000)')
  const rows = async (body?: object, params?: Record<string, string>) =>
    (await preview(body, params)).rows.length
  expect(await rows(undefined, { limit: '3' })).toBe(3)
  expect(await rows({ limit: 2 }, { limit: '3' })).toBe(2)
  expect(await rows({ limit: 5000 })).toBe(1000)
  expect(await rows(undefined, { limit: '5000' })).toBe(1000)
  expect(await rows({ limit: 0 })).toBe(0)
  expect(await rows(undefined, { limit: '0' })).toBe(0)
  expect(await rows(undefined, { limit: 'many' })).toBe(100)
})

test('a preview of given code replaces the source and reads main @pipelines.preview.code', async ({
  request,
}) => {
  const table = await newTable(request, { namespace: 'default', layer: 'bronze' }, 'select 7 as a')
  const { preview, url } = await previewed(request, 'select 1 as a')
  await publish(request, { url })
  const code = `select a + 1 as b from {{ ref('bronze.${table.name}') }}`
  expect((await preview({ code })).rows).toEqual([[8]])
  expect((await preview()).rows).toEqual([[1]])
  expect(await getJson(request, url)).toMatchObject({ draft_dirty: false })
})

test('a preview reads requested sample files, else landing files, else samples @pipelines.preview.sample_files', async ({
  request,
}) => {
  const zone = await newZone(request)
  const { preview, ask } = await previewed(
    request,
    `select * from read_csv_auto('{{ landing_zone("${zone.name}") }}')`,
  )
  await expectError(await ask(), 400, /pipeline\.sql line 1.*has no files/)

  await zone.uploadSample('orders.csv', 'id\n1\n2\n')
  const sampled = await preview()
  expect(sampled.rows).toEqual([[1], [2]])
  expect(sampled.warnings).toEqual([
    `landing zone ${zone.name} has no files: the preview reads its samples instead`,
  ])

  await zone.upload('orders.csv', 'id\n3\n')
  expect(await preview()).toMatchObject({ rows: [[3]], warnings: [] })

  const sample = `${zone.prefix}_samples/orders.csv`
  expect(await preview({ sample_files: [sample] })).toMatchObject({ rows: [[1], [2]], warnings: [] })
  await expectError(
    await ask({ sample_files: [`${zone.prefix}nothing.csv`] }),
    400,
    /^sample_files: .*does not exist/,
  )
  await expectError(await ask({ sample_files: ['default/pipelines/silver/x/a.csv'] }), 400, /^sample_files: /)
  await expectError(await ask({ sample_files: ['../etc/passwd'] }), 400, /^sample_files: /)
})

test('a sample of 10 MB can be previewed', async ({ request }) => {
  const zone = await newZone(request)
  const line = `${'x'.repeat(99)}\n`
  await zone.uploadSample('orders.csv', `text\n${line.repeat(100_000)}`)
  const { preview } = await previewed(
    request,
    `select text, count(*) as n from read_csv_auto('{{ landing_zone("${zone.name}") }}') group by text`,
  )
  expect((await preview()).rows).toEqual([['x'.repeat(99), 100_000]])
})

test('preview errors name the file and line @pipelines.preview.400', async ({ request }) => {
  const { ask } = await previewed(request, 'select 1')
  const refused = async (code: string, message: RegExp) => expectError(await ask({ code }), 400, message)
  await refused('select 1\n{{ oops }}', /^pipeline\.sql line 2/)
  await refused('select 1\n  , nothing', /^pipeline\.sql line 2: Binder Error/)
  await refused("select 1 from {{ ref('gold.not_there') }}", /default\.gold\.not_there does not exist/)
  await refused('-- @merge_strategy: magic\nselect 1', /merge_strategy/)
  await refused("copy (select 1) to 'out.csv'", /pipeline\.sql/)
  await expectError(await ask({ code: 7 }), 400, /code/)
  await expectError(await ask({ code: '' }), 400, /code/)
})

test('a preview of an unknown pipeline is 404 @pipelines.preview.404', async ({ request }) => {
  for (const path of ['default/silver/nobody-here', 'default/copper/x', 'No/silver/x'])
    await expectError(await request.post(`/api/v1/pipelines/${path}/preview`), 404)
})
