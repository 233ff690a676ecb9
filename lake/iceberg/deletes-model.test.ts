// Random writes of ours and row-level deletes of other engines, compared with a list of rows in memory.

import { expect, setDefaultTimeout, test } from 'bun:test'
import fc from 'fast-check'
import { quoteLiteral } from '../quote.ts'
import { tupleText } from './format/data-file.ts'
import { currentSchema, currentSnapshot, type TableMetadata } from './format/metadata.ts'
import { liveEntries, liveManifestsOf, type TableFile, tableFilesOf } from './read/scan.ts'
import { readTable } from './read/table-sql.ts'
import { useTestLake } from './test-lake.ts'

setDefaultTimeout(240_000)

const lake = await useTestLake()

/** Null stands for NULL. Every row has its own number. */
interface Row {
  readonly id: number | null
  readonly code: string | null
  readonly n: number
}

const STRATEGIES = ['append_only', 'incremental', 'delete_insert', 'snapshot', 'full_refresh'] as const

const id = fc.option(fc.oneof(fc.integer({ min: 0, max: 5 }), fc.integer({ min: 6, max: 40 })), { freq: 5 })
const code = fc.option(fc.constantFrom('a', 'b'), { freq: 3 })
const cells = fc.array(fc.record({ id, code }), { minLength: 1, maxLength: 24, size: 'max' })
const columns = fc.constantFrom(['id'], ['code'], ['id', 'code'], ['code', 'id'])
const fraction = fc.integer({ min: 0, max: 999 })
const equal = fc.record({ columns, cells })

const stepArbitrary = fc.oneof(
  fc.record({
    kind: fc.constant('write' as const),
    strategy: fc.constantFrom(...STRATEGIES, 'append_only' as const),
    partitioned: fc.boolean(),
    isMarked: fc.boolean(),
    isWide: fc.boolean(),
    cells,
  }),
  fc.record({
    kind: fc.constant('positions' as const),
    chosen: fc.array(fraction, { minLength: 1, maxLength: 4 }),
  }),
  fc.record({
    kind: fc.constant('equality' as const),
    isGlobal: fc.boolean(),
    chosen: fraction,
    equal,
    added: fc.option(cells),
  }),
)
type Step = typeof stepArbitrary extends fc.Arbitrary<infer S> ? S : never

const valueSql = (name: string, value: number | string | null | undefined): string => {
  const text = value === null || value === undefined ? 'NULL' : quoteLiteral(String(value))
  return `CAST(${text} AS ${name === 'code' ? 'VARCHAR' : 'INTEGER'}) AS ${name}`
}
const rowsSql = (names: readonly (keyof Row)[], rows: readonly Partial<Row>[]): string =>
  rows.map((row) => `SELECT ${names.map((name) => valueSql(name, row[name])).join(', ')}`).join(' UNION ALL ')

async function filesOf(table: TableMetadata): Promise<TableFile[]> {
  const snapshot = currentSnapshot(table)?.['snapshot-id'] ?? 0n
  return tableFilesOf(await liveManifestsOf(table, snapshot, lake.reader), lake.reader)
}

interface Place {
  readonly file: TableFile
  readonly n: number
  readonly pos: number
}

/** All stored rows of the live files, also deleted ones. */
async function placesOf(table: TableMetadata): Promise<Place[]> {
  const places: Place[] = []
  for (const file of await filesOf(table)) {
    const path = lake.pathOf(file.file.location)
    const rows = await lake.rows(`SELECT n FROM ${readTable(currentSchema(table), [{ path }])}`)
    places.push(...rows.map((row, pos) => ({ file, n: Number(row.n), pos })))
  }
  return places
}

const scopeOf = ({ specId, file }: TableFile): string => `${specId} ${tupleText(file.partition)}`

class World {
  table: TableMetadata | null = null
  rows: Row[] = []
  #next = 0

  numbered = (cells: readonly Omit<Row, 'n'>[]): Row[] => cells.map((cell) => ({ ...cell, n: this.#next++ }))

  async write({
    strategy,
    partitioned,
    isMarked,
    isWide,
    cells,
  }: Extract<Step, { kind: 'write' }>): Promise<void> {
    const batch = this.numbered(cells)
    const key = strategy === 'snapshot' ? 'code' : 'id'
    const inBatch = new Set(batch.map((row) => row[key]))
    const last = [...new Map(batch.map((row) => [row[key], row])).values()]
    if (strategy === 'full_refresh') this.rows = []
    else if (strategy !== 'append_only') this.rows = this.rows.filter((row) => !inBatch.has(row[key]))
    this.rows.push(...(strategy === 'incremental' ? last : batch))
    const written = await lake.writeBy(
      this.table,
      `SELECT * REPLACE (n::${isWide ? 'BIGINT' : 'INTEGER'} AS n) FROM (${rowsSql(['id', 'code', 'n'], batch)})`,
      {
        mergeStrategy: strategy,
        uniqueKey: ['id'],
        partitionColumn: 'code',
        partitionBy: partitioned ? [{ column: 'id', transform: 'identity' }] : [],
      },
      { fileRows: 40, ...(isMarked && { marking: { rewrittenBytes: 0, deletedShare: 1 } }) },
    )
    this.table = written.table
  }

  async deletePositions(table: TableMetadata, chosen: readonly number[]): Promise<void> {
    const places = await placesOf(table)
    const picked = chosen.flatMap((fraction) => places[Math.floor((fraction * places.length) / 1_000)] ?? [])
    for (const group of Map.groupBy(picked, ({ file }) => scopeOf(file)).values()) {
      const file = group[0]?.file
      const sql = group.map(
        ({ file: { file }, pos }) =>
          `SELECT ${quoteLiteral(file.location)} AS file_path, ${pos}::BIGINT AS pos`,
      )
      const gone = new Set(group.map(({ n }) => n))
      this.rows = this.rows.filter(({ n }) => !gone.has(n))
      this.table = await lake.writeDelta(this.table ?? table, {
        specId: file?.specId ?? 0,
        partition: file?.file.partition ?? {},
        positions: () => sql.join(' UNION ALL '),
      })
    }
  }

  async deleteEqual(table: TableMetadata, step: Extract<Step, { kind: 'equality' }>): Promise<void> {
    const places = await placesOf(table)
    const unpartitioned = table['partition-specs'].find(({ fields }) => fields.length === 0)?.['spec-id']
    const file = places[Math.floor((step.chosen * places.length) / 1_000)]?.file
    const isGlobal = unpartitioned !== undefined && (step.isGlobal || file === undefined)
    if (!isGlobal && file === undefined) return
    const names = step.equal.columns.filter((name) => name === 'id' || name === 'code')
    const scopes = new Map(places.map((place) => [place.n, scopeOf(place.file)]))
    const isEqual = (row: Row) =>
      step.equal.cells.some((cell) => names.every((name) => cell[name] === row[name]))
    const isInScope = ({ n }: Row) =>
      isGlobal || file?.specId === unpartitioned || (file && scopes.get(n) === scopeOf(file))
    this.rows = this.rows.filter((row) => !(isInScope(row) && isEqual(row)))
    // New rows of an unpartitioned commit only, because a file has one partition.
    const added = isGlobal && step.added ? this.numbered(step.added) : []
    this.rows.push(...added)
    this.table = await lake.writeDelta(table, {
      specId: isGlobal ? unpartitioned : (file?.specId ?? 0),
      partition: isGlobal ? {} : (file?.file.partition ?? {}),
      ...(added.length > 0 &&
        table['default-spec-id'] === unpartitioned && { rows: rowsSql(['id', 'code', 'n'], added) }),
      equal: rowsSql(names, step.equal.cells),
    })
    if (table['default-spec-id'] !== unpartitioned)
      this.rows = this.rows.filter((row) => !added.includes(row))
  }

  async check(table: TableMetadata): Promise<void> {
    const found = await lake.rows(`SELECT id, code, n FROM ${await lake.source(table)} ORDER BY n`)
    expect(found.map((row) => ({ ...row, n: Number(row.n) }))).toEqual(
      this.rows.toSorted((a, b) => a.n - b.n).map((row) => ({ ...row })),
    )
    const snapshot = currentSnapshot(table)
    if (snapshot === undefined) return
    const entries = await liveEntries(await lake.reader.manifests(snapshot), lake.reader)
    expect(entries.every(({ file }) => file.recordCount > 0)).toBe(true)
    const total = (content: string) => {
      const files = entries.map(({ file }) => file).filter((file) => file.content === content)
      return String(files.reduce((sum, { recordCount }) => sum + recordCount, 0))
    }
    expect(snapshot.summary).toMatchObject({
      'total-records': total('data'),
      'total-position-deletes': total('position-deletes'),
      'total-equality-deletes': total('equality-deletes'),
      'total-delete-files': String(entries.filter(({ file }) => file.content !== 'data').length),
    })
  }
}

test('reads and writes keep exactly the rows that no delete concerns', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(stepArbitrary, { minLength: 2, maxLength: 9, size: 'max' }), async (steps) => {
      const world = new World()
      for (const step of steps) {
        if (step.kind === 'write') await world.write(step)
        else if (world.table === null) continue
        else if (step.kind === 'positions') await world.deletePositions(world.table, step.chosen)
        else await world.deleteEqual(world.table, step)
        if (world.table !== null) await world.check(world.table)
      }
    }),
    { numRuns: 40 },
  )
})
