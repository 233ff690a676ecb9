import { expect, test } from 'bun:test'
import type { TableMetadata } from '../format/metadata.ts'
import { foreignResult } from './foreign-result.ts'

const column = (name: string) => ({ name, type: 'VARCHAR' })
const tableOf = (...names: string[]) =>
  ({
    'current-schema-id': 0,
    schemas: [
      {
        type: 'struct',
        'schema-id': 0,
        fields: names.map((name, id) => ({ id, name, required: false, type: 'string' })),
      },
    ],
  }) as unknown as TableMetadata
const refused = (
  mergeStrategy: 'full_refresh' | 'append_only' | 'scd2',
  names: string[],
  files: string[] = [],
  table: TableMetadata | null = tableOf('id', 'name', 'valid_from', 'valid_to'),
) =>
  foreignResult({
    name: { namespace: 'default', layer: 'bronze', name: 'people' },
    table,
    rules: { mergeStrategy, onSchemaChange: 'add', scdValidFrom: 'valid_from', scdValidTo: 'valid_to' },
    columns: names.map(column),
    files,
  })?.text ?? null

test('a result without a column of its table names both lists and the files', () => {
  expect(refused('append_only', ['id,name'], ['a.csv', 'b.csv', 'c.csv', 'd.csv'])).toContain(
    'no column of table default.bronze.people got a value: the table has "id", "name", "valid_from", "valid_to", the result from a.csv, b.csv, c.csv and 1 more has "id,name"',
  )
  expect(refused('scd2', ['valid_from'])).toContain('the table has "id", "name", the result has "valid_from"')
})

test('a result with a column of its table, and a first result, are written', () => {
  expect(refused('append_only', ['ID', 'other'])).toBeNull()
  expect(refused('append_only', ['other'], [], null)).toBeNull()
})

test('a full refresh may replace all columns unless it reads landing files', () => {
  expect(refused('full_refresh', ['other'])).toBeNull()
  expect(refused('full_refresh', ['column0'], ['a.csv'])).toContain('"column0"')
})
