import { describe, expect, test } from 'bun:test'
import { directObjects } from '../../workers/runtime/object-calls.ts'
import type { ReaperObjects } from '../retention/store/reaping.ts'
import { expireSnapshots } from './snapshot-expiry.ts'
import { headOfMain } from './store/branches.ts'
import { tableAt } from './store/tables.ts'
import { agingLake, newId } from './test-aging-lake.ts'

const { lake, someTable, age, agedObjects, reaping, tick } = agingLake()

describe('snapshots', () => {
  test('expires only snapshots that main replaced before the cut-off', async () => {
    const { write, rows, metadata, table } = await someTable()
    await write('select 1 as a')
    await write('select 2 as a', 'append')
    await age(8)
    await write('select 3 as a', 'append')
    expect((await metadata()).snapshots).toHaveLength(3)
    // The first snapshot was replaced 8 days ago. The second was replaced just now, whatever its own age.
    const before = await headOfMain(lake.catalog.sql)
    const work = await reaping()
    await expireSnapshots(work, newId)
    expect(work.reaped.snapshotsExpired).toBe(1)
    const after = await metadata()
    expect(after.snapshots).toHaveLength(2)
    expect(await headOfMain(lake.catalog.sql)).toBe(before + 1)
    expect(await rows()).toEqual([{ a: 1 }, { a: 2 }, { a: 3 }])
    const now = await tableAt(lake.catalog.sql, before + 1, table)
    const was = await tableAt(lake.catalog.sql, before, table)
    expect(now).toEqual({
      ...(was as NonNullable<typeof was>),
      contentId: now?.contentId ?? '',
      metadataLocation: now?.metadataLocation ?? '',
    })
    // Without expired snapshots there is no commit.
    await expireSnapshots(await reaping(), newId)
    expect(await headOfMain(lake.catalog.sql)).toBe(before + 1)
    // The next run continues from the trimmed state.
    await write('select 4 as a', 'append')
    expect(await rows()).toHaveLength(4)
  })

  test('delays the expiry of a table until its open attempt has ended', async () => {
    const { write, begin, fail, metadata, rows } = await someTable()
    await write('select 1 as a')
    await write('select 2 as a')
    await age(8)
    const attempt = await begin()
    expect((await tick()).snapshotsExpired).toBe(0)
    await fail(attempt)
    expect((await tick()).snapshotsExpired).toBe(1)
    expect((await metadata()).snapshots).toHaveLength(1)
    expect(await rows()).toEqual([{ a: 2 }])
  })

  test('keeps a concurrent change of a table and expires its snapshots later', async () => {
    const { write, metadata, rows } = await someTable()
    await write('select 1 as a')
    await write('select 2 as a')
    await age(8)
    const direct = agedObjects()
    let isFirst = true
    const racing: ReaperObjects = {
      ...direct,
      async put(key, bytes) {
        await direct.put(key, bytes)
        if (isFirst) await write('select 3 as a')
        isFirst = false
      },
    }
    const work = await reaping(racing)
    await expireSnapshots(work, newId)
    expect(work.reaped.snapshotsExpired).toBe(0)
    expect(await rows()).toEqual([{ a: 3 }])
    expect((await metadata()).snapshots).toHaveLength(3)
    expect((await tick()).snapshotsExpired).toBe(1)
    expect(await rows()).toEqual([{ a: 3 }])
  })

  test('expires snapshots of many tables in one commit', async () => {
    const several = await Promise.all([1, 2, 3].map(() => someTable()))
    for (const { write } of several) {
      await write('select 1 as a')
      await write('select 2 as a')
    }
    await age(8)
    const before = await headOfMain(lake.catalog.sql)
    const work = await reaping()
    await expireSnapshots(work, newId)
    expect(work.reaped.snapshotsExpired).toBe(3)
    expect(await headOfMain(lake.catalog.sql)).toBe(before + 1)
    for (const { rows } of several) expect(await rows()).toEqual([{ a: 2 }])
  })
})

test('merges during snapshot expiry lose no rows and leave no gaps', async () => {
  const all = await Promise.all([1, 2].map(() => someTable()))
  let isWriting = true
  const writers = all.map(async ({ write }) => {
    for (let n = 0; n < 6; n++) await write(`select ${n} as a`, 'append')
  })
  const reaper = (async () => {
    let expired = 0
    while (isWriting) {
      const work = await reaping(directObjects(lake.catalog.objects))
      // The cut-off lies in the future, so every replaced snapshot is old enough to expire.
      work.cutoffs.snapshots = work.now.getTime() + 86_400_000
      await expireSnapshots(work, newId)
      expired += work.reaped.snapshotsExpired
    }
    return expired
  })()
  await Promise.all(writers)
  isWriting = false
  await reaper
  const work = await reaping(directObjects(lake.catalog.objects))
  work.cutoffs.snapshots = work.now.getTime() + 86_400_000
  await expireSnapshots(work, newId)
  for (const { rows, metadata } of all) {
    expect(await rows()).toEqual(Array.from({ length: 6 }, (_, n) => ({ a: n })))
    expect((await metadata()).snapshots).toHaveLength(1)
  }
  const [history] = await lake.catalog.sql`
    select count(*)::int as commits, max(number)::int as head, (select number::int from lake_ref where name = 'main') as main
    from lake_commit where number is not null`
  expect(history).toEqual({ commits: history?.head, head: history?.main, main: history?.main })
  const overlapping = await lake.catalog.sql`
    select 1 from main_entry a join main_entry b on a.namespace = b.namespace and a.layer = b.layer and a.name = b.name
      and a.from_commit < b.from_commit and (a.to_commit is null or a.to_commit > b.from_commit)`
  expect(overlapping).toHaveLength(0)
})
