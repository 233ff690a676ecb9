// Attack class: SQL injection through names. The names belong to namespaces, pipelines, columns, keys, partitions, sort keys,
// filters, triggers, tests, zones and files. Some column names come from hostile files.
import { type APIRequestContext, expect, test } from '@playwright/test'
import {
  fresh,
  getJson,
  type MadePipeline,
  newNamespace,
  newPipeline,
  newZone,
  writeFile,
} from '../../kit/resources.ts'
import { newTable, requestRun } from '../../kit/runs.ts'
import { ended, expectHealthy, expectNothingTold } from './attempts.ts'

/** Each name could end its context: in SQL of the engine, in SQL of the database, or in a template. */
const NAMES = [
  `a"; drop table victim; --`,
  `a'; drop table run; --`,
  `a') union select usename, passwd from pg_shadow --`,
  `a"."b`,
  `a"" or ""=""`,
  `a\\"; attach '/tmp/x.db'; --`,
  `a/* */b`,
  `a;b`,
  `a\`b`,
  `$1`,
  `$$a$$`,
  `:a`,
  `%s`,
  `{{ 7 * 7 }}`,
  `{% raw %}`,
  `\${7*7}`,
  `__proto__`,
  `constructor`,
  `a b`,
  `ａ"ｂ`,
  `a\u2028b`,
]

test.describe.configure({ mode: 'serial' })
let victim: MadePipeline
test.beforeAll(async ({ request }) => {
  victim = await newTable(request, { namespace: 'default', layer: 'gold' }, 'select 42 as kept')
})
test.afterEach(async ({ request }) => {
  // No table was dropped, and no other user's rows were returned.
  const answer = await request.post('/api/v1/query', {
    data: { sql: `select kept from gold."${victim.name}"` },
  })
  expect([answer.status(), (await answer.json()).rows]).toEqual([200, [{ kept: 42 }]])
  const { total } = await getJson(request, '/api/v1/runs?limit=1')
  expect(total).toBeGreaterThan(0)
})

test('an invalid name is refused wherever a body contains a name', async ({ request }) => {
  const pipeline = await newPipeline(request)
  const zone = await newZone(request)
  const of = (url: string, data: object) => ({ url, data })
  for (const name of NAMES.filter((one) => one !== 'constructor')) {
    const bodies = [
      of('/api/v1/namespaces', { name }),
      of('/api/v1/pipelines', { namespace: 'default', layer: 'bronze', name }),
      of('/api/v1/pipelines', { namespace: name, layer: 'bronze', name: 'a' }),
      of('/api/v1/pipelines', { namespace: 'default', layer: name, name: 'a' }),
      of('/api/v1/pipelines', { namespace: 'default', layer: 'bronze', name: fresh('n'), source: name }),
      of('/api/v1/pipelines', { namespace: 'default', layer: 'bronze', name: fresh('n'), type: name }),
      of('/api/v1/landing-zones', { namespace: 'default', name }),
      of('/api/v1/runs', { namespace: name, layer: 'bronze', pipeline: name }),
      of('/api/v1/schedules', { namespace: 'default', layer: 'bronze', pipeline: name, cron: '* * * * *' }),
      of('/api/v1/schedules', { namespace: 'default', layer: 'bronze', pipeline: pipeline.name, cron: name }),
      of(`${pipeline.url}/tests`, { name, sql: 'select 0', severity: 'error' }),
      of(`${pipeline.url}/tests`, { name: 'a', sql: 'select 0', severity: name }),
      of(`${pipeline.url}/triggers`, { type: name, config: {} }),
      of(`${pipeline.url}/triggers`, { type: 'cron', config: { cron_expr: name } }),
      of(`${pipeline.url}/triggers`, {
        type: 'landing_zone_upload',
        config: { namespace: name, zone_name: zone.name },
      }),
      of(`${pipeline.url}/triggers`, {
        type: 'landing_zone_upload',
        config: { namespace: 'default', zone_name: name },
      }),
      of(`${pipeline.url}/triggers`, {
        type: 'pipeline_success',
        config: { namespace: 'default', layer: name, pipeline: name },
      }),
      of(`${pipeline.url}/triggers`, {
        type: 'cron_dependency',
        config: { cron_expr: '* * * * *', dependencies: [name] },
      }),
    ]
    await Promise.all(
      bodies.map(async ({ url, data }) => {
        const response = await request.post(url, { data })
        const text = await response.text()
        expect([url, data, response.status(), text]).toEqual([
          url,
          data,
          400,
          expect.stringContaining('INVALID_ARGUMENT'),
        ])
        expectNothingTold(text, name)
      }),
    )
  }
})

test('filters, searches, sort keys and prefixes are values, never SQL', async ({ request }) => {
  const filters = ['namespace', 'layer', 'pipeline', 'status', 'search', 'sort', 'order', 'from', 'to']
  const more = ['prefix', 'exclude', 'limit', 'offset', 'resource_type', 'q', 'state', 'source']
  for (const path of [
    '/api/v1/pipelines',
    '/api/v1/runs',
    '/api/v1/namespaces',
    '/api/v1/landing-zones',
    '/api/v1/schedules',
    '/api/v1/tables',
    '/api/v1/audit',
    '/api/v1/lineage',
    '/api/v1/files',
    '/api/v1/inspector/run/instances',
    '/api/v1/inspector/trigger/instances',
  ])
    for (const filter of [...filters, ...more])
      await Promise.all(
        NAMES.slice(0, 4).map(async (value) => {
          const response = await request.get(path, { params: { [filter]: value } })
          const databaseText = /syntax|pg_|SQLSTATE|postgres/i.exec(await response.text())?.[0]
          expect([path, filter, value, response.status() < 500, databaseText]).toEqual([
            path,
            filter,
            value,
            true,
            undefined,
          ])
        }),
      )
  const all = (await getJson(request, '/api/v1/pipelines?limit=1')).total
  // `%` and `_` are plain characters of a search, and a quote ends nothing.
  for (const search of ['%', '_', `' or true --`, '\\', `%' or '1'='1`]) {
    const { total } = await getJson(request, '/api/v1/pipelines', { search })
    expect([search, total < all]).toEqual([search, true])
  }
})

const COLUMNS = NAMES.filter((name) => !name.includes('\u2028'))
const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`
const inYaml = (names: string[]) => JSON.stringify(names)

/** Each strategy writes twice, with hostile column names as keys. */
const STRATEGIES: [what: string, config: (column: string, other: string) => string][] = [
  ['full_refresh', () => 'merge_strategy: full_refresh'],
  ['append_only', () => 'merge_strategy: append_only'],
  ['incremental', (column, other) => `merge_strategy: incremental\nunique_key: ${inYaml([column, other])}`],
  ['delete_insert', (column) => `merge_strategy: delete_insert\nunique_key: ${inYaml([column])}`],
  [
    'scd2',
    (column, other) =>
      `merge_strategy: scd2\nunique_key: ${inYaml([column])}\nscd_valid_from: ${JSON.stringify(`from ${other}`)}\nscd_valid_to: ${JSON.stringify(`to ${other}`)}`,
  ],
  [
    'snapshot',
    (column, other) =>
      `merge_strategy: snapshot\npartition_column: ${JSON.stringify(column)}\nwatermark_column: ${JSON.stringify(other)}`,
  ],
  ['full_refresh', (column) => `partition_by: [{column: ${JSON.stringify(column)}, transform: identity}]`],
]

test(`hostile names work as column names: ${STRATEGIES.length} ways to write them`, async ({ request }) => {
  const source = (value: number) => {
    // The templates in the names are text. An expression emits their opening braces, so that they are not rendered.
    const columns = COLUMNS.map((name, index) => `${value + index} as ${quoted(name)}`).join(',\n  ')
    const text = `select\n  ${columns}`
    return text.replaceAll(/\{\{|\{%/g, (open) => `{{ '${open}' }}`)
  }
  await Promise.all(
    STRATEGIES.map(async ([what, config], index) => {
      const [column = '', other = ''] = [COLUMNS[index], COLUMNS[index + 7]]
      const pipeline = await newPipeline(request, { layer: 'silver' })
      await writeFile(request, `${pipeline.prefix}pipeline.sql`, source(1))
      await writeFile(request, `${pipeline.prefix}config.yaml`, `${config(column, other)}\n`)
      for (let round = 0; round < 2; round++) {
        const run = await ended(request, await requestRun(request, pipeline))
        expect([what, column, run.status, run.error]).toEqual([what, column, 'success', null])
      }
      await expectColumns(request, pipeline)
    }),
  )
  await expectHealthy(request)
})

async function expectColumns(request: APIRequestContext, { namespace, layer, name }: MadePipeline) {
  const table = `/api/v1/tables/${namespace}/${layer}/${name}`
  const described = await getJson(request, table)
  const columns = described.columns.map((column: { name: string }) => column.name)
  for (const column of COLUMNS) expect(columns).toContain(column)
  const preview = await request.get(`${table}/preview`)
  expect(preview.status()).toBe(200)
  const [row] = (await preview.json()).rows
  for (const [index, column] of COLUMNS.entries()) {
    expect([column, Object.hasOwn(row, column) ? row[column] : undefined]).toEqual([column, index + 1])
    const sql = `select ${quoted(column)} as v from ${layer}.${quoted(name)} order by 1 limit 1`
    const answer = await request.post('/api/v1/query', { data: { sql, namespace } })
    expect([column, answer.status(), (await answer.json()).rows]).toEqual([column, 200, [{ v: index + 1 }]])
  }
  const change = {
    column_descriptions: Object.fromEntries(COLUMNS.map((column) => [column, `of ${column}`])),
  }
  const put = await request.put(`${table}/metadata`, {
    data: JSON.stringify(change),
    headers: { 'content-type': 'application/json' },
  })
  expect(put.status(), await put.text()).toBe(200)
  const again = await getJson(request, table)
  for (const { name: column, description } of again.columns)
    if (COLUMNS.includes(column) && column !== '__proto__')
      expect([column, description]).toEqual([column, `of ${column}`])
}

test('headers of hostile files become column names in runs and previews', async ({ request }) => {
  const zone = await newZone(request)
  const header = COLUMNS.map((name) => `"${name.replaceAll('"', '""')}"`).join(',')
  await zone.upload(
    `it's "quoted"; drop.csv`,
    `${header}\n${COLUMNS.map((_, index) => index + 1).join(',')}\n`,
  )
  const pipeline = await newPipeline(request, { layer: 'silver' })
  await writeFile(
    request,
    `${pipeline.prefix}pipeline.sql`,
    `select * from read_csv_auto('{{ landing_zone("${zone.name}") }}', header = true)`,
  )
  const preview = await request.post(`${pipeline.url}/preview`, { data: {} })
  expect(preview.status(), await preview.text()).toBe(200)
  const run = await ended(request, await requestRun(request, pipeline))
  expect([run.status, run.error]).toEqual(['success', null])
  await expectColumns(request, pipeline)
})

test('duplicate, empty and oversized file headers end with readable messages', async ({ request }) => {
  const files: Record<string, string> = {
    twice: 'a,A,a\n1,2,3\n',
    nothing: ',,\n1,2,3\n',
    long: `${'x'.repeat(70_000)},b\n1,2\n`,
    many: `${Array.from({ length: 5_000 }, (_, index) => `c${index}`).join(',')}\n${'1,'.repeat(4_999)}1\n`,
    control: 'a\u0001,b\u007f\n1,2\n',
  }
  await Promise.all(
    Object.entries(files).map(async ([what, text]) => {
      const zone = await newZone(request)
      await zone.upload(`${what}.csv`, text)
      const pipeline = await newPipeline(request, { layer: 'silver' })
      await writeFile(
        request,
        `${pipeline.prefix}pipeline.sql`,
        `select * from read_csv('{{ landing_zone("${zone.name}") }}', header = true)`,
      )
      const run = await ended(request, await requestRun(request, pipeline))
      expect([what, run.status]).toEqual([what, expect.stringMatching(/success|failed/)])
      if (run.status === 'failed') expectNothingTold(run.error ?? '', text.slice(0, 200))
    }),
  )
  await expectHealthy(request)
})

test('lineage, schema and search treat hostile names as data', async ({ request }) => {
  const namespace = await newNamespace(request)
  const pipeline = await newPipeline(request, { namespace, layer: 'silver' })
  const sources = NAMES.map((name) => `select * from {{ ref('${name}') }}`)
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, sources.join('\nunion all\n'))
  const lineage = await request.get(`/api/v1/lineage?namespace=${namespace}`)
  expect(lineage.status()).toBe(200)
  const { nodes } = await lineage.json()
  expect(nodes.map(({ name }: { name: string }) => name)).toEqual(expect.arrayContaining([pipeline.name]))
  for (const { name } of nodes) expect(name).toMatch(/^[a-z0-9_-]+$/)
  expect((await request.get('/api/v1/schema')).status()).toBe(200)
})
