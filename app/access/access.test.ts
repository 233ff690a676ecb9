import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { duringTests } from '../../tools/test/during.ts'
import type { Resource } from '../core/access.ts'
import type { Identity } from '../core/identity.ts'
import { identityOf, openPro } from './testing.ts'

setDefaultTimeout(60_000)

const pro = duringTests(openPro)

describe('owners and grants', () => {
  test('a right on a namespace applies to its contents and nowhere else', async () => {
    const space = await pro.newNamespace('ann')
    const pipeline = await pro.newPipeline('ann', space.name)
    const elsewhere = await pro.newPipeline('ann')
    await pro.share('ann', 'bob', space, 'write')
    expect(await pro.statusOf('bob', 'PUT', pipeline.path, { description: 'x' })).toBe(200)
    expect(await pro.statusOf('bob', 'DELETE', pipeline.path)).toBe(403)
    expect(await pro.statusOf('bob', 'GET', elsewhere.path)).toBe(404)
    expect(await pro.statusOf('bob', 'PUT', `/namespaces/${space.name}`, { description: 'x' })).toBe(204)
    expect(await pro.statusOf('bob', 'DELETE', `/namespaces/${space.name}`)).toBe(403)
    // A pipeline that bob creates there is his, but ann still has her rights on the namespace.
    const his = await pro.newPipeline('bob', space.name)
    expect(await pro.statusOf('ann', 'DELETE', his.path)).toBe(204)
    expect(
      await pro.statusOf('cyd', 'POST', '/pipelines', { namespace: space.name, layer: 'gold', name: 'x' }),
    ).toBe(403)
  })

  test('one query finds everything that a user may see', async () => {
    const { sql } = pro.parts
    await sql`
      insert into pipeline (id, namespace, layer, name, type, owner, draft_snapshot, draft_machine_version, draft_dirty)
      select gen_random_uuid(), 'many', 'gold', 'p' || n, 'sql', case when n % 10 = 0 then 'dora' end, '{}', 1, false
      from generate_series(1, 500) n`
    const visible = await pro.enforcement.listVisible(identityOf('dora'))
    expect(visible.pipelines).toHaveLength(50)
    expect([visible.zones, visible.namespaces]).toEqual([[], []])
    const nobody = await pro.enforcement.listVisible({ kind: 'anonymous', userId: '', name: '', roles: [] })
    expect(nobody).toEqual({ pipelines: [], zones: [], namespaces: [] })
  })

  test('a caller without a subject has no rights, even on unowned resources', async () => {
    const pipeline = await pro.newPipeline('key')
    const resource: Resource = { type: 'pipeline', id: pipeline.id, namespace: 'default', owner: null }
    const nobody: Identity = { kind: 'anonymous', userId: '', name: '', roles: [] }
    await pro.parts.sql`
      insert into access_grant (id, grantor_id, grantee_id, resource_type, resource_id, permission)
      values (gen_random_uuid(), '', '', 'pipeline', ${pipeline.id}, 'admin')`
    expect(await pro.enforcement.check(nobody, resource, 'read')).toBe(false)
    expect(await pro.enforcement.check(nobody, { ...resource, owner: '' }, 'read')).toBe(false)
  })
})

describe('files', () => {
  test("the pipeline, zone or namespace of a file's folder decides rights", async () => {
    const space = await pro.newNamespace('ann')
    const pipeline = await pro.newPipeline('bob')
    const zone = pro.freshName('fz')
    await pro.call('bob', 'POST', '/landing-zones', { namespace: 'default', name: zone })
    const paths = {
      pipeline: `default/pipelines/silver/${pipeline.name}/notes.md`,
      zone: `default/landing/${zone}/notes.md`,
      rest: `${space.name}/notes.md`,
    }
    const writes = async (user: string) =>
      Promise.all(
        Object.values(paths).map((path) => pro.statusOf(user, 'PUT', `/files/${path}`, { content: 'x' })),
      )
    expect(await writes('bob')).toEqual([200, 200, 403])
    expect(await writes('ann')).toEqual([403, 403, 200])
    expect(await writes('eve')).toEqual([403, 403, 403])
    expect(await pro.statusOf('eve', 'GET', `/files/${paths.rest}`)).toBe(404)
    expect(await pro.statusOf('eve', 'DELETE', `/files/${paths.zone}`)).toBe(403)
    expect(await pro.statusOf('bob', 'GET', `/files/${paths.zone}`)).toBe(200)
  })

  test('an upload is refused by the path in its form body', async () => {
    const pipeline = await pro.newPipeline('ann')
    const path = `default/pipelines/silver/${pipeline.name}/up.txt`
    const upload = (user: string, order: 'path first' | 'file first') => {
      const form = new FormData()
      if (order === 'path first') form.set('path', path)
      form.set('file', new File(['x'], 'up.txt'))
      form.set('path', path)
      return pro.call(user, 'POST', '/files/upload', form)
    }
    for (const order of ['path first', 'file first'] as const) {
      expect((await upload('eve', order)).status).toBe(403)
      expect(await pro.parts.objects.head(path)).toBeNull()
    }
    expect((await upload('ann', 'file first')).status).toBe(201)
  })
})
