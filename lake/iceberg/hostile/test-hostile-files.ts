// Hostile input for every decoder of files that other engines write: valid files, changes of bytes, and cases that once failed.
// A decoder answers, or throws one of its named errors; it never runs on, and never throws another error.
import { Buffer } from 'node:buffer'
import { crc32 } from 'node:zlib'
import fc from 'fast-check'
import { BadAvro } from '../format/avro-schema.ts'
import type { ManifestEntry } from '../format/data-file.ts'
import {
  describeManifest,
  readManifest,
  readManifestList,
  writeManifest,
  writeManifestList,
} from '../format/manifest.ts'
import { parseMetadata, UnsupportedTable } from '../format/metadata.ts'
import { BadDeletionVector, deletedLines } from '../read/deletion-vector.ts'
import { deletionVector } from '../read/test-vector.ts'
import { parseViewMetadata } from '../views/view.ts'

interface Decoder {
  name: string
  decode(bytes: Uint8Array): unknown
  /** The errors that say that the input is refused. */
  errors: readonly (new (
    ...args: never[]
  ) => Error)[]
  /** Files that the decoder accepts. */
  valid: readonly Uint8Array[]
  /** Makes a changed file pass the checks that any author can make pass, such as a checksum. */
  sealed?(bytes: Uint8Array): Uint8Array
}

const utf8 = (text: string) => new TextEncoder().encode(text)
const LOCATION = 's3://bucket/_lake/t/'

const entry = (index: number): ManifestEntry => ({
  status: 'added',
  snapshotId: 7n,
  sequenceNumber: null,
  fileSequenceNumber: null,
  file: {
    content: index % 3 === 0 ? 'position-deletes' : 'data',
    location: `${LOCATION}data/${index}.parquet`,
    format: 'PARQUET',
    partition: { 1000: index % 2 === 0 ? null : index },
    recordCount: 3,
    sizeBytes: 900,
    columns: new Map([[1, { sizeBytes: 20, valueCount: 3, lower: Uint8Array.of(1, 0, 0, 0) }]]),
    splitOffsets: [4],
    equalityIds: [1],
  },
})
const SCHEMA = {
  type: 'struct' as const,
  'schema-id': 0,
  fields: [{ id: 1, name: 'a', required: false, type: 'int' as const }],
}
const SPEC = {
  'spec-id': 0,
  fields: [{ 'source-id': 1, 'field-id': 1000, name: 'a', transform: 'identity' }],
}
const manifestOf = (entries: number) =>
  writeManifest(
    { schema: SCHEMA, spec: SPEC },
    Array.from({ length: entries }, (_, i) => entry(i)),
  )
const listOf = (manifests: number) =>
  writeManifestList(
    { snapshotId: 7n, sequenceNumber: 1 },
    Array.from({ length: manifests }, (_, i) =>
      describeManifest([entry(i)], {
        location: `${LOCATION}metadata/${i}.avro`,
        sizeBytes: 100,
        specId: 0,
        snapshotId: 7n,
        sequenceNumber: 1,
        partitions: [{ id: 1000, avroName: 'a', type: 'int' }],
      }),
    ),
  )
const METADATA = {
  'format-version': 2,
  'table-uuid': 'u',
  location: LOCATION,
  schemas: [SCHEMA],
  'partition-specs': [SPEC],
  'sort-orders': [],
  'current-snapshot-id': 7,
  properties: { 'a"b': '\\"[{' },
}

const INHERITED = { sequenceNumber: 1, addedSnapshotId: 7n, firstRowId: 0 }
const MANIFESTS = [manifestOf(0), manifestOf(3), manifestOf(300)]
const LISTS = [listOf(0), listOf(2), listOf(300)]

/** Every decoder, with its name in the corpus. */
export const DECODERS: readonly Decoder[] = [
  {
    name: 'manifest',
    decode: (bytes) => readManifest(bytes, INHERITED),
    errors: [BadAvro],
    valid: MANIFESTS,
  },
  { name: 'manifest list', decode: readManifestList, errors: [BadAvro], valid: LISTS },
  {
    name: 'deletion vector',
    decode: (bytes) => [...deletedLines(bytes, 5)],
    errors: [BadDeletionVector],
    valid: (['array', 'run'] as const).map((kind) =>
      deletionVector([1, 2, 3, 70_000, 2 ** 32 + 7], () => kind),
    ),
    sealed(bytes) {
      if (bytes.length < 12) return bytes
      const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
      view.setUint32(0, bytes.length - 8)
      view.setUint32(bytes.length - 4, crc32(bytes.subarray(4, -4)))
      return bytes
    },
  },
  {
    name: 'table metadata',
    decode: (bytes) => parseMetadata(new TextDecoder().decode(bytes)),
    errors: [SyntaxError, UnsupportedTable],
    valid: [utf8(JSON.stringify(METADATA))],
  },
  {
    name: 'view metadata',
    decode: (bytes) => parseViewMetadata(new TextDecoder().decode(bytes)),
    errors: [SyntaxError],
    valid: [],
  },
]

/** Numbers at the edges of what decoders read: lengths and counts as Avro's longs, and little-endian words. */
const EDGES: readonly Uint8Array[] = [
  ...[0, 1, -1, 63, -64, 64, 1_000, 2 ** 31, -(2 ** 31), 1e7, 2 ** 53, -(2 ** 53)].map(avroLong),
  Uint8Array.from(Array(10).fill(0xff)),
  Uint8Array.from([...Array(9).fill(0x80), 0x01]),
  Uint8Array.of(0xff, 0xff),
  Uint8Array.of(0xff, 0xff, 0xff, 0xff),
  utf8('['.repeat(600)),
  utf8('{"a":'.repeat(600)),
  utf8('"null"'),
  utf8('{"type":"array","items":"null"}'),
]

/** The bytes of a long in Avro. */
export function avroLong(value: number): Uint8Array {
  const bytes: number[] = []
  let left = BigInt.asUintN(64, (BigInt(value) << 1n) ^ (BigInt(value) >> 63n))
  for (; left >= 0x80n; left >>= 7n) bytes.push(Number(left & 0x7fn) | 0x80)
  return Uint8Array.from([...bytes, Number(left)])
}

/** Replaces `removed` bytes at a position by others. */
interface Change {
  at: number
  removed: number
  added: Uint8Array
}

const change: fc.Arbitrary<Change> = fc.record({
  at: fc.nat(),
  removed: fc.oneof(fc.nat(2), fc.nat(40)),
  added: fc.oneof(fc.uint8Array({ maxLength: 4 }), fc.constantFrom(...EDGES)),
})

function changed(bytes: Uint8Array, changes: readonly Change[]): Uint8Array {
  let result = bytes
  for (const { at, removed, added } of changes) {
    const start = at % (result.length + 1)
    result = Uint8Array.from(
      Buffer.concat([result.subarray(0, start), added, result.subarray(start + removed)]),
    )
  }
  return result
}

/** Changed valid files, and random bytes. */
export function hostileBytes({ valid, sealed = (bytes) => bytes }: Decoder): fc.Arbitrary<Uint8Array> {
  const changedFile = fc
    .tuple(
      fc.constantFrom(...valid, new Uint8Array()),
      fc.array(change, { minLength: 1, maxLength: 4 }),
      fc.boolean(),
    )
    .map(([bytes, changes, isSealed]) => {
      const result = changed(bytes, changes)
      return isSealed ? sealed(result) : result
    })
  return fc.oneof({ arbitrary: changedFile, weight: 9 }, { arbitrary: fc.uint8Array(), weight: 1 })
}

/** Throws an error with the line for `corpus.json` if the decoder fails in another way than by its named errors. */
export function decodesOrRefuses({ name, decode, errors }: Decoder, bytes: Uint8Array): void {
  try {
    decode(bytes)
  } catch (error) {
    if (errors.some((kind) => error instanceof kind)) return
    const line = JSON.stringify({ decoder: name, base64: Buffer.from(bytes).toString('base64') })
    throw new Error(`add this case to corpus.json: ${line}`, { cause: error })
  }
}
