import { beforeEach, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { directObjects } from '../../workers/runtime/object-calls.ts'
import { newId } from '../core/ids.ts'
import { formWith } from '../http/test-form.ts'
import type { ObjectStore } from '../objects/port.ts'
import { useParts } from '../pipelines/test-parts.ts'
import { reapingNow } from '../retention/test-rows.ts'
import { purgeArchivedFiles, queueArchiving } from './archive-purge.ts'
import { makeArchive } from './effects.ts'
import { makeLandingZoneService } from './service.ts'

setDefaultTimeout(60_000)
const parts = useParts()
let zones = 0
beforeEach(async () => {
  await parts.sql`truncate landing_zone, outbox, run_attempt, run_file cascade`
})

const clock = { now: () => new Date(), elapsed: () => 0 }

/** Creates a zone with files that a run has archived. */
async function archived(
  count: number,
  lifecycle: { processed_max_age_days?: number; auto_purge?: boolean } = {},
) {
  const { sql, objects } = parts
  const service = makeLandingZoneService({ ...parts.deps, clock })
  const ref = { namespace: 'default', name: `zone-${zones++}` }
  await service.create(ref)
  await sql`update landing_zone set auto_purge = ${lifecycle.auto_purge ?? false},
    processed_max_age_days = ${lifecycle.processed_max_age_days ?? 30} where name = ${ref.name}`
  const files: { id: string; path: string; version: string; text: string; filename: string }[] = []
  for (let n = 0; n < count; n++) {
    const text = `a\n${n}\n`
    const { id, s3_path, filename } = await service.upload(ref, formWith(new File([text], `f${n}.csv`)))
    const [row] = await sql<
      { version: string }[]
    >`select version_id as version from landing_file where id = ${id}`
    files.push({ id, path: s3_path, version: row?.version ?? '', text, filename })
  }
  const runId = newId()
  await sql`update landing_file set archived_by_run = ${runId}, archived_at = clock_timestamp() where archived_by_run is null`
  /** Moves the objects, then performs the queued removals. */
  async function move(store: ObjectStore = objects) {
    const archive = makeArchive({ sql, objects: store })
    await archive.moveInputs({ runId })
    const queued = await sql<{ id: string; payload: { key: string; versionId: string } }[]>`
      select id, payload from outbox where kind = 'movedObject'`
    for (const { id, payload } of queued) {
      await archive.removeMoved(payload)
      await sql`delete from outbox where id = ${id}`
    }
  }
  const rows = () => sql<{ id: string; path: string; version: string }[]>`
    select id, path, version_id as version from landing_file where archived_by_run = ${runId} order by seq`
  const prefix = `default/landing/${ref.name}/`
  const keys = async () => (await objects.versions(prefix)).versions.map(({ key }) => key)
  return { service, ref, runId, files, move, rows, prefix, keys }
}

/** Opens an attempt that has frozen a file. Returns a function that closes the attempt. */
async function reading(fileId: string) {
  const runId = newId()
  await parts.sql`
    insert into run_attempt (run_id, attempt, pipeline_id, branch, base_commit, landing_watermark, runner_url)
    values (${runId}, 1, ${newId()}, '', 0, 0, '')`
  await parts.sql`insert into run_file (run_id, attempt, landing_file_id, zone_id) values (${runId}, 1, ${fileId}, ${newId()})`
  return () => parts.sql`update run_attempt set state = 'closed' where run_id = ${runId}`
}

describe('objects of archived files', () => {
  test('objects of archived files move to _processed/{run_id}/ and leave nothing behind', async () => {
    const { move, rows, files, prefix, runId, keys } = await archived(3)
    await move()
    const moved = await rows()
    expect(moved.map(({ path }) => path)).toEqual(
      files.map(({ filename }) => `${prefix}_processed/${runId}/${filename}`),
    )
    for (const [index, { path, version }] of moved.entries())
      expect((await parts.objects.text(path, version))?.text).toBe(files[index]?.text ?? '')
    expect((await keys()).sort()).toEqual(moved.map(({ path }) => path).sort())
    // A second move changes nothing.
    await move()
    expect(await rows()).toEqual(moved)
    expect(await keys()).toHaveLength(3)
  })

  test('archived objects stay until every attempt that froze them has ended', async () => {
    const { move, rows, files, keys } = await archived(2)
    const [first, second] = files
    const close = await reading(first?.id ?? '')
    await expect(move()).rejects.toThrow('1 archived files not moved: an open attempt still reads them')
    expect((await rows())[0]?.path).toBe(first?.path ?? '')
    expect((await rows())[1]?.path).not.toBe(second?.path ?? '')
    expect((await parts.objects.text(first?.path ?? '', first?.version))?.text).toBe(first?.text ?? '')
    await close()
    await move()
    expect(await keys()).toHaveLength(2)
    expect((await rows()).every(({ path }) => path.includes('/_processed/'))).toBe(true)
  })

  test('an interrupted move leaves each object complete and in one place', async () => {
    for (const interrupted of ['put', 'deleteVersion'] as const) {
      const { move, rows, keys, files } = await archived(1)
      const failing: ObjectStore = {
        ...parts.objects,
        async put(...args) {
          const stored = await parts.objects.put(...args)
          if (interrupted === 'put') throw new Error('the process dies after the copy')
          return stored
        },
        deleteVersion: async () => Promise.reject(new Error('the process dies before the removal')),
      }
      await move(failing).catch(() => {})
      const [half] = await rows()
      expect((await parts.objects.text(half?.path ?? '', half?.version))?.text).toBe(files[0]?.text ?? '')
      await move()
      const [row] = await rows()
      expect((await parts.objects.text(row?.path ?? '', row?.version))?.text).toBe(files[0]?.text ?? '')
      expect(await keys()).toEqual([row?.path ?? ''])
    }
  })

  test('concurrent moves by several replicas leave one copy of each object', async () => {
    const { move, rows, keys } = await archived(5)
    await Promise.all([move(), move(), move()])
    const moved = await rows()
    expect((await keys()).sort()).toEqual(moved.map(({ path }) => path).sort())
    for (const { path, version } of moved) expect(await parts.objects.head(path, version)).not.toBeNull()
  })

  test('a move leaves nothing behind if its zone is deleted meanwhile', async () => {
    const { move, keys, service, ref } = await archived(1)
    const racing: ObjectStore = {
      ...parts.objects,
      async put(...args) {
        await service.remove(ref)
        return parts.objects.put(...args)
      },
    }
    await move(racing)
    expect(await keys()).toEqual([])
  })

  test('the reaper queues a lost archive effect once', async () => {
    const { runId, move } = await archived(3)
    await queueArchiving(await reapingNow(parts.sql))
    await queueArchiving(await reapingNow(parts.sql))
    const queued = await parts.sql`select kind, payload from outbox`
    expect(queued.map(({ kind, payload }) => [kind, payload])).toEqual([['archivedInputs', { runId }]])
    await parts.sql`delete from outbox`
    await move()
    await queueArchiving(await reapingNow(parts.sql))
    expect(await parts.sql`select 1 from outbox`).toHaveLength(0)
  })

  test('an effect moves a limited number of files and queues another effect', async () => {
    const { move, rows } = await archived(65)
    await move()
    expect((await rows()).filter(({ path }) => path.includes('/_processed/'))).toHaveLength(64)
    expect(await parts.sql`select 1 from outbox where kind = 'archivedInputs'`).toHaveLength(1)
    await move()
    expect((await rows()).every(({ path }) => path.includes('/_processed/'))).toBe(true)
  })
})

describe('archived files', () => {
  const purge = async () => {
    const reaping = await reapingNow(parts.sql, directObjects(parts.objects))
    await purgeArchivedFiles(reaping)
    return reaping.reaped.lzFilesCleaned
  }
  const archivedFor = (days: number) =>
    parts.sql`update landing_file set archived_at = clock_timestamp() - ${days} * interval '1 day' where archived_by_run is not null`

  test('auto_purge removes old archived files and their objects, moved or not', async () => {
    for (const isMoved of [true, false]) {
      const { move, keys, rows } = await archived(3, { auto_purge: true, processed_max_age_days: 5 })
      if (isMoved) await move()
      await archivedFor(4)
      expect(await purge()).toBe(0)
      expect(await keys()).toHaveLength(3)
      await archivedFor(6)
      expect(await purge()).toBe(3)
      expect(await keys()).toEqual([])
      expect(await rows()).toHaveLength(0)
    }
  })

  test('purge keeps active files, and archived files of zones without auto_purge', async () => {
    const { keys, service, ref } = await archived(2)
    await archivedFor(1_000)
    await parts.sql`update landing_zone set auto_purge = true where name <> ${ref.name}`
    expect(await purge()).toBe(0)
    expect(await keys()).toHaveLength(2)
    await parts.sql`update landing_zone set auto_purge = true, processed_max_age_days = 0`
    await service.upload(ref, formWith(new File(['a'], 'active.csv')))
    expect(await purge()).toBe(2)
    expect(await keys()).toHaveLength(1)
  })

  test('purge keeps archived files that an open attempt has frozen', async () => {
    const { files, keys } = await archived(1, { auto_purge: true })
    const close = await reading(files[0]?.id ?? '')
    await archivedFor(100)
    expect(await purge()).toBe(0)
    expect(await keys()).toHaveLength(1)
    await close()
    expect(await purge()).toBe(1)
  })

  test('purge removes the row of a file whose object is missing', async () => {
    const { files, rows } = await archived(1, { auto_purge: true })
    await archivedFor(100)
    await parts.objects.deleteVersion(files[0]?.path ?? '', files[0]?.version ?? '')
    expect(await purge()).toBe(1)
    expect(await rows()).toHaveLength(0)
  })
})
