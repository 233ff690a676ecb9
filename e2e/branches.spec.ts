// The second contract: Branches.
import { expect, test } from '@playwright/test'
import {
  ENDLESS,
  expectError,
  fresh,
  getJson,
  newNamespace,
  pipelineWith,
  publishedPipeline,
  writeFile,
} from './resources.ts'
import { cancel, ended, getRun, newTable, requestRun, runToSuccess } from './runs.ts'

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
