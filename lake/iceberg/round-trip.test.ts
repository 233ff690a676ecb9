// Two independent readers read the tables written here: DuckDB's Parquet reader (by field id) and icebird (an Iceberg reader
// that also reads manifests).

import { describe, expect, test } from 'bun:test'
import { quoteIdentifier } from '../quote.ts'
import { decodeBound } from './format/bounds.ts'
import type { ColumnMetrics } from './format/data-file.ts'
import { currentSchema, currentSnapshot, type TableMetadata } from './format/metadata.ts'
import { columnsOf, UnsupportedColumn } from './format/types.ts'
import { dataFilesOf } from './read/scan.ts'
import { readIndependently, useTestLake } from './test-lake.ts'
import { copyResultFrom } from './write/stats.ts'

const lake = await useTestLake()

const filesOf = (table: TableMetadata) =>
  dataFilesOf(table, currentSnapshot(table)?.['snapshot-id'] ?? 0n, lake.reader)
const readByDuckDb = async (table: TableMetadata) => lake.rows(`SELECT * FROM ${await lake.source(table)}`)

/** SQL value, DuckDB's type after reading, its value, and icebird's value when it differs. */
const VALUES: [sql: string, type: string, duckdb: unknown, icebird?: unknown][] = [
  ['true', 'BOOLEAN', true],
  ['(-128)::TINYINT', 'INTEGER', -128],
  ['32767::SMALLINT', 'INTEGER', 32767],
  ['255::UTINYINT', 'INTEGER', 255],
  ['65535::USMALLINT', 'INTEGER', 65535],
  ['(-2147483648)::INTEGER', 'INTEGER', -2147483648],
  ['4294967295::UINTEGER', 'BIGINT', 4294967295n],
  ['9223372036854775807::BIGINT', 'BIGINT', 9223372036854775807n],
  ['18446744073709551615::UBIGINT', 'DECIMAL(20,0)', 2 ** 64],
  ['sum(9223372036854775807::BIGINT)', 'DECIMAL(38,0)', 2 ** 63],
  ['1.5::FLOAT', 'FLOAT', 1.5],
  ['1e300::DOUBLE', 'DOUBLE', 1e300],
  ["'nan'::DOUBLE", 'DOUBLE', Number.NaN],
  ['(-12.34)::DECIMAL(14,2)', 'DECIMAL(14,2)', -12.34],
  ["DATE '1969-12-31'", 'DATE', new Date('1969-12-31')],
  ["TIME '03:04:05.123456'", 'TIME', 11_045_123_456n],
  ["TIMESTAMP '2020-01-02 03:04:05.123'", 'TIMESTAMP', new Date('2020-01-02T03:04:05.123Z')],
  ["'2020-01-02 03:04:05'::TIMESTAMP_S", 'TIMESTAMP', new Date('2020-01-02T03:04:05Z')],
  ["'2020-01-02 03:04:05.123'::TIMESTAMP_MS", 'TIMESTAMP', new Date('2020-01-02T03:04:05.123Z')],
  [
    "TIMESTAMPTZ '2020-01-02 03:04:05.123+02'",
    'TIMESTAMP WITH TIME ZONE',
    new Date('2020-01-02T01:04:05.123Z'),
  ],
  ["'héllo wörld, a long string'", 'VARCHAR', 'héllo wörld, a long string'],
  ["'b'::ENUM('a', 'b')", 'VARCHAR', 'b'],
  [`'{"a": [1]}'::JSON`, 'VARCHAR', '{"a": [1]}'],
  [
    "'00112233-4455-6677-8899-aabbccddeeff'::UUID",
    'UUID',
    '00112233-4455-6677-8899-aabbccddeeff',
    new Uint8Array(Buffer.from('00112233445566778899aabbccddeeff', 'hex')),
  ],
  ["'ab'::BLOB", 'BLOB', Buffer.from('ab'), 'ab'],
  ['[1, NULL, 3]', 'INTEGER[]', [1, null, 3]],
  ['[1, 2]::UTINYINT[2]', 'INTEGER[]', [1, 2]],
  ['[[1::HUGEINT]]', 'DECIMAL(38,0)[][]', [[1]]],
  ["{'x': 1, 'y z': ['a']}", 'STRUCT(x INTEGER, "y z" VARCHAR[])', { x: 1, 'y z': ['a'] }],
  ["MAP {'k': 1.5::DOUBLE}", 'MAP(VARCHAR, DOUBLE)', [{ key: 'k', value: 1.5 }], { k: 1.5 }],
  [
    "[{'m': MAP {'k': {'e': 'v'::ENUM('v')}}}]",
    'STRUCT(m MAP(VARCHAR, STRUCT(e VARCHAR)))[]',
    [{ m: [{ key: 'k', value: { e: 'v' } }] }],
    [{ m: { k: { e: 'v' } } }],
  ],
  ['NULL::DECIMAL(9,2)', 'DECIMAL(9,2)', null],
]

describe('every type', () => {
  test.each(VALUES)(
    'writes %s so that both readers return %s',
    async (sql, type, duckdb, icebird = duckdb) => {
      const table = await lake.write(null, `SELECT ${sql} AS v`, 'append')
      expect(columnsOf(currentSchema(table))).toEqual([{ name: 'v', type }])
      expect(await lake.describe(`SELECT * FROM ${await lake.source(table)}`)).toEqual([{ name: 'v', type }])
      const expected = duckdb === null ? [null, undefined] : [duckdb, icebird]
      expect((await readByDuckDb(table))[0]?.v).toEqual(expected[0])
      expect((await readIndependently(table))[0]?.v ?? undefined).toEqual(expected[1])
    },
  )

  test('writes all types and nulls in one table', async () => {
    const columns = VALUES.map(([sql], i) => `${sql} AS c${i}`).join(', ')
    const nulls = VALUES.map((_, i) => `c${i}: NULL`)
    const table = await lake.write(null, `SELECT ${columns}`, 'append')
    const next = await lake.write(table, `SELECT c0 FROM (SELECT NULL::BOOLEAN AS c0)`, 'append')
    const rows = await readByDuckDb(next)
    expect(rows).toHaveLength(2)
    expect(Object.values(rows[1] ?? {})).toEqual(nulls.map(() => null))
  })

  test('refuses a sum with more than 38 digits', async () => {
    const sql = "SELECT '170141183460469231731687303715884105727'::HUGEINT AS v"
    await expect(lake.write(null, sql, 'append')).rejects.toThrow('DECIMAL(38,0)')
  })

  test.each(['TIMESTAMP', 'TIMESTAMPTZ', 'DATE'])(
    'refuses an infinite %s with its name, also nested',
    async (type) => {
      for (const sql of [`'infinity'::${type}`, `['-infinity'::${type}]`, `{'x': 'infinity'::${type}}`]) {
        const writing = lake.write(null, `SELECT ${sql} AS v`, 'append')
        await expect(writing).rejects.toThrow(UnsupportedColumn)
        await expect(writing).rejects.toThrow('infinite')
      }
    },
  )
})

describe('bounds of a written file', () => {
  const metricsOf = async (sql: string): Promise<{ type: string; metrics: ColumnMetrics }> => {
    const table = await lake.write(null, sql, 'append')
    const [field] = currentSchema(table).fields
    const [file] = await filesOf(table)
    return { type: String(field?.type), metrics: file?.columns.get(1) ?? {} }
  }
  test.each([
    ['range::INTEGER', 0, 2],
    ['range::BIGINT - 5', -5n, -3n],
    ['(range / 2)::FLOAT', -0, 1],
    ["DATE '2020-01-01' + range::INTEGER", 18262, 18264],
    ["TIMESTAMP '1969-12-31 23:59:59.999999' + INTERVAL (range) SECOND", -1n, 1_999_999n],
    ["repeat('é', 20) || range", 'é'.repeat(16), `${'é'.repeat(15)}ê`],
    ['(range * 1.25)::DECIMAL(9,2)', 0n, 250n],
    [
      "('00000000-0000-0000-0000-00000000000' || range)::UUID",
      '00000000-0000-0000-0000-000000000000',
      '00000000-0000-0000-0000-000000000002',
    ],
  ])('are those of the values of %s', async (sql, lower, upper) => {
    const { type, metrics } = await metricsOf(`SELECT ${sql} AS v FROM range(3)`)
    expect(decodeBound(type, metrics.lower ?? new Uint8Array())).toEqual(lower)
    expect(decodeBound(type, metrics.upper ?? new Uint8Array())).toEqual(upper)
    expect(metrics).toMatchObject({ valueCount: 3, nullCount: 0 })
  })

  test('writes no bounds and no NaN count for a column with NaN', async () => {
    const { metrics } = await metricsOf("SELECT unnest([1.0::DOUBLE, 'nan'::DOUBLE, NULL]) AS v")
    expect(metrics).toMatchObject({ valueCount: 3, nullCount: 1 })
    expect([metrics.lower, metrics.upper, metrics.nanCount]).toEqual([undefined, undefined, undefined])
  })

  test('counts no NaN without NaN, and writes no bounds for nulls', async () => {
    expect((await metricsOf('SELECT 1.5::DOUBLE AS v')).metrics.nanCount).toBe(0)
    const { metrics } = await metricsOf('SELECT NULL::INTEGER AS v')
    expect(metrics).toMatchObject({ valueCount: 1, nullCount: 1 })
    expect(metrics.lower).toBeUndefined()
  })

  test('refuses a COPY result without RETURN_STATS', async () => {
    const [row] = await lake.rows(
      `COPY (SELECT 1 AS v) TO '${lake.pathOf(`${lake.root}_lake/plain`)}' (FORMAT parquet)`,
    )
    expect(() => copyResultFrom(row ?? {})).toThrow(TypeError)
  })

  test('counts values inside lists, but writes no bounds', async () => {
    const table = await lake.write(null, "SELECT [1, 2] AS v, {'x': 5} AS s", 'append')
    const [file] = await filesOf(table)
    expect(file?.columns.get(2)).toMatchObject({ valueCount: 2 })
    expect(file?.columns.get(2)?.lower).toBeUndefined()
    expect(file?.columns.get(4)?.lower).toEqual(Uint8Array.of(5, 0, 0, 0))
  })
})

describe('schema evolution', () => {
  test('adds columns, keeps missing ones as null and widens types', async () => {
    const first = await lake.write(
      null,
      "SELECT 1::INTEGER AS a, 'x' AS gone, 1.5::FLOAT AS f, 1.25::DECIMAL(5,2) AS d",
      'append',
    )
    const second = await lake.write(
      first,
      'SELECT 5000000000 AS a, 2.5::DOUBLE AS f, 100000.25::DECIMAL(9,2) AS d, true AS fresh',
      'append',
    )
    const rows = [
      { a: 1n, gone: 'x', f: 1.5, d: 1.25, fresh: null },
      { a: 5_000_000_000n, gone: null, f: 2.5, d: 100_000.25, fresh: true },
    ]
    expect(await readByDuckDb(second)).toEqual(rows)
    // icebird returns integers in the type of the file, and undefined for a column that the file lacks.
    const independent = (await readIndependently(second)).map((row) => ({
      ...row,
      a: BigInt(row.a),
      gone: row.gone ?? null,
      fresh: row.fresh ?? null,
    }))
    expect(independent).toEqual(rows)
    // An old snapshot is still read with the schema with which it was written.
    expect(await readByDuckDb(first)).toEqual([{ a: 1, gone: 'x', f: 1.5, d: 1.25 }])
  })

  test('casts new rows to the wider types of the table', async () => {
    const first = await lake.write(null, 'SELECT 1::BIGINT AS a, [1::BIGINT] AS l', 'append')
    const second = await lake.write(first, 'SELECT 2::TINYINT AS "A", [2::SMALLINT] AS l', 'append')
    expect(columnsOf(currentSchema(second))).toEqual(columnsOf(currentSchema(first)))
    expect(await readByDuckDb(second)).toEqual([
      { a: 1n, l: [1n] },
      { a: 2n, l: [2n] },
    ])
  })

  test('adds nested fields and keeps missing ones as null', async () => {
    const first = await lake.write(null, "SELECT {'x': 1, 'y': 'a'} AS s, [{'p': 1}] AS l", 'append')
    const second = await lake.write(
      first,
      "SELECT {'z': true, 'x': 5000000000} AS s, [{'q': 2.5::DOUBLE}] AS l",
      'append',
    )
    expect(await readByDuckDb(second)).toEqual([
      { s: { x: 1n, y: 'a', z: null }, l: [{ p: 1, q: null }] },
      { s: { x: 5_000_000_000n, y: null, z: true }, l: [{ p: null, q: 2.5 }] },
    ])
  })

  test('replaces the schema in an overwrite', async () => {
    const first = await lake.write(null, 'SELECT 1 AS a, 2 AS b', 'append')
    const second = await lake.write(first, "SELECT 'x' AS a, 3 AS b, 4 AS c", 'overwrite')
    expect(await readByDuckDb(second)).toEqual([{ a: 'x', b: 3, c: 4 }])
    expect(await readIndependently(second)).toEqual([{ a: 'x', b: 3, c: 4 }])
    expect(currentSchema(second).fields.map((field) => field.id)).toEqual([3, 2, 4])
  })

  test("keeps a dropped column's old values hidden when it returns", async () => {
    const first = await lake.write(null, 'SELECT 1 AS a, 2 AS b', 'append')
    const second = await lake.write(first, 'SELECT 1 AS a', 'overwrite')
    const third = await lake.write(second, 'SELECT 2 AS a, 9 AS b', 'append')
    expect(await readByDuckDb(third)).toEqual([
      { a: 1, b: null },
      { a: 2, b: 9 },
    ])
  })
})

describe('an empty table', () => {
  test('creates an empty table with its columns', async () => {
    const table = await lake.write(null, "SELECT 1 AS a, {'x': 'y'} AS s WHERE false", 'append')
    expect(await readByDuckDb(table)).toEqual([])
    expect(await lake.describe(`SELECT * FROM ${await lake.source(table)}`)).toEqual([
      { name: 'a', type: 'INTEGER' },
      { name: 's', type: 'STRUCT(x VARCHAR)' },
    ])
  })

  test('fills a table again after an overwrite without rows', async () => {
    const full = await lake.write(null, 'SELECT range::INTEGER AS a FROM range(10)', 'append')
    const emptied = await lake.write(full, 'SELECT 1 AS a WHERE false', 'overwrite')
    expect(await readByDuckDb(emptied)).toEqual([])
    const refilled = await lake.write(emptied, 'SELECT 7 AS a', 'append')
    expect(await readByDuckDb(refilled)).toEqual([{ a: 7 }])
    expect(await readIndependently(refilled)).toEqual([{ a: 7 }])
  })
})

describe('hostile names', () => {
  const words = `a"b it's x.y Größe select {a: %00 a\\b __proto__ constructor`.split(' ')
  const names = [...words, 'new\nline', 'emoji 😀', '; DROP TABLE t; --', '{a: 1}', ' ']

  test('keeps hostile column names and their bounds exactly', async () => {
    const table = await lake.write(
      null,
      `SELECT ${names.map((name, i) => `${i} AS ${quoteIdentifier(name)}`).join(', ')}`,
      'append',
    )
    const described = await lake.describe(`SELECT * FROM ${await lake.source(table)}`)
    expect(described.map((column) => column.name)).toEqual(names)
    expect(columnsOf(currentSchema(table))).toEqual(described)
    const [row] = await readByDuckDb(table)
    for (const [i, name] of names.entries()) if (name !== '__proto__') expect(row?.[name]).toBe(i)
    const [file] = await filesOf(table)
    for (const [i] of names.entries())
      expect(decodeBound('int', file?.columns.get(i + 1)?.upper ?? new Uint8Array())).toBe(i)
  })

  test('keeps hostile names of struct fields exactly', async () => {
    const nested = names.filter((name) => name !== '__proto__')
    const literal = nested.map((name, i) => `${quoteIdentifier(name)}: ${i}::TINYINT`).join(', ')
    const table = await lake.write(null, `SELECT [{${literal}}] AS l`, 'append')
    const again = await lake.write(table, `SELECT [{${literal}}] AS l`, 'append')
    const value = Object.fromEntries(nested.map((name, i) => [name, i]))
    expect(await readByDuckDb(again)).toEqual([{ l: [value] }, { l: [value] }])
  })
})
