// The second contract: Review in the Pro edition, with the permissions of reviewers and four eyes.
import { expect, test } from '@playwright/test'
import { eventually } from '../kit/eventually.ts'
import { type Caller, type ProService, startProService } from '../security/rights/pro-service.ts'

const API = '/api/v1'

let service: ProService
let ann: Caller
let bob: Caller
/** May only read. */
let rae: Caller
let eve: Caller

test.beforeAll(async () => {
  service = await startProService({ RUNNER_URLS: '', QUERY_URLS: '' })
  ;[ann, bob, rae, eve] = ['ann', 'bob', 'rae', 'eve'].map((name) => service.user(name)) as [
    Caller,
    Caller,
    Caller,
    Caller,
  ]
})
test.afterAll(() => service?.stop())

/** Makes and publishes a pipeline of Ann. Bob may write it, and Rae may read it. */
async function reviewed(name: string, reviewers: 'any' | 'four-eyes'): Promise<string> {
  const must = (status: number, path: string, body: object, method = 'POST') =>
    service.must(status, ann, method, API + path, body)
  const { id } = await must(201, '/pipelines', { namespace: 'default', layer: 'gold', name })
  for (const [file, content] of [
    ['pipeline.sql', 'select 1 as a'],
    ['config.yaml', `merge: review\nreviewers: ${reviewers}\n`],
  ])
    await must(200, `/files/default/pipelines/gold/${name}/${file}`, { content }, 'PUT')
  await must(200, `/pipelines/default/gold/${name}/publish`, {})
  for (const [grantee_id, permission] of [
    ['bob', 'write'],
    ['rae', 'read'],
  ])
    await must(201, '/sharing', { grantee_id, resource_type: 'pipeline', resource_id: id, permission })
  return name
}

async function inReview(id: unknown): Promise<string> {
  const get = () => service.must(200, ann, 'GET', `${API}/runs/${id}`)
  await eventually(async () => (await get()).phase).toBe('review')
  return String(id)
}

async function requested(caller: Caller, pipeline: string): Promise<string> {
  const data = { namespace: 'default', layer: 'gold', pipeline }
  return inReview((await service.must(202, caller, 'POST', `${API}/runs`, data)).run_id)
}

const decide = async (caller: Caller, id: string, decision: 'approve' | 'reject') => {
  const body = decision === 'reject' ? { message: 'not yet' } : {}
  return (await service.ask(caller, 'POST', `${API}/runs/${id}/${decision}`, body)).status
}

test('four eyes refuse the requester of a run and accept another writer', async () => {
  const pipeline = await reviewed('eyes', 'four-eyes')
  for (const [requester, other] of [
    [ann, bob],
    [bob, ann],
  ] as const) {
    const id = await requested(requester, pipeline)
    const refused = await service.ask(requester, 'POST', `${API}/runs/${id}/approve`, {})
    expect([refused.status, refused.json]).toMatchObject([
      403,
      { error: { code: 'AUTHORIZATION', message: expect.stringContaining('reviewers: four-eyes') } },
    ])
    expect(await service.must(200, ann, 'GET', `${API}/runs/${id}`)).toMatchObject({
      phase: 'review',
      merged_commit: null,
    })
    expect(await decide(other, id, 'approve')).toBe(200)
    expect(await service.must(200, ann, 'GET', `${API}/runs/${id}`)).toMatchObject({ status: 'success' })
  }
})

test('four eyes let the requester reject the own run', async () => {
  const id = await requested(bob, await reviewed('withdrawn', 'four-eyes'))
  expect(await decide(bob, id, 'reject')).toBe(200)
})

test('four eyes let any writer approve a run that a webhook requested', async () => {
  const pipeline = await reviewed('unasked', 'four-eyes')
  const path = `${API}/pipelines/default/gold/${pipeline}/triggers`
  const { webhook_token } = await service.must(201, ann, 'POST', path, { type: 'webhook', config: {} })
  const hook: Caller = { 'x-webhook-token': String(webhook_token) }
  const id = await inReview((await service.must(201, hook, 'POST', `${API}/webhooks`)).run_id)
  expect(await decide(ann, id, 'approve')).toBe(200)
})

test('without four eyes the requester approves the own run', async () => {
  const id = await requested(bob, await reviewed('two-eyes', 'any'))
  expect(await decide(bob, id, 'approve')).toBe(200)
})

test('only writers of the pipeline approve and reject @runs.approve.403 @runs.reject.403', async () => {
  const id = await requested(ann, await reviewed('watched', 'any'))
  for (const decision of ['approve', 'reject'] as const) {
    expect([decision, await decide({}, id, decision)]).toEqual([decision, 401])
    expect([decision, await decide(rae, id, decision)]).toEqual([decision, 403])
    // As for every request that changes something, a stranger is told about the missing permission.
    expect([decision, await decide(eve, id, decision)]).toEqual([decision, 403])
  }
  expect((await service.ask(eve, 'GET', `${API}/runs/${id}`)).status).toBe(404)
  expect(await service.must(200, ann, 'GET', `${API}/runs/${id}`)).toMatchObject({ phase: 'review' })
  expect(await decide(bob, id, 'reject')).toBe(200)
})
