import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { directObjects } from '../../workers/runtime/object-calls.ts'
import type { ObjectVersion } from '../objects/port.ts'
import { bytes, useParts } from '../pipelines/test-parts.ts'
import { purgeDeletedPipelines, removableVersions } from './purge-pipelines.ts'
import { addRuns, reapingNow, rowsOf, runsLeft } from './test-rows.ts'

setDefaultTimeout(60_000)
const parts = useParts()
let pipelines = 0

async function somePipeline(name = `p${pipelines++}`) {
  const ref = { namespace: 'default', layer: 'gold', name }
  const service = parts.pipelines()
  await service.create({ ...ref, layer: 'gold' })
  const [row] = await parts.sql<{ id: string }[]>`
    select id from pipeline where name = ${name} and layer = 'gold' and deleted_at is null`
  const prefix = `default/pipelines/gold/${name}/`
  const edit = async (text: string) =>
    (await parts.objects.put(`${prefix}pipeline.sql`, bytes(text))).versionId
  const id = row?.id ?? ''
  const add = (count: number, status: string, daysAgo: number) =>
    addRuns(parts.sql, { pipelineId: id, pipeline: ref, count, status, daysAgo })
  return { id, ref, prefix, service, edit, add, versions: () => versionsUnder(prefix) }
}
const versionsUnder = async (prefix: string) => (await parts.objects.versions(prefix)).versions

/** Moves the time of deletion back by some days. */
const deletedFor = (id: string, days: number) =>
  parts.sql`update pipeline set deleted_at = deleted_at - ${days} * interval '1 day' where id = ${id}`

async function tick() {
  const reaping = await reapingNow(parts.sql, directObjects(parts.objects))
  // Times have milliseconds. The extra second makes a deletion of just now count.
  reaping.cutoffs.softDeleted += 1_000
  await purgeDeletedPipelines(reaping)
  return reaping.reaped
}
const isThere = async (id: string) => (await parts.sql`select 1 from pipeline where id = ${id}`).length > 0

describe('a deleted pipeline', () => {
  test('purges an old deleted pipeline with all its rows and file versions', async () => {
    const { id, ref, service, edit, add, versions } = await somePipeline()
    await edit('select 2')
    await service.publish(ref)
    await edit('select 3')
    await parts.sql`insert into retention_override (pipeline_id, runs_max_age_days) values (${id}, 1000)`
    await parts.sql`insert into schedule (id, pipeline_id, cron) values (gen_random_uuid(), ${id}, '* * * * *')`
    const runs = await add(3, 'success', 1)
    await service.remove(ref)
    await deletedFor(id, 29)
    expect(await tick()).toMatchObject({ pipelinesPurged: 0, runsPruned: 0 })
    expect((await versions()).length).toBeGreaterThan(3)
    await deletedFor(id, 2)
    expect(await tick()).toMatchObject({ pipelinesPurged: 1, runsPruned: 3 })
    expect(await isThere(id)).toBe(false)
    expect(await versions()).toEqual([])
    expect(await rowsOf(parts.sql, runs)).toEqual({
      runs: 0,
      logs: 0,
      attempts: 0,
      files: 0,
      results: 0,
      moves: 0,
    })
    const [left] =
      await parts.sql`select (select count(*)::int from pipeline_version where pipeline_id = ${id}) as versions,
      (select count(*)::int from schedule where pipeline_id = ${id}) as schedules,
      (select count(*)::int from retention_override where pipeline_id = ${id}) as overrides,
      (select count(*)::int from transition where entity_id = ${id}) as moves`
    expect(left).toEqual({ versions: 0, schedules: 0, overrides: 0, moves: 0 })
    expect(await tick()).toMatchObject({ pipelinesPurged: 0 })
  })

  test('keeps a deleted pipeline while one of its runs is active', async () => {
    const { id, ref, service, add, versions } = await somePipeline()
    await service.remove(ref)
    const [run = ''] = await add(1, 'running', 1)
    await deletedFor(id, 31)
    expect(await tick()).toMatchObject({ pipelinesPurged: 0 })
    expect((await versions()).length).toBeGreaterThan(0)
    await parts.sql`update run set status = 'cancelled' where id = ${run}`
    expect(await tick()).toMatchObject({ pipelinesPurged: 1 })
  })

  test('keeps a deleted pipeline while one of its runs is locked', async () => {
    const { id, ref, service, add } = await somePipeline()
    await service.remove(ref)
    const runs = await add(3, 'failed', 1)
    await deletedFor(id, 31)
    await parts.sql.begin(async (tx) => {
      await tx`select from run where id = ${runs[1] ?? ''} for update`
      expect(await tick()).toMatchObject({ pipelinesPurged: 0, runsPruned: 2 })
    })
    expect(await isThere(id)).toBe(true)
    expect(await runsLeft(parts.sql, runs)).toEqual([runs[1] ?? ''])
    expect(await tick()).toMatchObject({ pipelinesPurged: 1, runsPruned: 1 })
  })

  test('purge keeps all files of the next pipeline with the name', async () => {
    const first = await somePipeline()
    await first.edit('select 1 as first')
    await first.service.publish(first.ref)
    await first.service.remove(first.ref)
    const second = await somePipeline(first.ref.name)
    const published = await second.edit('select 2 as published')
    await second.service.publish(second.ref)
    const ran = await second.edit('select 3 as ran')
    const seen = await second.edit('select 4 as seen')
    const [run = ''] = await second.add(1, 'failed', 0)
    const key = `${second.prefix}pipeline.sql`
    await parts.sql`update run set pins = ${parts.sql.json({ [key]: ran })} where id = ${run}`
    // The files of both pipelines are now older than the deletion, so only pins protect those of the second.
    await deletedFor(first.id, 31)
    await parts.sql`update pipeline set deleted_at = clock_timestamp() where id = ${first.id}`
    await parts.sql`update retention_config set soft_delete_purge_days = 0`
    expect(await tick()).toMatchObject({ pipelinesPurged: 1, runsPruned: 0 })
    await parts.sql`update retention_config set soft_delete_purge_days = 30`
    for (const [version, text] of [
      [published, 'select 2 as published'],
      [ran, 'select 3 as ran'],
      [seen, 'select 4 as seen'],
    ] as const)
      expect((await parts.objects.text(key, version))?.text).toBe(text)
    expect((await parts.objects.text(key))?.text).toBe('select 4 as seen')
    expect((await parts.objects.text(`${second.prefix}config.yaml`))?.text).toBeDefined()
    const left = (await second.versions()).filter((version) => version.key === key)
    expect(left.map(({ versionId }) => versionId).sort()).toEqual([published, ran, seen].sort())
    expect(await isThere(second.id)).toBe(true)
  })

  test('purge keeps files that were written under the name since', async () => {
    const { id, ref, service, prefix, edit } = await somePipeline()
    await edit('select 1')
    await service.remove(ref)
    await deletedFor(id, 31)
    await parts.objects.put(`${prefix}notes.md`, bytes('mine'))
    expect(await tick()).toMatchObject({ pipelinesPurged: 1 })
    expect((await versionsUnder(prefix)).map(({ key }) => key)).toEqual([`${prefix}notes.md`])
  })

  test('purge waits until the deletion has hidden the files', async () => {
    const { id, ref } = await somePipeline()
    const service = parts.pipelines({
      runs: { cancelAllOf: () => Promise.reject(new Error('the database is away')) },
    })
    await service.remove(ref)
    await deletedFor(id, 31)
    expect(await tick()).toMatchObject({ pipelinesPurged: 0 })
    await parts.sql`delete from outbox`
    expect(await tick()).toMatchObject({ pipelinesPurged: 1 })
  })
})

describe('versions of a key that a purge removes', () => {
  const at = (day: number, size: number | null, isNewest = false): ObjectVersion => ({
    key: 'k',
    versionId: `v${day}`,
    size,
    modified: new Date(day * 86_400_000),
    isNewest,
  })
  const removable = (
    versions: ObjectVersion[],
    over: { isNameShared?: boolean; isNameInUse?: boolean; pinned?: string[] } = {},
  ) =>
    removableVersions(versions, {
      deletedAt: new Date(10 * 86_400_000),
      isNameShared: over.isNameShared ?? over.isNameInUse ?? false,
      isNameInUse: over.isNameInUse ?? false,
      isPinned: ({ versionId }) => over.pinned?.includes(versionId) ?? false,
    }).map(({ versionId }) => versionId)

  test('removes all versions of a hidden key, and the marker last', () => {
    expect(removable([at(10, null, true), at(1, 5), at(2, 5)])).toEqual(['v1', 'v2', 'v10'])
  })

  test('keeps a marker that hides a pinned version', () => {
    expect(
      removable([at(9, null, true), at(1, 5), at(2, 5)], { isNameShared: true, pinned: ['v2'] }),
    ).toEqual(['v1'])
  })

  test('keeps the visible version of a live pipeline and removes old hidden ones', () => {
    expect(removable([at(1, 5), at(9, null), at(12, 5), at(13, 5, true)], { isNameInUse: true })).toEqual([
      'v1',
      'v9',
    ])
    expect(removable([at(1, 5, true)], { isNameInUse: true })).toEqual([])
  })

  test('removes a visible version of a free name only if it is older', () => {
    expect(removable([at(1, 5, true)])).toEqual(['v1'])
    expect(removable([at(1, 5), at(12, 5, true)])).toEqual(['v1'])
  })
})
