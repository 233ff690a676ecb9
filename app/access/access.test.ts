import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { duringTests } from '../../tools/kit/during.ts'
import type { Resource } from '../core/access.ts'
import type { Identity } from '../core/identity.ts'
import { identityOf, openPro } from './testing.ts'

setDefaultTimeout(60_000)

const pro = duringTests(openPro)

describe('owners and grants', () => {
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
