import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { duringTests } from '../../tools/kit/during.ts'
import { openPro } from './testing.ts'

setDefaultTimeout(60_000)

const pro = duringTests(openPro)

describe('reused names', () => {
  test('a new pipeline does not inherit the grants of a deleted pipeline', async () => {
    const pipeline = await pro.newPipeline('ann')
    await pro.share('ann', 'bob', pipeline, 'admin')
    expect(await pro.statusOf('ann', 'DELETE', pipeline.path)).toBe(204)
    expect(
      await pro.statusOf('cyd', 'POST', '/pipelines', {
        namespace: 'default',
        layer: 'silver',
        name: pipeline.name,
      }),
    ).toBe(201)
    expect(await pro.statusOf('bob', 'GET', pipeline.path)).toBe(404)
    expect(await pro.statusOf('ann', 'GET', pipeline.path)).toBe(404)
    expect(await pro.parts.sql`select from access_grant where resource_id = ${pipeline.id}`).toHaveLength(0)
  })

  test('a concurrent grant and deletion leave no grant behind', async () => {
    for (let round = 0; round < 5; round++) {
      const pipeline = await pro.newPipeline('ann')
      const [grant, deletion] = await Promise.all([
        pro.share('ann', 'bob', pipeline),
        pro.call('ann', 'DELETE', pipeline.path),
      ])
      expect([201, 404]).toContain(grant.status)
      expect(deletion.status).toBe(204)
      expect(await pro.parts.sql`select from access_grant where resource_id = ${pipeline.id}`).toHaveLength(0)
    }
  })

  test('a user cannot take over a table or files by their name', async () => {
    const pipeline = await pro.newPipeline('ann')
    expect(await pro.statusOf('ann', 'DELETE', pipeline.path)).toBe(204)
    await pro.parts.objects.put(
      `default/pipelines/silver/${pipeline.name}/notes.md`,
      new TextEncoder().encode('secret'),
    )
    const again = { namespace: 'default', layer: 'silver', name: pipeline.name }
    expect(await pro.statusOf('eve', 'POST', '/pipelines', again)).toBe(403)
    expect(await pro.statusOf('ann', 'POST', '/pipelines', again)).toBe(201)
    expect((await pro.call('eve', 'POST', '/pipelines', again)).body.error).toMatchObject({
      code: 'ALREADY_EXISTS',
      message: `pipeline default.silver.${pipeline.name} already exists`,
    })

    await pro.parts.objects.put('default/landing/left/a.csv', new TextEncoder().encode('a'))
    expect(await pro.statusOf('eve', 'POST', '/landing-zones', { namespace: 'default', name: 'left' })).toBe(
      403,
    )
    expect(await pro.statusOf('root', 'POST', '/landing-zones', { namespace: 'default', name: 'left' })).toBe(
      201,
    )
  })

  test('the name of a deleted pipeline is reserved for its last owner', async () => {
    const pipeline = await pro.newPipeline('ann')
    const { sql, deps } = pro.parts
    const contentId = deps.newId()
    await sql`
      insert into lake_content (id, table_uuid, metadata_location, columns, row_count, size_bytes)
      values (${contentId}, ${contentId}, '', '[]', 0, 0)`
    await sql`
      insert into main_entry (namespace, layer, name, content_id, from_commit)
      values ('default', 'silver', ${pipeline.name}, ${contentId}, 1)`
    const again = { namespace: 'default', layer: 'silver', name: pipeline.name }
    expect(await pro.statusOf('eve', 'POST', '/pipelines', again)).toBe(409)
    expect(await pro.statusOf('ann', 'DELETE', pipeline.path)).toBe(204)
    expect(await pro.statusOf('eve', 'POST', '/pipelines', again)).toBe(403)
    expect(await pro.statusOf('key', 'POST', '/pipelines', again)).toBe(201)
    expect(await pro.statusOf('key', 'DELETE', pipeline.path)).toBe(204)
    // The latest pipeline of this name had no owner.
    expect(await pro.statusOf('ann', 'POST', '/pipelines', again)).toBe(403)
  })

  test('only an administrator creates a namespace whose name still holds data', async () => {
    const space = await pro.newNamespace('ann')
    const pipeline = await pro.newPipeline('ann', space.name)
    expect(await pro.statusOf('ann', 'DELETE', `/namespaces/${space.name}`)).toBe(204)
    expect(await pro.statusOf('eve', 'POST', '/namespaces', { name: space.name })).toBe(403)
    expect(await pro.statusOf('ann', 'GET', pipeline.path)).toBe(200)
    expect(await pro.statusOf('root', 'POST', '/namespaces', { name: space.name })).toBe(201)
  })

  test('a request for a deleted pipeline never changes its successor', async () => {
    for (let round = 0; round < 5; round++) {
      const pipeline = await pro.newPipeline('ann')
      await pro.share('ann', 'bob', pipeline, 'admin')
      const again = { namespace: 'default', layer: 'silver', name: pipeline.name }
      await Promise.all([
        ...Array.from({ length: 6 }, () => pro.call('bob', 'PUT', pipeline.path, { description: 'by bob' })),
        pro.call('ann', 'DELETE', pipeline.path).then(() => pro.call('cyd', 'POST', '/pipelines', again)),
        ...Array.from({ length: 6 }, () => pro.call('bob', 'DELETE', pipeline.path)),
      ])
      expect((await pro.call('cyd', 'GET', pipeline.path)).body).toMatchObject({
        owner: 'cyd',
        description: '',
      })
    }
  })
})
