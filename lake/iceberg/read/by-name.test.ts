import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Engine, openLocked } from '../../engine/instance.ts'
import type { NestedField, Schema } from '../format/types.ts'
import { copySql } from '../write/file-writer.ts'
import { readByName, sourceIn } from './by-name.ts'
import { type LocalFile, readTable } from './table-sql.ts'

const ROWS = 10_000

let directory: string
let engine: Engine
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sluice-by-name-'))
  engine = await openLocked({
    memoryLimitBytes: 500_000_000,
    threads: 2,
    tempLimitBytes: 0,
    tempDirectory: join(directory, 'spill'),
    allowedDirectories: [directory],
    allowedPaths: [],
  })
})
afterAll(async () => {
  engine?.close()
  await rm(directory, { recursive: true, force: true })
})

const schemaOf = (...columns: [id: number, name: string, type: NestedField['type']][]): Schema => ({
  'schema-id': 0,
  type: 'struct',
  fields: columns.map(([id, name, type]) => ({ id, name, type, required: false })),
})

/** The schema of `a` and `b`, as all files have it. */
const PLAIN = schemaOf([1, 'a', 'long'], [2, 'b', 'string'])
const A_AND_B = "i::BIGINT AS a, 'text ' || i AS b"

let written = 0
async function fileOf({ fields }: Schema, columns: string): Promise<LocalFile> {
  written += 1
  const path = join(directory, `data=${written}.parquet`)
  await engine.run(copySql(`SELECT ${columns} FROM range(${ROWS}) t(i)`, path, { fields, fileBytes: null }))
  return { path, recordCount: ROWS }
}

/** Whether the engine reads the files by name. Its rows must equal those of the general way. */
async function isByName(schema: Schema, files: readonly LocalFile[]): Promise<boolean> {
  const from = readTable(schema, files)
  const source = await sourceIn(engine, { from, byName: readByName(schema, files, ROWS) })
  expect(await engine.describe(`FROM ${source}`)).toEqual(await engine.describe(`FROM ${from}`))
  const different = await engine.read(
    `SELECT count(*) FROM ((FROM ${source} EXCEPT ALL FROM ${from}) UNION ALL (FROM ${from} EXCEPT ALL FROM ${source}))`,
  )
  expect(different.value(0, 0)).toBe(0n)
  return source !== from
}

describe('files are read by name', () => {
  test('if they have exactly the columns of the table, for every plain type', async () => {
    const types = {
      boolean: 'i % 2 = 0',
      int: 'i::INTEGER',
      long: 'i',
      float: 'i::FLOAT',
      double: "if(i = 3, 'nan', i / 7.0)::DOUBLE",
      'decimal(9,2)': 'i::DECIMAL(9,2)',
      'decimal(38,9)': 'i::DECIMAL(38,9)',
      date: "DATE '2024-01-01' + (i % 9)::INTEGER",
      time: "TIME '01:02:03.000004'",
      timestamp: "TIMESTAMP '2024-01-01' + to_seconds(i)",
      timestamptz: "TIMESTAMPTZ '2024-01-01 00:00:00+00' + to_seconds(i)",
      string: "'text ' || i",
      uuid: "'00112233-4455-6677-8899-aabbccddeeff'::UUID",
      binary: "'ab'::BLOB",
    }
    const columns = Object.entries(types)
    const schema = schemaOf(
      ...columns.map(([type], i): [number, string, string] => [i + 1, `column "${i}"`, type]),
    )
    const select = columns.map(([, sql], i) => `if(i % 5 = 0, NULL, ${sql}) AS "column ""${i}"""`).join(', ')
    const files = [await fileOf(schema, select), await fileOf(schema, select)]
    expect(await isByName(schema, files)).toBe(true)
  })

  test('and the engine then knows their statistics', async () => {
    const file = await fileOf(PLAIN, A_AND_B)
    const source = await sourceIn(engine, {
      from: readTable(PLAIN, [file]),
      byName: readByName(PLAIN, [file], ROWS),
    })
    const plan = await engine.read(`EXPLAIN SELECT * FROM ${source} WHERE a > ${ROWS}`)
    expect(String(plan.value(1, 0))).toContain('EMPTY_RESULT')
  })
})

describe('files are read by field id', () => {
  test.each<[string, Schema]>([
    ['two columns exchanged their names', schemaOf([1, 'b', 'long'], [2, 'a', 'string'])],
    ['a column was renamed', schemaOf([1, 'a', 'long'], [2, 'c', 'string'])],
    ['a column was removed and added again', schemaOf([1, 'a', 'long'], [3, 'b', 'string'])],
    ['a column was added', schemaOf([1, 'a', 'long'], [2, 'b', 'string'], [3, 'c', 'int'])],
    ['a column was removed', schemaOf([1, 'a', 'long'])],
    ['columns changed places', schemaOf([2, 'b', 'string'], [1, 'a', 'long'])],
    ['a column got another type', schemaOf([1, 'a', 'decimal(20,0)'], [2, 'b', 'string'])],
  ])('if %s after a file was written', async (_, now) => {
    const old = await fileOf(PLAIN, A_AND_B)
    expect(await isByName(now, [old])).toBe(false)
  })

  test('if one of them differs', async () => {
    const widened = schemaOf([1, 'a', 'int'], [2, 'b', 'string'])
    const files = [await fileOf(PLAIN, A_AND_B), await fileOf(widened, "i::INTEGER AS a, 'x' AS b")]
    expect(await isByName(PLAIN, files)).toBe(false)
  })

  test('if a file has no field ids', async () => {
    const path = join(directory, 'foreign.parquet')
    await engine.run(`COPY (SELECT ${A_AND_B} FROM range(${ROWS}) t(i)) TO '${path}' (FORMAT parquet)`)
    expect(await isByName(PLAIN, [{ path, recordCount: ROWS }])).toBe(false)
  })

  test('if a file is missing, so that the query reports it', async () => {
    const file = { path: join(directory, 'missing.parquet'), recordCount: ROWS }
    const from = readTable(PLAIN, [file])
    expect(await sourceIn(engine, { from, byName: readByName(PLAIN, [file], ROWS) })).toBe(from)
  })

  const file: LocalFile = { path: '/x.parquet', recordCount: ROWS }
  const deletes = { sequenceNumber: 1, scope: '', files: [], location: '', paths: [] }
  test.each<[string, Schema, readonly LocalFile[]]>([
    ['there is none', PLAIN, []],
    ['they have few rows', PLAIN, [{ ...file, recordCount: ROWS - 1 }]],
    ['their number of rows is unknown', PLAIN, [{ path: '/x.parquet' }]],
    ['rows are deleted', PLAIN, [{ ...file, deletes }]],
    ['there are many', PLAIN, Array.from({ length: 65 }, () => file)],
    ['two names differ only in case', schemaOf([1, 'a', 'long'], [2, 'A', 'long']), [file]],
    [
      'a column is nested',
      schemaOf([1, 'a', { type: 'list', 'element-id': 2, 'element-required': false, element: 'long' }]),
      [file],
    ],
  ])('without a check if %s', (_, schema, files) => {
    expect(readByName(schema, files, ROWS)).toBeUndefined()
  })
})

test('the engine knows the row count of files read by field id', async () => {
  const file = { ...(await fileOf(PLAIN, A_AND_B)), recordCount: 123_456 }
  const plan = await engine.read(`EXPLAIN SELECT a FROM ${readTable(PLAIN, [file])}`)
  expect(String(plan.value(1, 0))).toContain('123,456')
})
