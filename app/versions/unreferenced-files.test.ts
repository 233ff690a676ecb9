import { describe, expect, test } from 'bun:test'
import type { TableMetadata } from '../../lake/iceberg/format/metadata.ts'
import { directObjects } from '../../workers/runtime/object-calls.ts'
import type { TestAttempt } from '../iceberg/test-catalog.ts'
import { openForeignEngine } from '../iceberg/test-foreign-engine.ts'
import type { ReaperObjects } from '../retention/store/reaping.ts'
import { headOfMain } from './store/branches.ts'
import { keptCommit } from './store/kept-commits.ts'
import { tableAt } from './store/tables.ts'
import { agingLake, newId, type SomeTable } from './test-aging-lake.ts'
import { openTestBranch } from './test-rows.ts'
import { removeUnreferencedFiles } from './unreferenced-files.ts'

const { lake, someTable, age, agedObjects, reaping, tick } = agingLake()

describe('files', () => {
  test('removes files of expired states by age, never of the current state', async () => {
    const { write, rows, files, metadata } = await someTable()
    await write('select 1 as a')
    await write('select 2 as a')
    await write('select 3 as a', 'append')
    const all = await files()
    await age(8)
    await tick()
    // A reader that resolved the table a moment ago still finds all its files.
    expect(await files()).toEqual(expect.arrayContaining(all))
    await age(1)
    expect((await tick()).lakeFilesRemoved).toBeGreaterThan(0)
    const left = await files()
    expect(left.filter((key) => key.includes('/data/'))).toHaveLength(2)
    expect(await rows()).toEqual([{ a: 2 }, { a: 3 }])
    expect((await metadata()).snapshots).toHaveLength(1)
    await age(30)
    await tick()
    expect(await rows()).toEqual([{ a: 2 }, { a: 3 }])
    expect((await tick()).lakeFilesRemoved).toBe(0)
  })

  test('keeps and removes files whose paths have percent-encoded partition values', async () => {
    const { begin, write, rows, files } = await someTable()
    const attempt = await begin()
    const { commit } = await attempt.write("select 'a/b' as p", 'append', 'data/p=a%2Fb c+%25ü')
    expect(await lake.catalog.merge(attempt, commit)).toBe('merged')
    const { runId } = attempt
    const { sql } = lake.catalog
    await sql`update run set status = 'success', finished_at = clock_timestamp() where id = ${runId}`
    await sql`update run_attempt set state = 'closed', closed_at = clock_timestamp() where run_id = ${runId}`
    const encoded = async () => (await files()).filter((key) => key.includes('/data/p=a%2Fb c+%25ü/'))
    await age(9)
    await tick()
    expect(await encoded()).toHaveLength(1)
    expect(await rows()).toEqual([{ p: 'a/b' }])
    await write("select 'c' as p")
    for (let ticks = 0; ticks < 3; ticks++) {
      await age(9)
      await tick()
    }
    expect(await encoded()).toEqual([])
    expect(await rows()).toEqual([{ p: 'c' }])
  })

  test('removes a Puffin file only when no state has one of its deletion vectors', async () => {
    const { table, write, files } = await someTable()
    await write('select unnest(range(3))::int as a')
    const { objects, sql } = lake.catalog
    const puffins = async () => (await files()).filter((key) => key.endsWith('.puffin'))
    const [first = ''] = await files()
    const orphan = `${first.split('/').slice(0, 4).join('/')}/data/orphan.puffin`
    await objects.put(orphan, new Uint8Array(8))
    await age(1)
    const branch = newId()
    const base = await headOfMain(sql)
    await sql.begin((tx) => openTestBranch(tx, branch, base))
    const engine = await openForeignEngine(lake.catalog)
    try {
      expect(await engine.deleteRow(branch, table.name, 'vector')).toEqual([0])
      const referenced = (await puffins()).filter((key) => key !== orphan)
      expect(referenced).toHaveLength(1)
      await age(40)
      await tick()
      expect(await puffins()).toEqual(referenced)
      const metadata = await engine.table(`sluice.${branch}`, table.name)
      expect(metadata && (await engine.rows(metadata))).toEqual([{ a: 1 }, { a: 2 }])
      await sql`update lake_ref set state = 'deleted', closed_at = clock_timestamp() where name = ${branch}`
      for (let ticks = 0; ticks < 3; ticks++) {
        await age(40)
        await tick()
      }
      expect(await puffins()).toEqual([])
    } finally {
      await engine.close()
    }
  })

  test('removes the files of a kept branch and its base only after its time', async () => {
    const { begin, write, rows, files } = await someTable()
    await write('select 1 as a')
    const refused = await begin()
    await refused.write('select 7 as a', 'append')
    const { sql } = lake.catalog
    await sql`update run set status = 'failed', finished_at = clock_timestamp() where id = ${refused.runId}`
    await sql`update run_attempt set state = 'closed', closed_at = clock_timestamp() where run_id = ${refused.runId}`
    await sql`update lake_ref set state = 'deleted', kept_until = clock_timestamp() + interval '40 days'
      where name = ${refused.branch}`
    await write('select 2 as a')
    const all = await files()
    for (let ticks = 0; ticks < 3; ticks++) {
      await age(10)
      await tick()
      expect(await files()).toEqual(expect.arrayContaining(all))
    }
    await age(11)
    expect((await tick()).branchesCleaned).toBe(1)
    await age(20)
    await tick()
    await age(20)
    await tick()
    expect((await files()).filter((key) => key.includes('/data/'))).toHaveLength(1)
    expect(await rows()).toEqual([{ a: 2 }])
  })

  test('removes the parts of an abandoned upload to the S3 endpoint', async () => {
    const { write, files, rows } = await someTable()
    await write('select 1 as a')
    const [key = ''] = await files()
    const part = `${key.split('/').slice(0, 4).join('/')}/uploads/01a208b8-b88d-7038-be5b-b5b26c446a2a/00001`
    await lake.catalog.objects.put(part, new Uint8Array(9))
    await age(1)
    await tick()
    expect(await files()).toContain(part)
    await age(3)
    await tick()
    expect(await files()).not.toContain(part)
    expect(await rows()).toEqual([{ a: 1 }])
  })

  test('removes files of failed attempts by the age of their closing', async () => {
    const { begin, fail, files } = await someTable()
    const attempt = await begin()
    await attempt.plan('select 1 as a', 'overwrite')
    const committed = await someTable()
    await committed.write('select 1 as a')
    const failed = await committed.begin()
    await failed.write('select 2 as a', 'overwrite')
    const before = (await committed.files()).length
    // The attempt takes days, for example because the service was down.
    await age(9)
    await tick()
    expect((await files()).length).toBeGreaterThan(0)
    expect(await committed.files()).toHaveLength(before)
    await fail(attempt)
    await committed.fail(failed)
    await age(2)
    await tick()
    expect((await files()).length).toBeGreaterThan(0)
    expect(await committed.files()).toHaveLength(before)
    await age(1.5)
    await tick()
    expect(await files()).toEqual([])
    expect((await committed.files()).length).toBeLessThan(before)
    expect(await committed.rows()).toEqual([{ a: 1 }])
  })

  test('keeps files of the base commit of an open attempt', async () => {
    const read = await someTable()
    await read.write('select 1 as a')
    const reader = await (await someTable()).begin()
    await read.write('select 2 as a')
    await age(100)
    await tick()
    await age(1)
    await tick()
    const identifier = { namespace: ['default', 'gold'], name: read.table.name }
    const { metadata } = await reader.client.loadTable(identifier)
    expect(await lake.catalog.rows(reader.token, metadata)).toEqual([{ a: 1 }])
    expect(await read.rows()).toEqual([{ a: 2 }])
  })

  test('keeps the state on which a branch or a tag is based', async () => {
    const { sql, tokens, rows: rowsAt } = lake.catalog
    const { table, write, metadata, files } = await someTable()
    const kept: { name: string; base: number; metadata: TableMetadata }[] = []
    for (const [value, name] of ['lost', 'a-tag', 'between', 'a-branch'].entries()) {
      await write(`select ${value} as a`)
      const base = await headOfMain(sql)
      if (!name.startsWith('a-')) continue
      await sql.begin((tx) => openTestBranch(tx, name, base))
      kept.push({ name, base, metadata: await metadata() })
    }
    await sql`update lake_ref set kind = 'tag' where name = 'a-tag'`
    await write('select 4 as a')
    for (let months = 0; months < 3; months++) {
      await age(30)
      await tick()
    }
    const expiresAt = new Date(Date.now() + 3_600_000)
    for (const { name, base, metadata: state } of kept) {
      const token = tokens.read({ commit: base, expiresAt })
      expect([name, await keptCommit(sql, { commit: base })]).toMatchObject([name, { commit: base }])
      expect(await tableAt(sql, base, table)).not.toBeNull()
      expect(await rowsAt(token, state)).toEqual([{ a: name === 'a-tag' ? 1 : 3 }])
    }
    const [tagged] = kept
    const before = (tagged?.base ?? 0) - 1
    expect(await keptCommit(sql, { commit: before })).toMatchObject({ commit: null })
    const all = (await files()).length
    await sql`update lake_ref set state = 'deleted', closed_at = clock_timestamp() where name like 'a-%'`
    for (let months = 0; months < 3; months++) {
      await age(30)
      await tick()
    }
    expect((await files()).length).toBeLessThan(all)
  })

  test('keeps files that a reader resolved while main replaces them', async () => {
    const { write, rows, table } = await someTable()
    for (let n = 0; n < 4; n++) await write(`select ${n} as a`)
    await write('select 4 as a', 'append')
    await age(8)
    await tick()
    await age(1)
    const { token, client } = await lake.catalog.reader()
    const identifier = { namespace: [table.namespace, table.layer], name: table.name }
    const { metadata } = await client.loadTable(identifier)
    const resolved = () => lake.catalog.rows(token, metadata)
    await write('select 5 as a')
    const direct = agedObjects()
    const seen: unknown[][] = []
    const { lakeFilesRemoved } = await tick({
      ...direct,
      // One read starts before each removal and ends after it; another read starts after it.
      async remove(key) {
        const under = resolved()
        await direct.remove(key)
        seen.push(await under, await resolved(), await rows())
      },
    })
    expect(lakeFilesRemoved).toBeGreaterThan(5)
    const read = [{ a: 3 }, { a: 4 }]
    // The additional removal is the object that shows the store's clock.
    expect(seen).toEqual(Array.from({ length: lakeFilesRemoved + 1 }, () => [read, read, [{ a: 5 }]]).flat())
    // Days later no reader needs these files.
    await age(8)
    await tick()
    await age(1)
    await tick()
    await expect(resolved()).rejects.toThrow('404')
    expect(await rows()).toEqual([{ a: 5 }])
  })

  test('keeps young files and files outside of table directories', async () => {
    const { table, files, write } = await someTable()
    await write('select 1 as a')
    const [file = ''] = await files()
    const stray = `${file.slice(0, file.indexOf('/', file.indexOf(table.name)) + 1)}data/stray.parquet`
    await lake.catalog.objects.put(stray, new Uint8Array(3))
    await lake.catalog.objects.put('_lake/README', new Uint8Array(3))
    await tick()
    expect(await files()).toContain(stray)
    await age(4)
    await tick()
    expect(await files()).not.toContain(stray)
    expect(await lake.catalog.objects.head('_lake/README')).not.toBeNull()
  })

  test("keeps files of an open attempt when the store's clock is behind", async () => {
    const { begin, write, table, rows } = await someTable()
    await write('select 1 as a')
    const direct = agedObjects()
    const behind: ReaperObjects = {
      ...direct,
      async list(prefix, page) {
        const { objects, truncated } = await direct.list(prefix, page)
        const dated = objects.map((object) => ({
          ...object,
          modified: new Date(object.modified.getTime() - 30 * 86_400_000),
        }))
        return { objects: dated, truncated }
      },
    }
    const attempt = await begin()
    const plan = await attempt.plan('select 2 as a', 'append')
    expect((await tick(behind)).lakeFilesRemoved).toBe(0)
    const identifier = { namespace: [table.namespace, table.layer], name: table.name }
    const { config } = await attempt.client.commit(identifier, plan)
    expect(await lake.catalog.merge(attempt, config['x-sluice-commit'] ?? '')).toBe('merged')
    expect(await rows()).toEqual([{ a: 1 }, { a: 2 }])
    expect((await lake.catalog.objects.list('_lake/.clock', { limit: 1 })).objects).toEqual([])
  })

  test('keeps all files of a table with unreadable metadata and reports it', async () => {
    const [broken, whole] = [await someTable(), await someTable()]
    await broken.write('select 1 as a')
    await whole.write('select 1 as a')
    for (const { files } of [broken, whole]) {
      const [file = ''] = await files()
      await lake.catalog.objects.put(`${file.slice(0, file.lastIndexOf('/'))}/stray.avro`, new Uint8Array(3))
    }
    await age(4)
    const direct = directObjects(lake.catalog.objects)
    const work = await reaping({
      ...direct,
      read: async (key) => (key.includes(`/${broken.table.name}-`) ? null : direct.read(key)),
    })
    await expect(removeUnreferencedFiles(work)).rejects.toThrow('1 tables')

    expect((await broken.files()).some((key) => key.endsWith('stray.avro'))).toBe(true)
    expect((await whole.files()).some((key) => key.endsWith('stray.avro'))).toBe(false)
  })
})

test('main and open attempts stay readable after any tick', async () => {
  // The fixed seed makes each failure reproducible.
  let seed = 20_260_101
  const random = (below: number) => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fffffff
    return Math.floor((seed / 0x80000000) * below)
  }
  const all = await Promise.all([1, 2, 3].map(() => someTable()))
  const expected = new Map<SomeTable, unknown[]>()
  let removed = 0
  const open: { owner: SomeTable; attempt: TestAttempt; saw: Map<SomeTable, unknown[]> }[] = []
  for (let step = 0; step < 60; step++) {
    const chosen = all[random(all.length)]
    if (chosen === undefined) throw new Error('there are tables')
    const isFree = !open.some(({ owner }) => owner === chosen)
    switch (random(6)) {
      case 0:
      case 1: {
        if (!isFree) break
        const known = expected.get(chosen)
        const operation = known !== undefined && random(2) === 0 ? 'append' : 'overwrite'
        await chosen.write(`select ${step} as a`, operation)
        expected.set(chosen, [...(operation === 'append' ? (known ?? []) : []), { a: step }])
        break
      }
      case 2:
        if (isFree) open.push({ owner: chosen, attempt: await chosen.begin(), saw: new Map(expected) })
        break
      case 3: {
        const ending = open.shift()
        if (ending === undefined) break
        await ending.attempt.plan(`select ${step} as a`, 'overwrite')
        await ending.owner.fail(ending.attempt)
        break
      }
      case 4:
        await age([0.2, 1, 4, 8][random(4)] ?? 1)
        break
      case 5: {
        removed += (await tick()).lakeFilesRemoved
        for (const [table, rows] of expected)
          expect({ step, rows: await table.rows() }).toEqual({ step, rows })
        for (const { attempt, saw } of open)
          for (const [{ table }, rows] of saw) {
            const { metadata } = await attempt.client.loadTable({
              namespace: ['default', 'gold'],
              name: table.name,
            })
            expect({ step, rows: (await lake.catalog.rows(attempt.token, metadata)) as unknown[] }).toEqual({
              step,
              rows,
            })
          }
      }
    }
  }
  expect(removed).toBeGreaterThan(5)
})
