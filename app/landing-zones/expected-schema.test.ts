import { expect, test } from 'bun:test'
import { DuckDBInstance } from '@duckdb/node-api'
import { canonicalType, differencesOf, expectedSchemaOf, parseExpectedSchema } from './expected-schema.ts'

test.each([
  ['id:INTEGER', [['id', 'INTEGER']]],
  [
    ' id : INTEGER , price:DECIMAL(14, 2)',
    [
      ['id', 'INTEGER'],
      ['price', 'DECIMAL(14, 2)'],
    ],
  ],
  [
    'at:TIMESTAMP WITH TIME ZONE,tags:VARCHAR[],box:INTEGER[3][]',
    [
      ['at', 'TIMESTAMP WITH TIME ZONE'],
      ['tags', 'VARCHAR[]'],
      ['box', 'INTEGER[3][]'],
    ],
  ],
  [
    'a:STRUCT(x BIGINT, "y, (z" DECIMAL(4,1)[])[],m:MAP(VARCHAR, STRUCT(a DATE))',
    [
      ['a', 'STRUCT(x BIGINT, "y, (z" DECIMAL(4,1)[])[]'],
      ['m', 'MAP(VARCHAR, STRUCT(a DATE))'],
    ],
  ],
  [
    '"Flight no., (old)":VARCHAR,"say ""hi"":":DATE',
    [
      ['Flight no., (old)', 'VARCHAR'],
      ['say "hi":', 'DATE'],
    ],
  ],
  [
    'größe:DOUBLE,5"-pipe:INTEGER',
    [
      ['größe', 'DOUBLE'],
      ['5"-pipe', 'INTEGER'],
    ],
  ],
] as const)('the schema %p is parsed', (text, columns) => {
  const parsed = parseExpectedSchema(text)
  expect(parsed.map(({ name, type }) => [name, type])).toEqual(columns as unknown as string[][])
  expect(parseExpectedSchema(expectedSchemaOf(parsed))).toEqual(parsed)
})

test.each([
  '',
  ' ',
  'id',
  'id:',
  ':INTEGER',
  '"":INTEGER',
  'id:INTEGER,',
  'id:INTEGER,id:DATE',
  'id:INTEGER:x',
  'id:(2)',
  'id:2',
  'id:INTEGER)',
  'id:DECIMAL(2',
  'id:DECIMAL()',
  'id:DECIMAL(2,)',
  'id:DECIMAL(,2)',
  'id:DECIMAL 2',
  'id:STRUCT("a")',
  'id:INTEGER[',
  'id:INTEGER[] x',
  'id:drop table;',
  '"open:INTEGER',
  '"a"b:INTEGER',
  'a b:INTEGER',
])('the schema %p is refused', (text) => {
  expect(() => parseExpectedSchema(text)).toThrow(/^expected_schema: /)
})

test('differences name missing, unexpected and retyped columns', () => {
  const expected = parseExpectedSchema('Code:TEXT,delay:INT,day:DATE,price:NUMERIC(14, 2)')
  const detected = [
    { name: 'code', type: 'VARCHAR' },
    { name: 'delay', type: 'BIGINT' },
    { name: 'price', type: 'DECIMAL(14,2)' },
    { name: 'extra', type: 'BOOLEAN' },
  ]
  expect(differencesOf(expected, detected)).toEqual([
    { column: 'delay', kind: 'other_type', expected_type: 'INT', detected_type: 'BIGINT' },
    { column: 'day', kind: 'missing', expected_type: 'DATE', detected_type: null },
    { column: 'extra', kind: 'unexpected', expected_type: null, detected_type: 'BOOLEAN' },
  ])
  expect(differencesOf(detected, detected)).toEqual([])
})

test('two spellings of a type are equal exactly if the engine has one type', async () => {
  const connection = await (await DuckDBInstance.create(':memory:')).connect()
  const engineName = async (type: string) => {
    const rows = await connection.runAndReadAll(`select typeof(cast(null as ${type}))`)
    return String(rows.getRows()[0]?.[0])
  }
  for (const type of [
    ...[
      'int',
      'INT4',
      'signed',
      'integral',
      'int32',
      'int8',
      'long',
      'int64',
      'smallint',
      'int2',
      'short',
      'int16',
    ],
    ...[
      'tinyint',
      'int1',
      'hugeint',
      'int128',
      'ubigint',
      'uint64',
      'uinteger',
      'uint32',
      'usmallint',
      'uint16',
    ],
    ...[
      'utinyint',
      'uint8',
      'text',
      'string',
      'char',
      'bpchar',
      'nvarchar',
      'varchar(12)',
      'character varying',
    ],
    ...['bool', 'logical', 'bytea', 'binary', 'varbinary', 'float8', 'double precision', 'float4', 'real'],
    ...[
      'datetime',
      'timestamp without time zone',
      'timestamp_us',
      'timestamptz',
      'timetz',
      'guid',
      'bitstring',
    ],
    ...[
      'decimal',
      'numeric',
      'dec',
      'decimal(9)',
      'numeric( 14 , 2 )',
      'integer [ ]',
      'date',
      'time',
      'interval',
    ],
    ...[
      'timestamp_s',
      'timestamp_ms',
      'timestamp_ns',
      'json',
      'struct( a  BIGINT, "b  c" VARCHAR )',
      'bigint[3]',
    ],
    'map(VARCHAR, BIGINT)',
  ])
    expect([type, canonicalType(type)]).toEqual([type, canonicalType(await engineName(type))])
  connection.closeSync()
})
