// Specification: Sharing, and the errors of the Pro edition on pipelines. The callers are users of an identity provider.
import { randomUUID } from 'node:crypto'
import { expect, test } from '@playwright/test'
import { type Answer, type Caller, type ProService, startProService } from '../security/rights/pro-service.ts'

const API = '/api/v1'
const PIPELINE = `${API}/pipelines/default/gold/shared`

let service: ProService
let ann: Caller
let bob: Caller
let eve: Caller
let pipelineId: string

test.describe.configure({ mode: 'serial' })
test.beforeAll(async () => {
  service = await startProService()
  ann = service.user('ann')
  bob = service.user('bob')
  eve = service.user('eve')
  await service.must(201, ann, 'POST', `${API}/pipelines`, {
    namespace: 'default',
    layer: 'gold',
    name: 'shared',
  })
  pipelineId = String((await service.must(200, ann, 'GET', PIPELINE)).id)
})
test.afterAll(() => service?.stop())

const CODES: Record<number, [string, string]> = {
  400: ['INVALID_ARGUMENT', 'VALIDATION'],
  401: ['AUTHENTICATION', 'AUTHENTICATION'],
  403: ['AUTHORIZATION', 'AUTHORIZATION'],
  404: ['NOT_FOUND', 'NOT_FOUND'],
}
const refused = (answer: Answer, status: number) =>
  expect([answer.status, answer.json]).toEqual([
    status,
    { error: { code: CODES[status]?.[0], type: CODES[status]?.[1], message: expect.stringMatching(/./) } },
  ])
const grantOf = (grantee: string, permission: string) => ({
  grantee_id: grantee,
  resource_type: 'pipeline',
  resource_id: pipelineId,
  permission,
})
const shareWith = (caller: Caller, body: object) => service.ask(caller, 'POST', `${API}/sharing`, body)
const listing = (params: Record<string, string>) => `${API}/sharing?${new URLSearchParams(params)}`

test('grants need the admin permission and are refused as specified @sharing.grant', async () => {
  const granted = await shareWith(ann, grantOf('bob', 'read'))
  expect([granted.status, granted.json]).toEqual([
    201,
    {
      id: expect.any(String),
      grantor_id: 'ann',
      ...grantOf('bob', 'read'),
      created_at: expect.stringMatching(/^\d{4}-.*Z$/),
    },
  ])
  for (const field of ['grantee_id', 'resource_type', 'resource_id', 'permission']) {
    const { [field]: _, ...without } = { ...grantOf('bob', 'read') } as Record<string, string>
    refused(await shareWith(ann, without), 400)
  }
  refused(await shareWith(ann, grantOf('bob', 'everything')), 400)
  refused(await shareWith({}, grantOf('eve', 'read')), 401)
  refused(await shareWith(bob, grantOf('eve', 'read')), 403)
  refused(await shareWith(ann, { ...grantOf('bob', 'read'), resource_id: randomUUID() }), 404)
})

test('read permission does not allow changing or deleting a pipeline: 403 @pipelines.update.403 @pipelines.delete.403', async () => {
  expect((await service.ask(bob, 'GET', PIPELINE)).status).toBe(200)
  refused(await service.ask(bob, 'PUT', PIPELINE, { description: 'mine' }), 403)
  refused(await service.ask(bob, 'DELETE', PIPELINE), 403)
  refused(await service.ask(eve, 'GET', PIPELINE), 404)
})

test('a reader of a pipeline gets no hash of its webhook tokens', async () => {
  const created = await service.must(201, ann, 'POST', `${PIPELINE}/triggers`, {
    type: 'webhook',
    config: {},
  })
  const { token_hash: hash } = created.config as { token_hash: string }
  expect(hash).toMatch(/^[0-9a-f]{64}$/)
  const inspected = `${API}/inspector/trigger/instances`
  const addresses = [
    `${PIPELINE}/triggers`,
    `${PIPELINE}/triggers/${created.id}`,
    inspected,
    `${inspected}/${created.id}`,
    `${inspected}/${created.id}/export.json`,
  ]
  for (const address of addresses) {
    const { status, text } = await service.ask(bob, 'GET', address)
    expect([address, status, text.includes(hash)]).toEqual([address, 200, false])
  }
  const shown = await service.must(200, ann, 'GET', `${PIPELINE}/triggers/${created.id}`)
  expect(shown.config).toEqual({ token_hash: hash })
  expect(await service.must(200, bob, 'GET', `${PIPELINE}/triggers/${created.id}`)).toEqual({
    ...shown,
    config: {},
  })
})

test('grants are listed and revoked as specified @sharing.list @sharing.revoke', async () => {
  const resource = { resource_type: 'pipeline', resource_id: pipelineId }
  const list = await service.must(200, ann, 'GET', listing(resource))
  expect(list).toEqual({ grants: [expect.objectContaining(grantOf('bob', 'read'))], total: 1 })
  refused(await service.ask(ann, 'GET', listing({ resource_type: 'pipeline' })), 400)
  refused(await service.ask(ann, 'GET', listing({ resource_id: pipelineId })), 400)
  refused(await service.ask({}, 'GET', listing(resource)), 401)

  const [{ id }] = list.grants as [{ id: string }]
  refused(await service.ask({}, 'DELETE', `${API}/sharing/${id}`), 401)
  refused(await service.ask(bob, 'DELETE', `${API}/sharing/${id}`), 403)
  refused(await service.ask(ann, 'DELETE', `${API}/sharing/${randomUUID()}`), 404)
  expect((await service.ask(ann, 'DELETE', `${API}/sharing/${id}`)).status).toBe(204)
  refused(await service.ask(bob, 'GET', PIPELINE), 404)
})

test('only the owner transfers a pipeline, losing access; other grants remain @sharing.transfer', async () => {
  const to = (user: string, more: object = {}) => ({
    resource_type: 'pipeline',
    resource_id: pipelineId,
    to_user_id: user,
    ...more,
  })
  const transfer = (caller: Caller, body: object) =>
    service.ask(caller, 'POST', `${API}/sharing/transfer`, body)
  expect((await shareWith(ann, grantOf('bob', 'admin'))).status).toBe(201)
  refused(await transfer(ann, to('eve', { resource_type: 'namespace' })), 400)
  refused(await transfer({}, to('eve')), 401)
  refused(await transfer(bob, to('bob')), 403)
  refused(await transfer(ann, to('eve', { resource_id: randomUUID() })), 404)
  const handed = await transfer(ann, to('eve'))
  expect([handed.status, handed.json]).toEqual([
    200,
    { transferred: true, resource_id: pipelineId, new_owner: 'eve' },
  ])
  expect((await service.ask(eve, 'PUT', PIPELINE, { description: 'now mine' })).status).toBe(200)
  expect((await service.ask(bob, 'PUT', PIPELINE, { description: 'still allowed' })).status).toBe(200)
  refused(await service.ask(ann, 'GET', PIPELINE), 404)
})
