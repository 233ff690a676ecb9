// The settings of config.yaml as fields of a form. The keys, their values and their faults are those of the runner.
import { parseDocument } from 'yaml'
import { commentMarkOf, readAnnotations, splitList } from '../../../lake/pipeline/annotations.ts'
import {
  ENGINES,
  MATERIALIZATIONS,
  MERGE_STRATEGIES,
  MERGES,
  type PipelineConfig,
  parseConfig,
  REVIEWERS,
  SCHEMA_CHANGES,
  type TextFile,
} from '../../../lake/pipeline/config.ts'

export interface Field {
  /** The key in config.yaml. */
  key: string
  label: string
  hint?: string
  /** `partitions` are written as `day(ts), region`. */
  kind: 'text' | 'number' | 'list' | 'partitions' | readonly string[]
  /** Whether the field has an effect with these settings; without it, always. */
  isUsed?: (config: PipelineConfig) => boolean
}

const FLAG = ['true', 'false']
const hasRows = ({ materialized }: PipelineConfig) => materialized === 'table'
const isReviewed = ({ merge }: PipelineConfig) => merge === 'review'
const hasHistory = ({ mergeStrategy }: PipelineConfig) => mergeStrategy === 'scd2'

export const GROUPS: readonly { title: string; fields: readonly Field[] }[] = [
  {
    title: 'Description',
    fields: [
      { key: 'description', label: 'Description', kind: 'text' },
      { key: 'tags', label: 'Tags', hint: 'Separated by commas; lists select by them', kind: 'list' },
    ],
  },
  {
    title: 'Result',
    fields: [
      { key: 'materialized', label: 'Stored as', kind: MATERIALIZATIONS },
      { key: 'merge_strategy', label: 'Write strategy', kind: MERGE_STRATEGIES, isUsed: hasRows },
      {
        key: 'unique_key',
        label: 'Unique key',
        hint: 'Columns, separated by commas',
        kind: 'list',
        isUsed: hasRows,
      },
      {
        key: 'watermark_column',
        label: 'Watermark column',
        hint: 'Its largest value is watermark_value',
        kind: 'text',
        isUsed: hasRows,
      },
      {
        key: 'partition_column',
        label: 'Replaced by',
        hint: 'A snapshot replaces the rows with the same value of this column',
        kind: 'text',
        isUsed: ({ mergeStrategy }) => mergeStrategy === 'snapshot',
      },
      {
        key: 'on_schema_change',
        label: 'Other columns than the table',
        hint: 'fail: the run fails; ignore: the table keeps its columns, and the log warns',
        kind: SCHEMA_CHANGES,
        isUsed: hasRows,
      },
      { key: 'scd_valid_from', label: 'Column of the start of a row', kind: 'text', isUsed: hasHistory },
      { key: 'scd_valid_to', label: 'Column of the end of a row', kind: 'text', isUsed: hasHistory },
      {
        key: 'archive_landing_zones',
        label: 'Archive landing files after a success',
        kind: FLAG,
        isUsed: hasRows,
      },
    ],
  },
  {
    title: 'Files',
    fields: [
      {
        key: 'partition_by',
        label: 'Partition by',
        hint: 'For example day(ts), region',
        kind: 'partitions',
        isUsed: hasRows,
      },
      {
        key: 'target_file_size',
        label: 'Size of a data file',
        hint: 'From 1MB to 512MB',
        kind: 'text',
        isUsed: hasRows,
      },
    ],
  },
  {
    title: 'Gate and review',
    fields: [
      { key: 'merge', label: 'Merge', hint: 'review: a person approves each change', kind: MERGES },
      { key: 'review_timeout_hours', label: 'Hours for a review', kind: 'number', isUsed: isReviewed },
      { key: 'reviewers', label: 'Reviewers', kind: REVIEWERS, isUsed: isReviewed },
      {
        key: 'keep_failed_hours',
        label: 'Hours to keep failed data',
        hint: 'The branch of a run with failed tests stays readable',
        kind: 'number',
      },
    ],
  },
  {
    title: 'Execution',
    fields: [
      { key: 'engine', label: 'Engine', kind: ENGINES },
      { key: 'memory', label: 'Memory', hint: 'For example 512MB or 16GB', kind: 'text' },
      { key: 'runs_on', label: 'Runs on', hint: 'Labels of runners, separated by commas', kind: 'list' },
      { key: 'priority', label: 'Priority', hint: 'From -100 to 100', kind: 'number' },
      { key: 'max_retries', label: 'Retries', kind: 'number' },
      {
        key: 'retry_delay_seconds',
        label: 'Seconds before a retry',
        kind: 'number',
        isUsed: ({ maxRetries }) => maxRetries > 0,
      },
    ],
  },
]

const FIELDS = new Map(GROUPS.flatMap(({ fields }) => fields.map((field) => [field.key, field])))

export interface FieldState {
  /** The text in the file; empty: the file does not set the key. */
  text: string
  /** The default, which applies without a text. */
  fallback: string
  problem: string | null
  /** The text of an annotation in the source, which applies instead. */
  overriddenBy: string | null
}

interface ConfigState {
  config: PipelineConfig
  fields: ReadonlyMap<string, FieldState>
  /** Why the file cannot be shown as a form. */
  fault: string | null
  /** Faults and warnings that belong to no field. */
  others: readonly string[]
}

const DEFAULTS = parseConfig({}).config

/** The state of every field. `source` is the code, whose annotations override the file. */
export function stateOf(text: string, source: TextFile): ConfigState {
  const file = { path: 'config.yaml', text }
  const { config, errors, warnings } = parseConfig({ config: file, source })
  const document = parseDocument(text)
  const values: unknown = document.errors.length > 0 ? null : document.toJS()
  const isReadable = document.errors.length === 0 && (values === null || isMapping(values))
  const fault = errors.find(({ key }) => key === '')?.message ?? null
  const annotations = new Map(
    readAnnotations(source.text, commentMarkOf(source.path)).map(({ key, value }) => [key, value]),
  )
  const fields = [...FIELDS.values()].map((field): [string, FieldState] => [
    field.key,
    {
      text: isMapping(values) ? textOf(field, values[field.key]) : '',
      fallback: textOf(field, Reflect.get(DEFAULTS, camelCase(field.key))),
      problem: errors.find(({ key }) => key === field.key)?.message ?? null,
      overriddenBy: annotations.get(field.key) ?? null,
    },
  ])
  return {
    config,
    fields: new Map(fields),
    fault: fault ?? (isReadable ? null : 'the file is not a YAML mapping'),
    others: [...errors.filter(({ key }) => key !== '' && !FIELDS.has(key)), ...warnings].map(
      ({ message }) => message,
    ),
  }
}

/** The file with another text for one key. An empty text removes the key. Comments and other keys stay. */
export function withText(file: string, key: string, text: string): string {
  const field = FIELDS.get(key)
  const document = parseDocument(file)
  const trimmed = text.trim()
  if (field === undefined || trimmed === '') document.delete(key)
  else {
    const value = yamlOf(field, trimmed)
    // A plain value keeps the comment of the line.
    document.set(key, typeof value === 'object' ? document.createNode(value, { flow: true }) : value)
  }
  const written = document.toString({ flowCollectionPadding: false, lineWidth: 0 })
  return written === '{}\n' || written === 'null\n' ? '' : written
}

function yamlOf({ kind }: Field, text: string): unknown {
  if (kind === 'list') return splitList(text)
  if (kind === 'partitions') return splitList(text).map(partitionOf)
  if (kind === 'number' && /^-?\d+(\.\d+)?$/.test(text)) return Number(text)
  return kind === FLAG ? text === 'true' : text
}

function partitionOf(text: string) {
  const [, transform, column] = /^(\w+)\((.*)\)$/.exec(text) ?? []
  return column === undefined ? { column: text, transform: 'identity' } : { column, transform }
}

function textOf({ kind }: Field, value: unknown): string {
  if (value === undefined || value === null) return ''
  if (Array.isArray(value))
    return value.map((each) => (kind === 'partitions' ? shown(each) : each)).join(', ')
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

function shown(partition: unknown): string {
  if (!isMapping(partition)) return String(partition)
  const { column, transform = 'identity' } = partition
  return transform === 'identity' ? String(column) : `${transform}(${column})`
}

const isMapping = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const camelCase = (key: string) => key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
