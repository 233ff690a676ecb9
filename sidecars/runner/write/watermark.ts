import { currentSchema, currentSnapshot, type TableMetadata } from '../../../lake/iceberg/format/metadata.ts'
import { filesWithMaximum } from '../../../lake/iceberg/read/prune.ts'
import { dataFilesOf } from '../../../lake/iceberg/read/scan.ts'
import type { PipelineConfig } from '../../../lake/pipeline/config.ts'
import type { TableName } from '../../../lake/pipeline/names.ts'
import type { TemplateVariables } from '../../../lake/pipeline/template.ts'
import { quoteIdentifier } from '../../../lake/quote.ts'
import type { AttemptResources } from '../attempt/attempt-resources.ts'
import { openInstance, tableExpression } from '../attempt/lake-session.ts'
import { limits } from '../limits.ts'

/** The table that a pipeline writes, and the column that shows its progress. */
interface Watermarked {
  name: TableName
  /** Null: the table does not exist. */
  table: TableMetadata | null
  /** Empty: the configuration names no column. */
  column: string
}

/** The value of `watermark_value`, and a warning about it. */
export interface Watermark {
  /** The largest value of the column as text; null: none. */
  value: string | null
  warning: string | null
}

interface Templates {
  config: PipelineConfig
  /** The table that the pipeline writes. */
  name: TableName
  table: TableMetadata | null
  runStartedAt: string
  /** Templates or sources. The watermark is looked up only if one of them names it. */
  texts: readonly string[]
  /** Called with the reason why there is no watermark. */
  warn(message: string): void
}

/** The values for rendering the templates of a pipeline. */
export async function variablesOf(
  { config, name, table, runStartedAt, texts, warn }: Templates,
  resources: Pick<AttemptResources, 'lake' | 'engine' | 'directory'>,
  signal: AbortSignal,
): Promise<TemplateVariables> {
  const { value, warning } = texts.some((text) => /\bwatermark_value\b/.test(text))
    ? await watermarkOf({ name, table, column: config.watermarkColumn }, resources, signal)
    : NO_WATERMARK
  if (warning !== null) warn(warning)
  return { strategy: config.mergeStrategy, this: tableExpression(name), runStartedAt, watermarkValue: value }
}

const NO_WATERMARK: Watermark = { value: null, warning: null }

/** Finds the watermark in a separate instance, because the pipeline's instance is locked to its input. */
export async function watermarkOf(
  { name, table, column }: Watermarked,
  { lake, engine: lease, directory }: Pick<AttemptResources, 'lake' | 'engine' | 'directory'>,
  signal: AbortSignal,
): Promise<Watermark> {
  if (column === '')
    return { value: null, warning: 'watermark_value is none: the configuration names no watermark_column' }
  const snapshot = table ? currentSnapshot(table) : undefined
  if (table === null || snapshot === undefined) return NO_WATERMARK
  const schema = currentSchema(table)
  const field = schema.fields.find(({ name }) => name.toLowerCase() === column.toLowerCase())
  if (field === undefined)
    return {
      value: null,
      warning: `watermark_value is none: the table has no column ${JSON.stringify(column)}`,
    }
  const files = filesWithMaximum(await dataFilesOf(table, snapshot['snapshot-id'], lake.reader), field)
  if (files.length === 0) return NO_WATERMARK
  const locals = await lake.openFiles(files)
  const engine = await lease
  const input = { name, schema, files: locals, locations: [], rowCount: 0 }
  const number = await openInstance(engine, [input], directory, signal)
  const sql = `SELECT max(${quoteIdentifier(field.name)}) FROM ${tableExpression(name)}`
  try {
    const { first } = await engine.call({ kind: 'judge', number, sql, sampleRows: 0 }, signal)
    if (first === null || first.length <= limits.valueCharacters) return { value: first, warning: null }
    const warning = `watermark_value is none: the largest value of column ${JSON.stringify(column)} is longer than ${limits.valueCharacters} characters`
    return { value: null, warning }
  } finally {
    // One engine may serve many previews, so the instance is closed here. If that fails, the lease closes it later.
    await engine.close(number).catch(() => {})
  }
}
