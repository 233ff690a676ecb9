import { describe, expect, test } from 'bun:test'
import { describeManifest, readManifestList, writeManifest } from '../format/manifest.ts'
import { currentSnapshot, type TableMetadata, UnsupportedTable } from '../format/metadata.ts'
import { checkRequirements } from '../format/requirements.ts'
import { snapshotIdOf } from '../format/snapshot-id.ts'
import type { Schema } from '../format/types.ts'
import { applyUpdates, MAIN } from '../format/updates.ts'
import { dataFilesOf, makeManifestReader, tableFilesOf } from '../read/scan.ts'
import { MANIFEST_FILES_LIMIT, SMALL_MANIFESTS_LIMIT } from './manifest-writer.ts'
import { type NewDataFile, replacedFiles } from './new-files.ts'
import { newTable } from './new-table.ts'
import { planCommit, SNAPSHOTS_KEPT_LIMIT, type Write } from './write.ts'

const uuid = '0f8fad5b-d9cb-469f-a165-70867728950e'
const schema: Schema = {
  type: 'struct',
  'schema-id': 0,
  fields: [{ id: 1, name: 'a', required: false, type: 'int' }],
}
const wider: Schema = {
  ...schema,
  fields: [...schema.fields, { id: 2, name: 'b', required: false, type: 'int' }],
}
const empty = newTable({ uuid, location: 's3://bucket/_lake/t', schema, at: 1000 })

const dataFile = (name: string, recordCount = 10): NewDataFile => ({
  location: `s3://bucket/_lake/t/data/${name}.parquet`,
  recordCount,
  sizeBytes: recordCount * 100,
  columns: new Map([[1, { valueCount: recordCount, nullCount: 0 }]]),
})

/** An in-memory store that refuses to overwrite objects, and a catalog with one table. */
function makeTable(start: TableMetadata = empty) {
  const objects = new Map<string, Uint8Array>()
  let reads = 0
  const reader = makeManifestReader(async (location) => {
    reads += 1
    const bytes = objects.get(location)
    if (!bytes) throw new Error(`${location} does not exist`)
    return bytes
  })
  let metadata = start
  const plan = (write: Partial<Write>) =>
    planCommit({
      metadata,
      isStaged: false,
      operation: 'append',
      files: [],
      at: 2000,
      uuid: crypto.randomUUID(),
      reader,
      ...write,
    })
  const commit = async (write: Partial<Write>) => {
    const planned = await plan(write)
    for (const { location, bytes } of planned.objects) {
      expect(objects.has(location)).toBe(false)
      objects.set(location, bytes)
    }
    const base = write.isStaged ? null : metadata
    checkRequirements(base, planned.requirements)
    metadata = applyUpdates(base, planned.updates, { at: 2000 })
    return planned
  }
  const names = async () => {
    const files = await dataFilesOf(metadata, currentSnapshot(metadata)?.['snapshot-id'] ?? 0n, reader)
    return files.map((file) => file.location.replace(/.*\/(.*)\.parquet/, '$1'))
  }
  const replaced = async (...chosen: string[]) => {
    const files = await tableFilesOf(
      { data: await manifests(), deletesOf: () => undefined, isOwn: () => true },
      reader,
    )
    return replacedFiles(
      files.filter(({ file }) => chosen.some((name) => file.location.endsWith(`/${name}.parquet`))),
    )
  }
  const manifests = async () =>
    readManifestList(objects.get(currentSnapshot(metadata)?.['manifest-list'] ?? '') ?? new Uint8Array())
  return {
    objects,
    reader,
    plan,
    commit,
    names,
    manifests,
    replaced,
    metadata: () => metadata,
    reads: () => reads,
  }
}

describe('append', () => {
  test('keeps the existing manifests and adds a new one', async () => {
    const table = makeTable()
    await table.commit({ files: [dataFile('a'), dataFile('b', 5)] })
    const first = await table.manifests()
    const { snapshot, objects } = await table.commit({ files: [dataFile('c')], summary: { 'run-id': '7' } })
    expect(await table.names()).toEqual(['a', 'b', 'c'])
    expect((await table.manifests()).slice(0, 1)).toEqual(first)
    expect(objects).toHaveLength(2)
    expect(snapshot).toMatchObject({ 'sequence-number': 2, 'parent-snapshot-id': first[0]?.addedSnapshotId })
    expect(snapshot.summary).toEqual({
      operation: 'append',
      'added-data-files': '1',
      'added-records': '10',
      'added-files-size': '1000',
      'deleted-data-files': '0',
      'deleted-records': '0',
      'removed-files-size': '0',
      'changed-partition-count': '1',
      'total-data-files': '3',
      'total-records': '25',
      'total-files-size': '2500',
      'total-delete-files': '0',
      'total-position-deletes': '0',
      'total-equality-deletes': '0',
      'run-id': '7',
    })
  })

  test("counts the totals that the parent's summary lacks", async () => {
    const table = makeTable()
    await table.commit({ files: [dataFile('a'), dataFile('b', 5)] })
    const bare: TableMetadata = {
      ...table.metadata(),
      snapshots: table.metadata().snapshots.map((one) => ({ ...one, summary: { operation: 'append' } })),
    }
    const { snapshot } = await table.plan({ metadata: bare, files: [dataFile('c')] })
    expect(snapshot.summary).toMatchObject({
      'total-data-files': '3',
      'total-records': '25',
      'total-files-size': '2500',
    })
  })

  test("assigns the catalog's next number to a new schema", async () => {
    const table = makeTable()
    await table.commit({ files: [dataFile('a')] })
    const { snapshot } = await table.commit({ files: [dataFile('b')], schema: wider })
    expect(snapshot['schema-id']).toBe(1)
    expect(table.metadata()).toMatchObject({ 'current-schema-id': 1, 'last-column-id': 2 })
    await table.commit({ operation: 'overwrite', files: [], schema })
    expect(table.metadata()).toMatchObject({ 'current-schema-id': 0, schemas: { length: 2 } })
  })

  test('merges many small manifests and keeps sequence numbers and order', async () => {
    const table = makeTable()
    for (let i = 0; i < SMALL_MANIFESTS_LIMIT; i += 1) await table.commit({ files: [dataFile(`f${i}`)] })
    expect(await table.manifests()).toHaveLength(SMALL_MANIFESTS_LIMIT)
    await table.commit({ files: [dataFile('last')] })
    const manifests = await table.manifests()
    expect(manifests).toMatchObject([
      {
        existingFiles: SMALL_MANIFESTS_LIMIT,
        addedFiles: 0,
        minSequenceNumber: 1,
        sequenceNumber: SMALL_MANIFESTS_LIMIT + 1,
      },
      { existingFiles: 0, addedFiles: 1, minSequenceNumber: SMALL_MANIFESTS_LIMIT + 1 },
    ])
    const [merged] = manifests
    const entries = merged ? await table.reader.entries(merged) : []
    expect(entries.map((entry) => entry.sequenceNumber)).toEqual(
      Array.from({ length: SMALL_MANIFESTS_LIMIT }, (_, i) => i + 1),
    )
    expect(new Set(entries.map((entry) => entry.snapshotId)).size).toBe(SMALL_MANIFESTS_LIMIT)
    expect(await table.names()).toEqual([
      ...Array.from({ length: SMALL_MANIFESTS_LIMIT }, (_, i) => `f${i}`),
      'last',
    ])
    expect(currentSnapshot(table.metadata())?.summary['total-data-files']).toBe(
      String(SMALL_MANIFESTS_LIMIT + 1),
    )
  })

  test('splits very many files over several manifests', async () => {
    const table = makeTable()
    await table.commit({
      files: Array.from({ length: MANIFEST_FILES_LIMIT + 1 }, (_, i) => dataFile(`f${i}`)),
    })
    expect((await table.manifests()).map((manifest) => manifest.addedFiles)).toEqual([
      MANIFEST_FILES_LIMIT,
      1,
    ])
  })
})

describe('overwrite', () => {
  test('replaces all files and lists the removed ones', async () => {
    const table = makeTable()
    await table.commit({ files: [dataFile('a'), dataFile('b')] })
    await table.commit({ files: [dataFile('c')] })
    const { snapshot } = await table.commit({ operation: 'overwrite', files: [dataFile('d', 7)] })
    expect(await table.names()).toEqual(['d'])
    expect(await table.manifests()).toMatchObject([{ deletedFiles: 3, deletedRows: 30, addedFiles: 1 }])
    expect(snapshot.summary).toMatchObject({
      operation: 'overwrite',
      'deleted-data-files': '3',
      'deleted-records': '30',
      'removed-files-size': '3000',
      'total-data-files': '1',
      'total-records': '7',
      'total-files-size': '700',
    })
  })

  test('lists removed files of an old partitioning in a separate manifest', async () => {
    const table = makeTable()
    await table.commit({ files: [dataFile('a')] })
    const partitionSpec = { fields: [{ 'source-id': 1, name: 'a', transform: 'identity' as const }] }
    await table.commit({
      operation: 'overwrite',
      partitionSpec,
      files: [{ ...dataFile('b'), partition: { 1000: 7 } }],
    })
    expect(await table.manifests()).toMatchObject([
      { specId: 0, deletedFiles: 1, addedFiles: 0 },
      { specId: 1, deletedFiles: 0, addedFiles: 1 },
    ])
    await table.commit({ operation: 'overwrite', files: [{ ...dataFile('c'), partition: { 1000: 8 } }] })
    expect(await table.manifests()).toMatchObject([{ specId: 1, deletedFiles: 1, addedFiles: 1 }])
    await table.commit({ files: [{ ...dataFile('d'), partition: { 1000: 8 } }] })
    expect(await table.names()).toEqual(['c', 'd'])
  })

  test('empties the table, and the next append drops the deleted entries', async () => {
    const table = makeTable()
    await table.commit({ files: [dataFile('a')] })
    const { snapshot } = await table.commit({ operation: 'overwrite', files: [] })
    expect(snapshot.summary).toMatchObject({ operation: 'delete', 'total-records': '0' })
    expect(await table.names()).toEqual([])
    await table.commit({ files: [dataFile('b')] })
    expect(await table.manifests()).toMatchObject([{ addedFiles: 1, deletedFiles: 0 }])
    expect(await table.names()).toEqual(['b'])
  })

  test('overwrites an empty table without files', async () => {
    const table = makeTable()
    await table.commit({ operation: 'overwrite', files: [] })
    expect(await table.names()).toEqual([])
    expect(await table.manifests()).toEqual([])
  })

  test('is an append when nothing is removed', async () => {
    const table = makeTable()
    const { snapshot } = await table.commit({ operation: 'overwrite', files: [dataFile('a')] })
    expect(snapshot.summary).toMatchObject({ operation: 'append', 'total-records': '10' })
  })
})

describe('compacted files', () => {
  test('are replaced in their own snapshot before the change', async () => {
    const table = makeTable()
    await table.commit({ files: [dataFile('a'), dataFile('b'), dataFile('c', 5)] })
    const { objects, snapshot } = await table.commit({
      files: [dataFile('new', 3)],
      schema: wider,
      compacted: {
        uuid,
        files: [dataFile('ab', 20)],
        replaced: await table.replaced('a', 'b'),
        deletedRows: 0,
      },
    })
    expect(objects).toHaveLength(5)
    const [first, replace, append] = table.metadata().snapshots
    expect(append).toEqual(snapshot)
    expect(replace).toMatchObject({
      'sequence-number': 2,
      'schema-id': 1,
      'parent-snapshot-id': first?.['snapshot-id'],
      summary: {
        operation: 'replace',
        'added-records': '20',
        'deleted-records': '20',
        'total-data-files': '2',
        'total-records': '25',
      },
    })
    expect(append).toMatchObject({
      'sequence-number': 3,
      'schema-id': 1,
      'parent-snapshot-id': replace?.['snapshot-id'],
      summary: { operation: 'append', 'added-records': '3', 'deleted-records': '0', 'total-records': '28' },
    })
    expect(await table.names()).toEqual(['c', 'ab', 'new'])
    const added = (await table.manifests()).filter((each) => each.addedSnapshotId === snapshot['snapshot-id'])
    expect(added).toMatchObject([{ addedFiles: 1, addedRows: 3, sequenceNumber: 3 }])
  })

  test('stay correct when the change replaces files of the same manifest', async () => {
    const table = makeTable()
    await table.commit({ files: [dataFile('a'), dataFile('b'), dataFile('c', 5)] })
    const { snapshot } = await table.commit({
      operation: 'rewrite',
      files: [dataFile('c2', 4)],
      replaced: await table.replaced('c'),
      compacted: {
        uuid,
        files: [dataFile('ab', 20)],
        replaced: await table.replaced('a', 'b'),
        deletedRows: 0,
      },
    })
    expect((await table.names()).sort()).toEqual(['ab', 'c2'])
    expect(snapshot.summary).toMatchObject({
      operation: 'overwrite',
      'deleted-data-files': '1',
      'total-data-files': '2',
      'total-records': '24',
    })
  })

  test('keep the limit of snapshots', async () => {
    const table = makeTable()
    await table.commit({ files: [dataFile('f0')] })
    for (let n = 1; n < SNAPSHOTS_KEPT_LIMIT; n += 1)
      await table.commit({
        files: [],
        compacted: {
          uuid: crypto.randomUUID(),
          files: [dataFile(`f${n}`)],
          replaced: await table.replaced(`f${n - 1}`),
          deletedRows: 0,
        },
      })
    expect(table.metadata().snapshots).toHaveLength(SNAPSHOTS_KEPT_LIMIT)
    expect(await table.names()).toEqual([`f${SNAPSHOTS_KEPT_LIMIT - 1}`])
  })
})

describe('a commit', () => {
  test('commits a staged table together with its first rows', async () => {
    const table = makeTable()
    const { requirements } = await table.commit({ isStaged: true, files: [dataFile('a')] })
    expect(requirements).toEqual([{ type: 'assert-create' }])
    expect(table.metadata()).toMatchObject({
      'table-uuid': uuid,
      'last-sequence-number': 1,
      refs: { main: {} },
    })
    expect(await table.names()).toEqual(['a'])
  })

  test('refuses a commit computed from an outdated table', async () => {
    const table = makeTable()
    const late = await table.plan({ files: [dataFile('late')] })
    const lateSchema = await table.plan({ files: [], schema: wider })
    await table.commit({ files: [dataFile('a')] })
    for (const { requirements } of [late, lateSchema])
      expect(() => checkRequirements(table.metadata(), requirements)).toThrow('snapshot of main has changed')
  })

  test('never moves back in time and never reuses a name', async () => {
    const table = makeTable({ ...empty, 'last-updated-ms': 5000 })
    const [one, two] = await Promise.all([table.plan({}), table.plan({})])
    expect(one.snapshot['timestamp-ms']).toBe(5000)
    const locations = [...one.objects, ...two.objects].map((object) => object.location)
    expect(new Set(locations).size).toBe(locations.length)
  })

  test('removes the oldest snapshots beyond the limit, except named ones', async () => {
    const table = makeTable()
    const first = await table.commit({})
    const tagged: TableMetadata = applyUpdates(
      table.metadata(),
      [
        {
          action: 'set-snapshot-ref',
          'ref-name': 'audit',
          type: 'tag',
          'snapshot-id': first.snapshot['snapshot-id'],
        },
      ],
      { at: 1 },
    )
    const many: TableMetadata = {
      ...tagged,
      snapshots: [
        ...tagged.snapshots,
        ...Array.from({ length: SNAPSHOTS_KEPT_LIMIT }, (_, i) => ({
          ...first.snapshot,
          'snapshot-id': BigInt(i + 1),
        })),
      ],
    }
    const { updates } = await table.plan({ metadata: many })
    expect(updates.at(-1)).toEqual({ action: 'remove-snapshots', 'snapshot-ids': [1n] })
    const next = applyUpdates(many, updates, { at: 3000 })
    expect(Object.keys(next.refs)).toEqual(['audit', MAIN])
  })
})

test('derives positive 63-bit snapshot ids', () => {
  for (let i = 0; i < 1000; i += 1) {
    const id = snapshotIdOf(crypto.randomUUID())
    expect(id > 0n && id < 2n ** 63n).toBe(true)
  }
  expect(snapshotIdOf('00000000-0000-0000-0000-000000000000')).toBe(1n)
})

describe('a scan', () => {
  test('reads a manifest once and caches the manifest', async () => {
    const table = makeTable()
    await table.commit({ files: [dataFile('a')] })
    await table.names()
    const before = table.reads()
    await table.names()
    expect(table.reads() - before).toBe(1) // Only the manifest list.
  })

  test("evicts the least recently used manifests beyond the cache's limit", async () => {
    const context = { schema, spec: { 'spec-id': 0, fields: [] } }
    const entry = { status: 'existing', snapshotId: 1n, sequenceNumber: 1, fileSequenceNumber: 1 } as const
    const file = { content: 'data', format: 'PARQUET', partition: {}, ...dataFile('a') } as const
    const bytes = writeManifest(context, [{ ...entry, file }])
    const reads: string[] = []
    const reader = makeManifestReader(async (location) => {
      reads.push(location)
      return bytes
    }, 6)
    const manifest = (location: string) =>
      describeManifest([{ ...entry, file }], {
        location,
        sizeBytes: bytes.length,
        specId: 0,
        snapshotId: 1n,
        sequenceNumber: 1,
      })
    for (const location of ['a', 'b', 'a', 'c', 'a', 'b']) await reader.entries(manifest(location))
    expect(reads).toEqual(['a', 'b', 'c', 'b'])
  })

  test('refuses a manifest with another length than its list records', async () => {
    const table = makeTable()
    await table.commit({ files: [dataFile('a')] })
    const [manifest] = await table.manifests()
    if (manifest === undefined) throw new Error('no manifest')
    const reader = makeManifestReader(async () => new Uint8Array(manifest.sizeBytes - 1))
    await expect(reader.entries(manifest)).rejects.toThrow(`instead of ${manifest.sizeBytes}`)
  })

  test('refuses other formats and unknown snapshots', async () => {
    const table = makeTable()
    await table.commit({ files: [dataFile('a')] })
    const id = currentSnapshot(table.metadata())?.['snapshot-id'] ?? 0n
    const scan = (change: Partial<typeof table.reader>) =>
      dataFilesOf(table.metadata(), id, { ...table.reader, ...change })
    await expect(dataFilesOf(table.metadata(), 12n, table.reader)).rejects.toThrow(UnsupportedTable)
    await expect(
      scan({
        entries: async (one) =>
          (await table.reader.entries(one)).map((e) => ({ ...e, file: { ...e.file, format: 'ORC' } })),
      }),
    ).rejects.toThrow('ORC files are not supported')
  })
})
