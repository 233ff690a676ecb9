import { expect, test } from 'bun:test'
import { arrowOf, parquetOf } from './export.ts'
import { typedColumns } from './typed-columns.ts'

const columns = [
  { name: 'big', type: 'BIGINT' },
  { name: 'price', type: 'DECIMAL(14,2)' },
  { name: 'at', type: 'TIMESTAMP' },
  { name: 'list', type: 'INTEGER[]' },
  { name: 'yes', type: 'BOOLEAN' },
]
const rows = [
  ['9007199254740993', 3.5, '2020-01-01T00:00:00', [1, 2], true],
  [null, null, null, null, null],
]

test('keeps the type of each column', () => {
  expect(typedColumns(columns, rows)).toEqual([
    { name: 'big', kind: 'INT64', values: [9007199254740993n, null] },
    { name: 'price', kind: 'DOUBLE', values: [3.5, null] },
    { name: 'at', kind: 'TIMESTAMP', values: [new Date('2020-01-01T00:00:00Z'), null] },
    { name: 'list', kind: 'STRING', values: ['[1,2]', null] },
    { name: 'yes', kind: 'BOOLEAN', values: [true, null] },
  ])
})

test('an infinite time becomes null', () => {
  expect(typedColumns([{ name: 'at', type: 'DATE' }], [['infinity']])[0]?.values).toEqual([null])
})

test('Arrow keeps large integers and nulls', async () => {
  const { tableFromIPC } = await import('apache-arrow')
  const table = tableFromIPC(await arrowOf(typedColumns(columns, rows)))
  expect(table.schema.fields.map(({ type }) => String(type))).toEqual([
    'Int64',
    'Float64',
    'Timestamp<MILLISECOND>',
    'Utf8',
    'Bool',
  ])
  expect(table.get(0)?.big).toBe(9007199254740993n)
  expect(table.get(1)?.big).toBeNull()
})

test('Parquet begins and ends with its mark', async () => {
  const bytes = new Uint8Array(await parquetOf(typedColumns(columns, rows)))
  const mark = (part: Uint8Array) => new TextDecoder().decode(part)
  expect([mark(bytes.slice(0, 4)), mark(bytes.slice(-4))]).toEqual(['PAR1', 'PAR1'])
})
