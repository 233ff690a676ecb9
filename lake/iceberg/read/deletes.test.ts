import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { currentSchema, currentSnapshot, type TableMetadata } from '../format/metadata.ts'
import { rowCountOf } from '../format/row-count.ts'
import { fieldsOf, type NestedField } from '../format/types.ts'
import { applyUpdates } from '../format/updates.ts'
import { readIndependently, useTestLake } from '../test-lake.ts'
import { MAINTAINED_DELETES_LIMIT, planMaintenance } from '../write/maintenance.ts'
import { equalityColumn } from './equality-columns.ts'
import { withLineage } from './lineage.ts'
import { liveManifestsOf, tableFilesOf } from './scan.ts'

setDefaultTimeout(120_000)

const lake = await useTestLake()

async function filesOf(table: TableMetadata) {
  const id = currentSnapshot(table)?.['snapshot-id'] ?? 0n
  return tableFilesOf(await liveManifestsOf(table, id, lake.reader), lake.reader)
}

const rowsOf = async (table: TableMetadata, columns = '*') =>
  lake.rows(`SELECT ${columns} FROM ${await lake.source(table)} ORDER BY ALL`)

const summaryOf = (table: TableMetadata) =>
  currentSnapshot(table)?.summary ?? { operation: 'append' as const }

const position = (location: string, pos: number) => `SELECT '${location}' AS file_path, ${pos}::BIGINT AS pos`

describe('position deletes', () => {
  test('remove the named rows of a file and no others', async () => {
    let table = await lake.write(null, 'SELECT i AS a FROM range(5) t(i)', 'append')
    table = await lake.write(table, 'SELECT i + 5 AS a FROM range(5) t(i)', 'append')
    const [first, second] = await filesOf(table)
    if (!first || !second) throw new Error('no files')
    table = await lake.writeDelta(table, {
      positions: () => `${position(first.file.location, 1)} UNION ALL ${position(second.file.location, 4)}`,
    })
    expect((await rowsOf(table)).map(({ a }) => Number(a))).toEqual([0, 2, 3, 4, 5, 6, 7, 8])
    expect(summaryOf(table)).toMatchObject({
      operation: 'delete',
      'total-records': '10',
      'total-position-deletes': '2',
      'total-delete-files': '1',
    })
    expect((await readIndependently(table)).map(({ a }) => Number(a)).toSorted()).toEqual([
      0, 2, 3, 4, 5, 6, 7, 8,
    ])
  })

  test('apply to rows of their own commit', async () => {
    let table = await lake.write(null, 'SELECT 1 AS a', 'append')
    table = await lake.writeDelta(table, {
      rows: 'SELECT i::INTEGER AS a FROM range(3) t(i)',
      positions: (location) => position(location, 2),
    })
    expect(await rowsOf(table)).toEqual([{ a: 0 }, { a: 1 }, { a: 1 }])
  })

  test('apply when the root of the lake has changed since', async () => {
    let table = await lake.write(null, 'SELECT 1 AS a UNION ALL SELECT 2', 'append')
    const [file] = await filesOf(table)
    const before = (file?.file.location ?? '').replace(lake.root, 's3://before/')
    table = await lake.writeDelta(table, { positions: () => position(before, 0) })
    expect(await rowsOf(table)).toEqual([{ a: 2 }])
  })

  test('refuse a file without the required columns', async () => {
    let table = await lake.write(null, 'SELECT 1 AS a', 'append')
    const [file] = await filesOf(table)
    table = await lake.writeDelta(table, {
      positions: () => `SELECT '${file?.file.location}' AS file_path, NULL::BIGINT AS pos`,
    })
    await expect(rowsOf(table)).rejects.toThrow('a row without pos')
  })

  test("leave the engine's columns to tables with columns of the same names", async () => {
    let table = await lake.write(null, "SELECT 1 AS file_row_number, 'x' AS filename, 2 AS c0", 'append')
    const [file] = await filesOf(table)
    table = await lake.write(table, "SELECT 2 AS file_row_number, 'y' AS filename, 3 AS c0", 'append')
    table = await lake.writeDelta(table, { positions: () => position(file?.file.location ?? '', 0) })
    expect(await rowsOf(table)).toEqual([{ file_row_number: 2, filename: 'y', c0: 3 }])
  })
})

describe('deletion vectors', () => {
  const range = (rows: number) => `SELECT i::BIGINT AS a FROM range(${rows}) t(i)`
  const numbers = async (table: TableMetadata) => (await rowsOf(table)).map(({ a }) => Number(a))
  const upgraded = (table: TableMetadata) =>
    applyUpdates(table, [{ action: 'upgrade-format-version', 'format-version': 3 }], { at: 1 })

  test('remove the rows of their own file, not of others in one Puffin file', async () => {
    let table = await lake.write(null, range(5), 'append')
    table = upgraded(await lake.write(table, 'SELECT i + 5 AS a FROM range(5) t(i)', 'append'))
    const [first, second] = (await filesOf(table)).map(({ file }) => file.location)
    table = await lake.writeDelta(table, {
      vectors: [
        [first ?? '', [1, 2]],
        [second ?? '', [4]],
      ],
    })
    expect(await numbers(table)).toEqual([0, 3, 4, 5, 6, 7, 8])
    expect(rowCountOf(summaryOf(table))).toBe(7)
    const entries = (await filesOf(table)).flatMap(({ file }) => file.deletes?.files ?? [])
    expect(new Set(entries.map(({ location }) => location)).size).toBe(1)
    expect(new Set(entries.map(({ id }) => id)).size).toBe(2)
  })

  test('replace the position deletes of their data file', async () => {
    let table = await lake.write(null, range(5), 'append')
    const [location = ''] = (await filesOf(table)).map(({ file }) => file.location)
    table = upgraded(await lake.writeDelta(table, { positions: () => position(location, 0) }))
    expect(await numbers(table)).toEqual([1, 2, 3, 4])
    table = await lake.writeDelta(table, { vectors: [[location, [3]]] })
    expect(await numbers(table)).toEqual([0, 1, 2, 4])
  })

  test('are refused when a data file has two', async () => {
    let table = upgraded(await lake.write(null, range(5), 'append'))
    const [location = ''] = (await filesOf(table)).map(({ file }) => file.location)
    table = await lake.writeDelta(table, { vectors: [[location, [0]]] })
    table = await lake.writeDelta(table, { vectors: [[location, [1]]] })
    await expect(rowsOf(table)).rejects.toThrow('two deletion vectors')
  })

  test('disappear when a write rewrites their data file, and other vectors stay', async () => {
    const byKey = { mergeStrategy: 'incremental', uniqueKey: ['a'] } as const
    let { table } = await lake.writeBy(null, 'SELECT i::INTEGER AS a, 0 AS b FROM range(5) t(i)', byKey)
    ;({ table } = await lake.writeBy(table, 'SELECT i::INTEGER AS a, 0 AS b FROM range(10, 15) t(i)', byKey))
    table = upgraded(table)
    const [first = '', second = ''] = (await filesOf(table)).map(({ file }) => file.location)
    table = await lake.writeDelta(table, {
      vectors: [
        [first, [1]],
        [second, [2]],
      ],
    })
    const marking = { rewrittenBytes: 0, deletedShare: 1 }
    ;({ table } = await lake.writeBy(table, 'SELECT 0 AS a, 9 AS b', byKey, { marking }))
    expect((await rowsOf(table, 'a')).map(({ a }) => a)).toEqual([0, 2, 3, 4, 10, 11, 13, 14])
    expect(summaryOf(table)).toMatchObject({ 'total-delete-files': '1', 'total-position-deletes': '1' })
    expect(rowCountOf(summaryOf(table))).toBe(8)
    ;({ table } = await lake.writeBy(table, 'SELECT 7 AS a, 7 AS b', { mergeStrategy: 'full_refresh' }))
    expect(summaryOf(table)['total-delete-files']).toBe('0')
  })
})

describe('row ids of format version 3', () => {
  const idsOf = async (table: TableMetadata) =>
    (await filesOf(table)).map(({ file }) => [file.firstRowId, file.recordCount])
  const upgrade = { action: 'upgrade-format-version', 'format-version': 3 } as const
  const range = (rows: number) => `SELECT i::INTEGER AS a FROM range(${rows}) t(i)`

  test('start with the first commit after the upgrade, and stay the same', async () => {
    let table = await lake.write(null, range(5), 'append')
    table = applyUpdates(await lake.write(table, range(3), 'append'), [upgrade], { at: 1 })
    expect(await idsOf(table)).toEqual([
      [undefined, 5],
      [undefined, 3],
    ])
    table = await lake.write(table, range(4), 'append')
    const ids = new Map((await filesOf(table)).map(({ file }) => [file.location, file.firstRowId]))
    expect(currentSnapshot(table)).toMatchObject({ 'first-row-id': 0, 'added-rows': 12 })
    expect(table['next-row-id']).toBe(12)
    expect(rangesOf(await idsOf(table))).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])
    table = await lake.write(table, range(2), 'append')
    for (const { file } of await filesOf(table)) expect(file.firstRowId).toBe(ids.get(file.location) ?? 12)
    expect(table['next-row-id']).toBe(14)
  })

  test('stay with a file whose manifest is rewritten, and are never used again', async () => {
    const byKey = { mergeStrategy: 'incremental', uniqueKey: ['a'] } as const
    let { table } = await lake.writeBy(null, range(100), byKey, { fileRows: 40 })
    table = applyUpdates(table, [upgrade], { at: 1 })
    ;({ table } = await lake.writeBy(table, 'SELECT 200 AS a', byKey, { fileRows: 40 }))
    const before = new Map((await filesOf(table)).map(({ file }) => [file.location, file.firstRowId]))
    ;({ table } = await lake.writeBy(table, 'SELECT 1 AS a', byKey, { fileRows: 40 }))
    const after = (await filesOf(table)).map(({ file }) => file)
    const kept = after.filter(({ location }) => before.has(location))
    expect(kept.length).toBeGreaterThan(1)
    for (const { location, firstRowId } of kept) expect(firstRowId).toBe(before.get(location))
    const ids = rangesOf(after.map(({ firstRowId, recordCount }) => [firstRowId, recordCount]))
    expect(new Set(ids).size).toBe(ids.length)
    expect(Math.max(...ids)).toBeLessThan(table['next-row-id'] ?? 0)
  })

  test('stay with rows that are compacted', async () => {
    let table = applyUpdates(await lake.write(null, range(20), 'append'), [upgrade], { at: 1 })
    for (let i = 0; i < 8; i++) table = await lake.write(table, `SELECT ${100 + i}::INTEGER AS a`, 'append')
    const [location = ''] = (await filesOf(table)).map(({ file }) => file.location)
    table = await lake.writeDelta(table, { vectors: [[location, [0, 7]]] })
    const lineageOf = async (of: TableMetadata) =>
      lake.rows(
        `SELECT a, _row_id AS id, _last_updated_sequence_number AS number FROM ${await lake.source(of, withLineage(currentSchema(of), of))} ORDER BY a`,
      )
    const before = await lineageOf(table)
    expect(before).toHaveLength(26)
    expect(before.every(({ id, number }) => id !== null && number !== null)).toBe(true)
    const files = (await filesOf(table)).length
    table = await lake.write(table, 'SELECT 200 AS a', 'append')
    expect((await filesOf(table)).length).toBeLessThan(files)
    const after = await lineageOf(table)
    expect(after.slice(0, -1)).toEqual(before)
    expect(Number(after.at(-1)?.id)).toBeGreaterThan(Math.max(...before.map(({ id }) => Number(id))))
    expect(Number(after.at(-1)?.id)).toBeLessThan(table['next-row-id'] ?? 0)
    expect(await lake.rows(`SELECT * FROM ${await lake.source(table)} LIMIT 1`)).toEqual([
      { a: expect.anything() },
    ])
  })

  const rangesOf = (files: (number | undefined)[][]): number[] =>
    files
      .flatMap(([first = Number.NaN, rows = 0]) => Array.from({ length: rows }, (_, i) => first + i))
      .toSorted((a, b) => a - b)
})

describe('default values of format version 3', () => {
  const withDefaults = (
    table: TableMetadata,
    type: string,
    initial: string | number,
    write?: string | number,
  ) => {
    const schema = currentSchema(table)
    const id = table['last-column-id'] + 1
    const field = {
      id,
      name: 'd',
      required: false,
      type,
      'initial-default': initial,
      ...(write !== undefined && { 'write-default': write }),
    }
    return applyUpdates(
      table,
      [
        { action: 'upgrade-format-version', 'format-version': 3 },
        { action: 'add-schema', schema: { ...schema, fields: [...schema.fields, field] } },
        { action: 'set-current-schema', 'schema-id': -1 },
      ],
      { at: 1 },
    )
  }

  test.each([
    ['int', 7, '7'],
    ['decimal(9, 2)', '-1.50', '-1.50'],
    ['date', '2020-02-29', '2020-02-29'],
    ['timestamptz', '2020-01-01T00:00:00.5+00:00', '2020-01-01 00:00:00.5+00'],
    ['string', "it's", "it's"],
    ['binary', '00ff', '\\x00\\xFF'],
    ['boolean', true, 'true'],
  ])('a column of type %s has its initial value in old files', async (type, initial, text) => {
    const table = withDefaults(await lake.write(null, 'SELECT 1 AS a', 'append'), type, initial as string)
    const source = await lake.source(table)
    await lake.rows("SET TimeZone = 'UTC'")
    expect(await lake.rows(`SELECT a, CAST(d AS VARCHAR) AS d FROM ${source}`)).toEqual([{ a: 1, d: text }])
  })

  test('new rows without the column get its write default, or null', async () => {
    for (const write of [undefined, 8]) {
      let table = withDefaults(await lake.write(null, 'SELECT 1 AS a', 'append'), 'int', 7, write)
      table = await lake.write(table, 'SELECT 2 AS a', 'append')
      expect(await rowsOf(table)).toEqual([
        { a: 1, d: 7 },
        { a: 2, d: write ?? null },
      ])
      ;({ table } = await lake.writeBy(table, 'SELECT 2 AS a', {
        mergeStrategy: 'incremental',
        uniqueKey: ['a'],
      }))
      expect(await rowsOf(table)).toEqual([
        { a: 1, d: 7 },
        { a: 2, d: write ?? null },
      ])
    }
  })

  test('other values are refused with the name of the column', async () => {
    const table = await lake.write(null, 'SELECT 1 AS a', 'append')
    expect(() => withDefaults(table, 'int', 'x')).toThrow('column "d": the default value x')
    expect(() => withDefaults(table, 'int', 2 ** 31)).toThrow('column "d"')
    const schema = currentSchema(table)
    const nested = { id: 8, name: 'b', required: false, type: 'int', 'initial-default': 1 }
    const s = { id: 9, name: 's', required: false, type: { type: 'struct' as const, fields: [nested] } }
    const add = { action: 'add-schema' as const, schema: { ...schema, fields: [...schema.fields, s] } }
    expect(() => applyUpdates(table, [add], { at: 1 })).toThrow('column "s.b": default values need')
    expect(() =>
      applyUpdates(table, [{ action: 'upgrade-format-version', 'format-version': 3 }, add], { at: 1 }),
    ).toThrow('column "s.b": default values of nested columns')
  })
})

describe('maintenance', () => {
  const rules = { bytesLimit: 1e9, isKeyed: false }
  const planOf = async (table: TableMetadata) => planMaintenance(table, rules, lake.reader)

  test('rewrites a file with many delete files, although few of its rows are deleted', async () => {
    let table = await lake.write(null, 'SELECT i AS a FROM range(1000) t(i)', 'append')
    const [location = ''] = (await filesOf(table)).map(({ file }) => file.location)
    for (let i = 0; i < MAINTAINED_DELETES_LIMIT; i++)
      table = await lake.writeDelta(table, { positions: () => position(location, i) })
    expect(await planOf(table)).toBeNull()
    table = await lake.writeDelta(table, { positions: () => position(location, 500) })
    expect((await planOf(table))?.groups.flat().map(({ file }) => file.location)).toEqual([location])
  })

  test('rewrites a file whose deletion vector deletes many rows, and no others', async () => {
    let table = await lake.write(null, 'SELECT i AS a FROM range(10) t(i)', 'append')
    table = await lake.write(table, 'SELECT i AS a FROM range(10) t(i)', 'append')
    table = applyUpdates(table, [{ action: 'upgrade-format-version', 'format-version': 3 }], { at: 1 })
    const [first = '', second = ''] = (await filesOf(table)).map(({ file }) => file.location)
    table = await lake.writeDelta(table, {
      vectors: [
        [first, [0]],
        [second, [0, 1]],
      ],
    })
    expect((await planOf(table))?.groups.flat().map(({ file }) => file.location)).toEqual([second])
  })
})

describe('a write', () => {
  const byKey = { mergeStrategy: 'incremental', uniqueKey: ['a'] } as const
  const batch = (from: number) => `SELECT i::INTEGER AS a, ${from} AS b FROM range(${from}, ${from + 5}) t(i)`

  test('counts the rows that remain when it rewrites one of two files with deletes', async () => {
    let { table } = await lake.writeBy(null, batch(0), byKey)
    ;({ table } = await lake.writeBy(table, batch(10), byKey))
    const [first, second] = (await filesOf(table)).map(({ file }) => file.location)
    table = await lake.writeDelta(table, {
      positions: () => `${position(first ?? '', 1)} UNION ALL ${position(second ?? '', 2)}`,
    })
    expect(rowCountOf(summaryOf(table))).toBe(8)
    ;({ table } = await lake.writeBy(table, 'SELECT 0 AS a, 99 AS b', byKey))
    expect((await rowsOf(table, 'a')).map(({ a }) => a)).toEqual([0, 2, 3, 4, 10, 11, 13, 14])
    expect(rowCountOf(summaryOf(table))).toBe(8)
    expect(summaryOf(table)).toMatchObject({ 'total-delete-files': '1', 'total-records': '9' })
    ;({ table } = await lake.writeBy(table, 'SELECT 14 AS a, 99 AS b', byKey))
    expect(rowCountOf(summaryOf(table))).toBe(8)
    expect(summaryOf(table)).toMatchObject({
      'total-delete-files': '0',
      'total-position-deletes': '0',
      'removed-delete-files': '1',
    })
  })

  test('marks few rows of large files, and rewrites a file with many deleted rows', async () => {
    const rules = { mergeStrategy: 'delete_insert', uniqueKey: ['a'] } as const
    const options = { marking: { rewrittenBytes: 0, deletedShare: 0.1 }, fileRows: 100 }
    const rows = (from: number, to: number, b: number) =>
      `SELECT i::INTEGER AS a, ${b} AS b FROM range(${from}, ${to}) t(i)`
    let { table } = await lake.writeBy(null, rows(0, 200, 1), rules, options)
    const before = await filesOf(table)
    let next = await lake.writeBy(table, 'SELECT unnest([3, 150, 500]) AS a, 2 AS b', rules, options)
    expect(next.change).toMatchObject({ replaced: [], deletes: [{ recordCount: 2 }], deletedRows: 2 })
    table = next.table
    const totals = { 'total-records': '203', 'total-position-deletes': '2', 'total-delete-files': '1' }
    expect(summaryOf(table)).toMatchObject({ operation: 'overwrite', ...totals })
    expect(rowCountOf(summaryOf(table))).toBe(201)
    expect((await filesOf(table)).slice(0, 2).map(({ file }) => file.location)).toEqual(
      before.map(({ file }) => file.location),
    )
    expect(await rowsOf(table, 'count(*)::INTEGER AS n, sum(b)::INTEGER AS s')).toEqual([{ n: 201, s: 204 }])
    expect(await readIndependently(table)).toHaveLength(201)
    next = await lake.writeBy(table, rows(0, 20, 3), rules, options)
    expect(next.change).toMatchObject({ replaced: [{}, {}], deletes: [], deletedRows: -1 })
    expect(rowCountOf(summaryOf(next.table))).toBe(201)
    expect(await rowsOf(next.table, 'count(*)::INTEGER AS n, sum(b)::INTEGER AS s')).toEqual([
      { n: 201, s: 243 },
    ])
    expect(await readIndependently(next.table)).toHaveLength(201)
  })

  test('keeps deletes when it appends, and drops them when it refreshes the table', async () => {
    let table = await lake.write(null, batch(0), 'append')
    table = await lake.writeDelta(table, { equal: 'SELECT 3::INTEGER AS a' })
    expect(rowCountOf(summaryOf(table))).toBe(5)
    table = await lake.write(table, 'SELECT 3 AS a, 7 AS b', 'append')
    expect(await rowsOf(table, 'count(*)::INTEGER AS n, sum(b)::INTEGER AS s')).toEqual([{ n: 5, s: 7 }])
    expect(summaryOf(table)).toMatchObject({ operation: 'append', 'total-equality-deletes': '1' })
    table = await lake.write(table, batch(0), 'overwrite')
    expect(await rowsOf(table, 'count(*)::INTEGER AS n')).toEqual([{ n: 5 }])
    expect(summaryOf(table)).toMatchObject({ 'total-equality-deletes': '0', 'total-delete-files': '0' })
    expect(rowCountOf(summaryOf(table))).toBe(5)
  })

  test('reads around deletes when it combines small files', async () => {
    let table = await lake.write(null, batch(0), 'append')
    for (let n = 1; n < 8; n += 1) table = await lake.write(table, batch(n * 10), 'append')
    table = await lake.writeDelta(table, { equal: 'SELECT 3::INTEGER AS a UNION ALL SELECT 71::INTEGER' })
    table = await lake.write(table, batch(80), 'append')
    table = await lake.write(table, batch(90), 'append')
    expect(await rowsOf(table, 'count(*)::INTEGER AS n')).toEqual([{ n: 48 }])
    expect(rowCountOf(summaryOf(table))).toBe(48)
    expect(summaryOf(table)).toMatchObject({ 'total-equality-deletes': '0' })
  })
})

describe('equality deletes', () => {
  test('spare the rows of their own and later commits', async () => {
    let table = await lake.write(null, 'SELECT 1 AS a, 1 AS b UNION ALL SELECT 2, 1', 'append')
    table = await lake.writeDelta(table, { rows: 'SELECT 1 AS a, 2 AS b', equal: 'SELECT 1 AS a' })
    table = await lake.write(table, 'SELECT 1 AS a, 3 AS b', 'append')
    expect(await rowsOf(table)).toEqual([
      { a: 1, b: 2 },
      { a: 1, b: 3 },
      { a: 2, b: 1 },
    ])
  })

  test('spare newer files in scans that also return row numbers or row ids', async () => {
    let table = await lake.write(null, 'SELECT i::INTEGER AS a, 0 AS b FROM range(4) t(i)', 'append')
    table = await lake.writeDelta(table, { equal: 'SELECT 1::INTEGER AS a' })
    table = await lake.write(table, 'SELECT 1 AS a, 1 AS b', 'append')
    const upgrade = { action: 'upgrade-format-version', 'format-version': 3 } as const
    const third = applyUpdates(table, [upgrade], { at: 1 })
    const withIds = await lake.source(third, withLineage(currentSchema(third), third))
    expect(await lake.rows(`SELECT a, b FROM ${withIds} WHERE a = 1`)).toEqual([{ a: 1, b: 1 }])
    const { table: merged } = await lake.writeBy(
      table,
      'SELECT 1 AS a, 2 AS b UNION ALL SELECT 0, 2',
      { mergeStrategy: 'incremental', uniqueKey: ['a'] },
      { marking: { rewrittenBytes: 0, deletedShare: 1 } },
    )
    expect(await rowsOf(merged)).toEqual([
      { a: 0, b: 2 },
      { a: 1, b: 2 },
      { a: 2, b: 0 },
      { a: 3, b: 0 },
    ])
  })

  test('match null with null, and need every column to match', async () => {
    let table = await lake.write(
      null,
      "SELECT * FROM (VALUES (NULL, 'x'), (NULL, NULL), (1, NULL), (2, 'x')) t(a, b)",
      'append',
    )
    table = await lake.writeDelta(table, { equal: "SELECT NULL::INTEGER AS a, 'x' AS b" })
    table = await lake.writeDelta(table, { equal: 'SELECT 1 AS a, NULL::VARCHAR AS b' })
    expect(await rowsOf(table)).toEqual([
      { a: 2, b: 'x' },
      { a: null, b: null },
    ])
  })

  test('apply to widened, added and dropped columns', async () => {
    let table = await lake.write(null, "SELECT i::INTEGER AS a, 'x' || i AS b FROM range(6) t(i)", 'append')
    table = await lake.writeDelta(table, { equal: 'SELECT 1::INTEGER AS a' })
    table = await lake.writeDelta(table, { equal: "SELECT 'x2' AS b" })
    const { fields } = currentSchema(table)
    const widened = fields
      .filter(({ name }) => name === 'a')
      .map((field) => ({ ...field, type: 'long' as const }))
    const added = { id: table['last-column-id'] + 1, name: 'c', required: false, type: 'string' } as const
    table = applyUpdates(
      table,
      [
        { action: 'add-schema', schema: { type: 'struct', fields: [...widened, added] } },
        { action: 'set-current-schema', 'schema-id': -1 },
      ],
      { at: 1 },
    )
    table = await lake.writeDelta(table, { rows: "SELECT 3::BIGINT AS a, 'new' AS c" })
    table = await lake.writeDelta(table, { equal: 'SELECT 4::BIGINT AS a, NULL::VARCHAR AS c' })
    table = await lake.writeDelta(table, { equal: "SELECT 3::BIGINT AS a, 'new' AS c" })
    expect(await rowsOf(table)).toEqual([0n, 3n, 5n].map((a) => ({ a, c: null })))
  })

  test('stay in their partition, unless their spec has no partitions', async () => {
    const rows = "SELECT * FROM (VALUES ('x', 1), ('y', 1), ('y', 2)) t(p, a)"
    let { table } = await lake.writeBy(null, rows, { mergeStrategy: 'append_only' })
    ;({ table } = await lake.writeBy(table, rows, {
      mergeStrategy: 'append_only',
      partitionBy: [{ column: 'p', transform: 'identity' }],
    }))
    const inY = (await filesOf(table)).find(({ file }) => Object.values(file.partition).includes('y'))
    const scoped = await lake.writeDelta(table, {
      equal: 'SELECT 1 AS a',
      partition: inY?.file.partition ?? {},
    })
    expect(await rowsOf(scoped, 'p, a')).toEqual(
      [
        ['x', 1],
        ['x', 1],
        ['y', 1],
        ['y', 2],
        ['y', 2],
      ].map(([p, a]) => ({ p, a })),
    )
    const global = await lake.writeDelta(table, { equal: 'SELECT 1 AS a', specId: 0 })
    expect(await rowsOf(global, 'p, a')).toEqual(
      [
        ['y', 2],
        ['y', 2],
      ].map(([p, a]) => ({ p, a })),
    )
  })

  describe('on fields inside structs', () => {
    const idOf = (table: TableMetadata, path: string): number => {
      const found = [...fieldsOf(currentSchema(table))].find((field) => field.path.join('.') === path)
      if (found === undefined) throw new Error(`no field ${path}`)
      return found.id
    }
    const childrenOf = (field: NestedField, map: (child: NestedField) => NestedField[]): NestedField =>
      typeof field.type === 'string' || field.type.type !== 'struct'
        ? field
        : { ...field, type: { type: 'struct', fields: field.type.fields.flatMap(map) } }
    const withoutField = (field: NestedField, id: number): NestedField =>
      childrenOf(field, (child) => (child.id === id ? [] : [withoutField(child, id)]))
    const widenedField = (field: NestedField, id: number): NestedField =>
      field.id === id ? { ...field, type: 'long' } : childrenOf(field, (child) => [widenedField(child, id)])
    const ROWS = `SELECT i::INTEGER AS id, CASE WHEN i = 9 THEN NULL ELSE
      {'a': i::INTEGER, 'in': {'b': 'x' || i % 2, 'c': i::INTEGER}, 'l': [i::INTEGER]} END AS s
      FROM range(10) t(i)`
    const ids = async (table: TableMetadata) => (await rowsOf(table, 'id')).map(({ id }) => Number(id))

    test('delete the rows with these values, and only in older files', async () => {
      let table = await lake.write(null, ROWS, 'append')
      const [b, c] = [idOf(table, 's.in.b'), idOf(table, 's.in.c')]
      table = await lake.writeDelta(table, {
        equal:
          "SELECT {'in': {'b': 'x1', 'c': 3::INTEGER}} AS s UNION ALL SELECT {'in': {'b': 'x1', 'c': 4}}",
        equalityIds: [c, b],
      })
      table = await lake.write(table, `SELECT * FROM (${ROWS}) WHERE id = 3`, 'append')
      expect(await ids(table)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
      table = await lake.writeDelta(table, { equal: "SELECT {'in': {'b': 'x1'}} AS s", equalityIds: [b] })
      expect(await ids(table)).toEqual([0, 2, 4, 6, 8, 9])
      expect(await rowsOf(table)).toEqual(
        await lake.rows(`FROM (${ROWS}) WHERE id % 2 = 0 OR id = 9 ORDER BY ALL`),
      )
    })

    test('count a field of a null struct as null', async () => {
      let table = await lake.write(null, ROWS, 'append')
      const equal = "SELECT {'a': NULL::INTEGER} AS s"
      table = await lake.writeDelta(table, { equal, equalityIds: [idOf(table, 's.a')] })
      expect(await ids(table)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8])
    })

    test('compare several columns, also after one was widened or dropped', async () => {
      let table = await lake.write(null, ROWS, 'append')
      const [id, a, c] = [idOf(table, 'id'), idOf(table, 's.a'), idOf(table, 's.in.c')]
      table = await lake.writeDelta(table, {
        equal: "SELECT 1::INTEGER AS id, {'a': 1::INTEGER, 'in': {'c': 1::INTEGER}} AS s",
        equalityIds: [id, a, c],
      })
      const changed = currentSchema(table).fields.map((field) => withoutField(widenedField(field, c), a))
      table = applyUpdates(
        table,
        [
          { action: 'add-schema', schema: { type: 'struct', fields: changed } },
          { action: 'set-current-schema', 'schema-id': -1 },
        ],
        { at: 1 },
      )
      expect(await ids(table)).toEqual([0, 2, 3, 4, 5, 6, 7, 8, 9])
      expect((await rowsOf(table))[1]).toEqual({
        id: 2,
        s: { in: { b: 'x0', c: 2n }, l: [2] },
      })
    })

    test('leave the table with the next rewrite', async () => {
      let table = await lake.write(null, ROWS, 'append')
      table = await lake.writeDelta(table, {
        equal: "SELECT {'a': 3::INTEGER} AS s",
        equalityIds: [idOf(table, 's.a')],
      })
      const rules = { mergeStrategy: 'incremental', uniqueKey: ['id'] } as const
      const next = await lake.writeBy(table, `SELECT * FROM (${ROWS}) WHERE id = 5`, rules)
      expect(await ids(next.table)).toEqual([0, 1, 2, 4, 5, 6, 7, 8, 9])
      expect(summaryOf(next.table)).toMatchObject({ 'total-delete-files': '0', 'total-records': '9' })
    })

    test('are refused inside lists and for whole structs, with the name of the column', async () => {
      const table = await lake.write(null, ROWS, 'append')
      const refused = (path: string) => () => equalityColumn(idOf(table, path), 'file', table)
      expect(refused('s.l.element')).toThrow('compares column "s.l.element", which is inside a list or a map')
      expect(refused('s.in')).toThrow('compares column "s.in", which has no primitive type')
      expect(() => equalityColumn(77, 'file', table)).toThrow('compares the unknown field 77')
    })
  })
})
