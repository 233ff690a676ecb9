import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { duringTests } from '../../tools/kit/during.ts'
import { type Access, EVERYTHING } from '../core/access.ts'
import { refusal } from '../pipelines/test-parts.ts'
import { makeSharingService } from '../sharing/service.ts'
import { makeResources, makeSharing } from './service.ts'
import { openPro } from './testing.ts'

setDefaultTimeout(60_000)

const pro = duringTests(openPro)

describe('sharing', () => {
  test('a repeated grant to the same user replaces the earlier grant', async () => {
    const pipeline = await pro.newPipeline('ann')
    const [first, second] = [
      await pro.share('ann', 'bob', pipeline, 'admin'),
      await pro.share('ann', 'bob', pipeline, 'read'),
    ]
    expect(second.body).toMatchObject({ id: first.body.id, permission: 'read', grantor_id: 'ann' })
    expect(await pro.statusOf('bob', 'PUT', pipeline.path, { description: 'x' })).toBe(403)
  })

  test('a grant is refused when its creator transfers the resource concurrently', async () => {
    const { sql, objects, deps } = pro.parts
    const pipeline = await pro.newPipeline('ann')
    const sharing = makeSharing({ db: pro.parts.db, newId: deps.newId })
    const service = makeSharingService({ resources: makeResources({ sql, objects }), sharing })
    const ann: Access = {
      owner: 'ann',
      person: 'ann',
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

  test('admins see all grants, grantors and grantees their own, others none', async () => {
    const pipeline = await pro.newPipeline('ann')
    await pro.share('ann', 'bob', pipeline, 'admin')
    await pro.share('bob', 'cyd', pipeline)
    const seenBy = async (user: string) => {
      const path = `/sharing?resource_type=pipeline&resource_id=${pipeline.id}`
      const { status, body } = await pro.call(user, 'GET', path)
      expect([status, body.total]).toEqual([200, body.grants.length])
      return body.grants.map(({ grantee_id }: { grantee_id: string }) => grantee_id)
    }
    expect(await seenBy('ann')).toEqual(['bob', 'cyd'])
    expect(await seenBy('bob')).toEqual(['bob', 'cyd'])
    expect(await seenBy('cyd')).toEqual(['cyd'])
    expect(await seenBy('eve')).toEqual([])
    expect((await pro.call('ann', 'GET', '/sharing')).status).toBe(400)
  })

  test('only its creator, the owner or an administrator revokes a grant', async () => {
    const pipeline = await pro.newPipeline('ann')
    await pro.share('ann', 'bob', pipeline, 'admin')
    const given = async () => (await pro.share('bob', 'cyd', pipeline)).body.id
    for (const [user, status] of [
      ['cyd', 403],
      ['eve', 403],
      ['bob', 204],
      ['bob', 404],
    ] as const)
      expect([
        user,
        await pro.statusOf(
          user,
          'DELETE',
          `/sharing/${await given().then((id) => (status === 404 ? '00000000-0000-7000-8000-000000000000' : id))}`,
        ),
      ]).toEqual([user, status])
    expect(await pro.statusOf('ann', 'DELETE', `/sharing/${await given()}`)).toBe(204)
    expect(await pro.statusOf('key', 'DELETE', `/sharing/${await given()}`)).toBe(204)
    expect(await pro.statusOf('cyd', 'GET', pipeline.path)).toBe(404)
  })

  test('a revocation removes the resource from lists and their totals', async () => {
    const { sql, deps } = pro.parts
    const [pipeline, space] = [await pro.newPipeline('ann'), await pro.newNamespace('ann')]
    const zone = await pro.call('ann', 'POST', '/landing-zones', { namespace: 'default', name: 'shared' })
    const contentId = deps.newId()
    await sql`
      insert into lake_content (id, table_uuid, metadata_location, columns, row_count, size_bytes)
      values (${contentId}, ${deps.newId()}, 'm', '[]', 1, 1)`
    await sql`
      insert into main_entry (namespace, layer, name, content_id, from_commit)
      values ('default', 'silver', ${pipeline.name}, ${contentId}, 1)`
    // Bob's own resources stay in his lists.
    await pro.newPipeline('bob')
    await pro.newNamespace('bob')
    await pro.call('bob', 'POST', '/landing-zones', { namespace: 'default', name: 'own' })
    const namesOf: Record<string, string> = {
      pipelines: pipeline.name,
      tables: pipeline.name,
      namespaces: space.name,
      'landing-zones': 'shared',
    }
    /** For each list: whether the shared resource is there, and the total. */
    const seen = () =>
      Promise.all(
        Object.entries(namesOf).map(async ([path, name]) => {
          const { body } = await pro.call('bob', 'GET', `/${path}`)
          const { total, ...list } = body
          const [items] = Object.values(list) as [{ name: string }[]]
          expect([path, items.length]).toEqual([path, total])
          return { path, isListed: items.some((item) => item.name === name), total: Number(total) }
        }),
      )
    const before = await seen()
    expect(before.filter(({ isListed }) => isListed)).toEqual([])
    const grants = [
      await pro.share('ann', 'bob', pipeline),
      await pro.share('ann', 'bob', space),
      await pro.share('ann', 'bob', { type: 'landing_zone', id: zone.body.id }),
    ]
    expect(await seen()).toEqual(
      before.map(({ path, total }) => ({ path, isListed: true, total: total + 1 })),
    )
    for (const { body } of grants)
      expect(await pro.statusOf('ann', 'DELETE', `/sharing/${body.id}`)).toBe(204)
    expect(await seen()).toEqual(before)
  })

  test('only owners or administrators change the owner, who then loses admin', async () => {
    const pipeline = await pro.newPipeline('ann')
    await pro.share('ann', 'bob', pipeline, 'admin')
    await pro.share('bob', 'ann', pipeline, 'admin')
    expect(await pro.statusOf('bob', 'PUT', pipeline.path, { owner: 'bob' })).toBe(403)
    expect(await pro.statusOf('bob', 'PUT', pipeline.path, { owner: null })).toBe(403)
    expect(await pro.statusOf('bob', 'PUT', pipeline.path, { owner: 'ann', description: 'same' })).toBe(200)
    expect(await pro.statusOf('ann', 'PUT', pipeline.path, { owner: 'new' })).toBe(200)
    expect(await pro.statusOf('ann', 'GET', pipeline.path)).toBe(404)
    expect(await pro.statusOf('root', 'PUT', pipeline.path, { owner: 'ann' })).toBe(200)
    const zone = `/landing-zones/default/${pro.freshName('z')}`
    await pro.call('ann', 'POST', '/landing-zones', { namespace: 'default', name: zone.split('/').at(-1) })
    expect(await pro.statusOf('bob', 'PUT', zone, { owner: 'bob' })).toBe(403)
    expect(await pro.statusOf('ann', 'PUT', zone, { owner: 'bob' })).toBe(200)
    expect(await pro.statusOf('ann', 'GET', zone)).toBe(404)
  })
})
