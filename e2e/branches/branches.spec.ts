// The second contract: Branches.
import { type APIRequestContext, expect, test } from '@playwright/test'
import {
  addTest,
  ENDLESS,
  expectError,
  fresh,
  getJson,
  type MadePipeline,
  newNamespace,
  pipelineWith,
  publish,
  publishedPipeline,
  writeFile,
} from '../kit/resources.ts'
import { cancel, ended, getRun, newTable, requestRun, runToSuccess } from '../kit/runs.ts'

const path = '/api/v1/branches'

test('a branch is opened, listed, read and deleted', {
  tag: [
    '@branches.list',
    '@branches.create',
    '@branches.get',
    '@branches.get.404',
    '@branches.delete',
    '@branches.delete.404',
    '@branches.commits',
  ],
}, async ({ request }) => {
  const name = fresh('life')
  await expectError(await request.get(`${path}/${name}`), 404)
  const created = await request.post(path, { data: { name, description: 'One', expires_in_hours: 1 } })
  expect(created.status()).toBe(201)
  const branch = await created.json()
  expect(branch).toMatchObject({
    name,
    head: null,
    commits_ahead: 0,
    tables_changed: 0,
    status: 'open',
    protected: false,
    description: 'One',
  })
  const { branches } = await getJson(request, `${path}?search=${name}`)
  expect(branches).toMatchObject([{ name, base_commit: branch.base_commit }])
  const all = await getJson(request, path)
  expect(all.branches[0]).toMatchObject({ name: 'main', protected: true })
  expect(await getJson(request, `${path}/${name}/commits`)).toEqual({ commits: [], total: 0 })

  const copy = await request.post(path, { data: { name: fresh('copy'), from: name } })
  expect(await copy.json()).toMatchObject({ base_commit: branch.base_commit })
  const first = await request.post(path, { data: { name: fresh('first'), as_of: branch.base_commit } })
  expect(await first.json()).toMatchObject({ base_commit: branch.base_commit })

  expect((await request.delete(`${path}/${name}`)).status()).toBe(204)
  await expectError(await request.delete(`${path}/${name}`), 404)
  expect(await getJson(request, `${path}/${name}`)).toMatchObject({ name, status: 'deleted' })
  expect((await request.post(path, { data: { name } })).status()).toBe(201)
})

test('wrong names, sources and repeated names are refused', {
  tag: ['@branches.create.400', '@branches.create.404', '@branches.create.409', '@branches.delete.403'],
}, async ({ request }) => {
  for (const name of ['run-1', 'build-1', 'Upper', '1st', 'a_b', ''])
    await expectError(await request.post(path, { data: { name } }), 400, /^name: /)
  await expectError(await request.post(path, { data: { name: fresh('x'), from: 'absent' } }), 404)
  await expectError(await request.post(path, { data: { name: fresh('x'), as_of: 999_999_999 } }), 404)
  await expectError(await request.post(path, { data: { name: 'main' } }), 409)
  expect((await request.delete(`${path}/main`)).status()).toBe(403)
})

test('a tag names a commit of main until it is deleted @tags.life', async ({ request }) => {
  const name = fresh('tag')
  const created = await request.post('/api/v1/tags', { data: { name, description: 'Kept' } })
  expect(created.status()).toBe(201)
  const tag = await created.json()
  expect(tag).toMatchObject({ name, description: 'Kept' })
  expect((await getJson(request, '/api/v1/tags')).tags).toContainEqual(tag)
  await expectError(await request.post(path, { data: { name } }), 409)
  const query = { sql: 'select 1 as a', as_of: name }
  expect((await request.post('/api/v1/query', { data: query })).status()).toBe(200)
  expect((await request.delete(`/api/v1/tags/${name}`)).status()).toBe(204)
  await expectError(await request.delete(`/api/v1/tags/${name}`), 404)
  expect((await request.post('/api/v1/query', { data: query })).status()).toBe(404)
})

test('a run on a branch changes the branch and leaves main as it was', {
  tag: ['@runs.create.branch', '@runs.create.draft'],
}, async ({ request }) => {
  const namespace = await newNamespace(request)
  const source = await newTable(request, { namespace, layer: 'bronze' }, 'select 1 as id')
  const total = await pipelineWith(request, `select count(*) as n from {{ ref('bronze.${source.name}') }}`, {
    namespace,
    layer: 'gold',
  })
  await runToSuccess(request, total)
  const branch = fresh('dev')
  expect((await request.post(path, { data: { name: branch } })).status()).toBe(201)

  await writeFile(request, `${source.prefix}pipeline.sql`, 'select range as id from range(5)')
  const drafted = await ended(request, await requestRun(request, source, { branch, draft: true }))
  expect(drafted).toMatchObject({
    status: 'success',
    error: null,
    branch,
    draft: true,
    build_id: null,
    version_number: null,
    merged_commit: null,
    rows_written: 5,
  })
  const counted = await ended(request, await requestRun(request, total, { branch }))
  expect(counted).toMatchObject({ status: 'success', branch, draft: false })
  const n = async (more: object) => {
    const data = { sql: `select n from gold."${total.name}"`, namespace, ...more }
    return (await (await request.post('/api/v1/query', { data })).json()).rows
  }
  expect([await n({ branch }), await n({})]).toEqual([[{ n: 5 }], [{ n: 1 }]])
  expect(await getJson(request, `${path}/${branch}`)).toMatchObject({
    commits_ahead: 2,
    tables_changed: 2,
    head: expect.any(String),
  })
  expect(await getJson(request, `${path}/${branch}/commits`)).toMatchObject({
    total: 2,
    commits: [
      { run_id: counted.id, branch, number: null, tables: [`${namespace}.gold.${total.name}`] },
      { run_id: drafted.id, branch, number: null, tables: [`${namespace}.bronze.${source.name}`] },
    ],
  })
})

test('a branch with unfinished runs cannot be deleted', {
  tag: ['@branches.delete.409', '@runs.create.branch.404', '@runs.create.draft.400'],
}, async ({ request }) => {
  const branch = fresh('busy')
  expect((await request.post(path, { data: { name: branch } })).status()).toBe(201)
  const endless = await publishedPipeline(request, ENDLESS)
  const id = await requestRun(request, endless, { branch })
  const refused = await request.delete(`${path}/${branch}`)
  expect([refused.status(), (await refused.json()).error]).toMatchObject([
    409,
    { code: 'FAILED_PRECONDITION', type: 'CONFLICT' },
  ])
  await cancel(request, id)
  expect(await getRun(request, id)).toMatchObject({ status: 'cancelled', branch })
  expect((await request.delete(`${path}/${branch}`)).status()).toBe(204)

  const { namespace, layer, name: pipeline } = endless
  const data = { namespace, layer, pipeline }
  for (const absent of [branch, fresh('absent'), `run-${id}-1`])
    await expectError(await request.post('/api/v1/runs', { data: { ...data, branch: absent } }), 404)
  for (const wrong of [{ draft: true }, { branch: 'main', draft: true }, { branch: 'Main' }])
    await expectError(await request.post('/api/v1/runs', { data: { ...data, ...wrong } }), 400)
})

/** A table, a sum over it with the test that the sum is below 100, and an open branch. */
async function gatedSum(request: APIRequestContext) {
  const namespace = await newNamespace(request)
  const left = await newTable(request, { namespace, layer: 'bronze' }, 'select 1 as n')
  const right = await newTable(request, { namespace, layer: 'bronze' }, 'select 2 as n')
  const test = (severity: 'error' | 'warn') => ({
    name: `total-${severity}`,
    severity,
    sql: `select l.n + r.n as total from {{ ref('bronze.${left.name}') }} l, {{ ref('bronze.${right.name}') }} r where l.n + r.n >= 100`,
  })
  for (const table of [left, right])
    for (const severity of ['error', 'warn'] as const) await addTest(request, table, test(severity))
  for (const table of [left, right]) await publish(request, table)
  const branch = fresh('dev')
  expect((await request.post(path, { data: { name: branch } })).status()).toBe(201)
  const set = async (table: MadePipeline, n: number, on?: string) => {
    await writeFile(request, `${table.prefix}pipeline.sql`, `select ${n} as n`)
    if (on === undefined) await publish(request, table)
    const more = on === undefined ? {} : { branch: on, draft: true }
    const run = await ended(request, await requestRun(request, table, more))
    expect(run).toMatchObject({ status: 'success', error: null })
  }
  const onMain = async (table: MadePipeline) => {
    const data = { sql: `select n from bronze."${table.name}"`, namespace }
    return (await (await request.post('/api/v1/query', { data })).json()).rows[0].n
  }
  const merge = (data?: object) => request.post(`${path}/${branch}/merge`, { data })
  return { namespace, left, right, branch, set, onMain, merge }
}

test('a merge moves all tables of a branch to main in one commit', {
  tag: ['@branches.merge', '@branches.merge.unchanged', '@branches.merge.404', '@branches.rebase'],
}, async ({ request }) => {
  const { namespace, left, right, branch, set, onMain, merge } = await gatedSum(request)
  expect(await (await merge()).json()).toMatchObject({ status: 'unchanged', tables: [] })
  await set(left, 10, branch)
  await set(right, 20, branch)
  expect([await onMain(left), await onMain(right)]).toEqual([1, 2])
  const rebased = await request.post(`${path}/${branch}/rebase`)
  expect([rebased.status(), await rebased.json()]).toMatchObject([200, { name: branch, tables_changed: 2 }])

  const merged = await merge({ message: 'tenfold' })
  const body = await merged.json()
  const tables = [left, right].map(({ name }) => `${namespace}.bronze.${name}`).sort()
  expect([merged.status(), body]).toMatchObject([
    200,
    { status: 'merged', commit: expect.any(Number), tables },
  ])
  expect([await onMain(left), await onMain(right)]).toEqual([10, 20])
  const { commits } = await getJson(request, `${path}/main/commits?limit=200`)
  expect(commits.find((commit: { number: number }) => commit.number === body.commit)).toMatchObject({
    branch,
    message: 'tenfold',
    run_id: null,
    tables,
  })
  expect(await getJson(request, `${path}/${branch}`)).toMatchObject({ status: 'merged' })
  await expectError(await merge(), 404)
  await expectError(await request.post(`${path}/${branch}/rebase`), 404)
  expect((await request.post(path, { data: { name: branch } })).status()).toBe(201)
})

test('the tests of a merge read the tables as the merge would leave them', {
  tag: ['@branches.merge.gate'],
}, async ({ request }) => {
  const { namespace, left, right, branch, set, onMain, merge } = await gatedSum(request)
  // Each side alone passes its tests: 60 + 2 on the branch, 1 + 50 on main.
  await set(left, 60, branch)
  await set(right, 50)
  const refused = await merge()
  expect([refused.status(), await refused.json()]).toMatchObject([
    409,
    {
      error: { code: 'FAILED_PRECONDITION', type: 'CONFLICT' },
      results: [
        {
          table: `${namespace}.bronze.${left.name}`,
          name: 'total-error',
          status: 'failed',
          severity: 'error',
          value: 110,
        },
      ],
    },
  ])
  expect(await onMain(left)).toBe(1)
  expect(await getJson(request, `${path}/${branch}`)).toMatchObject({ status: 'open' })
  await set(left, 40, branch)
  expect((await merge()).status()).toBe(200)
  expect(await onMain(left)).toBe(40)
})

test('a table that changed on both sides is neither merged nor rebased', {
  tag: ['@branches.merge.conflict', '@branches.rebase.409'],
}, async ({ request }) => {
  const { namespace, left, right, branch, set, onMain, merge } = await gatedSum(request)
  await set(left, 10, branch)
  await set(right, 20, branch)
  await set(right, 30)
  for (const refused of [await merge(), await request.post(`${path}/${branch}/rebase`)])
    expect([refused.status(), await refused.json()]).toMatchObject([
      409,
      { error: { code: 'FAILED_PRECONDITION' }, conflicts: [`${namespace}.bronze.${right.name}`] },
    ])
  expect([await onMain(left), await onMain(right)]).toEqual([1, 30])
})
