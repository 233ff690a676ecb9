// Main is protected by its owners: one person alone changes no table with four eyes, on none of the ways to main.
import { expect, test } from '@playwright/test'
import { eventually } from '../kit/eventually.ts'
import { type Caller, type ProService, startProService } from '../security/rights/pro-service.ts'

const API = '/api/v1'
const TABLES = '/iceberg/v1/sluice/namespaces/default%1Fgold/tables'

let service: ProService
let ann: Caller
let bob: Caller

test.beforeAll(async () => {
  service = await startProService({ RUNNER_URLS: '', QUERY_URLS: '', ICEBERG_MAIN_WRITES: 'on' })
  ;[ann, bob] = [service.user('ann'), service.user('bob')]
  // A user needs a namespace to create branches.
  for (const [caller, name] of [
    [ann, 'of-ann'],
    [bob, 'of-bob'],
  ] as const)
    await must(201, caller, 'POST', '/namespaces', { name })
})
test.afterAll(() => service?.stop())

const must = (status: number, caller: Caller, method: string, path: string, body?: object) =>
  service.must(status, caller, method, API + path, body)

/** The refusal of a request that needs a second person. */
async function refused(caller: Caller, method: string, path: string, body?: object) {
  const { status, json } = await service.ask(caller, method, API + path, body)
  expect([path, status, json]).toMatchObject([path, 403, { error: { code: 'AUTHORIZATION' } }])
}

const write = (by: Caller, name: string, files: Record<string, string>) =>
  Promise.all(
    Object.entries(files).map(([file, content]) =>
      must(200, by, 'PUT', `/files/default/pipelines/gold/${name}/${file}`, { content }),
    ),
  )

/** A pipeline of Ann with four eyes and one success on main, which Bob approved. Bob may administer it. */
async function guarded(name: string) {
  const { id } = await must(201, ann, 'POST', '/pipelines', { namespace: 'default', layer: 'gold', name })
  const grant = { grantee_id: 'bob', resource_type: 'pipeline', resource_id: id, permission: 'admin' }
  await must(201, ann, 'POST', '/sharing', grant)
  await write(ann, name, {
    'pipeline.sql': 'select 1 as a',
    'config.yaml': 'merge: review\nreviewers: four-eyes\n',
  })
  const pipeline = `/pipelines/default/gold/${name}`
  await must(200, ann, 'POST', `${pipeline}/publish`, {})
  const id1 = await run(ann, name, {}, 'review')
  await must(200, bob, 'POST', `/runs/${id1}/approve`, {})
  return pipeline
}

async function run(by: Caller, pipeline: string, more: object, until: 'review' | 'success') {
  const wanted = { namespace: 'default', layer: 'gold', pipeline, ...more }
  const { run_id: id } = await must(202, by, 'POST', '/runs', wanted)
  const get = () => must(200, ann, 'GET', `/runs/${id}`)
  const state = async () => {
    const { status, phase } = await get()
    return status === 'running' ? phase : status
  }
  await eventually(state).toBe(until)
  return String(id)
}

const rowsOf = async (name: string) =>
  (await must(200, ann, 'POST', '/query', { sql: `select a from gold.${name}` })).rows

test('a branch with the work of one person is merged by another one', async () => {
  await guarded('branched')
  await write(ann, 'branched', { 'pipeline.sql': 'select 2 as a' })
  await must(201, ann, 'POST', '/branches', { name: 'by-ann' })
  await run(ann, 'branched', { branch: 'by-ann', draft: true }, 'success')
  await must(201, ann, 'POST', '/branches', { name: 'copied', from: 'by-ann' })
  await refused(ann, 'POST', '/branches/by-ann/merge')
  await refused(ann, 'POST', '/branches/copied/merge')
  expect(await rowsOf('branched')).toEqual([{ a: 1 }])
  await must(200, bob, 'POST', '/branches/by-ann/merge')
  expect(await rowsOf('branched')).toEqual([{ a: 2 }])
})

test('the author of a draft does not merge the branch with its run', async () => {
  await guarded('drafted')
  await write(bob, 'drafted', { 'pipeline.sql': 'select 3 as a' })
  await must(201, ann, 'POST', '/branches', { name: 'of-both' })
  await run(ann, 'drafted', { branch: 'of-both', draft: true }, 'success')
  for (const author of [ann, bob]) await refused(author, 'POST', '/branches/of-both/merge')
  await must(200, service.root, 'POST', '/branches/of-both/merge')
})

test('one person neither restores nor rolls back a table, nor writes it through Iceberg', async () => {
  const pipeline = await guarded('restored')
  await write(ann, 'restored', { 'pipeline.sql': 'select 2 as a' })
  await must(200, ann, 'POST', `${pipeline}/publish`, {})
  const id = await run(ann, 'restored', {}, 'review')
  await must(200, bob, 'POST', `/runs/${id}/approve`, {})
  const { history } = await must(200, ann, 'GET', '/tables/default/gold/restored/history')
  const first = (history as { commit: number }[]).at(-1)?.commit
  await refused(ann, 'POST', '/tables/default/gold/restored/restore', { commit: first })
  await refused(ann, 'POST', `${pipeline}/rollback`, { version: 1, data: true })
  const identifier = { namespace: ['default', 'gold'], name: 'restored' }
  const moved = { source: identifier, destination: { ...identifier, name: 'gone' } }
  for (const [method, path, body] of [
    ['DELETE', `${TABLES}/restored`, undefined],
    ['POST', '/iceberg/v1/sluice/tables/rename', moved],
  ] as const)
    expect((await service.ask(ann, method, path, body)).status).toBe(403)
  expect(await rowsOf('restored')).toEqual([{ a: 2 }])
})

test('one person does not lower the rule of a pipeline', async () => {
  const pipeline = await guarded('lowered')
  await write(ann, 'lowered', { 'config.yaml': 'merge: auto\n' })
  await refused(ann, 'POST', `${pipeline}/publish`, {})
  await must(204, ann, 'DELETE', '/files/default/pipelines/gold/lowered/config.yaml')
  await refused(ann, 'POST', `${pipeline}/publish`, {})
  await refused(ann, 'DELETE', pipeline)
  await run(ann, 'lowered', {}, 'review')
  await must(200, bob, 'POST', `${pipeline}/publish`, {})
})

test('a namespace is protected above the files of its pipelines', async () => {
  await must(201, ann, 'POST', '/namespaces', { name: 'vault' })
  const { namespaces } = await must(200, ann, 'GET', '/namespaces')
  const { id } = (namespaces as { name: string; id: string }[]).find(({ name }) => name === 'vault') ?? {}
  const share = (grantee_id: string, permission: string) =>
    must(201, ann, 'POST', '/sharing', {
      grantee_id,
      resource_type: 'namespace',
      resource_id: id,
      permission,
    })
  await share('bob', 'admin')
  await share('eve', 'write')
  const protect = (review: string) => ({ protection: { review } })
  await refused(service.user('eve'), 'PUT', '/namespaces/vault', protect('any'))
  await must(204, ann, 'PUT', '/namespaces/vault', protect('four-eyes'))
  const table = { namespace: 'vault', layer: 'gold', name: 'gems' }
  await must(201, ann, 'POST', '/pipelines', table)
  await must(200, ann, 'POST', '/pipelines/vault/gold/gems/publish', {})
  const reviewed = await run(ann, 'gems', { namespace: 'vault' }, 'review')
  await refused(ann, 'POST', `/runs/${reviewed}/approve`, {})
  await must(200, bob, 'POST', `/runs/${reviewed}/approve`, {})
  await refused(ann, 'PUT', '/namespaces/vault', protect('none'))
  await refused(ann, 'DELETE', '/namespaces/vault')
  const seen = (await must(200, bob, 'GET', '/namespaces')).namespaces
  expect(seen).toContainEqual(
    expect.objectContaining({
      name: 'vault',
      protection: { review: 'four-eyes', proposed: { review: 'none', by: 'ann' } },
    }),
  )
  await must(204, bob, 'PUT', '/namespaces/vault', protect('none'))
  await run(ann, 'gems', { namespace: 'vault' }, 'success')
})
