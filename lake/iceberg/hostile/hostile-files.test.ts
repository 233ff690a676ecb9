import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { Buffer } from 'node:buffer'
import { deflateRawSync } from 'node:zlib'
import fc from 'fast-check'
import { openAvro } from '../format/avro.ts'
import { BadAvro } from '../format/avro-schema.ts'
import { readManifest, readManifestList } from '../format/manifest.ts'
import { deletedLines } from '../read/deletion-vector.ts'
import { deletionVector } from '../read/test-vector.ts'
import corpus from './corpus.json'
import { avroLong, DECODERS, decodesOrRefuses, hostileBytes } from './test-hostile-files.ts'

// A decoder that never ends fails by this limit.
setDefaultTimeout(60_000)

/** `FUZZ_SEED` repeats a run, `FUZZ_CASES` makes a longer one. */
const seed = Number(process.env.FUZZ_SEED ?? Math.floor(Math.random() * 2 ** 31))
const numRuns = Number(process.env.FUZZ_CASES ?? 1_000)
console.log(`decoders of foreign files: FUZZ_SEED=${seed} FUZZ_CASES=${numRuns}`)

describe('every decoder', () => {
  for (const decoder of DECODERS) {
    test(`${decoder.name}: answers for valid files`, () => {
      for (const bytes of decoder.valid) decodesOrRefuses({ ...decoder, errors: [] }, bytes)
    })

    test(`${decoder.name}: answers or refuses the cases of the corpus`, () => {
      const cases = corpus.filter((each) => each.decoder === decoder.name)
      for (const { base64 } of cases) decodesOrRefuses(decoder, Buffer.from(base64, 'base64'))
    })

    test(`${decoder.name}: answers or refuses any changed file`, () => {
      fc.assert(
        fc.property(hostileBytes(decoder), (bytes) => decodesOrRefuses(decoder, bytes)),
        { seed, numRuns },
      )
    })
  }
})

const SYNC = Buffer.alloc(16, 7)
const text = (value: string) => Buffer.concat([avroLong(value.length), Buffer.from(value)])

/** A container file of one block with a claimed count and size. */
function container({ schema, codec = 'null', count, size, data = Buffer.alloc(0) }: Claims): Buffer {
  const block = [avroLong(count), avroLong(size ?? data.length), data, SYNC]
  const meta = [
    avroLong(2),
    text('avro.schema'),
    text(JSON.stringify(schema)),
    text('avro.codec'),
    text(codec),
  ]
  return Buffer.concat([Buffer.from('Obj\x01'), ...meta, avroLong(0), SYNC, ...block])
}
interface Claims {
  schema: unknown
  codec?: string
  count: number
  size?: number
  data?: Buffer
}

const EMPTY = { type: 'record', name: 'r', fields: [] }
const of = (type: unknown) => ({ type: 'record', name: 'r', fields: [{ name: 'a', type }] })
/** Types that contain each other twice, so that the last one has 2^40 values and no bytes. */
const doubling = () => {
  let type: unknown = { type: 'record', name: 'r0', fields: [{ name: 'a', type: 'null' }] }
  for (let i = 1; i < 14; i += 1)
    type = {
      type: 'record',
      name: `r${i}`,
      fields: [
        { name: 'a', type },
        ...Array.from({ length: 7 }, (_, j) => ({ name: `b${j}`, type: `r${i - 1}` })),
      ],
    }
  return type
}

/** A record of `width` records of `width` nulls, and a text. */
function repeating(width: number) {
  const columns = (type: unknown, prefix: string) =>
    Array.from({ length: width }, (_, i) => ({ name: `${prefix}${i}`, type }))
  const [first, ...others] = columns('wide', 'b')
  const wide = { type: 'record', name: 'wide', fields: columns('null', 'a') }
  return {
    type: 'record',
    name: 'r',
    fields: [{ ...first, type: wide }, ...others, { name: 't', type: 'string' }],
  }
}
/** Records with empty texts. Zeros behind them are enough bytes for their nulls. */
function tail(records: number) {
  const data = Buffer.alloc(20 * 1_048_576)
  return { codec: 'deflate', count: records, data: deflateRawSync(data, { level: 1 }) }
}

const CLAIMS: Record<string, Claims> = {
  'a block of negative size': { schema: EMPTY, count: 1, size: -20 },
  'a block of negative count': { schema: EMPTY, count: -1 },
  'records without bytes': { schema: EMPTY, count: 10_000_000 },
  'records of null': { schema: of('null'), count: 900_000 },
  'an array of nulls': {
    schema: of({ type: 'array', items: 'null' }),
    count: 1,
    data: Buffer.from([...avroLong(1e15), 0]),
  },
  'an array of empty records': {
    schema: of({ type: 'array', items: { ...EMPTY, name: 'e' } }),
    count: 1,
    data: Buffer.from([...avroLong(-1e15), 2, 0]),
  },
  'an array of longs': {
    schema: of({ type: 'array', items: 'long' }),
    count: 1,
    data: Buffer.from(avroLong(1e15)),
  },
  'a map of nulls': {
    schema: of({ type: 'map', values: 'null' }),
    count: 1,
    data: Buffer.from(avroLong(1e15)),
  },
  'a text of negative length': { schema: of('string'), count: 1, data: Buffer.from(avroLong(-5)) },
  'a text of 2 GB': { schema: of('string'), count: 1, data: Buffer.from(avroLong(2 ** 31)) },
  'a fixed type of no bytes': { schema: of({ type: 'fixed', name: 'f', size: 0 }), count: 900_000 },
  'types that double': { schema: doubling(), count: 1 },
  'a type that contains itself': { schema: of('r'), count: 1 },
  'records that repeat a wide type': { schema: repeating(2_000), ...tail(1) },
  'many wide records without bytes': { schema: repeating(300), ...tail(200) },
  'a deep schema': { schema: JSON.parse(`${'{"type":'.repeat(1_000)}"null"${'}'.repeat(1_000)}`), count: 1 },
  'a deflate bomb': {
    schema: EMPTY,
    codec: 'deflate',
    count: 1,
    data: deflateRawSync(Buffer.alloc(100 * 1_048_576), { level: 1 }),
  },
  'an unknown codec': {
    schema: EMPTY,
    codec: 'snappy',
    count: 1,
    data: Buffer.from([0xff, 0xff, 0xff, 0xff, 0x0f]),
  },
}

describe('Avro files with false claims are refused', () => {
  for (const [name, claims] of Object.entries(CLAIMS))
    test(name, () => {
      const bytes = container(claims)
      expect(() => readManifestList(bytes)).toThrow(BadAvro)
      expect(() => readManifest(bytes, { sequenceNumber: 1, addedSnapshotId: 1n })).toThrow(BadAvro)
    })
})

describe('the work of one turn is bounded', () => {
  const records = (claims: Claims) => openAvro(container(claims), (schema) => schema).batches

  test('wide records without bytes end a batch', () => {
    // Each record has 90,000 nulls, and a batch could have 1,000 of them.
    const first = records({ schema: repeating(300), ...tail(200) }).next()
    expect(first.value).toHaveLength(1)
  })

  test('a block without records ends a batch', () => {
    expect(records({ schema: EMPTY, count: 0 }).next()).toEqual({ done: false, value: [] })
  })

  test('the values of all records of a file are limited', () => {
    const read = () => [...records({ schema: repeating(300), ...tail(200) })]
    expect(read).toThrow('more than 8000000 values: write smaller manifests')
  })

  test('full containers of a deletion vector end a part', () => {
    const rows = Array.from({ length: 8 * 65_536 }, (_, i) => i)
    const parts = [...deletedLines(deletionVector(rows), rows.length)]
    expect(parts.length).toBeGreaterThan(2)
    expect(parts.join('')).toBe(
      Array.from({ length: 8 }, (_, i) => `${i * 65_536},${(i + 1) * 65_536}\n`).join(''),
    )
  })
})
