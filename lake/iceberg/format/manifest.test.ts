import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { avroMetadata, avroRead } from 'icebird'
import { writeAvro } from './avro.ts'
import { type AvroSchema, BadAvro } from './avro-schema.ts'
import type { DataFile, ManifestEntry } from './data-file.ts'
import {
  describeManifest,
  readManifest,
  readManifestList,
  writeManifest,
  writeManifestList,
} from './manifest.ts'
import type { PartitionSpec } from './metadata.ts'
import type { Schema } from './types.ts'

const schema: Schema = {
  type: 'struct',
  'schema-id': 3,
  fields: [
    { id: 1, name: 'a', required: false, type: 'int' },
    { id: 2, name: 'd', required: false, type: 'date' },
    { id: 3, name: 'n', required: false, type: 'decimal(20, 2)' },
    { id: 4, name: 'u', required: false, type: 'uuid' },
    { id: 5, name: 's', required: false, type: 'string' },
    { id: 6, name: 'b', required: false, type: 'binary' },
    { id: 7, name: 't', required: false, type: 'timestamptz' },
  ],
}
const unpartitioned: PartitionSpec = { 'spec-id': 0, fields: [] }
const SNAPSHOT = 9007199254740993n

const file = (over: Partial<DataFile> = {}): DataFile => ({
  content: 'data',
  location: 's3://bucket/_lake/t/data/1.parquet',
  format: 'PARQUET',
  partition: {},
  recordCount: 3,
  sizeBytes: 900,
  columns: new Map([
    [
      1,
      {
        sizeBytes: 20,
        valueCount: 3,
        nullCount: 1,
        nanCount: 0,
        lower: Uint8Array.of(1, 0, 0, 0),
        upper: Uint8Array.of(9, 0, 0, 0),
      },
    ],
    [2, { valueCount: 3 }],
  ]),
  splitOffsets: [4, 1000],
  sortOrderId: 0,
  ...over,
})
const added: ManifestEntry = {
  status: 'added',
  snapshotId: SNAPSHOT,
  sequenceNumber: null,
  fileSequenceNumber: null,
  file: file(),
}
const existing: ManifestEntry = {
  status: 'existing',
  snapshotId: 5n,
  sequenceNumber: 2,
  fileSequenceNumber: 1,
  file: file(),
}
const deleted: ManifestEntry = { ...existing, status: 'deleted' }
const inherited = { sequenceNumber: 7, addedSnapshotId: SNAPSHOT }

describe('a manifest', () => {
  test('reads a written manifest and fills in inherited values', () => {
    const bytes = writeManifest({ schema, spec: unpartitioned }, [added, existing, deleted])
    expect(readManifest(bytes, inherited)).toEqual([
      { ...added, sequenceNumber: 7, fileSequenceNumber: 7 },
      existing,
      deleted,
    ])
  })

  test('writes equal bytes for equal content', () => {
    const write = () => writeManifest({ schema, spec: unpartitioned }, [added, existing])
    expect(write()).toEqual(write())
  })

  test("describes itself with the specification's metadata and field ids", () => {
    const { metadata, schema: avro } = header(writeManifest({ schema, spec: unpartitioned }, []))
    expect(metadata).toEqual({
      schema,
      'schema-id': '3',
      'partition-spec': '[]',
      'partition-spec-id': '0',
      'format-version': '2',
      content: 'data',
    })
    expect(fieldIds(avro)).toEqual({
      status: 0,
      snapshot_id: 1,
      sequence_number: 3,
      file_sequence_number: 4,
      data_file: 2,
      'data_file.content': 134,
      'data_file.file_path': 100,
      'data_file.file_format': 101,
      'data_file.partition': 102,
      'data_file.record_count': 103,
      'data_file.file_size_in_bytes': 104,
      'data_file.column_sizes': 108,
      'data_file.value_counts': 109,
      'data_file.null_value_counts': 110,
      'data_file.nan_value_counts': 137,
      'data_file.lower_bounds': 125,
      'data_file.upper_bounds': 128,
      'data_file.key_metadata': 131,
      'data_file.split_offsets': 132,
      'data_file.equality_ids': 135,
      'data_file.sort_order_id': 140,
    })
    expect(JSON.stringify(avro)).not.toContain('int64')
  })

  test('keeps partition tuples of every source type', () => {
    const parts = schema.fields.map(({ id, name }) => ({
      'source-id': id,
      'field-id': 999 + id,
      name,
      transform: 'identity',
    }))
    const spec: PartitionSpec = {
      'spec-id': 1,
      fields: [...parts, { 'source-id': 2, 'field-id': 1100, name: 'd_month', transform: 'month' }],
    }
    const partition = {
      1000: 5,
      1001: 18_000,
      1002: -1234n,
      1003: '07070707-0707-0707-0707-070707070707',
      1004: 'é',
      1005: Uint8Array.of(0xff),
      1006: 2n ** 62n,
      1100: null,
    }
    const bytes = writeManifest({ schema, spec }, [{ ...added, file: file({ partition }) }])
    const read = readManifest(bytes, inherited)[0]
    const asStored = {
      ...partition,
      1002: Uint8Array.from([...Array(7).fill(255), 0xfb, 0x2e]),
      1003: new Uint8Array(16).fill(7),
    }
    expect(read?.file.partition).toEqual(asStored)
    // Writing the decoded entry gives the same bytes as writing the original one.
    expect(read && writeManifest({ schema, spec }, [{ ...read, snapshotId: SNAPSHOT }])).toEqual(
      read && writeManifest({ schema, spec }, [{ ...read, file: { ...read.file, partition } }]),
    )
  })

  test.each([
    ['timestamp', { type: 'long', logicalType: 'timestamp-micros', 'adjust-to-utc': false }],
    ['timestamptz', { type: 'long', logicalType: 'timestamp-micros', 'adjust-to-utc': true }],
    ['time', { type: 'long', logicalType: 'time-micros' }],
    ['date', { type: 'int', logicalType: 'date' }],
    ['long', 'long'],
  ])('declares an identity partition by %s with its logical type', (type, declared) => {
    const source: Schema = { ...schema, fields: [{ id: 1, name: 'p', required: false, type }] }
    const fields = [{ 'source-id': 1, 'field-id': 1000, name: 'p', transform: 'identity' }]
    const bytes = writeManifest({ schema: source, spec: { 'spec-id': 1, fields } }, [])
    expect(partitionFields(header(bytes).schema)).toEqual([
      { name: 'p', type: ['null', declared], default: null, 'field-id': 1000 },
    ])
  })

  test('writes manifests for independent readers, including 64-bit ids', () => {
    const [one] = independently(writeManifest({ schema, spec: unpartitioned }, [existing]))
    expect(one).toMatchObject({
      status: 0,
      snapshot_id: 5n,
      sequence_number: 2n,
      data_file: { file_path: existing.file.location, record_count: 3n, split_offsets: [4n, 1000n] },
    })
    const [other] = independently(writeManifest({ schema, spec: unpartitioned }, [added]))
    expect(other).toMatchObject({ snapshot_id: SNAPSHOT, sequence_number: undefined })
  })

  test('reads manifests of other writers by field ids, not names', () => {
    const bytes = writeManifest({ schema, spec: unpartitioned }, [existing])
    const renamed = withShoutedNames(bytes)
    expect(Buffer.from(renamed).toString('latin1')).toContain('LOWER_BOUNDS')
    expect(readManifest(renamed, inherited)).toEqual([existing])
  })
})

describe('a manifest list', () => {
  const described = describeManifest([added, existing, deleted], {
    location: 's3://bucket/_lake/t/metadata/x-m0.avro',
    sizeBytes: 500,
    specId: 0,
    snapshotId: SNAPSHOT,
    sequenceNumber: 7,
  })

  test('counts files and rows by status', () => {
    expect(described).toMatchObject({
      addedFiles: 1,
      existingFiles: 1,
      deletedFiles: 1,
      addedRows: 3,
      existingRows: 3,
      deletedRows: 3,
      sequenceNumber: 7,
      minSequenceNumber: 2,
    })
  })

  test('writes a manifest list that both readers can read', () => {
    const bytes = writeManifestList({ snapshotId: SNAPSHOT, parentSnapshotId: 3n, sequenceNumber: 7 }, [
      described,
    ])
    expect(readManifestList(bytes)).toEqual([described])
    expect(independently(bytes)).toMatchObject([{ added_snapshot_id: SNAPSHOT, min_sequence_number: 2n }])
    expect(header(bytes).metadata).toEqual({
      'snapshot-id': String(SNAPSHOT),
      'parent-snapshot-id': '3',
      'sequence-number': '7',
      'format-version': '2',
    })
  })

  test('writes a list without manifests for an empty table', () => {
    expect(readManifestList(writeManifestList({ snapshotId: 1n, sequenceNumber: 1 }, []))).toEqual([])
  })
})

describe('an Avro file', () => {
  const bytes = writeManifest(
    { schema, spec: unpartitioned },
    Array.from({ length: 2500 }, () => existing),
  )

  test('reads an Avro file of many blocks completely', () =>
    expect(readManifest(bytes, inherited)).toHaveLength(2500))

  test('reads or refuses a damaged Avro file, without other errors', () => {
    fc.assert(
      fc.property(fc.nat(bytes.length - 1), fc.nat(255), (at, byte) => {
        const changed = bytes.slice()
        changed[at] = byte
        // A file cut between two blocks is a valid file with fewer rows. Only the manifest list knows its length.
        const cut = bytes.slice(0, at)
        for (const [damaged, rowsAtMost] of [
          [cut, 2499],
          [changed, 2500],
        ] as const)
          try {
            expect(readManifest(damaged, inherited).length).toBeLessThanOrEqual(rowsAtMost)
          } catch (error) {
            expect(error).toBeInstanceOf(BadAvro)
          }
      }),
      { numRuns: 50 },
    )
  })

  test('refuses a file that is not Avro or has another schema', () => {
    expect(() => readManifestList(new TextEncoder().encode('hello, this is text'))).toThrow(
      'not an Avro file',
    )
    expect(() => readManifestList(readFileSync(import.meta.path))).toThrow(BadAvro)
    const foreign = writeAvro({ type: 'record', name: 'x', fields: [{ name: 'y', type: 'int' }] }, {}, [
      { y: 1 },
    ])
    expect(() => readManifestList(foreign)).toThrow('Avro record field manifest_path is missing')
  })
})

/** The header as an independent reader decodes it. */
function header(bytes: Uint8Array): { metadata: Record<string, unknown>; schema: AvroSchema } {
  const reader = { view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), offset: 0 }
  const { 'avro.schema': schema, 'avro.codec': _, ...metadata } = avroMetadata(reader).metadata
  return { metadata, schema }
}

/** The fields of the record `r102`, which holds the partition tuple. */
function partitionFields(schema: unknown): unknown {
  if (typeof schema !== 'object' || schema === null) return undefined
  if ('name' in schema && schema.name === 'r102' && 'fields' in schema) return schema.fields
  return Object.values(schema)
    .map(partitionFields)
    .find((fields) => fields !== undefined)
}

function fieldIds(schema: AvroSchema, path = ''): Record<string, unknown> {
  if (typeof schema !== 'object' || !('fields' in schema) || !Array.isArray(schema.fields)) return {}
  return Object.assign(
    {},
    ...schema.fields.map((field) => ({
      [`${path}${field.name}`]: field['field-id'],
      ...fieldIds(field.type, `${path}${field.name}.`),
    })),
  )
}

/** Changes the names in the schema of a file without a change of its length. The schema is plain text in the header. */
function withShoutedNames(bytes: Uint8Array): Uint8Array {
  const text = Buffer.from(bytes).toString('latin1')
  return Buffer.from(
    text.replaceAll(/"name":"\w+"/g, (name) => name.toUpperCase().replace('NAME', 'name')),
    'latin1',
  )
}

function independently(bytes: Uint8Array): Record<string, unknown>[] {
  const reader = { view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), offset: 0 }
  const { metadata, syncMarker } = avroMetadata(reader)
  return avroRead({ reader, metadata, syncMarker })
}
