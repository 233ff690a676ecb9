import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import type { User } from '../auth/access-tokens.ts'
import { systemClock } from '../clock.ts'
import { fileRoutes } from '../files/routes.ts'
import { makeFileService } from '../files/service.ts'
import type { Identity } from '../http/auth.ts'
import { landingZoneRoutes } from '../landing-zones/routes.ts'
import { makeLandingZoneService } from '../landing-zones/service.ts'
import { namespaceRoutes } from '../namespaces/routes.ts'
import { pipelineRoutes } from '../pipelines/routes.ts'
import { openParts, type Parts, refusal } from '../pipelines/test-parts.ts'
import type { App } from '../server.ts'
import { sharingRoutes } from '../sharing/routes.ts'
import { makeSharingService } from '../sharing/service.ts'
import { requestTo, testApp } from '../test-app.ts'
import { makeCodeSight } from './code-sight.ts'
import { makeEnforcement } from './enforcement.ts'
import { fileWriting } from './guard.ts'
import { type Access, type Enforcement, EVERYTHING, type Resource } from './ports.ts'
import { makeResources } from './resources.ts'
import { makeSharing } from './sharing.ts'

setDefaultTimeout(60_000)

let parts: Parts
let app: App
let enforcement: Enforcement

beforeAll(async () => {
  parts = await openParts()
  const { sql, objects, deps } = parts
  enforcement = makeEnforcement({ sql })
  const resources = makeResources({ sql, objects })
  const sharing = makeSharingService({ resources, sharing: makeSharing({ sql, newId: deps.newId }) })
  app = testApp({
    config: { edition: 'pro', apiKey: KEY },
    plugins: {
      auth: { tokens: { verify: identityOf }, authorize: () => true },
      describe: async () => ({}),
    },
    ownership: { resources, enforcement },
    api: [
      namespaceRoutes(parts.namespaces),
      pipelineRoutes(parts.pipelines()),
      landingZoneRoutes(makeLandingZoneService({ ...deps, clock: systemClock })),
      fileRoutes(makeFileService({ sql, objects, fileWritten: async () => {} }), fileWriting(resources)),
      sharingRoutes(sharing),
    ],
  })
})
afterAll(() => parts.close())

const KEY = 'a-key-of-a-machine'
/** A token is the name of its user; `root` is an administrator. */
const identityOf = (name: string): User => ({
  kind: 'user',
  userId: name,
  name,
  roles: name === 'root' ? ['admin'] : [],
})

async function call(user: string, method: string, path: string, body?: object) {
  const credential: Record<string, string> =
    user === 'key' ? { 'x-api-key': KEY } : { authorization: `Bearer ${user}` }
  const response = await requestTo(app, method, `/api/v1${path}`, body, credential)
  const text = await response.text()
  return { status: response.status, body: text === '' ? null : JSON.parse(text) }
}
const statusOf = async (...asked: Parameters<typeof call>) => (await call(...asked)).status

let made = 0
async function newPipeline(owner: string, namespace = 'default') {
  const name = `p${++made}`
  const { status, body } = await call(owner, 'POST', '/pipelines', { namespace, layer: 'silver', name })
  expect([status, body]).toEqual([201, expect.objectContaining({ owner: owner === 'key' ? null : owner })])
  return { id: String(body.id), name, path: `/pipelines/${namespace}/silver/${name}` }
}
const share = (
  by: string,
  to: string,
  resource: { type?: string; id: string },
  permission = 'read',
): ReturnType<typeof call> =>
  call(by, 'POST', '/sharing', {
    grantee_id: to,
    resource_type: resource.type ?? 'pipeline',
    resource_id: resource.id,
    permission,
  })
const newNamespace = async (owner: string) => {
  const name = `space-${++made}`
  const { body } = await call(owner, 'POST', '/namespaces', { name })
  expect(body).toMatchObject({ name, owner })
  return { name, id: String(body.id), type: 'namespace' }
}

describe('owners and grants', () => {
  test('who creates a pipeline, a namespace or a zone owns it; what an API key creates is nobody’s', async () => {
    const pipeline = await newPipeline('ann')
    const zone = { namespace: 'default', name: `z${++made}` }
    expect(await statusOf('ann', 'POST', '/landing-zones', zone)).toBe(201)
    expect((await call('ann', 'GET', `/landing-zones/default/${zone.name}`)).body).toMatchObject({
      owner: 'ann',
    })
    expect(await statusOf('ann', 'GET', pipeline.path)).toBe(200)
    expect(await statusOf('key', 'GET', (await newPipeline('key')).path)).toBe(200)
  })

  test('to others it does not exist: reading is 404 as of what is not there, writing is 403', async () => {
    const pipeline = await newPipeline('ann')
    const absent = pipeline.path.replace(pipeline.name, 'absent')
    for (const more of ['', '/versions', '/versions/x', '/versions/1']) {
      const [hidden, missing] = [
        await call('bob', 'GET', pipeline.path + more),
        await call('bob', 'GET', absent + more),
      ]
      expect(hidden.status).toBe(404)
      expect(JSON.stringify(hidden).replaceAll(pipeline.name, 'absent')).toBe(JSON.stringify(missing))
    }
    const { status, body } = await call('bob', 'PUT', pipeline.path, { description: 'mine' })
    expect([status, body.error]).toEqual([403, expect.objectContaining({ type: 'AUTHORIZATION' })])
    expect(await statusOf('bob', 'PUT', absent, { description: 'mine' })).toBe(404)
    expect((await call('ann', 'GET', pipeline.path)).body).toMatchObject({ description: '' })
  })

  test.each([
    ['read', [200, 403, 403]],
    ['write', [200, 200, 403]],
    ['admin', [200, 200, 204]],
  ])('a grant of %s includes what is below it and nothing above', async (permission, statuses) => {
    const pipeline = await newPipeline('ann')
    expect((await share('ann', 'bob', pipeline, permission)).status).toBe(201)
    expect([
      await statusOf('bob', 'GET', pipeline.path),
      await statusOf('bob', 'PUT', pipeline.path, { description: 'x' }),
      await statusOf('bob', 'DELETE', pipeline.path),
    ]).toEqual(statuses)
  })

  test('a right on a namespace is that right on what it contains, and ends there', async () => {
    const space = await newNamespace('ann')
    const pipeline = await newPipeline('ann', space.name)
    const elsewhere = await newPipeline('ann')
    await share('ann', 'bob', space, 'write')
    expect(await statusOf('bob', 'PUT', pipeline.path, { description: 'x' })).toBe(200)
    expect(await statusOf('bob', 'DELETE', pipeline.path)).toBe(403)
    expect(await statusOf('bob', 'GET', elsewhere.path)).toBe(404)
    expect(await statusOf('bob', 'PUT', `/namespaces/${space.name}`, { description: 'x' })).toBe(204)
    expect(await statusOf('bob', 'DELETE', `/namespaces/${space.name}`)).toBe(403)
    // What bob makes there is his, and still in ann's namespace.
    const his = await newPipeline('bob', space.name)
    expect(await statusOf('ann', 'DELETE', his.path)).toBe(204)
    expect(
      await statusOf('cyd', 'POST', '/pipelines', { namespace: space.name, layer: 'gold', name: 'x' }),
    ).toBe(403)
  })

  test('one query finds what somebody may see, as many as there are', async () => {
    const { sql } = parts
    await sql`
      insert into pipeline (id, namespace, layer, name, type, owner, draft_snapshot, draft_machine_version, draft_dirty)
      select gen_random_uuid(), 'many', 'gold', 'p' || n, 'sql', case when n % 10 = 0 then 'dora' end, '{}', 1, false
      from generate_series(1, 500) n`
    const visible = await enforcement.listVisible(identityOf('dora'))
    expect(visible.pipelines).toHaveLength(50)
    expect([visible.zones, visible.namespaces]).toEqual([[], []])
    const nobody = await enforcement.listVisible({ kind: 'anonymous', userId: '', name: '', roles: [] })
    expect(nobody).toEqual({ pipelines: [], zones: [], namespaces: [] })
  })

  test('who has no subject has no right, not even on what is nobody’s', async () => {
    const pipeline = await newPipeline('key')
    const resource: Resource = { type: 'pipeline', id: pipeline.id, namespace: 'default', owner: null }
    const nobody: Identity = { kind: 'anonymous', userId: '', name: '', roles: [] }
    await parts.sql`
      insert into access_grant (id, grantor_id, grantee_id, resource_type, resource_id, permission)
      values (gen_random_uuid(), '', '', 'pipeline', ${pipeline.id}, 'admin')`
    expect(await enforcement.check(nobody, resource, 'read')).toBe(false)
    expect(await enforcement.check(nobody, { ...resource, owner: '' }, 'read')).toBe(false)
  })
})

describe('sharing', () => {
  test('needs admin on the resource; unknown resources are 404, bad requests 400', async () => {
    const pipeline = await newPipeline('ann')
    await share('ann', 'bob', pipeline, 'write')
    expect((await share('bob', 'cyd', pipeline)).status).toBe(403)
    expect((await share('eve', 'eve', pipeline, 'admin')).status).toBe(403)
    expect((await share('ann', 'bob', { id: '00000000-0000-7000-8000-000000000000' })).status).toBe(404)
    expect((await share('ann', 'bob', { ...pipeline, type: 'landing_zone' })).status).toBe(404)
    for (const [bad, field] of [
      [{ permission: 'own' }, 'permission'],
      [{ resource_type: 'table' }, 'resource_type'],
      [{ resource_id: 'x' }, 'resource_id'],
      [{ grantee_id: '' }, 'grantee_id'],
      [{ grantee_id: undefined }, 'grantee_id'],
    ] as const) {
      const given = {
        grantee_id: 'bob',
        resource_type: 'pipeline',
        resource_id: pipeline.id,
        permission: 'read',
      }
      const { status, body } = await call('ann', 'POST', '/sharing', { ...given, ...bad })
      expect([status, body.error.message]).toEqual([400, expect.stringContaining(field)])
    }
  })

  test('what the same user gives the same user again replaces what was given before', async () => {
    const pipeline = await newPipeline('ann')
    const [first, second] = [
      await share('ann', 'bob', pipeline, 'admin'),
      await share('ann', 'bob', pipeline, 'read'),
    ]
    expect(second.body).toMatchObject({ id: first.body.id, permission: 'read', grantor_id: 'ann' })
    expect(await statusOf('bob', 'PUT', pipeline.path, { description: 'x' })).toBe(403)
  })

  test('is refused to who has handed the resource over while it was decided', async () => {
    const { sql, objects, deps } = parts
    const pipeline = await newPipeline('ann')
    const sharing = makeSharing({ sql, newId: deps.newId })
    const service = makeSharingService({ resources: makeResources({ sql, objects }), sharing })
    const ann: Access = {
      owner: 'ann',
      isAdmin: false,
      visible: async () => EVERYTHING,
      may: async () => {
        await sharing.transferOwnership(pipeline.id, 'ann', 'bob')
        return true
      },
    }
    const request = {
      grantee_id: 'ann',
      resource_type: 'pipeline',
      resource_id: pipeline.id,
      permission: 'admin',
    } as const
    expect(await refusal(service.grant(request, ann))).toMatchObject({ status: 403 })
    expect(await sharing.listGrants({ type: 'pipeline', id: pipeline.id })).toEqual([])
  })

  test('who has admin sees all grants, others those that concern them, strangers none', async () => {
    const pipeline = await newPipeline('ann')
    await share('ann', 'bob', pipeline, 'admin')
    await share('bob', 'cyd', pipeline)
    const seenBy = async (user: string) => {
      const path = `/sharing?resource_type=pipeline&resource_id=${pipeline.id}`
      const { status, body } = await call(user, 'GET', path)
      expect([status, body.total]).toEqual([200, body.grants.length])
      return body.grants.map(({ grantee_id }: { grantee_id: string }) => grantee_id)
    }
    expect(await seenBy('ann')).toEqual(['bob', 'cyd'])
    expect(await seenBy('bob')).toEqual(['bob', 'cyd'])
    expect(await seenBy('cyd')).toEqual(['cyd'])
    expect(await seenBy('eve')).toEqual([])
    expect((await call('ann', 'GET', '/sharing')).status).toBe(400)
  })

  test('a grant is revoked by its creator, the owner, or an administrator, and by nobody else', async () => {
    const pipeline = await newPipeline('ann')
    await share('ann', 'bob', pipeline, 'admin')
    const given = async () => (await share('bob', 'cyd', pipeline)).body.id
    for (const [user, status] of [
      ['cyd', 403],
      ['eve', 403],
      ['bob', 204],
      ['bob', 404],
    ] as const)
      expect([
        user,
        await statusOf(
          user,
          'DELETE',
          `/sharing/${await given().then((id) => (status === 404 ? '00000000-0000-7000-8000-000000000000' : id))}`,
        ),
      ]).toEqual([user, status])
    expect(await statusOf('ann', 'DELETE', `/sharing/${await given()}`)).toBe(204)
    expect(await statusOf('key', 'DELETE', `/sharing/${await given()}`)).toBe(204)
    expect(await statusOf('cyd', 'GET', pipeline.path)).toBe(404)
  })

  test('a transfer takes admin from the old owner and gives it to the new one; other grants stay', async () => {
    const pipeline = await newPipeline('ann')
    await share('ann', 'bob', pipeline, 'write')
    await share('ann', 'cyd', pipeline, 'admin')
    await share('cyd', 'ann', pipeline, 'admin')
    const transfer = { resource_type: 'pipeline', resource_id: pipeline.id, to_user_id: 'new' }
    expect(await statusOf('cyd', 'POST', '/sharing/transfer', transfer)).toBe(403)
    expect(await call('ann', 'POST', '/sharing/transfer', transfer)).toEqual({
      status: 200,
      body: { transferred: true, resource_id: pipeline.id, new_owner: 'new' },
    })
    expect(await statusOf('ann', 'GET', pipeline.path)).toBe(404)
    expect(await statusOf('ann', 'POST', '/sharing/transfer', transfer)).toBe(403)
    expect(await statusOf('bob', 'PUT', pipeline.path, { description: 'x' })).toBe(200)
    expect((await share('new', 'eve', pipeline)).status).toBe(201)
    const other = { ...transfer, resource_type: 'namespace' }
    expect(await statusOf('new', 'POST', '/sharing/transfer', other)).toBe(400)
    const gone = { ...transfer, resource_id: '00000000-0000-7000-8000-000000000000' }
    expect(await statusOf('new', 'POST', '/sharing/transfer', gone)).toBe(404)
  })

  test('of many transfers at once, and changes of the owner, exactly one succeeds', async () => {
    const pipeline = await newPipeline('ann')
    const statuses = await Promise.all(
      Array.from({ length: 8 }, (_, n) =>
        n % 2 === 0
          ? statusOf('ann', 'POST', '/sharing/transfer', {
              resource_type: 'pipeline',
              resource_id: pipeline.id,
              to_user_id: `new-${n}`,
            })
          : statusOf('ann', 'PUT', pipeline.path, { owner: `new-${n}` }),
      ),
    )
    expect(statuses.filter((status) => status === 200)).toHaveLength(1)
    expect(statuses.filter((status) => ![200, 403].includes(status))).toEqual([])
  })

  test('the field owner changes by the owner and by administrators only, and takes admin along', async () => {
    const pipeline = await newPipeline('ann')
    await share('ann', 'bob', pipeline, 'admin')
    await share('bob', 'ann', pipeline, 'admin')
    expect(await statusOf('bob', 'PUT', pipeline.path, { owner: 'bob' })).toBe(403)
    expect(await statusOf('bob', 'PUT', pipeline.path, { owner: null })).toBe(403)
    expect(await statusOf('bob', 'PUT', pipeline.path, { owner: 'ann', description: 'same' })).toBe(200)
    expect(await statusOf('ann', 'PUT', pipeline.path, { owner: 'new' })).toBe(200)
    expect(await statusOf('ann', 'GET', pipeline.path)).toBe(404)
    expect(await statusOf('root', 'PUT', pipeline.path, { owner: 'ann' })).toBe(200)
    const zone = `/landing-zones/default/z${++made}`
    await call('ann', 'POST', '/landing-zones', { namespace: 'default', name: zone.split('/').at(-1) })
    expect(await statusOf('bob', 'PUT', zone, { owner: 'bob' })).toBe(403)
    expect(await statusOf('ann', 'PUT', zone, { owner: 'bob' })).toBe(200)
    expect(await statusOf('ann', 'GET', zone)).toBe(404)
  })
})

describe('code that changes hands', () => {
  /** A run as it is stored when it is requested: of the version that is published then, or of the draft. */
  async function requested({ id }: { id: string }) {
    const { sql, deps } = parts
    const runId = deps.newId()
    await sql`
      insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, version_number, pins,
        landing_zones, snapshot, machine_version, status, waiting)
      select ${runId}, id, namespace, layer, name, 'sql', 'manual', published_version, '{}', '[]', '{}', 1, 'pending', false
      from pipeline where id = ${id}`
    return runId
  }

  test('becomes the namespace’s owner’s with the namespace, rather than read what is nobody’s', async () => {
    const { sql } = parts
    const space = await newNamespace('mallory')
    const [inside, nobodys, others] = [
      await newPipeline('key', space.name),
      await newPipeline('key'),
      await newPipeline('root', space.name),
    ]
    const zone = { namespace: space.name, name: `z${++made}` }
    expect(await statusOf('key', 'POST', '/landing-zones', zone)).toBe(201)
    const runId = await requested(inside)
    const sight = makeCodeSight({ sql, enforcement, admins: [] })
    const seesNobodys = async () => (await sight.ofRun(runId)).pipelines.includes(nobodys.id)
    expect(await seesNobodys()).toBe(false)
    expect(await statusOf('mallory', 'DELETE', `/namespaces/${space.name}`)).toBe(204)
    expect(await seesNobodys()).toBe(false)
    const ownerOf = async (path: string) => (await call('root', 'GET', path)).body.owner
    expect(await ownerOf(inside.path)).toBe('mallory')
    expect(await ownerOf(`/landing-zones/${space.name}/${zone.name}`)).toBe('mallory')
    expect(await ownerOf(others.path)).toBe('root')
    expect(await ownerOf(nobodys.path)).toBeNull()
  })

  test('sees no more than who handed it over, until its new owner has published it', async () => {
    const { sql } = parts
    const [trap, victims, own] = [
      await newPipeline('mallory'),
      await newPipeline('victim'),
      await newPipeline('mallory'),
    ]
    await share('mallory', 'eve', trap, 'write')
    const sight = makeCodeSight({ sql, enforcement, admins: [] })
    const seen = async (runId?: string) => {
      const { pipelines } = await sight.ofRun(runId ?? (await requested(trap)))
      return [trap, victims, own].map(({ id }) => pipelines.includes(id))
    }
    expect(await seen()).toEqual([true, false, true])
    const early: string[] = []
    for (const hand of [
      () =>
        call('mallory', 'POST', '/sharing/transfer', {
          resource_type: 'pipeline',
          resource_id: trap.id,
          to_user_id: 'victim',
        }),
      () => call('mallory', 'PUT', trap.path, { owner: 'victim' }),
    ]) {
      early.push(await requested(trap))
      expect((await hand()).status).toBe(200)
      expect(await seen()).toEqual([true, false, false])
      early.push(await requested(trap))
      expect(await statusOf('eve', 'POST', `${trap.path}/publish`, {})).toBe(200)
      expect(await seen()).toEqual([true, false, false])
      early.push(await requested(trap))
      expect(await statusOf('victim', 'POST', `${trap.path}/publish`, {})).toBe(200)
      expect(await seen()).toEqual([true, true, false])
      // What was requested before is code that nobody has vouched for: of whoever may have written it, all must see it.
      for (const runId of early) expect(await seen(runId)).toEqual([true, false, false])
      const vouchedFor = await requested(trap)
      // Nor is it vouched for by what the owner publishes later, which leaves what they have published before as it is.
      expect(await statusOf('victim', 'POST', `${trap.path}/publish`, {})).toBe(200)
      for (const runId of early) expect(await seen(runId)).toEqual([true, false, false])
      expect(await seen(vouchedFor)).toEqual([true, true, false])
      expect(await statusOf('root', 'PUT', trap.path, { owner: 'mallory' })).toBe(200)
      expect(await seen()).toEqual([true, false, true])
      expect(await seen(vouchedFor)).toEqual([true, false, false])
    }
    const runId = await requested(trap)
    // Nobody's code sees what is nobody's, of which its last owner saw nothing.
    const nobodys = await newPipeline('key')
    expect(await statusOf('mallory', 'PUT', trap.path, { owner: null })).toBe(200)
    expect((await sight.ofRun(runId)).pipelines).not.toContain(nobodys.id)
  })

  test.each(['transfer', 'owner'])(
    'is vouched for by an administrator who hands it over (%s) as it is published: what was requested of older code is not',
    async (way) => {
      const { sql } = parts
      const [trap, victims] = [await newPipeline('mallory'), await newPipeline('victim')]
      const sight = makeCodeSight({ sql, enforcement, admins: [] })
      const sees = async (runId: string) => (await sight.ofRun(runId)).pipelines.includes(victims.id)
      const handOver = (to: string) =>
        way === 'owner'
          ? call('root', 'PUT', trap.path, { owner: to })
          : call('root', 'POST', '/sharing/transfer', {
              resource_type: 'pipeline',
              resource_id: trap.id,
              to_user_id: to,
            })
      const publish = () => call('mallory', 'POST', `${trap.path}/publish`, {})
      const ofDraft = await requested(trap)
      expect((await publish()).status).toBe(200)
      const ofFirst = await requested(trap)
      expect((await publish()).status).toBe(200)
      const ofSecond = await requested(trap)
      expect((await handOver('victim')).status).toBe(200)
      expect(await Promise.all([ofDraft, ofFirst, ofSecond].map(sees))).toEqual([false, false, true])
      expect(await sees(await requested(trap))).toBe(true)
    },
  )

  test('of a draft that was never published is vouched for by nobody who hands it over', async () => {
    const { sql } = parts
    const [trap, victims] = [await newPipeline('mallory'), await newPipeline('victim')]
    const sight = makeCodeSight({ sql, enforcement, admins: [] })
    const sees = async () => (await sight.ofRun(await requested(trap))).pipelines.includes(victims.id)
    expect(await statusOf('root', 'PUT', trap.path, { owner: 'victim' })).toBe(200)
    expect(await sees()).toBe(false)
    expect(await statusOf('victim', 'POST', `${trap.path}/publish`, {})).toBe(200)
    expect(await sees()).toBe(true)
  })
})

describe('names that are used again', () => {
  test('grants go with what they are about: another of the name is shared with nobody', async () => {
    const pipeline = await newPipeline('ann')
    await share('ann', 'bob', pipeline, 'admin')
    expect(await statusOf('ann', 'DELETE', pipeline.path)).toBe(204)
    expect(
      await statusOf('cyd', 'POST', '/pipelines', {
        namespace: 'default',
        layer: 'silver',
        name: pipeline.name,
      }),
    ).toBe(201)
    expect(await statusOf('bob', 'GET', pipeline.path)).toBe(404)
    expect(await statusOf('ann', 'GET', pipeline.path)).toBe(404)
    expect(await parts.sql`select from access_grant where resource_id = ${pipeline.id}`).toHaveLength(0)
  })

  test('a grant never waits on something deleted: one of the two comes first', async () => {
    for (let round = 0; round < 5; round++) {
      const pipeline = await newPipeline('ann')
      const [grant, deletion] = await Promise.all([
        share('ann', 'bob', pipeline),
        call('ann', 'DELETE', pipeline.path),
      ])
      expect([201, 404]).toContain(grant.status)
      expect(deletion.status).toBe(204)
      expect(await parts.sql`select from access_grant where resource_id = ${pipeline.id}`).toHaveLength(0)
    }
  })

  test('a table or files that somebody has left are not got by taking their name', async () => {
    const pipeline = await newPipeline('ann')
    expect(await statusOf('ann', 'DELETE', pipeline.path)).toBe(204)
    await parts.objects.put(
      `default/pipelines/silver/${pipeline.name}/notes.md`,
      new TextEncoder().encode('secret'),
    )
    const again = { namespace: 'default', layer: 'silver', name: pipeline.name }
    expect(await statusOf('eve', 'POST', '/pipelines', again)).toBe(403)
    expect(await statusOf('ann', 'POST', '/pipelines', again)).toBe(201)
    expect((await call('eve', 'POST', '/pipelines', again)).body.error).toMatchObject({
      code: 'ALREADY_EXISTS',
      message: `pipeline default.silver.${pipeline.name} already exists`,
    })

    await parts.objects.put('default/landing/left/a.csv', new TextEncoder().encode('a'))
    expect(await statusOf('eve', 'POST', '/landing-zones', { namespace: 'default', name: 'left' })).toBe(403)
    expect(await statusOf('root', 'POST', '/landing-zones', { namespace: 'default', name: 'left' })).toBe(201)
  })

  test('the table of a deleted pipeline is its namespace’s, and its name is free to its last owner only', async () => {
    const pipeline = await newPipeline('ann')
    const { sql, deps } = parts
    const contentId = deps.newId()
    await sql`
      insert into lake_content (id, table_uuid, metadata_location, columns, row_count, size_bytes)
      values (${contentId}, ${contentId}, '', '[]', 0, 0)`
    await sql`
      insert into main_entry (namespace, layer, name, content_id, from_commit)
      values ('default', 'silver', ${pipeline.name}, ${contentId}, 1)`
    const again = { namespace: 'default', layer: 'silver', name: pipeline.name }
    expect(await statusOf('eve', 'POST', '/pipelines', again)).toBe(409)
    expect(await statusOf('ann', 'DELETE', pipeline.path)).toBe(204)
    expect(await statusOf('eve', 'POST', '/pipelines', again)).toBe(403)
    expect(await statusOf('key', 'POST', '/pipelines', again)).toBe(201)
    expect(await statusOf('key', 'DELETE', pipeline.path)).toBe(204)
    // The latest pipeline of the name was nobody's.
    expect(await statusOf('ann', 'POST', '/pipelines', again)).toBe(403)
  })

  test('a namespace that still holds something is created anew by administrators only', async () => {
    const space = await newNamespace('ann')
    const pipeline = await newPipeline('ann', space.name)
    expect(await statusOf('ann', 'DELETE', `/namespaces/${space.name}`)).toBe(204)
    expect(await statusOf('eve', 'POST', '/namespaces', { name: space.name })).toBe(403)
    expect(await statusOf('ann', 'GET', pipeline.path)).toBe(200)
    expect(await statusOf('root', 'POST', '/namespaces', { name: space.name })).toBe(201)
  })

  test('a request that was allowed for a deleted pipeline does nothing to the next one of the name', async () => {
    for (let round = 0; round < 5; round++) {
      const pipeline = await newPipeline('ann')
      await share('ann', 'bob', pipeline, 'admin')
      const again = { namespace: 'default', layer: 'silver', name: pipeline.name }
      await Promise.all([
        ...Array.from({ length: 6 }, () => call('bob', 'PUT', pipeline.path, { description: 'by bob' })),
        call('ann', 'DELETE', pipeline.path).then(() => call('cyd', 'POST', '/pipelines', again)),
        ...Array.from({ length: 6 }, () => call('bob', 'DELETE', pipeline.path)),
      ])
      expect((await call('cyd', 'GET', pipeline.path)).body).toMatchObject({ owner: 'cyd', description: '' })
    }
  })
})

describe('files', () => {
  test('follow the pipeline or the zone in whose folder they are, else the namespace', async () => {
    const space = await newNamespace('ann')
    const pipeline = await newPipeline('bob')
    await call('bob', 'POST', '/landing-zones', { namespace: 'default', name: `fz${made}` })
    const paths = {
      pipeline: `default/pipelines/silver/${pipeline.name}/notes.md`,
      zone: `default/landing/fz${made}/notes.md`,
      rest: `${space.name}/notes.md`,
    }
    const writes = async (user: string) =>
      Promise.all(
        Object.values(paths).map((path) => statusOf(user, 'PUT', `/files/${path}`, { content: 'x' })),
      )
    expect(await writes('bob')).toEqual([200, 200, 403])
    expect(await writes('ann')).toEqual([403, 403, 200])
    expect(await writes('eve')).toEqual([403, 403, 403])
    expect(await statusOf('eve', 'GET', `/files/${paths.rest}`)).toBe(404)
    expect(await statusOf('eve', 'DELETE', `/files/${paths.zone}`)).toBe(403)
    expect(await statusOf('bob', 'GET', `/files/${paths.zone}`)).toBe(200)
  })

  test('an upload says in its body where it goes, and is refused all the same', async () => {
    const pipeline = await newPipeline('ann')
    const path = `default/pipelines/silver/${pipeline.name}/up.txt`
    const upload = (user: string, order: 'path first' | 'file first') => {
      const form = new FormData()
      if (order === 'path first') form.set('path', path)
      form.set('file', new File(['x'], 'up.txt'))
      form.set('path', path)
      return call(user, 'POST', '/files/upload', form)
    }
    for (const order of ['path first', 'file first'] as const) {
      expect((await upload('eve', order)).status).toBe(403)
      expect(await parts.objects.head(path)).toBeNull()
    }
    expect((await upload('ann', 'file first')).status).toBe(201)
  })
})
