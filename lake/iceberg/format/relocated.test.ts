import { expect, test } from 'bun:test'
import { readAvro, writeAvro } from './avro.ts'
import { type AvroSchema, BadAvro, INT64 } from './avro-schema.ts'
import { decodeBound, encodeBound } from './bounds.ts'
import { FILE_PATH_ID } from './layout.ts'
import { readManifest, writeManifest } from './manifest.ts'
import { exactLongs } from './manifest-schema.ts'
import { UnsupportedTable } from './metadata.ts'
import { copyLocation, positionDeletesIn, relocated, relocatedList, relocatedManifest } from './relocated.ts'

const OLD = 'sluice://lake/_lake/a/gold/t-01234567'
const NEW = 's3://b/_lake/a/gold/t-01234567'
const BIG = 9007199254740993n

/** A manifest of another writer: other names, a timestamp partition, and a field that no specification has. */
const SCHEMA: AvroSchema = {
  type: 'record',
  name: 'manifest_entry',
  fields: [
    { name: 'state', type: 'int', 'field-id': 0 },
    { name: 'snapshot', type: ['null', INT64], default: null, 'field-id': 1 },
    {
      name: 'file',
      'field-id': 2,
      type: {
        type: 'record',
        name: 'r2',
        fields: [
          { name: 'kind', type: 'int', 'field-id': 134 },
          { name: 'path', type: 'string', 'field-id': 100 },
          { name: 'format', type: 'string', 'field-id': 101 },
          { name: 'at', type: ['null', { type: 'long', logicalType: 'timestamp-micros' }], 'field-id': 1000 },
          { name: 'note', type: 'string' },
        ],
      },
    },
  ],
}
const entry = (over: Record<string, unknown> = {}, state = 1) => ({
  state,
  snapshot: BIG,
  file: { kind: 0, path: `${OLD}/data/1.parquet`, format: 'PARQUET', at: BIG, note: OLD, ...over },
})
const manifest = (...entries: Record<string, unknown>[]) =>
  writeAvro(exactLongs(SCHEMA), { schema: '{}', content: 'data' }, entries)

test('copies a manifest of another writer and changes only the paths', () => {
  const bytes = manifest(entry(), entry({ path: 'abfs://elsewhere/1.parquet' }))
  const before = readAvro(bytes, exactLongs)
  const { schema, metadata, records } = readAvro(relocatedManifest(bytes, 's3://b/', new Map()), exactLongs)
  expect(JSON.parse(schema)).toEqual(JSON.parse(before.schema))
  expect(metadata).toEqual({ schema: '{}', content: 'data' })
  expect(records.map(({ file }) => ({ ...(file as object) }))).toEqual([
    { kind: 0, path: `${NEW}/data/1.parquet`, format: 'PARQUET', at: BIG, note: OLD },
    { kind: 0, path: 'abfs://elsewhere/1.parquet', format: 'PARQUET', at: BIG, note: OLD },
  ])
  expect(records.map(({ snapshot }) => snapshot)).toEqual([BIG, BIG])
})

test('finds live position deletes of another root, and refuses formats that cannot be rewritten', () => {
  const deletes = (over: Record<string, unknown>, state = 1) =>
    positionDeletesIn(manifest(entry({ kind: 1, ...over }, state)), 's3://b/')
  expect(deletes({})).toEqual([`${OLD}/data/1.parquet`])
  expect(deletes({ path: `${NEW}/data/1.parquet` })).toEqual([])
  expect(deletes({ kind: 2 })).toEqual([])
  expect(deletes({ format: 'ORC' }, 2)).toEqual([])
  expect(() => deletes({ format: 'ORC' })).toThrow(UnsupportedTable)
})

test('describes the copy of a position delete file by its own size and bounds', () => {
  const location = `${OLD}/data/1-deletes.parquet`
  const bytes = writeManifest(
    {
      schema: { type: 'struct', 'schema-id': 0, fields: [] },
      spec: { 'spec-id': 0, fields: [] },
      content: 'deletes',
      formatVersion: 2,
    },
    [
      {
        status: 'added',
        snapshotId: null,
        sequenceNumber: null,
        fileSequenceNumber: null,
        file: {
          content: 'position-deletes',
          location,
          format: 'PARQUET',
          partition: {},
          recordCount: 1,
          sizeBytes: 60,
          columns: new Map([
            [FILE_PATH_ID, { sizeBytes: 9, lower: encodeBound('string', `${OLD}/data/1.parquet`) }],
          ]),
          splitOffsets: [4],
        },
      },
    ],
  )
  expect(positionDeletesIn(bytes, 's3://b/')).toEqual([location])
  const [first, last] = [`${NEW}/data/1.parquet`, `${NEW}/data/2.parquet`]
  const copy = { location: `${NEW}/data/1-deletes-r.parquet`, sizeBytes: 70, first, last }
  const copied = relocatedManifest(bytes, 's3://b/', new Map([[location, copy]]))
  const [after] = readManifest(copied, { sequenceNumber: 1, addedSnapshotId: 1n })
  expect(after?.file).toMatchObject({ location: copy.location, sizeBytes: 70, recordCount: 1 })
  expect(after?.file.splitOffsets).toBeUndefined()
  const bounds = after?.file.columns.get(FILE_PATH_ID)
  expect([bounds?.lower, bounds?.upper].map((bound) => bound && decodeBound('string', bound))).toEqual([
    first,
    last,
  ])
  expect(bounds?.sizeBytes).toBeUndefined()
  const [lost] = readManifest(relocatedManifest(bytes, 's3://b/', new Map()), {
    sequenceNumber: 1,
    addedSnapshotId: 1n,
  })
  expect(lost?.file).toMatchObject({ location: `${NEW}/data/1-deletes.parquet`, sizeBytes: 60 })
})

test('moves a deletion vector together with the name of its data file', () => {
  const location = `${OLD}/data/1.puffin`
  const bytes = writeManifest(
    {
      schema: { type: 'struct', 'schema-id': 0, fields: [] },
      spec: { 'spec-id': 0, fields: [] },
      content: 'deletes',
      formatVersion: 3,
    },
    [
      {
        status: 'added',
        snapshotId: null,
        sequenceNumber: null,
        fileSequenceNumber: null,
        file: {
          content: 'position-deletes',
          location,
          format: 'PUFFIN',
          partition: {},
          recordCount: 1,
          sizeBytes: 60,
          columns: new Map(),
          referencedDataFile: `${OLD}/data/1.parquet`,
          contentOffset: 4,
          contentSizeBytes: 44,
        },
      },
    ],
  )
  const inherited = { sequenceNumber: 1, addedSnapshotId: 1n }
  const [before] = readManifest(bytes, inherited)
  const [after] = readManifest(relocatedManifest(bytes, 's3://b/', new Map()), inherited)
  expect(after?.file).toEqual({
    ...(before?.file ?? after?.file),
    location: `${NEW}/data/1.puffin`,
    referencedDataFile: `${NEW}/data/1.parquet`,
  } as never)
})

test('sets the path and the size of each copied manifest in a list', () => {
  const list = writeAvro(
    {
      type: 'record',
      name: 'manifest_file',
      fields: [
        { name: 'path', type: 'string', 'field-id': 500 },
        { name: 'length', type: INT64, 'field-id': 501 },
      ],
    },
    {},
    [
      { path: `${OLD}/metadata/a.avro`, length: 1n },
      { path: `${OLD}/metadata/lost.avro`, length: 2n },
    ],
  )
  const copies = new Map([[`${OLD}/metadata/a.avro`, { location: `${NEW}/metadata/a-r.avro`, sizeBytes: 7 }]])
  const { records } = readAvro(relocatedList(list, 's3://b/', copies), exactLongs)
  expect(records.map((record) => ({ ...record }))).toEqual([
    { path: `${NEW}/metadata/a-r.avro`, length: 7n },
    { path: `${NEW}/metadata/lost.avro`, length: 2n },
  ])
  expect(() => relocatedList(manifest(entry()), 's3://b/', copies)).toThrow(BadAvro)
})

test('names a copy by its root, and does not lengthen names', () => {
  for (const name of ['00001-a.metadata.json', 'snap-1-a.avro', 'a-m0.avro']) {
    const there = copyLocation('s3://b/', `${OLD}/metadata/${name}`)
    expect(there).toMatch(
      /^s3:\/\/b\/_lake\/a\/gold\/t-01234567\/metadata\/[\w-]+-r[0-9a-f]{8}\.(avro|metadata\.json)$/,
    )
    expect(copyLocation('s3://b/', there)).toBe(there)
    expect(copyLocation('s3://c/', there)).toHaveLength(there.length)
    expect(copyLocation('s3://c/', there)).not.toContain('//b/')
  }
  expect(relocated('s3://b/', 'abfs://elsewhere/x')).toBe('abfs://elsewhere/x')
})
