import { type RecordBatch, Table, tableToIPC } from 'apache-arrow'
import { AuthorError } from '../../../lake/pipeline/author-error.ts'
import { columnsOf } from '../../spark/column-types.ts'
import { quoteName } from '../../spark/dialect.ts'
import { refusalOfQuery, relationOf } from '../../spark/query-check.ts'
import type { SparkSession } from '../../spark/session.ts'
import { limits } from '../core/limits.ts'
import type { AnswerOf } from '../engine/engine-messages.ts'
import type { Profile } from './profile.ts'

// Queries of authors in Spark SQL.

/** The columns of a query. Nothing is executed. Throws SparkFault, SparkLost, and AuthorError for a text that is not allowed. */
export async function checkedColumns(session: SparkSession, sql: string) {
  const refusal = refusalOfQuery(sql)
  if (refusal !== null) throw new AuthorError(refusal)
  const columns = columnsOf(await session.columnsOf(`SELECT * FROM ${relationOf(sql)}`))
  refuseTwins(columns.map(({ name }) => name))
  return columns
}

/** Evaluates a quality test. The answer is that of DuckDB engines. */
export async function judgeQuery(session: SparkSession, sql: string): Promise<AnswerOf<'judge'>> {
  const columns = await checkedColumns(session, sql)
  const relation = relationOf(sql)
  const [counted] = await session.rows(`SELECT CAST(count(1) AS STRING) AS n FROM ${relation} q`)
  const rowCount = Number(counted?.get(0)?.toJSON().n)
  const texts = columns.map(({ name, type }) => {
    const column = quoteName(name)
    return isNested(type) ? column : `CAST(${column} AS STRING) AS ${column}`
  })
  const first = rowsIn(
    await session.rows(`SELECT ${texts.join(', ')} FROM ${relation} q LIMIT ${limits.sampleRows}`),
  )
  const [row] = first
  const [value] = row === undefined ? [] : Object.values(row)
  const isValue = rowCount === 1 && columns.length === 1 && value !== undefined && value !== null
  return {
    columnTypes: columns.map(({ type }) => type),
    rowCount,
    first: isValue ? shown(value).slice(0, limits.valueCharacters + 1) : null,
    samples: first.map((values) =>
      Object.entries(values)
        .map(([name, value]) => `${name}=${value === null ? 'NULL' : shown(value)}`)
        .join(', '),
    ),
  }
}

/** The first rows of a query, and its plan. */
export async function previewQuery(
  session: SparkSession,
  sql: string,
  rowsLimit: number,
): Promise<Omit<AnswerOf<'preview'>, 'profile'> & { profile: Profile }> {
  const columns = await checkedColumns(session, sql)
  const tree = await session.explain(`SELECT * FROM ${relationOf(sql)}`)
  const started = performance.now()
  const batches = await session.rows(`SELECT * FROM ${relationOf(sql)} q LIMIT ${rowsLimit}`)
  const arrow = tableToIPC(new Table(batches), 'stream')
  if (arrow.byteLength > limits.previewBytes)
    throw new AuthorError(`the first ${rowsLimit} rows are larger than ${limits.previewBytes} bytes`)
  return {
    arrow,
    columns,
    rowCount: batches.reduce((sum, batch) => sum + batch.numRows, 0),
    executeMs: performance.now() - started,
    profile: { tree, operators: 0, memoryPeakBytes: 0, diskPeakBytes: 0 },
  }
}

const isNested = (type: string) => /^(STRUCT|MAP)\(|\[\]$/.test(type)

/** Names are compared without case, so a table cannot have both columns. Throws AuthorError. */
function refuseTwins(names: readonly string[]): void {
  const folded = names.map((name) => name.toLowerCase())
  const name = names.find((each, index) => folded.indexOf(each.toLowerCase()) !== index)
  if (name !== undefined)
    throw new AuthorError(`two columns are named "${name}": give one of them another name`)
}

const rowsIn = (batches: readonly RecordBatch[]): Record<string, unknown>[] =>
  batches.flatMap((batch) =>
    Array.from({ length: batch.numRows }, (_, row) => batch.get(row)?.toJSON() ?? {}),
  )

const shown = (value: unknown): string =>
  typeof value === 'object'
    ? JSON.stringify(value, (_, inner) => (typeof inner === 'bigint' ? String(inner) : inner))
    : String(value)
