import type { TableName } from '../../../ground/names.ts'
import { currentSchema, currentSnapshot, type TableMetadata } from '../../../lake/iceberg/format/metadata.ts'
import { duckText, type NestedField, toDuckDb } from '../../../lake/iceberg/format/types.ts'
import { filesWithMaximum } from '../../../lake/iceberg/read/prune.ts'
import { dataFilesOf, type LiveFile } from '../../../lake/iceberg/read/scan.ts'
import { sqlType } from '../../../lake/iceberg/sql/sql.ts'
import type { PipelineConfig } from '../../../lake/pipeline/config.ts'
import type { TemplateVariables } from '../../../lake/pipeline/template.ts'
import { quoteIdentifier, quoteLiteral } from '../../../lake/quote.ts'
import { counted } from '../../core/amounts.ts'
import { limits } from '../core/limits.ts'
import { tableExpression } from '../engine/sql-names.ts'
import type { AttemptResources } from '../session/attempt-resources.ts'
import { openInstance } from '../session/lake-session.ts'

/** The table that a pipeline writes, and the column that shows its progress. */
interface Watermarked {
  name: TableName
  /** Null: the table does not exist. */
  table: TableMetadata | null
  /** Empty: the configuration names no column. */
  column: string
}

/** The value of `watermark_value`, and a warning about it. */
interface Watermark {
  /** The largest value of the column as text; null: none. */
  value: string | null
  /** DuckDB's name of the column's type. */
  type?: string
  warning: string | null
}

/** Clocks differ, and local times of the column may be up to 14 hours ahead of UTC. */
const FUTURE_MS = 86_400_000

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
  const { value, type, warning } = texts.some((text) => /\bwatermark_value\b/.test(text))
    ? await watermarkOf({ name, table, column: config.watermarkColumn }, resources, signal)
    : NO_WATERMARK
  if (warning !== null) warn(warning)
  return {
    strategy: config.mergeStrategy,
    this: tableExpression(name),
    runStartedAt,
    watermarkValue: value,
    ...(type !== undefined && { watermarkType: type }),
  }
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
  const all = await dataFilesOf(table, snapshot['snapshot-id'], lake.reader)
  const engine = await lease
  const read = async (files: readonly LiveFile[]): Promise<Maximum> => {
    if (files.length === 0) return { value: null, skipped: 0, example: null }
    const input = { name, schema, files: await lake.openFiles(files), locations: [], rowCount: 0 }
    const number = await openInstance(engine, [input], directory, signal)
    try {
      const sql = maximumSql(field, tableExpression(name), Date.now() + FUTURE_MS)
      const [[value = null, skipped, example = null] = []] = await engine.call(
        { kind: 'query', number, sql },
        signal,
      )
      return { value, skipped: Number(skipped ?? 0), example }
    } finally {
      // One engine may serve many previews, so the instance is closed here. If that fails, the lease closes it later.
      await engine.close(number).catch(() => {})
    }
  }
  const first = await read(filesWithMaximum(all, field))
  // The files with the largest values have some that are skipped, so other files may have the largest of the rest.
  const { value, skipped, example } = first.skipped === 0 ? first : await read(all)
  const type = duckText(toDuckDb(field.type))
  const named = `column ${JSON.stringify(column)}`
  if (value !== null && value.length > limits.valueCharacters) {
    const warning = `watermark_value is none: the largest value of ${named} is longer than ${limits.valueCharacters} characters`
    return { value: null, warning }
  }
  const warning =
    skipped === 0
      ? null
      : `watermark_value ignores ${counted(skipped, 'row')} of the table: ${named} is in the future or not finite, such as ${example}`
  return { value, type, warning }
}

interface Maximum {
  value: string | null
  /** The number of rows whose value is no watermark. */
  skipped: number
  /** Such a value. */
  example: string | null
}

/** The largest value that can be a watermark. Nothing would be read again after NaN, infinity, or a time in the future. */
function maximumSql({ name, type }: NestedField, from: string, latest: number): string {
  const column = quoteIdentifier(name)
  const until = quoteLiteral(new Date(latest).toISOString())
  const isWatermark =
    type === 'float' || type === 'double'
      ? `isfinite(${column})`
      : type === 'date' || type === 'timestamp' || type === 'timestamptz'
        ? `${column} <= CAST(CAST(${until} AS TIMESTAMPTZ) AS ${sqlType(type)})`
        : 'true'
  const text = (value: string) => `left(CAST(${value} AS VARCHAR), ${limits.valueCharacters + 1})`
  const isSkipped = `FILTER (WHERE NOT (${isWatermark}))`
  return `SELECT ${text(`max(${column}) FILTER (WHERE ${isWatermark})`)}, CAST(count(*) ${isSkipped} AS VARCHAR), ${text(`max(${column}) ${isSkipped}`)} FROM ${from}`
}
