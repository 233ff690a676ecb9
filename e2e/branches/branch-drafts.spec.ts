// Branches whose tables were made by drafts: the merge says so, and publishes the drafts in its transaction.
import { type APIRequestContext, expect, test } from '@playwright/test'
import {
  addTest,
  fresh,
  getJson,
  type MadePipeline,
  newNamespace,
  pipelineWith,
  publish,
  rowsOf,
  writeFile,
} from '../kit/resources.ts'
import { ended, requestRun, runToSuccess } from '../kit/runs.ts'

const API = '/api/v1'

/** Makes a published pipeline with a table, and a branch that a run of another draft has changed. */
async function branched(request: APIRequestContext) {
  const namespace = await newNamespace(request)
  const pipeline = await pipelineWith(request, 'select 1 as a', { namespace, layer: 'gold', name: 'squares' })
  await publish(request, pipeline)
  await runToSuccess(request, pipeline)
  const branch = fresh('b')
  expect((await request.post(`${API}/branches`, { data: { name: branch } })).status()).toBe(201)
  await write(request, pipeline, 'select 2 as a')
  return { namespace, pipeline, branch, key: `${namespace}.gold.squares` }
}

const write = (request: APIRequestContext, { prefix }: MadePipeline, sql: string) =>
  writeFile(request, `${prefix}pipeline.sql`, sql)

async function ranDraft(request: APIRequestContext, pipeline: MadePipeline, branch: string): Promise<string> {
  const id = await requestRun(request, pipeline, { branch, draft: true })
  expect(await ended(request, id)).toMatchObject({ status: 'success' })
  return id
}

async function merged(request: APIRequestContext, branch: string, data: object) {
  const answer = await request.post(`${API}/branches/${branch}/merge`, { data })
  return { status: answer.status(), body: await answer.json() }
}

test('a merge names the drafts that it leaves unpublished @branches.drafts', async ({ request }) => {
  const { pipeline, branch, key } = await branched(request)
  const detail = () => getJson(request, `${API}/branches/${branch}`)
  expect(await detail()).toMatchObject({ drafts: [] })
  const id = await ranDraft(request, pipeline, branch)
  const drafts = [{ pipeline: key, run_id: id }]
  expect(await detail()).toMatchObject({ drafts })
  expect(await merged(request, branch, {})).toMatchObject({
    status: 200,
    body: { status: 'merged', tables: [key], drafts, published: [] },
  })
  expect(await getJson(request, pipeline.url)).toMatchObject({ published_version: 1, draft_dirty: true })

  const later = fresh('b')
  expect((await request.post(`${API}/branches`, { data: { name: later } })).status()).toBe(201)
  await write(request, pipeline, 'select 3 as a')
  await ranDraft(request, pipeline, later)
  await publish(request, pipeline)
  // The draft is the published version now.
  expect(await merged(request, later, {})).toMatchObject({ status: 200, body: { drafts: [] } })
})

test('a merge publishes the drafts as their runs executed them @branches.merge.drafts', async ({
  request,
}) => {
  const { namespace, pipeline, branch, key } = await branched(request)
  // The published test refuses the new rows. The draft replaces it.
  await write(request, pipeline, 'select 1 as a')
  await addTest(request, pipeline, {
    name: 'ones',
    severity: 'error',
    sql: 'select * from {{ this }} where a <> 1',
  })
  await publish(request, pipeline)
  await writeFile(
    request,
    `${pipeline.prefix}tests/quality/ones.sql`,
    'select * from {{ this }} where a <> 2',
  )
  await write(request, pipeline, 'select 2 as a')
  await ranDraft(request, pipeline, branch)
  expect(await merged(request, branch, {})).toMatchObject({
    status: 409,
    body: { results: [{ name: 'ones' }] },
  })

  await write(request, pipeline, 'select 9 as unfinished')
  const copy = fresh('b')
  expect((await request.post(`${API}/branches`, { data: { name: copy, from: branch } })).status()).toBe(201)
  expect(await merged(request, copy, { publish_drafts: true, message: 'twos' })).toMatchObject({
    status: 200,
    body: { status: 'merged', published: [{ pipeline: key, version: 3 }], drafts: [] },
  })
  expect(await rowsOf(request, 'select a from gold.squares', namespace)).toEqual([{ a: 2 }])
  expect(await getJson(request, pipeline.url)).toMatchObject({ published_version: 3, draft_dirty: true })
  expect(await getJson(request, `${pipeline.url}/versions/3`)).toMatchObject({ message: 'twos' })
  const run = await runToSuccess(request, pipeline)
  expect(run).toMatchObject({ status: 'success', version_number: 3 })
  expect(await rowsOf(request, 'select a from gold.squares', namespace)).toEqual([{ a: 2 }])
})

test('a merge whose draft cannot be published merges nothing', async ({ request }) => {
  const { namespace, pipeline, branch, key } = await branched(request)
  await ranDraft(request, pipeline, branch)
  await write(request, pipeline, 'select 1 as a, 3 as newer')
  await publish(request, pipeline)
  const late = await merged(request, branch, { publish_drafts: true })
  expect([late.status, late.body.error.message]).toEqual([
    409,
    `version 2 of pipeline ${key} is newer than its draft on branch ${branch}: run the draft on the branch again, or merge without publish_drafts`,
  ])
  await write(request, pipeline, 'select 2 as a')
  await writeFile(
    request,
    `${pipeline.prefix}tests/quality/two.sql`,
    '-- @severity: warn\nselect 1 as a where false; select 2 as a',
  )
  await ranDraft(request, pipeline, branch)
  const { status, body } = await merged(request, branch, { publish_drafts: true })
  expect([status, body.error.message]).toEqual([
    409,
    expect.stringContaining(`draft of pipeline ${key} cannot be published: validation failed`),
  ])
  expect(await rowsOf(request, 'select a from gold.squares', namespace)).toEqual([{ a: 1 }])
  expect(await getJson(request, pipeline.url)).toMatchObject({ published_version: 2, draft_dirty: true })
  expect(await getJson(request, `${API}/branches/${branch}`)).toMatchObject({ status: 'open' })
})
