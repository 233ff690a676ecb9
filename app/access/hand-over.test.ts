import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { duringTests } from '../../tools/kit/during.ts'
import { makeCodeVisibility } from './code-visibility.ts'
import { openPro } from './testing.ts'

setDefaultTimeout(60_000)

const pro = duringTests(openPro)

describe('transferred code', () => {
  /** Inserts a pending run of the currently published version, or of the draft when there is none. */
  async function requested({ id }: { id: string }) {
    const { sql, deps } = pro.parts
    const runId = deps.newId()
    await sql`
      insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, version_number, pins,
        landing_zones, snapshot, machine_version, status, waiting)
      select ${runId}, id, namespace, layer, name, 'sql', 'manual', published_version, '{}', '[]', '{}', 1, 'pending', false
      from pipeline where id = ${id}`
    return runId
  }

  test("unowned resources of a deleted namespace pass to the namespace's owner", async () => {
    const { sql } = pro.parts
    const space = await pro.newNamespace('mallory')
    const [inside, nobodys, others] = [
      await pro.newPipeline('key', space.name),
      await pro.newPipeline('key'),
      await pro.newPipeline('root', space.name),
    ]
    const zone = { namespace: space.name, name: pro.freshName('z') }
    expect(await pro.statusOf('key', 'POST', '/landing-zones', zone)).toBe(201)
    const runId = await requested(inside)
    const codeVisibility = makeCodeVisibility({ sql, enforcement: pro.enforcement, admins: [] })
    const seesNobodys = async () => (await codeVisibility.ofRun(runId)).pipelines.includes(nobodys.id)
    expect(await seesNobodys()).toBe(false)
    expect(await pro.statusOf('mallory', 'DELETE', `/namespaces/${space.name}`)).toBe(204)
    expect(await seesNobodys()).toBe(false)
    const ownerOf = async (path: string) => (await pro.call('root', 'GET', path)).body.owner
    expect(await ownerOf(inside.path)).toBe('mallory')
    expect(await ownerOf(`/landing-zones/${space.name}/${zone.name}`)).toBe('mallory')
    expect(await ownerOf(others.path)).toBe('root')
    expect(await ownerOf(nobodys.path)).toBeNull()
  })

  test('transferred code sees what both owners see until its owner publishes', async () => {
    const { sql } = pro.parts
    const [trap, victims, own] = [
      await pro.newPipeline('mallory'),
      await pro.newPipeline('victim'),
      await pro.newPipeline('mallory'),
    ]
    await pro.share('mallory', 'eve', trap, 'write')
    const codeVisibility = makeCodeVisibility({ sql, enforcement: pro.enforcement, admins: [] })
    const visiblePipelines = async (runId?: string) => {
      const { pipelines } = await codeVisibility.ofRun(runId ?? (await requested(trap)))
      return [trap, victims, own].map(({ id }) => pipelines.includes(id))
    }
    expect(await visiblePipelines()).toEqual([true, false, true])
    const early: string[] = []
    for (const hand of [
      () =>
        pro.call('mallory', 'POST', '/sharing/transfer', {
          resource_type: 'pipeline',
          resource_id: trap.id,
          to_user_id: 'victim',
        }),
      () => pro.call('mallory', 'PUT', trap.path, { owner: 'victim' }),
    ]) {
      early.push(await requested(trap))
      expect((await hand()).status).toBe(200)
      expect(await visiblePipelines()).toEqual([true, false, false])
      early.push(await requested(trap))
      expect(await pro.statusOf('eve', 'POST', `${trap.path}/publish`, {})).toBe(200)
      expect(await visiblePipelines()).toEqual([true, false, false])
      early.push(await requested(trap))
      expect(await pro.statusOf('victim', 'POST', `${trap.path}/publish`, {})).toBe(200)
      expect(await visiblePipelines()).toEqual([true, true, false])
      // Runs requested before that publication use code that the new owner has not approved. Such code sees only what all
      // possible authors see.
      for (const runId of early) expect(await visiblePipelines(runId)).toEqual([true, false, false])
      const vouchedFor = await requested(trap)
      // A later publication by the owner does not approve these runs either. Versions that the owner published earlier stay
      // approved.
      expect(await pro.statusOf('victim', 'POST', `${trap.path}/publish`, {})).toBe(200)
      for (const runId of early) expect(await visiblePipelines(runId)).toEqual([true, false, false])
      expect(await visiblePipelines(vouchedFor)).toEqual([true, true, false])
      expect(await pro.statusOf('root', 'PUT', trap.path, { owner: 'mallory' })).toBe(200)
      expect(await visiblePipelines()).toEqual([true, false, true])
      expect(await visiblePipelines(vouchedFor)).toEqual([true, false, false])
    }
    const runId = await requested(trap)
    // Code without an owner usually sees all unowned resources. Mallory, the last owner, saw none of them, so this code sees
    // none either.
    const nobodys = await pro.newPipeline('key')
    expect(await pro.statusOf('mallory', 'PUT', trap.path, { owner: null })).toBe(200)
    expect((await codeVisibility.ofRun(runId)).pipelines).not.toContain(nobodys.id)
  })

  test.each(['transfer', 'owner'])(
    "an administrator's transfer (%s) approves the published version and no older code",
    async (way) => {
      const { sql } = pro.parts
      const [trap, victims] = [await pro.newPipeline('mallory'), await pro.newPipeline('victim')]
      const codeVisibility = makeCodeVisibility({ sql, enforcement: pro.enforcement, admins: [] })
      const sees = async (runId: string) => (await codeVisibility.ofRun(runId)).pipelines.includes(victims.id)
      const handOver = (to: string) =>
        way === 'owner'
          ? pro.call('root', 'PUT', trap.path, { owner: to })
          : pro.call('root', 'POST', '/sharing/transfer', {
              resource_type: 'pipeline',
              resource_id: trap.id,
              to_user_id: to,
            })
      const publish = () => pro.call('mallory', 'POST', `${trap.path}/publish`, {})
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

  test('a transfer never approves a draft that was never published', async () => {
    const { sql } = pro.parts
    const [trap, victims] = [await pro.newPipeline('mallory'), await pro.newPipeline('victim')]
    const codeVisibility = makeCodeVisibility({ sql, enforcement: pro.enforcement, admins: [] })
    const sees = async () =>
      (await codeVisibility.ofRun(await requested(trap))).pipelines.includes(victims.id)
    expect(await pro.statusOf('root', 'PUT', trap.path, { owner: 'victim' })).toBe(200)
    expect(await sees()).toBe(false)
    expect(await pro.statusOf('victim', 'POST', `${trap.path}/publish`, {})).toBe(200)
    expect(await sees()).toBe(true)
  })
})
