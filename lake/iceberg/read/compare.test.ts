// Compares the differences of two states with a naive model: all rows of both states are read, and differ as multisets.
import { expect, setDefaultTimeout, test } from 'bun:test'
import fc from 'fast-check'
import { currentSchema, type TableMetadata } from '../format/metadata.ts'
import type { Schema } from '../format/types.ts'
import { useTestLake } from '../test-lake.ts'
import { changedFiles } from './changed-files.ts'
import { comparedColumns, countsSql, fieldsOfState, keepsRows, rowsSql, schemaChange } from './compare.ts'
import { readTable } from './table-sql.ts'

setDefaultTimeout(180_000)

const lake = await useTestLake()

type Row = Record<string, unknown>

/** Equal values are equal rows, also after a change of the type of their column. */
const texts = (rows: readonly Row[]): string[] =>
  rows.map((row) => {
    const present = Object.entries(row).filter(([, value]) => value !== null)
    return JSON.stringify(
      present
        .map(([name, value]) => [name.toLowerCase(), String(value)])
        .sort(([a], [b]) => (String(a) < String(b) ? -1 : 1)),
    )
  })

/** The rows of `rows` that remain when each row of `others` removes one copy. */
function minus(rows: readonly string[], others: readonly string[]): string[] {
  const left = [...others]
  return rows.filter((row) => {
    const at = left.indexOf(row)
    if (at !== -1) left.splice(at, 1)
    return at === -1
  })
}

async function rowsOf(table: TableMetadata | null): Promise<Row[]> {
  return table === null ? [] : lake.rows(`FROM ${await lake.source(table)}`)
}

/** The comparison as the query service makes it. */
async function compared(before: TableMetadata | null, after: TableMetadata | null) {
  const columns = comparedColumns(before && currentSchema(before), after && currentSchema(after))
  const files = await changedFiles(before, after, lake.reader)
  const isWhole = !keepsRows(columns)
  const source = async (table: TableMetadata | null, own: typeof files.added, state: 'before' | 'after') => {
    const all = table === null ? [] : (await changedFiles(null, table, lake.reader)).added
    const local = (isWhole ? all : own).map(({ location }) => ({ path: lake.pathOf(location) }))
    return readTable(fieldsOfState(columns, state), local)
  }
  const comparison = {
    columns,
    before: await source(before, files.removed, 'before'),
    after: await source(after, files.added, 'after'),
  }
  return { comparison, files, isWhole }
}

const value = fc.option(fc.integer({ min: 0, max: 2 }), { nil: null, freq: 4 })
const Batch = fc.record({
  strategy: fc.constantFrom('full_refresh', 'full_refresh', 'append_only', 'incremental', 'delete_insert'),
  rows: fc.array(fc.record({ id: fc.integer({ min: 0, max: 6 }), v: value, w: value }), { maxLength: 6 }),
  /** The column v is an integer or a text; w is left out or present. Only a full refresh changes the type of a column. */
  isText: fc.boolean(),
  hasW: fc.boolean(),
  fileRows: fc.constantFrom(1, 2, 100),
})
type Batch = typeof Batch extends fc.Arbitrary<infer B> ? B : never

function sqlOf({ rows, hasW }: Batch, isText: boolean): string {
  const cell = (one: number | null) => (one === null ? 'NULL' : String(one))
  const tuples = rows.map(({ id, v, w }) => `(${id}, ${cell(v)}, ${cell(w)})`)
  const type = isText ? 'VARCHAR' : 'INTEGER'
  return `SELECT id::INTEGER AS id, v::${type} AS v ${hasW ? ', w::BIGINT AS w' : ''}
    FROM (VALUES ${['(0, 0, 0)', ...tuples].join(', ')}) t(id, v, w) WHERE ${rows.length > 0 ? 'true' : 'false'}
    OFFSET ${rows.length > 0 ? 1 : 0}`
}

/** The states of a table after each batch; the first state is that of no table. */
async function statesOf(batches: readonly Batch[]): Promise<(TableMetadata | null)[]> {
  const states: (TableMetadata | null)[] = [null]
  let isText = false
  let table: TableMetadata | null = null
  for (const batch of batches) {
    const { strategy } = batch
    if (table === null || strategy === 'full_refresh') isText = batch.isText
    const rules = { mergeStrategy: strategy as 'full_refresh', uniqueKey: ['id'] }
    const written: { table: TableMetadata } = await lake.writeBy(table, sqlOf(batch, isText), rules, {
      fileRows: batch.fileRows,
    })
    table = written.table
    states.push(table)
  }
  return states
}

test('differences of random states equal those of a naive model', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(Batch, { minLength: 1, maxLength: 4 }),
      fc.nat(),
      fc.nat(),
      async (batches, a, b) => {
        const states = await statesOf(batches)
        const [before = null, after = null] = [states[a % states.length], states[b % states.length]]
        const [old, now] = [texts(await rowsOf(before)), texts(await rowsOf(after))]
        const [added, removed] = [minus(now, old), minus(old, now)]
        const { comparison, files, isWhole } = await compared(before, after)
        if (comparison.columns.length === 0) return

        const [counts] = await lake.rows(countsSql(comparison))
        expect(counts).toEqual({ rows_added: BigInt(added.length), rows_removed: BigInt(removed.length) })
        const records = (list: typeof files.added) =>
          list.reduce((sum, { recordCount }) => sum + recordCount, 0)
        const isExact = !isWhole || before === null || after === null
        if (isExact && (files.added.length === 0 || files.removed.length === 0))
          expect([records(files.added), records(files.removed)]).toEqual([added.length, removed.length])

        const plain = rowsSql(comparison, [], 100)
        expect(
          texts(await lake.rows(plain.added))
            .map(unnamed)
            .sort(),
        ).toEqual(added.map(unnamed).sort())
        expect(
          texts(await lake.rows(plain.removed))
            .map(unnamed)
            .sort(),
        ).toEqual(removed.map(unnamed).sort())
        expect(await lake.rows(plain.changed)).toEqual([])

        const keyed = rowsSql(comparison, ['ID'], 100)
        const changed = (await lake.rows(keyed.changed)) as { before: Row; after: Row }[]
        const [changedFrom, changedTo] = [changed.map((row) => row.before), changed.map((row) => row.after)]
        expect(changedFrom.map(({ id }) => id)).toEqual(changedTo.map(({ id }) => id))
        const keyedAdded = [...texts(await lake.rows(keyed.added)), ...texts(changedTo)]
        const keyedRemoved = [...texts(await lake.rows(keyed.removed)), ...texts(changedFrom)]
        expect(keyedAdded.map(unnamed).sort()).toEqual(added.map(unnamed).sort())
        expect(keyedRemoved.map(unnamed).sort()).toEqual(removed.map(unnamed).sort())
      },
    ),
    { numRuns: 40 },
  )
})

/** A removed column whose name is used again has another name in the answer. */
const unnamed = (row: string) => row.replaceAll('v_1', 'v')

const schema = (...fields: [id: number, name: string, type: string][]): Schema => ({
  type: 'struct',
  'schema-id': 0,
  fields: fields.map(([id, name, type]) => ({ id, name, type, required: false })),
})

test('a column with another name or type is changed, whatever its id', () => {
  const before = schema([1, 'id', 'int'], [2, 'word', 'string'], [3, 'old', 'date'], [4, 'same', 'int'])
  const after = schema([1, 'id', 'long'], [2, 'text', 'string'], [4, 'same', 'int'], [5, 'old', 'string'])
  expect(schemaChange(before, after)).toEqual({
    added: [],
    removed: [],
    changed: [
      { name: 'id', from: 'INTEGER', to: 'BIGINT', renamed_from: null },
      { name: 'text', from: 'VARCHAR', to: 'VARCHAR', renamed_from: 'word' },
      { name: 'old', from: 'DATE', to: 'VARCHAR', renamed_from: null },
    ],
  })
  expect(schemaChange(null, before).added).toHaveLength(4)
  expect(comparedColumns(before, after).map(({ name }) => name)).toEqual(['id', 'text', 'same', 'old'])
})

test('columns of another table of the same name are matched by name only', () => {
  const before = schema([1, 'id', 'int'], [2, 'word', 'string'], [3, 'n', 'int'])
  const after = schema([1, 'key', 'int'], [2, 'n', 'int'], [3, 'WORD', 'string'])
  expect(schemaChange(before, after, false)).toEqual({
    added: [{ name: 'key', type: 'INTEGER' }],
    removed: [{ name: 'id', type: 'INTEGER' }],
    changed: [{ name: 'WORD', from: 'VARCHAR', to: 'VARCHAR', renamed_from: 'word' }],
  })
  const names = comparedColumns(before, after, false).map(({ before, after }) => [before?.name, after?.name])
  expect(names).toEqual([
    [undefined, 'key'],
    ['n', 'n'],
    ['word', 'WORD'],
    ['id', undefined],
  ])
})

test('a value of a widened column has the type of its own state', async () => {
  const field = (type: string) => ({ id: 1, name: 'd', required: false, type })
  const columns = comparedColumns(
    { type: 'struct', 'schema-id': 0, fields: [field('decimal(9, 2)')] },
    { type: 'struct', 'schema-id': 1, fields: [field('decimal(18, 2)')] },
  )
  const state = (value: string) => `(SELECT CAST(${value} AS DECIMAL(18, 2)) AS d)`
  const { added, removed } = rowsSql({ columns, before: state('1.50'), after: state('2.50') }, [], 10)
  const typeIn = (sql: string) => lake.rows(`SELECT typeof(d) AS type FROM (${sql})`)
  expect([await typeIn(removed), await typeIn(added)]).toEqual([
    [{ type: 'DECIMAL(9,2)' }],
    [{ type: 'DECIMAL(18,2)' }],
  ])
})

test('equal values of two types are equal rows, and other values are not', async () => {
  for (const [from, to, isEqual] of [
    ['1.50::decimal(9,2)', '1.5000::decimal(12,4)', true],
    ['1.5000::decimal(9,4)', '1.50::decimal(9,2)', true],
    ['1.5001::decimal(9,4)', '1.50::decimal(9,2)', false],
    ['7::int', '7.00::decimal(9,2)', true],
    ['7::bigint', "'7'", true],
    ["'7'", '7::int', true],
    ["'07'", '7::int', false],
    ['7::bigint', '7::double', true],
    ['9007199254740993::bigint', '9007199254740992::double', false],
    ['1.5::double', '1.50::decimal(9,2)', true],
    ['0.5::double', '0.5::float', true],
    ["date '2026-01-02'", "timestamp '2026-01-02 00:00:00'", true],
    ["date '2026-01-02'", "timestamp '2026-01-02 00:00:01'", false],
    ["date '2026-01-02'", "'2026-01-02'", true],
    ['true', "'true'", true],
    ['12345678901234567890123456789012345678::decimal(38,0)', '1.5::decimal(38,10)', false],
  ] as const) {
    const [before, after] = [
      await lake.write(null, `SELECT ${from} AS v`, 'overwrite'),
      await lake.write(null, `SELECT ${to} AS v`, 'overwrite'),
    ]
    const { comparison } = await compared(before, after)
    const [counts] = await lake.rows(countsSql(comparison))
    const rows = isEqual ? 0 : 1
    expect([from, to, Number(counts?.rows_added), Number(counts?.rows_removed)]).toEqual([
      from,
      to,
      rows,
      rows,
    ])
    const change = schemaChange(currentSchema(before), currentSchema(after), false)
    expect([from, to, change.added, change.removed, change.changed.length]).toEqual([from, to, [], [], 1])
  }
})

test('copies of equal rows are repeated up to the limit', async () => {
  const two = await lake.write(null, 'SELECT 1 AS id FROM range(2)', 'append')
  const many = await lake.write(two, 'SELECT 1 AS id FROM range(5)', 'append')
  const { comparison } = await compared(two, many)
  expect(await lake.rows(rowsSql(comparison, [], 3).added)).toHaveLength(3)
  expect(await lake.rows(rowsSql(comparison, ['id'], 100).added)).toHaveLength(5)
})
