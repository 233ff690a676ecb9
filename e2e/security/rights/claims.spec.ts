// Sentences of docs/security.md about rights that no other test proves, on one Pro service.
import { expect, test } from '@playwright/test'
import { fresh } from '../../kit/resources.ts'
import { type Caller, type ProService, startProService } from './pro-service.ts'

let service: ProService
test.beforeAll(async () => {
  service = await startProService()
})
test.afterAll(() => service?.stop())

const callers = (...names: string[]): Caller[] => names.map((name) => service.user(name))
const pipelines = '/api/v1/pipelines'

/** A pipeline of the caller in the layer gold. */
async function newPipeline(caller: Caller, namespace: string, name = fresh('p')) {
  const { id } = await service.must(201, caller, 'POST', pipelines, { namespace, layer: 'gold', name })
  return { id, name, url: `${pipelines}/${namespace}/gold/${name}` }
}

async function share(owner: Caller, id: unknown, grantee: string, permission: string): Promise<string> {
  const grant = { grantee_id: grantee, resource_type: 'pipeline', resource_id: id, permission }
  return String((await service.must(201, owner, 'POST', '/api/v1/sharing', grant)).id)
}

test('everybody creates in the namespace default, and owners in their own', async () => {
  const [ada, bob] = callers('ada', 'bob') as [Caller, Caller]
  const name = fresh('hers')
  await service.must(201, ada, 'POST', '/api/v1/namespaces', { name })
  await newPipeline(bob, 'default')
  const refused = await service.ask(bob, 'POST', pipelines, { namespace: name, layer: 'gold', name: 'x' })
  expect([403, 404]).toContain(refused.status)
})

test('a resource of an API key has no owner until an administrator assigns one', async () => {
  const { id, url } = await newPipeline(service.machine, 'default')
  expect(await service.must(200, service.root, 'GET', url)).toMatchObject({ owner: null })
  const [dora] = callers('dora') as [Caller]
  expect((await service.ask(dora, 'GET', url)).status).toBe(404)
  const transfer = { resource_type: 'pipeline', resource_id: id, to_user_id: 'dora' }
  const answer = await service.ask(service.root, 'POST', '/api/v1/sharing/transfer', transfer)
  expect([answer.status, answer.text]).toEqual([200, expect.anything()])
  await service.must(200, dora, 'GET', url)
})

test('a trigger keeps listening to its source after a revocation', async () => {
  const [ada, bob] = callers('ada', 'bob') as [Caller, Caller]
  const source = await newPipeline(ada, 'default')
  const reader = await newPipeline(bob, 'default')
  const trigger = {
    type: 'pipeline_success',
    config: { namespace: 'default', layer: 'gold', pipeline: source.name },
  }
  const grant = await share(ada, source.id, 'bob', 'read')
  await service.must(201, bob, 'POST', `${reader.url}/triggers`, trigger)
  await service.must(204, ada, 'DELETE', `/api/v1/sharing/${grant}`)
  expect((await service.ask(bob, 'GET', source.url)).status).toBe(404)
  const { triggers } = await service.must(200, bob, 'GET', `${reader.url}/triggers`)
  expect(triggers).toMatchObject([{ state: 'armed', enabled: true }])
})

test('an answer that can show a webhook token is never compressed', async () => {
  const [ada] = callers('ada') as [Caller]
  const { url } = await newPipeline(ada, 'default')
  for (let n = 0; n < 20; n++)
    await service.must(201, ada, 'POST', `${url}/triggers`, { type: 'webhook', config: {} })
  const encodingOf = async (path: string) =>
    (await fetch(service.url + path, { headers: { ...ada, 'accept-encoding': 'gzip' } })).headers.get(
      'content-encoding',
    )
  expect(await encodingOf(`${url}/triggers`)).toBeNull()
  expect(await encodingOf('/swagger/json')).toBe('gzip')
})
