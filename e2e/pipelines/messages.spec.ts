// Common mistakes of newcomers: the message names the fault, its place and the text to write instead.
import { type APIRequestContext, expect, test } from '@playwright/test'
import { fresh, type MadePipeline, newZone, pipelineWith, writeFile } from '../kit/resources.ts'
import { newTable, runToEnd } from '../kit/runs.ts'

/** Publishes the pipeline. Returns the status and the report of one file of the draft. */
async function published(request: APIRequestContext, { url, prefix }: MadePipeline, file: string) {
  const response = await request.post(`${url}/publish`)
  const { validation, error } = await response.json()
  const report = validation.files.find(({ path }: { path: string }) => path === prefix + file)
  return { status: response.status(), error, errors: report.errors, warnings: report.warnings }
}

const errorOfRun = async (request: APIRequestContext, pipeline: MadePipeline) =>
  (await runToEnd(request, pipeline)).error

async function errorOfPreview(request: APIRequestContext, { url }: MadePipeline) {
  const response = await request.post(`${url}/preview`)
  expect(response.status()).toBe(400)
  return (await response.json()).error.message
}

const withSource = (request: APIRequestContext, sql: string) => pipelineWith(request, sql, { layer: 'gold' })

/** `<t>` stands for the name of a table in gold. */
const BARE: [sql: string, place: string, written: string, advice: string][] = [
  ['select * from gold.<t>', 'line 1 column 15', 'gold.<t>', "{{ ref('gold.<t>') }}"],
  ['select 1 as a,\n  b\nfrom <t> as x', 'line 3 column 6', '<t>', "{{ ref('gold.<t>') }}"],
  ['from default.gold.<t>', 'line 1 column 6', 'default.gold.<t>', "{{ ref('gold.<t>') }}"],
  ['from other.silver.<t>', 'line 1 column 6', 'other.silver.<t>', "{{ ref('other.silver.<t>') }}"],
  ['from gold.nothing_here', 'line 1 column 6', 'gold.nothing_here', "{{ ref('gold.nothing_here') }}"],
  ['from nothing_here', 'line 1 column 6', 'nothing_here', "{{ ref('layer.nothing_here') }}"],
]

test('bare table names warn at publish and fail runs, with a fix', async ({ request }) => {
  const { name } = await newTable(
    request,
    { namespace: 'default', layer: 'gold', name: fresh('t').replaceAll('-', '_') },
    'select 1 as b',
  )
  for (const [sql, position, written, advice] of BARE) {
    const filled = (text: string) => text.replaceAll('<t>', name)
    const pipeline = await withSource(request, filled(sql))
    const message = filled(`${written} is a bare table name, which a run cannot read: write ${advice}`)
    const report = await published(request, pipeline, 'pipeline.sql')
    expect(report).toMatchObject({
      status: 200,
      errors: [],
      warnings: [expect.stringContaining(`${position}: ${message}`)],
    })
    for (const error of [await errorOfPreview(request, pipeline), await errorOfRun(request, pipeline)]) {
      expect(error).toContain(message)
      expect(error).toContain(position.split(' column')[0])
      expect(error).not.toMatch(/Did you mean|pg_|duckdb_/)
    }
  }
})

test('CTEs, aliases, table functions and references are not bare table names', async ({ request }) => {
  const source = await newTable(request, { namespace: 'default', layer: 'gold' }, 'select 1 as b')
  const pipeline = await withSource(
    request,
    `with recursive a as (select 1 as n union all select n + 1 from a where n < 3), b as (from a)
select b.n, x.i, s.b from b, range(3) as x(i), {{ ref('gold.${source.name}') }} as s, (values (1)) as v(c)`,
  )
  expect(await published(request, pipeline, 'pipeline.sql')).toMatchObject({ status: 200, warnings: [] })
  expect(await errorOfRun(request, pipeline)).toBeNull()
})

test('a quality test with a bare table name gets the same advice', async ({ request }) => {
  const pipeline = await withSource(request, 'select 1 as b')
  await writeFile(
    request,
    `${pipeline.prefix}tests/quality/bare.sql`,
    `select * from gold.${pipeline.name}_x`,
  )
  const advice = `{{ ref('gold.${pipeline.name.split('-')[0]}`
  const report = await published(request, pipeline, 'tests/quality/bare.sql')
  expect(report.status).toBe(422)
  expect(report.errors).toEqual([expect.stringMatching(/^line 1 column \d+: syntax error at or near "-"$/)])
  await writeFile(
    request,
    `${pipeline.prefix}tests/quality/bare.sql`,
    `-- @severity: error\nselect * from gold."${pipeline.name}"`,
  )
  expect(await published(request, pipeline, 'tests/quality/bare.sql')).toMatchObject({
    status: 200,
    warnings: [expect.stringContaining(`line 2 column 15: gold.${pipeline.name} is a bare table name`)],
  })
  expect(await errorOfRun(request, pipeline)).toContain(advice)
})

test('landing_zone() without quotes or a reader gets advice', async ({ request }) => {
  const { name: zone, upload } = await newZone(request)
  await upload('a.csv')
  const advice = `write read_csv('{{ landing_zone("${zone}") }}')`
  for (const [sql, status] of [
    [`select * from {{ landing_zone("${zone}") }}`, 422],
    [`select *\nfrom read_csv({{ landing_zone('${zone}') }})`, 422],
    [`from '{{ landing_zone("${zone}") }}'`, 200],
  ] as const) {
    const pipeline = await withSource(request, sql)
    const report = await published(request, pipeline, 'pipeline.sql')
    expect(report.status).toBe(status)
    const [finding] = [...report.errors, ...report.warnings]
    expect(finding).toMatch(/^line \d column \d+: landing_zone\(\) returns the path/)
    expect(finding).toContain(advice)
    expect(await errorOfPreview(request, pipeline)).toContain(advice)
    expect(await errorOfRun(request, pipeline)).toContain(advice)
  }
})
