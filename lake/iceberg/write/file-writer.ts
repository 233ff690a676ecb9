import { quoteIdentifier, quoteLiteral } from '../../quote.ts'
import { type BoundValue, InfiniteValue, valueFromText } from '../format/bounds.ts'
import type { PartitionTuple } from '../format/data-file.ts'
import { CODEC, cut, FILE_ROWS, PARTITIONS_LIMIT } from '../format/layout.ts'
import { type ComputedPartition, computedPartitions, UnsupportedPartition } from '../format/partition.ts'
import type { NestedField, Schema } from '../format/types.ts'
import { fieldIdsLiteral } from '../sql/sql.ts'
import { type CopyResult, metricsOf } from './stats.ts'
import type { Target, WriteEngine, WrittenFile } from './write-engine.ts'

/** Writes relations to files. Each file stays within the row limit and in one partition. */
export class FileWriter {
  readonly files: WrittenFile[] = []
  readonly #engine: WriteEngine
  readonly #target: Target
  /** The quoted columns of the table. */
  readonly #names: readonly string[]
  readonly #partitions: readonly ComputedPartition[]
  readonly #written: number

  /** `written` is the number of files that another writer has written to the same directory. */
  constructor(engine: WriteEngine, target: Target, written = 0) {
    this.#engine = engine
    this.#target = target
    this.#written = written
    this.#names = target.schema.fields.map(({ name }) => quoteIdentifier(name))
    this.#partitions = computedPartitions(target.spec, target.schema)
  }

  /**
   * `from` is a relation with the columns of the schema and `rows` rows. `order` names columns of the relation, also columns
   * outside the schema.
   */
  async write(from: string, rows: number, order: readonly string[]): Promise<void> {
    if (rows === 0) return
    const isOne = this.#partitions.length === 0 && this.#cut(rows).length === 1
    if (isOne) {
      const columns = this.#names.map((name) => `s.${name}`).join(', ')
      return this.#copy(`SELECT ${columns} FROM ${from} s ${orderBy(order.map((name) => `s.${name}`))}`, {})
    }
    await this.sort(from, order)
    await this.cutSorted(rows)
  }

  /** Writes the rows that `sort` has sorted to files. */
  async cutSorted(rows: number): Promise<void> {
    const columns = sortedColumns(this.#target.schema)
    for (const { tuple, first, count } of await this.#partitionsOf(rows))
      for (const slice of this.#cut(count))
        await this.#copy(
          `SELECT ${columns} FROM ${SORTED}
           WHERE rowid >= ${first + slice.from} AND rowid < ${first + slice.to}`,
          tuple,
        )
    await this.#engine.run(`DROP TABLE ${SORTED}`)
  }

  /** Writes the rows that `sort` has sorted to one file, in the order of the column `row`. */
  async copySorted(): Promise<void> {
    await this.#copy(`SELECT ${sortedColumns(this.#target.schema)} FROM ${SORTED} ORDER BY r`, {})
  }

  /**
   * Sorts a relation into the table SORTED. Its columns are named c0, c1 and so on in schema order, because a column of the
   * table could hide `rowid`. If given, `row` becomes the column r.
   */
  async sort(from: string, order: readonly string[], row?: string): Promise<void> {
    const columns = this.#names.map((name, i) => `s.${name} AS c${i}`)
    const parts = this.#partitions.map((part, i) => `${partitionSql(part, 's.')} AS p${i}`)
    const ordinals = parts.map((_, i) => String(columns.length + i + 1))
    const rows = row === undefined ? [] : [`s.${row} AS r`]
    await this.#engine.run(
      `CREATE OR REPLACE TEMP TABLE ${SORTED} AS
       SELECT ${[...columns, ...parts, ...rows].join(', ')} FROM ${from} s
       ${orderBy([...ordinals, ...order.map((name) => `s.${name}`)])}`,
    )
  }

  /** The position of each partition's rows in the sorted table. */
  async #partitionsOf(rows: number): Promise<{ tuple: PartitionTuple; first: number; count: number }[]> {
    if (this.#partitions.length === 0) return [{ tuple: {}, first: 0, count: rows }]
    const texts = this.#partitions.map(({ type }, i) =>
      type === 'binary' ? `hex(p${i})` : `CAST(p${i} AS VARCHAR)`,
    )
    const partitionRows = await this.#engine.query(
      `SELECT ${texts.join(', ')}, CAST(min(rowid) AS VARCHAR), CAST(count(*) AS VARCHAR) FROM ${SORTED}
       GROUP BY ${this.#partitions.map((_, i) => `p${i}`).join(', ')}
       ORDER BY min(rowid) LIMIT ${PARTITIONS_LIMIT + 1}`,
    )
    if (partitionRows.length > PARTITIONS_LIMIT)
      throw new UnsupportedPartition(
        `partition_by: the rows fall into more than ${PARTITIONS_LIMIT} partitions: use a coarser transform`,
      )
    return partitionRows.map((row) => ({
      tuple: Object.fromEntries(
        this.#partitions.map(({ id, type }, i) => [id, partitionValue(type, row[i] ?? null)]),
      ),
      first: Number(row[this.#partitions.length]),
      count: Number(row[this.#partitions.length + 1]),
    }))
  }

  /** Ranges of rows that are copied on their own. The engine cuts files by size. */
  #cut(rows: number): { from: number; to: number }[] {
    return this.#target.fileBytes === null ? cut(rows, this.#target.fileRows) : [{ from: 0, to: rows }]
  }

  async #copy(select: string, partition: PartitionTuple): Promise<void> {
    const { directory, schema, fileBytes } = this.#target
    const path = `${directory}/part-${this.#written + this.files.length}${fileBytes === null ? '.parquet' : ''}`
    const copied = await this.#engine.copy(copySql(select, path, { fields: schema.fields, fileBytes }))
    for (const file of withRows(copied))
      this.files.push({ ...metricsOf(schema, file), path: file.filename, partition })
  }
}

/** Writes rows to the file `path`, or to files of a size in the directory `path`. */
export const copySql = (
  select: string,
  path: string,
  { fields, fileBytes }: { fields: readonly NestedField[]; fileBytes: number | null },
): string =>
  `COPY (${select}) TO ${quoteLiteral(path)}
   (FORMAT parquet, COMPRESSION ${CODEC}, ROW_GROUP_SIZE ${FILE_ROWS}, ${fileBytes === null ? '' : `FILE_SIZE_BYTES ${fileBytes},`}
    FIELD_IDS ${fieldIdsLiteral(fields)}, RETURN_STATS)`

/** After the last cut, the engine may write a file without rows. */
export const withRows = (copied: readonly CopyResult[]): CopyResult[] =>
  copied.filter(({ count }) => count > 0n)

/** The columns of SORTED under their names in the table. */
export const sortedColumns = ({ fields }: Schema): string =>
  fields.map(({ name }, i) => `c${i} AS ${quoteIdentifier(name)}`).join(', ')

const orderBy = (terms: readonly string[]): string =>
  terms.length === 0 ? '' : `ORDER BY ${terms.join(', ')}`

function partitionValue(type: string, text: string | null): BoundValue | null {
  try {
    return text === null ? null : valueFromText(type, text)
  } catch (cause) {
    if (!(cause instanceof InfiniteValue)) throw cause
    throw new UnsupportedPartition(`partition_by: a value is ${text}, which no table can hold: replace it`, {
      cause,
    })
  }
}

/** A sorted relation as a temporary table of the engine. */
export const SORTED = 'sluice_sorted'

export const partitionSql = ({ source, of }: ComputedPartition, prefix: string): string =>
  of(`${prefix}${quoteIdentifier(source.name)}`)

export const partText = (values: readonly string[]): string =>
  values.length === 0
    ? "''"
    : `concat_ws(',', ${values.map((value) => `coalesce(CAST(${value} AS VARCHAR), '-')`).join(', ')})`
