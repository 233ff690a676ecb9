// Attack class: broken object-level authorization (OWASP API1) during concurrent changes. A revocation is effective with its
// answer. A right belongs to one resource, not to its name. matrix.spec.ts has all routes and rights.
import { expect, test } from '@playwright/test'
import { fresh } from '../../kit/resources.ts'
import { type Caller, type ProService, startProService } from './pro-service.ts'

let service: ProService
let ann: Caller
let bob: Caller
let eve: Caller
test.beforeAll(async () => {
  service = await startProService()
  ann = service.user('ann')
  bob = service.user('bob')
  eve = service.user('eve')
})
test.afterAll(async () => {
  await service?.stop()
})

interface Owned {
  id: string
  name: string
  path: string
}

async function newPipeline(owner: Caller, name = fresh('secret')): Promise<Owned> {
  const body = { namespace: 'default', layer: 'silver', name }
  const { id } = await service.must(201, owner, 'POST', '/api/v1/pipelines', body)
  return { id: String(id), name, path: `/api/v1/pipelines/default/silver/${name}` }
}
const share = (by: Caller, to: string, { id }: Owned, permission: string) =>
  service.must(201, by, 'POST', '/api/v1/sharing', {
    grantee_id: to,
    resource_type: 'pipeline',
    resource_id: id,
    permission,
  })
const transfer = (by: Caller, { id }: Owned, to: string) =>
  service.ask(by, 'POST', '/api/v1/sharing/transfer', {
    resource_type: 'pipeline',
    resource_id: id,
    to_user_id: to,
  })
const statusOf = async (...asked: Parameters<ProService['ask']>) => (await service.ask(...asked)).status

test('a revoked grant stops working as soon as the revocation is answered', async () => {
  for (let round = 0; round < 10; round++) {
    const pipeline = await newPipeline(ann)
    const grant = await share(ann, 'bob', pipeline, 'write')
    let isRevoked = false
    const use = async () => {
      const wasRevoked = isRevoked
      const status = await statusOf(bob, 'PUT', pipeline.path, { description: 'x' })
      if (wasRevoked) expect(status).toBe(403)
      else expect([200, 403]).toContain(status)
    }
    await Promise.all([
      use(),
      use(),
      service.must(204, ann, 'DELETE', `/api/v1/sharing/${grant.id}`).then(() => {
        isRevoked = true
        return Promise.all([
          use(),
          use(),
          statusOf(bob, 'GET', pipeline.path).then((status) => expect(status).toBe(404)),
        ])
      }),
    ])
  }
})

test('exactly one of several concurrent ownership changes succeeds', async () => {
  for (let round = 0; round < 5; round++) {
    const pipeline = await newPipeline(ann)
    const names = Array.from({ length: 6 }, (_, n) => `new-${n}`)
    const answers = await Promise.all(
      names.map(async (name, n) => ({
        name,
        status:
          n % 3 === 2
            ? await statusOf(ann, 'PUT', pipeline.path, { owner: name })
            : (await transfer(ann, pipeline, name)).status,
      })),
    )
    const winners = answers.filter(({ status }) => status === 200)
    expect(answers.map(({ status }) => status).filter((status) => ![200, 403].includes(status))).toEqual([])
    expect(winners).toHaveLength(1)
    const { json } = await service.ask(service.user(winners[0]?.name ?? ''), 'GET', pipeline.path)
    expect(json).toMatchObject({ owner: winners[0]?.name })
    expect(await statusOf(ann, 'GET', pipeline.path)).toBe(404)
  }
})

test('a grant does not apply to another pipeline of that name', async () => {
  for (let round = 0; round < 5; round++) {
    const pipeline = await newPipeline(ann)
    await share(ann, 'bob', pipeline, 'write')
    const meddle = () =>
      Promise.all([
        service.ask(bob, 'PUT', pipeline.path, { description: 'by bob' }),
        service.ask(bob, 'POST', `${pipeline.path}/tests`, {
          name: fresh('bobs'),
          sql: 'select 1',
          severity: 'warn',
        }),
        service.ask(bob, 'POST', `${pipeline.path}/triggers`, { type: 'webhook', config: {} }),
      ])
    const again = async () => {
      await service.must(204, ann, 'DELETE', pipeline.path)
      await newPipeline(eve, pipeline.name)
    }
    await Promise.all([again(), meddle(), meddle(), meddle()])
    const { json } = await service.ask(eve, 'GET', pipeline.path)
    expect(json).toMatchObject({ owner: 'eve', description: '' })
    expect((await service.ask(eve, 'GET', `${pipeline.path}/triggers`)).json).toMatchObject({ total: 0 })
    expect((await service.ask(eve, 'GET', `${pipeline.path}/tests`)).json).toMatchObject({ total: 0 })
    expect(await statusOf(bob, 'GET', pipeline.path)).toBe(404)
  }
})
