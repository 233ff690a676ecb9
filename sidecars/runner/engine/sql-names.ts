import { createHash } from 'node:crypto'
import { join } from 'node:path'
import type { TableName } from '../../../ground/names.ts'
import { NameError, partsOfSelection } from '../../../lake/pipeline/names.ts'
import { quoteIdentifier } from '../../../lake/quote.ts'
import { tableIn } from '../../spark/dialect.ts'

// The names of tables and landing zones in the SQL of an engine, known before their data is looked up.

export type Dialect =
  /** `landing` is the beginning of every zone's path; null: no landing zone can be read. */
  | { engine: 'duckdb'; landing: string | null }
  /** `landing` is the address of the namespace's landing zones at the S3 endpoint. */
  | { engine: 'spark'; landing: string }

export const sparkDialect = ({ root, namespace }: { root: string; namespace: string }): Dialect => ({
  engine: 'spark',
  landing: `s3a://${new URL(root).host}/${namespace}/landing`,
})

export const tableOf = (dialect: Dialect, name: TableName): string =>
  dialect.engine === 'spark' ? tableIn(name) : tableExpression(name)

/** The path of the selected files of a zone. */
export function zoneOf({ engine, landing }: Dialect, selection: string): string {
  if (landing === null)
    throw new Error('landing zones can be read in runs only: their files are frozen when a run starts')
  if (engine === 'duckdb') return join(landing, directoryOf(selection), '*')
  const { zone, pattern } = partsOfSelection(selection)
  return `${landing}/${zone}/${pattern === null ? '*' : storedNames(pattern)}`
}

export const schemaOf = ({ namespace, layer }: TableName) => `${namespace}.${layer}`

/** DuckDB's name of a table. Its last part is the table's own name, so that `name.column` works without an alias. */
export const tableExpression = (table: TableName): string =>
  `${quoteIdentifier(schemaOf(table))}.${quoteIdentifier(table.name)}`

/** The name of the directory that has the selected files. Equal in every run, and free of characters of the pattern. */
export function directoryOf(selection: string): string {
  const { zone, pattern } = partsOfSelection(selection)
  if (pattern === null) return zone
  return `${zone}.${createHash('sha256').update(pattern).digest('hex').slice(0, PATTERN_DIGITS)}`
}

const PATTERN_DIGITS = 16

/** A pattern on original names as a pattern on stored names. Spark has other special characters, and none is escaped. */
function storedNames(pattern: string): string {
  if (!/^[\p{L}\p{N}._ *?[\]!^-]*$/u.test(pattern))
    throw new NameError(
      `the pattern ${JSON.stringify(pattern)} of landing_zone() cannot be used with engine spark: use letters, digits, and the characters . _ - * ? [ ] !`,
    )
  return `????????_??????_${pattern.replaceAll('[!', '[^')}`
}
