import { describe, expect, test } from 'bun:test'
import { useTestLake } from '../test-lake.ts'
import { schemaForReplace } from '../write/evolution.ts'
import { columnsOf, UnsupportedColumn } from './types.ts'

const lake = await useTestLake()

const icebergTypeOf = (type: string) => schemaForReplace([{ name: 'a', type }]).schema.fields[0]?.type
const refusal = (name: string, type: string) => {
  try {
    schemaForReplace([{ name, type }])
  } catch (error) {
    if (error instanceof UnsupportedColumn) return error
    throw error
  }
  throw new Error(`${type} was accepted`)
}

test.each([
  ['BOOLEAN', 'boolean'],
  ['TINYINT', 'int'],
  ['SMALLINT', 'int'],
  ['UTINYINT', 'int'],
  ['USMALLINT', 'int'],
  ['INTEGER', 'int'],
  ['UINTEGER', 'long'],
  ['BIGINT', 'long'],
  ['UBIGINT', 'decimal(20, 0)'],
  ['HUGEINT', 'decimal(38, 0)'],
  ['UHUGEINT', 'decimal(38, 0)'],
  ['FLOAT', 'float'],
  ['DOUBLE', 'double'],
  ['DECIMAL(14,2)', 'decimal(14, 2)'],
  ['DATE', 'date'],
  ['TIME', 'time'],
  ['TIMESTAMP', 'timestamp'],
  ['TIMESTAMP_S', 'timestamp'],
  ['TIMESTAMP_MS', 'timestamp'],
  ['TIMESTAMP WITH TIME ZONE', 'timestamptz'],
  ['VARCHAR', 'string'],
  ["ENUM('a')", 'string'],
  ['JSON', 'string'],
  ['UUID', 'uuid'],
  ['BLOB', 'binary'],
])('stores %s as %s', (duckdb, iceberg) => {
  expect(icebergTypeOf(duckdb)).toBe(iceberg)
})

test('gives every child of a nested type its own id', () => {
  expect(icebergTypeOf('STRUCT(x HUGEINT, y MAP(VARCHAR, UTINYINT[2])[])')).toEqual({
    type: 'struct',
    fields: [
      { id: 2, name: 'x', required: false, type: 'decimal(38, 0)' },
      {
        id: 3,
        name: 'y',
        required: false,
        type: {
          type: 'list',
          'element-id': 4,
          'element-required': false,
          element: {
            type: 'map',
            'key-id': 5,
            key: 'string',
            'value-id': 6,
            'value-required': false,
            value: { type: 'list', 'element-id': 7, 'element-required': false, element: 'int' },
          },
        },
      },
    ],
  })
})

describe('an unsupported type', () => {
  test.each([
    ['INTERVAL', 'INTERVAL 1 DAY'],
    ['TIME WITH TIME ZONE', "'01:02:03'::TIMETZ"],
    ['TIME_NS', "'01:02:03'::TIME_NS"],
    ['BIGNUM', '1::BIGNUM'],
    ['UNION(a INTEGER, b VARCHAR)', 'union_value(a := 1)::UNION(a INTEGER, b VARCHAR)'],
    ['BIT', "'101'::BIT"],
    ['VARIANT', '1::VARIANT'],
    ['GEOMETRY', "'POINT(1 1)'::GEOMETRY"],
    ['TIMESTAMP_NS', "'2020-01-01'::TIMESTAMP_NS"],
  ])('%s is refused with a cast that works', async (type, value) => {
    const { column, cast } = refusal('a', type)
    expect(column).toBe('a')
    const sql = `SELECT CAST(${value} AS ${cast}) AS a`
    expect(await lake.describe(`SELECT ${value} AS a`)).toEqual([{ name: 'a', type }])
    expect(() => schemaForReplace([{ name: 'a', type: String(cast) }])).not.toThrow()
    expect(await lake.rows(sql)).toHaveLength(1)
  })

  test('refuses an untyped NULL with a suggested cast', async () => {
    const [row] = await lake.rows('SELECT typeof(NULL) AS type')
    expect(refusal('a', String(row?.type)).message).toBe(
      'column "a": NULL cannot be stored in a table; cast it: CAST(... AS VARCHAR)',
    )
  })
})

test('names an unsupported nested type by its path', () => {
  expect(refusal('a', 'STRUCT(b MAP(VARCHAR, INTERVAL[]))').column).toBe('a.b.value.element')
  expect(refusal('a', 'STRUCT(x INTEGER, X INTEGER)').message).toContain('differs from "x" at most by case')
})

test.each([
  ['', 'INTEGER', 'give it a name'],
  ['a\0b', 'INTEGER', 'null byte'],
  ['\ud800', 'INTEGER', 'not valid Unicode'],
  ['__DuckDB_field_id', 'INTEGER', 'reserved'],
  ['a', 'STRUCT(INTEGER, INTEGER)', 'give it a name'],
  ['a', 'NO SUCH TYPE', 'cannot be stored'],
  ['a', 'DECIMAL(', 'cannot be stored'],
])('refuses column %j of type %s: %s', (name, type, reason) => {
  expect(refusal(name, type).message).toContain(reason)
})

test('refuses types nested too deeply to read fast', () => {
  const lists = (levels: number) => `INTEGER${'[]'.repeat(levels)}`
  expect(() => schemaForReplace([{ name: 'a', type: lists(16) }])).not.toThrow()
  for (const type of [lists(17), `STRUCT(x ${lists(16)})`, `MAP(VARCHAR, ${lists(16)})`])
    expect(refusal('a', type).message).toBe(
      'column "a": a type nested in more than 16 levels cannot be stored in a table; store it as JSON: to_json(...)',
    )
})

test('refuses two columns that differ only by case', () => {
  const columns = ['Straße', 'É', 'é'].map((name) => ({ name, type: 'INTEGER' }))
  expect(() => schemaForReplace(columns)).toThrow('differs from "É" at most by case')
})

test('shows the columns of a schema with DuckDB types', () => {
  const types = [
    'DECIMAL(14,2)',
    'VARCHAR',
    'STRUCT(a INTEGER, "b c" VARCHAR[])',
    'MAP(VARCHAR, TIMESTAMP WITH TIME ZONE)',
  ]
  const columns = types.map((type, i) => ({ name: `c${i}`, type }))
  expect(columnsOf(schemaForReplace(columns).schema)).toEqual(columns)
})
