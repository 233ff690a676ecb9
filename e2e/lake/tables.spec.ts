// Specification: Tables.
import { expect, test } from '@playwright/test'
import { expectError, getJson, newNamespace, writeFile } from '../kit/resources.ts'
import { newTable, runToSuccess } from '../kit/runs.ts'

const SQL = "select range as id, 'JFK' as origin from range(60)"

test('tables are listed with sizes and shown with columns @tables.list @tables.get', async ({ request }) => {
  const namespace = await newNamespace(request)
  const { name } = await newTable(request, { namespace, layer: 'gold' }, SQL)
  await newTable(request, { namespace, layer: 'silver' }, 'select 1 as a')
  const summary = {
    namespace,
    layer: 'gold',
    name,
    kind: 'table',
    row_count: 60,
    size_bytes: expect.any(Number),
    description: null,
  }
  const list = (params: Record<string, string>) => getJson(request, '/api/v1/tables', params)
  expect(await list({ namespace, layer: 'gold' })).toEqual({ tables: [summary], total: 1 })
  expect((await list({ namespace })).total).toBe(2)
  expect(await list({ namespace, limit: '1', offset: '2' })).toEqual({ tables: [], total: 2 })

  const response = await request.get(`/api/v1/tables/${namespace}/gold/${name}`)
  expect([response.status(), await response.json()]).toEqual([
    200,
    {
      ...summary,
      owner: null,
      columns: [
        { name: 'id', type: 'BIGINT', description: null },
        { name: 'origin', type: 'VARCHAR', description: null },
      ],
    },
  ])
})

test('a table preview has 50 rows unless a limit is given @tables.preview @limit.table-preview', async ({
  request,
}) => {
  const namespace = await newNamespace(request)
  const { name } = await newTable(request, { namespace, layer: 'gold' }, SQL.replace('60', '2000'))
  const preview = async (params: Record<string, string> = {}) =>
    getJson(request, `/api/v1/tables/${namespace}/gold/${name}/preview`, params)
  expect(await preview({ limit: '0' })).toMatchObject({ rows: [], total_rows: 0, truncated: true })
  expect(await preview({ limit: '1' })).toEqual({
    columns: [
      { name: 'id', type: 'BIGINT' },
      { name: 'origin', type: 'VARCHAR' },
    ],
    rows: [{ id: expect.any(Number), origin: 'JFK' }],
    total_rows: 1,
    truncated: true,
    duration_ms: expect.any(Number),
  })
  expect(await preview()).toMatchObject({ total_rows: 50, truncated: true })
  for (const [limit, total_rows] of [
    ['3', 3],
    ['0', 0],
    ['-1', 50],
    ['many', 50],
    ['5000', 1_000],
  ] as const)
    expect([limit, await preview({ limit })]).toMatchObject([limit, { total_rows, truncated: true }])
})

test('files and statistics show how a table is stored @tables.files @tables.statistics', async ({
  request,
}) => {
  const namespace = await newNamespace(request)
  const settings = '-- @partition_by: [{column: day, transform: month}, {column: kind}]\n'
  const { name } = await newTable(
    request,
    { namespace, layer: 'gold' },
    `${settings}select range as id, date '2026-01-31' + range::int as day, if(range > 0, 'a/b', null) as kind from range(3)`,
  )
  const url = `/api/v1/tables/${namespace}/gold/${name}`
  const { files, total } = await getJson(request, `${url}/files`)
  const partition = (month: string, kind: string | null) => [
    { field: 'day_month', value: month },
    { field: 'kind', value: kind },
  ]
  expect(total).toBe(2)
  expect(files).toEqual(
    expect.arrayContaining(
      [
        { rows: 1, partition: partition('2026-01', null) },
        { rows: 2, partition: partition('2026-02', 'a/b') },
      ].map(({ rows, partition }) => ({
        path: expect.stringContaining(`_lake/${namespace}/gold/${name}-`),
        row_count: rows,
        deleted_rows: 0,
        size_bytes: expect.any(Number),
        partition,
      })),
    ),
  )
  const statistics = await getJson(request, `${url}/statistics`)
  const column = { null_count: 0, size_bytes: expect.any(Number) }
  expect(statistics).toEqual({
    file_count: 2,
    delete_file_count: 0,
    partition_by: [
      { field: 'day_month', column: 'day', transform: 'month' },
      { field: 'kind', column: 'kind', transform: 'identity' },
    ],
    sort_by: [],
    columns: [
      { ...column, name: 'id', type: 'BIGINT', min: '0', max: '2' },
      { ...column, name: 'day', type: 'DATE', min: '2026-01-31', max: '2026-02-02' },
      { ...column, name: 'kind', type: 'VARCHAR', null_count: 1, min: 'a/b', max: 'a/b' },
    ],
  })
})

test('edited metadata overrides the metadata file and survives later runs @tables.metadata', async ({
  request,
}) => {
  const namespace = await newNamespace(request)
  const pipeline = await newTable(request, { namespace, layer: 'gold' }, SQL)
  const url = `/api/v1/tables/${namespace}/gold/${pipeline.name}`
  await writeFile(
    request,
    `${pipeline.prefix}.meta.yaml`,
    'description: From the file\nowner: file owner\ncolumns:\n  id: From the file\n  origin: Airport\n',
  )
  const put = await request.put(`${url}/metadata`, {
    data: { owner: 'ops', column_descriptions: { id: 'Number' } },
  })
  expect([put.status(), await put.json()]).toEqual([
    200,
    {
      namespace,
      layer: 'gold',
      name: pipeline.name,
      description: '',
      owner: 'ops',
      column_descriptions: { id: 'Number' },
    },
  ])
  const described = {
    description: 'From the file',
    owner: 'ops',
    columns: [{ description: 'Number' }, { description: 'Airport' }],
  }
  expect(await getJson(request, url)).toMatchObject(described)
  await runToSuccess(request, pipeline)
  expect(await getJson(request, url)).toMatchObject(described)
  expect(await getJson(request, '/api/v1/tables', { namespace })).toMatchObject({
    tables: [{ description: 'From the file' }],
  })
})

test('a bad metadata field is 400 naming it @tables.metadata.400', async ({ request }) => {
  const namespace = await newNamespace(request)
  const table = await newTable(request, { namespace, layer: 'gold' }, 'select 1 as a')
  const url = `/api/v1/tables/${namespace}/gold/${table.name}/metadata`
  for (const [field, value] of [
    ['description', 5],
    ['description', null],
    ['description', 'x'.repeat(10_001)],
    ['owner', []],
    ['column_descriptions', 'text'],
    ['column_descriptions.a', 1],
    ['column_descriptions.a', 'x'.repeat(10_001)],
    ['column_descriptions', { ['x'.repeat(1_001)]: '' }],
  ] as const) {
    const [name = '', column] = field.split('.')
    const data = { [name]: column === undefined ? value : { [column]: value } }
    await expectError(await request.put(url, { data }), 400, new RegExp(`^${field}: `))
  }
})

test('an unknown table is 404 @tables.get.404 @tables.preview.404 @tables.metadata.404', async ({
  request,
}) => {
  for (const path of ['default/gold/not_there', 'not-there/gold/a', 'default/iron/a', 'default/gold/NO']) {
    await expectError(await request.get(`/api/v1/tables/${path}`), 404)
    await expectError(await request.get(`/api/v1/tables/${path}/preview`), 404)
    await expectError(await request.put(`/api/v1/tables/${path}/metadata`, { data: {} }), 404)
  }
})
