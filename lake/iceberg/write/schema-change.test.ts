import { expect, test } from 'bun:test'
import type { TableMetadata } from '../format/metadata.ts'
import type { Result } from './foreign-result.ts'
import { schemaDifference, settleSchema } from './schema-change.ts'

const field = (id: number, name: string, type: unknown) => ({ id, name, required: false, type })
const table = {
  'current-schema-id': 0,
  schemas: [
    {
      type: 'struct',
      'schema-id': 0,
      fields: [
        field(1, 'id', 'long'),
        field(2, 'Day', 'date'),
        field(3, 'p', { type: 'struct', fields: [field(4, 'x', 'int'), field(5, 'y', 'string')] }),
        field(6, 'valid_from', 'timestamptz'),
        field(7, 'valid_to', 'timestamptz'),
      ],
    },
  ],
} as unknown as TableMetadata

const settled = (
  onSchemaChange: Result['rules']['onSchemaChange'],
  columns: Record<string, string>,
  before: TableMetadata | null = table,
) => {
  const result: Result = {
    name: { namespace: 'default', layer: 'bronze', name: 't' },
    table: before,
    rules: { mergeStrategy: 'scd2', onSchemaChange, scdValidFrom: 'valid_from', scdValidTo: 'valid_to' },
    columns: Object.entries(columns).map(([name, type]) => ({ name, type })),
    files: [],
  }
  const { columns: kept, warning, refusal } = settleSchema(result, schemaDifference(result))
  return { kept: kept.map(({ name }) => name), text: refusal?.text ?? warning }
}
const SAME = { ID: 'BIGINT', day: 'DATE', p: 'STRUCT(Y VARCHAR, x INTEGER)' }
const OTHER = { id: 'VARCHAR', p: 'STRUCT(x INTEGER)', 'a"b': 'TINYINT', c: 'JSON' }

test('fail names added, removed and changed columns with their types', () => {
  const { text } = settled('fail', OTHER)
  expect(text).toStartWith('on_schema_change: fail: the result differs from table default.bronze.t: ')
  expect(text).toContain(
    'added "a\\"b" INTEGER, "c" VARCHAR; removed "Day" DATE; changed "id" from BIGINT to VARCHAR, "p" from STRUCT(x INTEGER, y VARCHAR) to STRUCT(x INTEGER)',
  )
})

test('ignore keeps the columns of the table and names the others', () => {
  expect(settled('ignore', OTHER)).toEqual({
    kept: ['id', 'p'],
    text: 'on_schema_change: ignore: table default.bronze.t keeps its columns: not stored: "a\\"b", "c"; NULL in new rows: "Day"; written as the type of the table: "id" (VARCHAR as BIGINT), "p" (STRUCT(x INTEGER) as STRUCT(x INTEGER, y VARCHAR))',
  })
  expect(settled('ignore', { c: 'JSON' }).text).toEndWith('"p": no column is left to write')
})

test('case, order and columns of scd2 make no difference', () => {
  for (const rule of ['add', 'fail', 'ignore'] as const) {
    expect(settled(rule, SAME)).toEqual({ kept: Object.keys(SAME), text: null })
    expect(settled(rule, OTHER, null)).toEqual({ kept: Object.keys(OTHER), text: null })
  }
  expect(settled('add', OTHER)).toEqual({ kept: Object.keys(OTHER), text: null })
})
