// Attack class: broken object-level authorization (OWASP API1). Resources of another user look like missing ones and are in no
// list. They stay protected during concurrent changes. matrix.spec.ts has the full table of routes and roles.
import { expect, test } from '@playwright/test'
import { fresh } from '../resources.ts'
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

test('a hidden resource answers exactly like a missing one', async () => {
  const pipeline = await newPipeline(ann)
  const run = await service.must(202, ann, 'POST', '/api/v1/runs', {
    namespace: 'default',
    layer: 'silver',
    pipeline: pipeline.name,
  })
  const schedule = await service.must(201, ann, 'POST', '/api/v1/schedules', {
    namespace: 'default',
    layer: 'silver',
    pipeline: pipeline.name,
    cron: '0 6 * * *',
  })
  const zone = fresh('zone')
  await service.must(201, ann, 'POST', '/api/v1/landing-zones', { namespace: 'default', name: zone })
  const absentId = '01990000-0000-7000-8000-000000000000'
  const hidden: [path: string, what: string, absent: string][] = [
    [
      '',
      '/versions',
      '/versions/1',
      '/versions/x',
      '/tests',
      '/triggers',
      `/triggers/${absentId}`,
      '/retention',
    ].map((more): [string, string, string] => [pipeline.path + more, pipeline.name, 'absent']),
    ['', '/files', `/files/${absentId}`, '/samples', '/lifecycle'].map((more): [string, string, string] => [
      `/api/v1/landing-zones/default/${zone}${more}`,
      zone,
      'absent',
    ]),
    ['', '/logs'].map((more): [string, string, string] => [
      `/api/v1/runs/${run.run_id}${more}`,
      String(run.run_id),
      absentId,
    ]),
    [
      [`/api/v1/schedules/${schedule.id}`, String(schedule.id), absentId] satisfies [string, string, string],
      [`/api/v1/inspector/run/instances/${run.run_id}`, String(run.run_id), absentId],
      [`/api/v1/inspector/run/instances/${run.run_id}/events`, String(run.run_id), absentId],
      [`/api/v1/inspector/draft/instances/${pipeline.id}`, pipeline.id, absentId],
      [`/api/v1/files/default/pipelines/silver/${pipeline.name}/pipeline.sql`, pipeline.name, 'absent'],
      [`/api/v1/files/default/landing/${zone}/a.csv`, zone, 'absent'],
    ],
  ].flat() as [string, string, string][]
  for (const [path, what, absent] of hidden) {
    const [found, missing] = [
      await service.ask(eve, 'GET', path),
      await service.ask(eve, 'GET', path.replaceAll(what, absent)),
    ]
    expect.soft([path, found.status]).toEqual([path, 404])
    expect.soft(found.text.replaceAll(what, absent)).toBe(missing.text)
    expect.soft([path, await statusOf(ann, 'GET', path)]).not.toEqual([path, 403])
  }
})

test('no list, total, graph or file listing reveals a hidden resource', async () => {
  const pipeline = await newPipeline(ann, fresh('canary'))
  const zone = fresh('canary')
  await service.must(201, ann, 'POST', '/api/v1/landing-zones', { namespace: 'default', name: zone })
  await service.must(202, ann, 'POST', '/api/v1/runs', {
    namespace: 'default',
    layer: 'silver',
    pipeline: pipeline.name,
  })
  await service.must(201, ann, 'POST', '/api/v1/schedules', {
    namespace: 'default',
    layer: 'silver',
    pipeline: pipeline.name,
    cron: '0 6 * * *',
  })
  const lists = [
    '/api/v1/pipelines',
    '/api/v1/runs',
    '/api/v1/schedules',
    '/api/v1/landing-zones',
    '/api/v1/lineage',
    '/api/v1/files?prefix=default',
    '/api/v1/files?prefix=default/pipelines/silver/',
    '/api/v1/inspector/run/instances',
    '/api/v1/inspector/draft/instances',
    '/api/v1/namespaces',
  ]
  const otherUser = service.user(fresh('stranger'))
  for (const path of lists) {
    const { status, text, json } = await service.ask(otherUser, 'GET', path)
    expect.soft([path, status]).toEqual([path, 200])
    expect.soft([path, text.includes('canary')]).toEqual([path, false])
    const { total } = Object.assign({ total: 0 }, json)
    expect.soft([path, total]).toEqual([path, path === '/api/v1/namespaces' ? 1 : 0])
  }
  for (const path of ['/api/v1/pipelines', '/api/v1/runs', '/api/v1/lineage'])
    expect
      .soft([path, (await service.ask(ann, 'GET', path)).text.includes(pipeline.name)])
      .toEqual([path, true])
})

test('a trigger can observe only resources that its author may read', async () => {
  const [mine, others] = [await newPipeline(eve), await newPipeline(ann)]
  const listen = (name: string) => ({
    type: 'pipeline_success',
    config: { namespace: 'default', layer: 'silver', pipeline: name },
  })
  const [hidden, missing] = [
    await service.ask(eve, 'POST', `${mine.path}/triggers`, listen(others.name)),
    await service.ask(eve, 'POST', `${mine.path}/triggers`, listen('absent')),
  ]
  expect([hidden.status, hidden.text.replaceAll(others.name, 'absent')]).toEqual([404, missing.text])
  await share(ann, 'eve', others, 'read')
  expect(await statusOf(eve, 'POST', `${mine.path}/triggers`, listen(others.name))).toBe(201)
})

test('ids and names in bodies are authorized like those in addresses', async () => {
  const pipeline = await newPipeline(ann)
  const data = { namespace: 'default', layer: 'silver', pipeline: pipeline.name }
  expect(await statusOf(eve, 'POST', '/api/v1/runs', data)).toBe(403)
  expect(await statusOf(eve, 'POST', '/api/v1/schedules', { ...data, cron: '* * * * *' })).toBe(403)
  expect(await statusOf(eve, 'POST', '/api/v1/runs', { ...data, pipeline: 'absent' })).toBe(404)
  const form = new FormData()
  form.set('path', `default/pipelines/silver/${pipeline.name}/pipeline.sql`)
  form.set('file', new File(['select 666'], 'x.sql'))
  expect(await statusOf(eve, 'POST', '/api/v1/files/upload', form)).toBe(403)
  expect(await statusOf(eve, 'PUT', pipeline.path, { owner: 'eve' })).toBe(403)
  const stored = await service.ask(
    ann,
    'GET',
    `/api/v1/files/default/pipelines/silver/${pipeline.name}/pipeline.sql`,
  )
  expect(stored.text).not.toContain('666')
})

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
