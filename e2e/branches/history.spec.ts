// The second contract: History.
import { expect, test } from '@playwright/test'
import {
  expectError,
  fresh,
  getJson,
  newNamespace,
  newZone,
  pipelineWith,
  publish,
  rowsOf,
  writeFile,
} from '../kit/resources.ts'
import { ended, requestRun, runToSuccess } from '../kit/runs.ts'

test('each success is a commit of main and a state of its table', {
  tag: ['@history.commits', '@history.table', '@history.table.404', '@history.commits.400'],
}, async ({ request }) => {
  const namespace = await newNamespace(request)
  const pipeline = await pipelineWith(request, 'select range as id from range(3)', {
    namespace,
    layer: 'gold',
  })
  const table = `${namespace}.gold.${pipeline.name}`
  const first = await runToSuccess(request, pipeline)
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, "select range as id, 'x' as word from range(5)")
  await publish(request, pipeline)
  const second = await runToSuccess(request, pipeline)

  const commits = {
    commits: [{ number: second.merged_commit, run_id: second.id, tables: [table] }, {}],
    total: 2,
  }
  expect(await getJson(request, '/api/v1/commits', { table })).toMatchObject(commits)
  expect(await getJson(request, '/api/v1/commits', { namespace })).toMatchObject(commits)
  const [{ created_at: at }] = (await getJson(request, '/api/v1/commits', { table })).commits
  expect(await getJson(request, '/api/v1/commits', { table, from: at })).toMatchObject({ total: 1 })
  await expectError(await request.get('/api/v1/commits?table=gold'), 400, /^table: /)

  const path = `/api/v1/tables/${namespace}/gold/${pipeline.name}/history`
  const { history, total } = await getJson(request, path)
  expect(total).toBe(2)
  expect(history).toMatchObject([
    {
      commit: second.merged_commit,
      run_id: second.id,
      operation: 'overwrite',
      row_count: 5,
      rows_added: 5,
      rows_removed: 3,
      schema_changed: true,
    },
    {
      commit: first.merged_commit,
      operation: 'append',
      row_count: 3,
      rows_added: 3,
      rows_removed: 0,
      schema_changed: false,
    },
  ])

  const branch = fresh('past')
  await request.post('/api/v1/branches', { data: { name: branch, as_of: first.merged_commit } })
  expect((await getJson(request, path, { branch })).history).toMatchObject([{ commit: first.merged_commit }])
  await expectError(await request.get(`${path}?branch=absent`), 404)
  await expectError(await request.get(`/api/v1/tables/${namespace}/gold/absent/history`), 404)
})

test('a restored table has its earlier rows for readers and for the next run', {
  tag: ['@history.restore', '@history.restore.400', '@history.restore.404', '@history.restore.watermark'],
}, async ({ request }) => {
  const namespace = await newNamespace(request)
  const zone = await newZone(request, namespace)
  const sql = `select *, '{{ watermark_value }}' as mark from read_csv('{{ landing_zone("${zone.name}") }}')`
  const pipeline = await pipelineWith(request, sql, { namespace, layer: 'silver' })
  const config =
    'archive_landing_zones: true\nmerge_strategy: incremental\nunique_key: id\nwatermark_column: seen\n'
  await writeFile(request, `${pipeline.prefix}config.yaml`, config)
  await publish(request, pipeline)
  const deliver = async (lines: string) => {
    await zone.upload('batch.csv', `id,seen\n${lines}\n`)
    return runToSuccess(request, pipeline)
  }
  const rows = async () =>
    rowsOf(request, `select id, seen from silver."${pipeline.name}" order by id`, namespace)
  const first = await deliver('1,10\n2,20')
  await deliver('2,90\n3,99')
  const path = `/api/v1/tables/${namespace}/silver/${pipeline.name}/restore`
  const response = await request.post(path, { data: { commit: first.merged_commit } })
  expect(response.status()).toBe(200)
  const { commit, restored_from } = await response.json()
  expect(restored_from).toBe(first.merged_commit)
  expect(commit).toBeGreaterThan(first.merged_commit)
  expect(await rows()).toEqual([
    { id: 1, seen: 10 },
    { id: 2, seen: 20 },
  ])

  await deliver('4,40')
  expect(await rows()).toEqual([
    { id: 1, seen: 10 },
    { id: 2, seen: 20 },
    { id: 4, seen: 40 },
  ])
  const marks = await rowsOf(request, `select mark from silver."${pipeline.name}" where id = 4`, namespace)
  expect(marks).toEqual([{ mark: '20' }])

  await expectError(
    await request.post(path, { data: { commit: 999_999_999 } }),
    404,
    /the oldest kept commit is \d+/,
  )
  await expectError(await request.post(path, { data: {} }), 400, /^commit: /)
  await expectError(await request.post(path, { data: { commit: 1, time: '2026-01-01' } }), 400, /^time: /)
})

test('a diff writes values exactly as a query of the same state', async ({ request }) => {
  const pipeline = await pipelineWith(request, everyTypeSql(1), { layer: 'gold' })
  await writeFile(request, `${pipeline.prefix}config.yaml`, 'merge_strategy: incremental\nunique_key: id\n')
  await publish(request, pipeline)
  const query = `select * from gold."${pipeline.name}" order by id`
  const diffOf = (run: { id: string }) => getJson(request, `/api/v1/runs/${run.id}/diff/rows`)
  const first = await runToSuccess(request, pipeline)
  const before = await rowsOf(request, query)
  expect(before[0]).toMatchObject({
    d15: 1234567890123.45,
    d16: '12345678901234.50',
    huge: '18446744073709551617',
  })
  expect((await diffOf(first)).added).toEqual(before)

  await writeFile(request, `${pipeline.prefix}pipeline.sql`, everyTypeSql(2))
  await publish(request, pipeline)
  const second = await runToSuccess(request, pipeline)
  const after = await rowsOf(request, query)
  expect((await diffOf(second)).changed).toEqual([{ before: before[0], after: after[0] }])
  expect(await diffOf(second)).toMatchObject({ added: [], removed: [] })
  const none = await getJson(request, `/api/v1/runs/${second.id}/diff/rows?limit=0`)
  expect(none).toMatchObject({
    columns: expect.any(Array),
    added: [],
    removed: [],
    changed: [],
    truncated: true,
  })
  expect(none.columns).toEqual((await diffOf(second)).columns)
})

/** One row with a column of each kind; `turn` changes a value. */
const everyTypeSql = (turn: number) => `
  select 1 as id, ${turn} as turn, 1234567890123.45::decimal(15,2) as d15, 12345678901234.50::decimal(16,2) as d16,
    0.10::decimal(38,2) as d38, 9007199254740993::bigint as big, 18446744073709551617::hugeint as huge,
    0.1::float as f, 'nan'::double as nan, date '0001-02-03' as day, timestamp '2026-01-02 03:04:05.678901' as at,
    timestamptz '2026-01-02 03:04:05+02' as atz, time '01:02:03.5' as clock, '\\xAA'::blob as bytes,
    [1.50::decimal(18,2), null] as list, {a: 2.5::decimal(20,1), b: {c: 9007199254740993}} as nested,
    map {'k': 3.25::decimal(19,2)} as pairs, uuid '0198f0c2-7a4e-7c1b-9d0a-5b1f6c2e8d43' as uid, null::varchar as nothing`

test('a diff shows what a run changed on a branch', {
  tag: [
    '@branches.diff',
    '@branches.diff.400',
    '@branches.diff.404',
    '@branches.diff.table',
    '@runs.diff',
    '@runs.diff.404',
  ],
}, async ({ request }) => {
  const namespace = await newNamespace(request)
  const sql = (rows: string) => `select * from (values ${rows}) t(id, word)`
  const pipeline = await pipelineWith(request, sql("(1, 'one'), (2, 'two')"), { namespace, layer: 'gold' })
  const config = 'merge_strategy: incremental\nunique_key: id\n'
  await writeFile(request, `${pipeline.prefix}config.yaml`, config)
  await publish(request, pipeline)
  await runToSuccess(request, pipeline)
  const branch = fresh('diff')
  await request.post('/api/v1/branches', { data: { name: branch } })
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, sql("(1, 'one'), (2, 'zwei'), (3, 'drei')"))
  await publish(request, pipeline)
  const run = await ended(request, await requestRun(request, pipeline, { branch }))
  const ofRun = await getJson(request, `/api/v1/runs/${run.id}/diff`)
  expect(ofRun).toMatchObject({ from: branch, tables: [{ rows_added: 2, rows_removed: 1, conflict: false }] })
  expect(await getJson(request, `/api/v1/runs/${run.id}/diff`)).toEqual(ofRun)
  expect(await getJson(request, `/api/v1/runs/${run.id}/diff/rows`)).toMatchObject({
    added: [{ id: 3, word: 'drei' }],
    removed: [],
    changed: [{ before: { id: 2, word: 'two' }, after: { id: 2, word: 'zwei' } }],
  })
  for (const path of ['diff', 'diff/rows'])
    await expectError(await request.get(`/api/v1/runs/00000000-0000-7000-8000-000000000000/${path}`), 404)

  const path = `/api/v1/branches/${branch}/diff`
  const table = { namespace, layer: 'gold', name: pipeline.name }
  expect(await getJson(request, path)).toEqual({
    from: 'main',
    to: branch,
    tables: [
      {
        ...table,
        change: 'changed',
        rows_before: 2,
        rows_after: 3,
        rows_added: 2,
        rows_removed: 1,
        conflict: false,
        schema: { added: [], removed: [], changed: [] },
      },
    ],
    total: 1,
  })
  expect(await getJson(request, `${path}/${namespace}/gold/${pipeline.name}`)).toEqual({
    columns: [
      { name: 'id', type: 'INTEGER' },
      { name: 'word', type: 'VARCHAR' },
    ],
    added: [{ id: 3, word: 'drei' }],
    removed: [],
    changed: [{ before: { id: 2, word: 'two' }, after: { id: 2, word: 'zwei' } }],
    truncated: false,
  })
  await expectError(await request.get('/api/v1/branches/main/diff'), 400, /^branch: /)
  await expectError(await request.get('/api/v1/branches/absent/diff'), 404)
  await expectError(await request.get(`${path}/${namespace}/gold/absent`), 404)
})

test('a rollback with data returns code and table together', {
  tag: ['@history.rollback', '@history.rollback.409'],
}, async ({ request }) => {
  const namespace = await newNamespace(request)
  const pipeline = await pipelineWith(request, 'select 1 as id', { namespace, layer: 'gold' })
  const path = `/api/v1/pipelines/${namespace}/gold/${pipeline.name}/rollback`
  await publish(request, pipeline)
  const rows = () => rowsOf(request, `select * from gold."${pipeline.name}"`, namespace)
  const published = Number((await getJson(request, path.replace('/rollback', ''))).published_version)
  const refused = await request.post(path, { data: { version: published, data: true } })
  expect([refused.status(), (await refused.json()).error]).toMatchObject([
    409,
    { code: 'FAILED_PRECONDITION' },
  ])

  const first = await runToSuccess(request, pipeline)
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, "select 2 as id, 'x' as word")
  await publish(request, pipeline)
  const second = await runToSuccess(request, pipeline)
  const response = await request.post(path, { data: { version: published, data: true } })
  expect(response.status(), await response.text()).toBe(200)
  const body = await response.json()
  expect(body).toMatchObject({ status: 'rolled_back', from_version: published, new_version: published + 2 })
  expect(body.commit).toBeGreaterThan(second.merged_commit)
  expect(await rows()).toEqual([{ id: 1 }])
  await runToSuccess(request, pipeline)
  expect(await rows()).toEqual([{ id: 1 }])
  const { history } = await getJson(request, `/api/v1/tables/${namespace}/gold/${pipeline.name}/history`)
  expect(history.at(-1)).toMatchObject({ commit: first.merged_commit })
  expect(history).toContainEqual(expect.objectContaining({ commit: body.commit, operation: 'restore' }))
})
