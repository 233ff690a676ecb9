// Merges a batch of rows into the files of a table by copy-on-write: only files with affected rows are rewritten (docs/adr,
// "Copy-on-write"). The engine decides which values are equal. This file generates the engine's SQL and orders the steps.

import { quoteIdentifier, quoteLiteral } from '../../quote.ts'
import { decoded } from '../format/bounds.ts'
import { type ComputedPartition, computedPartitions, tupleValue } from '../format/partition.ts'
import { valueSql } from '../read/prune.ts'
import type { TableFile } from '../read/scan.ts'
import { readTable } from '../read/table-sql.ts'
import { FileWriter, partitionSql, partText } from './file-writer.ts'
import { filesToMark, type WrittenDeletes, writePositionDeletes } from './position-deletes.ts'
import {
  type Candidate,
  type History,
  type MergeRules,
  type OwnNames,
  ownNames,
  type Target,
  type WriteEngine,
  type WrittenFile,
} from './write-engine.ts'

/** The batch as a temporary table of the engine: every column of the schema, and `row`, the row's position in the result. */
export const BATCH = 'sluice_batch'

interface Merged {
  readonly files: readonly WrittenFile[]
  readonly deletes: readonly WrittenDeletes[]
  readonly replaced: readonly TableFile[]
  /** The change of the number of deleted rows in files of the table. */
  readonly deletedRows: number
  /** The number of inserted or changed rows. */
  readonly rowsWritten: number
  /** The number of rows of the batch that are older than the open version of their key. */
  readonly olderRows: number
}

/**
 * Merges BATCH into the candidates. With a history, BATCH must hold one row per key. The candidates are all files that may hold
 * affected rows; all other files stay unchanged.
 */
export async function mergeBatch(
  engine: WriteEngine,
  rules: MergeRules,
  target: Target,
  candidates: readonly Candidate[],
): Promise<Merged> {
  if (candidates.length === 0) return insertBatch(engine, rules, target)
  const merge = new Merge(engine, rules, target, candidates)
  await merge.findHits()
  const deletes = await merge.markRows()
  await merge.assignRows()
  const merged = await merge.rewrite()
  const marked = deletes.reduce((sum, { recordCount }) => sum + recordCount, 0)
  return { ...merged, deletes, deletedRows: merged.deletedRows + marked }
}

/** Counts the rows of a relation. */
export async function count(engine: WriteEngine, relation: string): Promise<number> {
  const [row] = await engine.query(`SELECT CAST(count(*) AS VARCHAR) FROM ${relation}`)
  return Number(row?.[0])
}

/** Writes the batch to new files, because no file of the table can hold a key of the batch. */
async function insertBatch(engine: WriteEngine, { keys }: MergeRules, target: Target): Promise<Merged> {
  const rowsWritten = await count(engine, BATCH)
  const writer = new FileWriter(engine, target)
  await writer.write(
    BATCH,
    rowsWritten,
    keys.map(({ name }) => quoteIdentifier(name)),
  )
  return { files: writer.files, deletes: [], replaced: [], deletedRows: 0, rowsWritten, olderRows: 0 }
}

class Merge {
  readonly #engine: WriteEngine
  readonly #rules: MergeRules
  readonly #target: Target
  readonly #candidates: readonly Candidate[]
  readonly #names: OwnNames
  readonly #columns: readonly string[]
  readonly #keys: readonly string[]
  readonly #partitions: readonly ComputedPartition[]

  constructor(engine: WriteEngine, rules: MergeRules, target: Target, candidates: readonly Candidate[]) {
    this.#engine = engine
    this.#rules = rules
    this.#target = target
    this.#candidates = candidates
    this.#names = ownNames(target.schema)
    this.#columns = target.schema.fields.map(({ name }) => quoteIdentifier(name))
    this.#keys = rules.keys.map(({ name }) => quoteIdentifier(name))
    this.#partitions = computedPartitions(target.spec, target.schema)
  }

  /**
   * Makes the table sluice_hits: the number of affected rows per file and key. With a history, it also counts unchanged rows.
   */
  async findHits(): Promise<void> {
    const { history } = this.#rules
    await this.#engine.run(
      `CREATE TEMP TABLE sluice_files AS FROM (VALUES ${this.#filesSql()}) f(file, path, lower, upper, part)`,
    )
    const keys = this.#keys.map((key, i) => `t.${key} AS k${i}`)
    const rows = this.#read(this.#candidates)
    const hitsSql =
      history === null
        ? `SELECT t.${this.#file} AS path, ${keys.join(', ')}, true AS is_changed, false AS is_older
           FROM ${rows} t SEMI JOIN ${BATCH} b ON ${this.#equal('t', 'b')}`
        : `SELECT t.${this.#file} AS path, ${keys.join(', ')}, ${changes(history)} AS is_changed, ${isOlder(history)} AS is_older
           FROM ${rows} t JOIN ${BATCH} b ON ${this.#equal('t', 'b')} WHERE t.${quoteIdentifier(history.to.name)} IS NULL`
    const names = this.#keys.map((_, i) => `k${i}`).join(', ')
    await this.#engine.run(
      `CREATE TEMP TABLE sluice_hits AS
       SELECT file, ${names}, count(*) FILTER (is_changed) AS changed, count(*) FILTER (NOT is_changed) AS same, count(*) FILTER (is_older) AS older
       FROM (${hitsSql}) JOIN sluice_files USING (path) GROUP BY file, ${names} ORDER BY file`,
    )
    const unchangedKeys = `SELECT ${names} FROM sluice_hits WHERE same > 0`
    await this.#engine.run(
      history === null
        ? `CREATE TEMP VIEW sluice_new AS FROM ${BATCH}`
        : `CREATE TEMP TABLE sluice_new AS FROM ${BATCH} b ANTI JOIN (${unchangedKeys}) h ON ${this.#equalsHit('b')}`,
    )
  }

  /** Marks the affected rows of files that are not rewritten. These files no longer count as affected. */
  async markRows(): Promise<WrittenDeletes[]> {
    const { marking } = this.#target
    if (marking === null || this.#rules.history !== null) return []
    const counts = await this.#engine.query(
      'SELECT CAST(file AS VARCHAR), CAST(sum(changed) AS VARCHAR) FROM sluice_hits GROUP BY file',
    )
    const hits = new Map(counts.map(([file, changed]) => [Number(file), Number(changed)]))
    const chosen = filesToMark(this.#candidates, hits, marking)
    if (chosen.size === 0) return []
    const marked = this.#candidates.filter((_, i) => chosen.has(i))
    const deletes = await writePositionDeletes(this.#engine, marked, this.#target, {
      keys: this.#rules.keys,
      batch: BATCH,
    })
    await this.#engine.run(`DELETE FROM sluice_hits WHERE file IN (${[...chosen].join(', ')})`)
    return deletes
  }

  /**
   * Makes the table sluice_home: the affected file that receives a new row, if any. It is the file that held the row's key, or
   * the file whose key range includes the key. So files stay as clustered as before.
   */
  async assignRows(): Promise<void> {
    const row = quoteIdentifier(this.#names.row)
    const part = quoteIdentifier(this.#names.part)
    const [first] = this.#rules.keys
    await this.#engine.run(
      `CREATE TEMP TABLE sluice_matched AS
       SELECT b.${row}, min(h.file) AS file
       FROM sluice_new b JOIN sluice_hits h ON ${this.#equalsHit('b')} JOIN sluice_files f ON f.file = h.file
       WHERE h.changed > 0 AND f.part = ${this.#partSql('b.')} GROUP BY ALL`,
    )
    // Nested values have no bounds.
    const nearestFile =
      typeof first?.type !== 'string'
        ? ''
        : `UNION ALL
           SELECT b.${row}, f.file
           FROM (SELECT ${row}, ${quoteIdentifier(first.name)} AS k, ${this.#partSql('')} AS ${part}
                 FROM sluice_new ANTI JOIN sluice_matched USING (${row})) b
           ASOF JOIN (FROM sluice_files WHERE lower IS NOT NULL
                      AND file IN (SELECT file FROM sluice_hits WHERE changed > 0)) f
           ON b.${part} = f.part AND b.k >= f.lower
           WHERE f.upper IS NULL OR b.k <= f.upper`
    await this.#engine.run(`CREATE TEMP TABLE sluice_home AS FROM sluice_matched ${nearestFile}`)
    await this.#sortByFile()
  }

  /**
   * Makes one table of the new rows per file, and one of the rows that close existing rows. Both are sorted by file, so that
   * each file reads only its own few rows.
   */
  async #sortByFile(): Promise<void> {
    const row = quoteIdentifier(this.#names.row)
    await this.#engine.run(
      `CREATE TEMP TABLE sluice_homed AS
       SELECT b.*, h.file AS ${this.#file} FROM sluice_new b JOIN sluice_home h ON h.${row} = b.${row} ORDER BY h.file`,
    )
    if (this.#rules.history !== null)
      await this.#engine.run(
        `CREATE TEMP TABLE sluice_closing AS
         SELECT b.*, h.file AS ${this.#file} FROM ${BATCH} b JOIN sluice_hits h ON ${this.#equalsHit('b')}
         WHERE h.changed > 0 ORDER BY h.file`,
      )
  }

  async rewrite(): Promise<Omit<Merged, 'deletes'>> {
    const { history } = this.#rules
    const row = quoteIdentifier(this.#names.row)
    const [totals] = await this.#engine.query(
      `SELECT CAST((SELECT count(*) FROM sluice_new) AS VARCHAR),
              CAST((SELECT count(*) FROM sluice_new ANTI JOIN sluice_home USING (${row})) AS VARCHAR),
              CAST((SELECT count(*) FROM (SELECT DISTINCT ${this.#keys.map((_, i) => `k${i}`).join(', ')} FROM sluice_hits WHERE older > 0)) AS VARCHAR)`,
    )
    const [inserted = 0, unassignedRows = 0, olderRows = 0] = totals?.map(Number) ?? []
    const perFile = await this.#engine.query(
      `SELECT CAST(file AS VARCHAR), CAST(sum(changed) AS VARCHAR), CAST(any_value(homes) AS VARCHAR)
       FROM sluice_hits
       LEFT JOIN (SELECT file, count(*) AS homes FROM sluice_home GROUP BY file) USING (file)
       WHERE changed > 0 GROUP BY file ORDER BY file`,
    )
    const hits = new Map(
      perFile.map(([file, changed, homes]) => [
        Number(file),
        { changed: Number(changed), homes: Number(homes ?? 0) },
      ]),
    )
    const writer = new FileWriter(this.#engine, this.#target)
    const order = this.#keys
    const replaced: TableFile[] = []
    const gathered: string[] = []
    let gatheredRows = 0
    let deletedRows = 0
    for (const [i, candidate] of this.#candidates.entries()) {
      const hit = hits.get(i)
      const isGathered = candidate.isGathered && unassignedRows > 0
      if (hit === undefined && !isGathered) continue
      replaced.push(candidate.file)
      deletedRows += candidate.rows - candidate.file.file.recordCount
      const { changed, homes } = hit ?? { changed: 0, homes: 0 }
      const remainingRows = candidate.rows - (history === null ? changed : 0)
      const relation = this.#rewritten(candidate, i, {
        isHit: hit !== undefined,
        hasRemaining: remainingRows > 0,
        hasNew: homes > 0,
      })
      if (relation === null) continue
      if (isGathered) {
        gathered.push(relation)
        gatheredRows += remainingRows + homes
      } else await writer.write(`(${relation})`, remainingRows + homes, order)
    }
    if (unassignedRows > 0) {
      const columns = this.#columns.join(', ')
      gathered.push(`SELECT ${columns} FROM sluice_new ANTI JOIN sluice_home USING (${row})`)
      await writer.write(`(${gathered.join(' UNION ALL ')})`, gatheredRows + unassignedRows, order)
    }
    const closed = history === null ? 0 : [...hits.values()].reduce((sum, { changed }) => sum + changed, 0)
    return { files: writer.files, replaced, deletedRows, rowsWritten: inserted + closed, olderRows }
  }

  /** The SQL for a file's new content; null when no row remains. */
  #rewritten(
    candidate: Candidate,
    i: number,
    { isHit, hasRemaining, hasNew }: { isHit: boolean; hasRemaining: boolean; hasNew: boolean },
  ): string | null {
    const parts: string[] = []
    if (hasRemaining)
      parts.push(
        isHit
          ? this.#unchangedRows(candidate, i)
          : `SELECT ${this.#columns.join(', ')} FROM ${this.#read([candidate])}`,
      )
    if (hasNew) parts.push(`SELECT ${this.#columns.join(', ')} FROM sluice_homed WHERE ${this.#file} = ${i}`)
    return parts.length === 0 ? null : parts.join(' UNION ALL ')
  }

  #unchangedRows(candidate: Candidate, i: number): string {
    const { history } = this.#rules
    const rows = this.#read([candidate])
    if (history === null) {
      const columns = this.#columns.map((column) => `t.${column}`).join(', ')
      return `SELECT ${columns} FROM ${rows} t
              ANTI JOIN (FROM sluice_hits WHERE file = ${i}) h ON ${this.#equalsHit('t')}`
    }
    const to = quoteIdentifier(history.to.name)
    const isClosed = `t.${to} IS NULL AND b.${quoteIdentifier(this.#names.row)} IS NOT NULL AND ${changes(history)}`
    const columns = this.#columns.map((column) =>
      column === to
        ? `CASE WHEN ${isClosed} THEN ${instantSql(history)} ELSE t.${to} END AS ${to}`
        : `t.${column}`,
    )
    const closing = `(FROM sluice_closing WHERE ${this.#file} = ${i})`
    return `SELECT ${columns.join(', ')} FROM ${rows} t LEFT JOIN ${closing} b ON ${this.#equal('t', 'b')}`
  }

  get #file(): string {
    return quoteIdentifier(this.#names.file)
  }

  #read(candidates: readonly Candidate[]): string {
    const files = candidates.map(({ local }) => local)
    return readTable(this.#target.schema, files, this.#names.file)
  }

  #equal = (a: string, b: string): string =>
    this.#keys.map((key) => `${a}.${key} IS NOT DISTINCT FROM ${b}.${key}`).join(' AND ')

  #equalsHit = (a: string): string =>
    this.#keys.map((key, i) => `${a}.${key} IS NOT DISTINCT FROM h.k${i}`).join(' AND ')

  /** A text that identifies a partition of the target's spec. It only decides which file receives a row. */
  #partSql = (prefix: string): string => partText(this.#partitions.map((part) => partitionSql(part, prefix)))

  #filesSql(): string {
    const [first] = this.#rules.keys
    const { id = 0, type: keyType = 'int' } = first ?? {}
    const type = typeof keyType === 'string' ? keyType : 'int'
    const files = this.#candidates.map(({ file: { file, specId }, local: { path } }, i) => {
      const bounds = typeof keyType === 'string' ? file.columns.get(id) : undefined
      const bound = (bytes: Uint8Array | undefined) => valueSql(type, bytes && decoded(type, bytes))
      const values = this.#partitions.map((field) => valueSql(field.type, tupleValue(file.partition, field)))
      const part = specId === this.#target.spec['spec-id'] ? partText(values) : 'CAST(NULL AS VARCHAR)'
      return `(${[i, quoteLiteral(path), bound(bounds?.lower), bound(bounds?.upper), part].join(', ')})`
    })
    return files.join(', ')
  }
}

/** Whether the new row `b` ends the open row `t`. */
const changes = (history: History): string => {
  const { values } = history
  if (values.length === 0) return 'false'
  return `(${differs(history)} AND NOT ${isOlder(history)})`
}

/** Whether the new row `b` is older than the open row `t`. A row without a version is the oldest. */
const isOlder = ({ version }: History): string => {
  if (version === null) return 'false'
  const [open, added] = ['t', 'b'].map((alias) => `${alias}.${quoteIdentifier(version.name)}`)
  return `coalesce(${open} > ${added}, ${open} IS NOT NULL AND ${added} IS NULL)`
}

const differs = ({ values }: History): string =>
  `(${values.map(({ name }) => `t.${quoteIdentifier(name)} IS DISTINCT FROM b.${quoteIdentifier(name)}`).join(' OR ')})`

/** The SQL for a history's time of change. */
export const instantSql = ({ at }: Pick<History, 'at'>): string => `CAST(${quoteLiteral(at)} AS TIMESTAMPTZ)`
