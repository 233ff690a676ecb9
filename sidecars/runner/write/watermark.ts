import { currentSchema, currentSnapshot, type TableMetadata } from '../../../lake/iceberg/format/metadata.ts'
import { filesWithMaximum } from '../../../lake/iceberg/read/prune.ts'
import { dataFilesOf } from '../../../lake/iceberg/read/scan.ts'
import type { PipelineConfig } from '../../../lake/pipeline/config.ts'
import type { TableName } from '../../../lake/pipeline/names.ts'
import type { TemplateVariables } from '../../../lake/pipeline/template.ts'
import { quoteIdentifier } from '../../../lake/quote.ts'
import { openInstance, tableExpression } from '../attempt/lake-session.ts'
import type { Workplace } from '../attempt/workplace.ts'
import { limits } from '../limits.ts'

/** The table a pipeline writes, and its column that says how far it has come. */
interface Watermarked {
  name: TableName
  /** Null: it does not exist. */
  table: TableMetadata | null
  /** '': none. */
  column: string
}

/** What `watermark_value` is, and what is to be said of it. */
export interface Watermark {
  /** The text of the column's largest value; null: none. */
  value: string | null
  warning: string | null
}

interface Templates {
  config: PipelineConfig
  /** The table that the pipeline writes. */
  name: TableName
  table: TableMetadata | null
  runStartedAt: string
  /** Templates or sources: the watermark is looked for where one of them names it. */
  texts: readonly string[]
  /** Told why there is no watermark. */
  warn(message: string): void
}

/** The values that templates of a pipeline are rendered with. */
export async function variablesOf(
  { config, name, table, runStartedAt, texts, warn }: Templates,
  place: Pick<Workplace, 'lake' | 'engine' | 'directory'>,
  signal: AbortSignal,
): Promise<TemplateVariables> {
  const { value, warning } = texts.some((text) => /\bwatermark_value\b/.test(text))
    ? await watermarkOf({ name, table, column: config.watermarkColumn }, place, signal)
    : NO_WATERMARK
  if (warning !== null) warn(warning)
  return { strategy: config.mergeStrategy, this: tableExpression(name), runStartedAt, watermarkValue: value }
}

const NO_WATERMARK: Watermark = { value: null, warning: null }

/** Finds the watermark, in an instance of its own: the pipeline's is locked to its input. */
export async function watermarkOf(
  { name, table, column }: Watermarked,
  { lake, engine: taken, directory }: Pick<Workplace, 'lake' | 'engine' | 'directory'>,
  signal: AbortSignal,
): Promise<Watermark> {
  if (column === '')
    return { value: null, warning: 'watermark_value is none: the configuration names no watermark_column' }
  const snapshot = table ? currentSnapshot(table) : undefined
  if (table === null || snapshot === undefined) return NO_WATERMARK
  const schema = currentSchema(table)
  const field = schema.fields.find((known) => known.name.toLowerCase() === column.toLowerCase())
  if (field === undefined)
    return {
      value: null,
      warning: `watermark_value is none: the table has no column ${JSON.stringify(column)}`,
    }
  const files = filesWithMaximum(await dataFilesOf(table, snapshot['snapshot-id'], lake.reader), field)
  if (files.length === 0) return NO_WATERMARK
  const paths = await lake.openFiles(files)
  const engine = await taken
  const input = { name, schema, paths, locations: [], rowCount: 0 }
  const number = await openInstance(engine, [input], directory, signal)
  const sql = `SELECT max(${quoteIdentifier(field.name)}) FROM ${tableExpression(name)}`
  try {
    const { first } = await engine.call({ kind: 'judge', number, sql, sampleRows: 0 }, signal)
    if (first === null || first.length <= limits.valueCharacters) return { value: first, warning: null }
    const warning = `watermark_value is none: the largest value of column ${JSON.stringify(column)} is longer than ${limits.valueCharacters} characters`
    return { value: null, warning }
  } finally {
    // One engine may see many previews. What cannot be closed is not forgotten by its lease.
    await engine.close(number).catch(() => {})
  }
}
