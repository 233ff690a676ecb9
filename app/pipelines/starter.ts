import { stringify } from 'yaml'
import { splitList } from '../../lake/pipeline/annotations.ts'
import { parseConfig } from '../../lake/pipeline/config.ts'
import { NameError, parseTableName, parseZoneName, tableKey } from '../../lake/pipeline/names.ts'
import { quoteIdentifier } from '../../lake/quote.ts'
import { AppError, invalid } from '../core/errors.ts'
import type { PipelineRef } from '../core/pipeline-ref.ts'
import { sourceFileOf } from './draft-files.ts'
import type { PipelineType } from './store.ts'

/** What a new pipeline reads. `layer.name` and `ns.layer.name` are tables, a bare name is a landing zone. */
export type Source =
  | { kind: 'table'; ref: string }
  | { kind: 'zone'; zone: string; reader: Reader }
  | { kind: 'none' }
export type Reader = 'read_csv_auto' | 'read_json_auto' | 'read_parquet'

export interface Starter {
  type: PipelineType
  description: string
  source: Source
  uniqueKey: string[]
}

/** The files of a new pipeline, by their names: a source that publishes and runs as it is, and its configuration. */
export function starterFiles(starter: Starter): Record<string, string> {
  const { type, description, uniqueKey } = starter
  const config = stringify({
    description,
    merge_strategy: uniqueKey.length === 0 ? 'full_refresh' : 'incremental',
    ...(uniqueKey.length === 0 ? {} : { unique_key: uniqueKey }),
  })
  const [problem] = parseConfig({ config: { path: 'config.yaml', text: config } }).errors
  // It begins with its key, which is the field.
  if (problem !== undefined) throw new AppError(400, 'INVALID_ARGUMENT', problem.message)
  return {
    [sourceFileOf(type)]: type === 'python' ? pythonSource(starter) : sqlSource(starter),
    'config.yaml': config,
  }
}

export const uniqueKeyOf = (text = ''): string[] => splitList(text)

/** 400 naming `source` when it can be the name of neither a table nor a zone. */
export function sourceOf(text: string, { namespace }: PipelineRef): { table: string } | { zone: string } {
  try {
    if (!text.includes('.')) return { zone: parseZoneName(text) }
    const table = parseTableName(text, namespace)
    return { table: table.namespace === namespace ? `${table.layer}.${table.name}` : tableKey(table) }
  } catch (error) {
    if (error instanceof NameError) throw invalid('source', error.message)
    throw error
  }
}

/** What reads files named like this one. */
export function readerOf(filename: string | undefined): Reader {
  if (/\.parquet$/i.test(filename ?? '')) return 'read_parquet'
  return /\.(json|jsonl|ndjson)$/i.test(filename ?? '') ? 'read_json_auto' : 'read_csv_auto'
}

const exampleColumns = (uniqueKey: string[]) =>
  (uniqueKey.length === 0 ? ['id'] : uniqueKey).map((column) => `1 as ${quoteIdentifier(column)}`).join(', ')

/** A template that renders to `sql`, whatever names it holds. */
const asText = (sql: string) => sql.replaceAll(/\{(?=[{%#])/g, "{{ '{' }}")

function sqlSource({ source, uniqueKey }: Starter): string {
  switch (source.kind) {
    case 'table':
      return `select *\nfrom {{ ref('${source.ref}') }}\n`
    case 'zone':
      return `select *\nfrom ${source.reader}('{{ landing_zone("${source.zone}") }}')\n`
    case 'none':
      return `select ${asText(exampleColumns(uniqueKey))}\n`
  }
}

function pythonSource({ source, uniqueKey }: Starter): string {
  switch (source.kind) {
    case 'table':
      return `result = sql("select * from " + ref("${source.ref}"))\n`
    case 'zone':
      return `files = landing_zone("${source.zone}")\nresult = sql(f"select * from ${source.reader}('{files}')")\n`
    case 'none':
      return `result = sql(${JSON.stringify(`select ${exampleColumns(uniqueKey)}`)})\n`
  }
}
