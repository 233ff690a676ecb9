// A pipeline's configuration. Header annotations override `config.yaml` key by key, and `config.yaml` overrides the defaults.
// The same rules apply to runs, previews and publish validation.
import { isMap, isScalar, LineCounter, type ParsedNode } from 'yaml'
import { commentMarkOf, readAnnotations } from './annotations.ts'
import {
  BadValue,
  CONFIG_LIMITS,
  columnName,
  columnNames,
  decimal,
  fileSize,
  flag,
  labels,
  memorySize,
  oneOf,
  type PartitionBy,
  partitions,
  priority,
  tags,
  text,
  wholeNumber,
} from './config-values.ts'
import { shown } from './names.ts'
import { REVIEW_TIMEOUT_HOURS } from './review.ts'
import { readYaml, YAML_ALIASES } from './yaml.ts'

export const MERGE_STRATEGIES = [
  'full_refresh',
  'append_only',
  'incremental',
  'delete_insert',
  'scd2',
  'snapshot',
] as const
export type MergeStrategy = (typeof MERGE_STRATEGIES)[number]

/** How a result is stored: its rows in a table, or its SQL in a view. */
export const MATERIALIZATIONS = ['table', 'view'] as const

/** The rule for a result with other columns than its table. */
export const SCHEMA_CHANGES = ['add', 'fail', 'ignore'] as const

/** Whether a run on main merges as soon as its tests pass, or waits for a reviewer. */
export const MERGES = ['auto', 'review'] as const
/** `four-eyes` (Pro): the requester of a run may not approve it. */
export const REVIEWERS = ['any', 'four-eyes'] as const

/** The engine for the SQL of a pipeline. `auto`: DuckDB, and then Spark when DuckDB lacks memory. */
export const ENGINES = ['duckdb', 'spark', 'auto'] as const
/** The label of runners that can execute Spark SQL. */
export const SPARK_LABEL = 'engine:spark'
/** The error of a runner without this label. */
export const NO_SPARK =
  'engine spark: this runner has neither SPARK_REMOTE nor Sail: set SPARK_REMOTE, or install pysail in its Python'

export interface PipelineConfig {
  description: string
  materialized: (typeof MATERIALIZATIONS)[number]
  mergeStrategy: MergeStrategy
  uniqueKey: readonly string[]
  /** Empty: no watermark. */
  watermarkColumn: string
  /** Empty: no partition column. */
  partitionColumn: string
  partitionBy: readonly PartitionBy[]
  /** Bytes; null: the table's own property, or the default. */
  targetFileSize: number | null
  onSchemaChange: (typeof SCHEMA_CHANGES)[number]
  archiveLandingZones: boolean
  scdValidFrom: string
  scdValidTo: string
  maxRetries: number
  retryDelaySeconds: number
  /** Hours for which the branch of a run with a failed gate stays readable. */
  keepFailedHours: number
  merge: (typeof MERGES)[number]
  reviewTimeoutHours: number
  reviewers: (typeof REVIEWERS)[number]
  engine: (typeof ENGINES)[number]
  /** Labels that the runner must have. */
  runsOn: readonly string[]
  /** Bytes of memory that the engine needs; null: any runner is enough. */
  memory: number | null
  /** Waiting runs with a greater priority start first. */
  priority: number
  /** Words by which people and builds select pipelines. */
  tags: readonly string[]
}

/**
 * Settings that an earlier runner would ignore with a wrong result. A runner offers the name of each setting that it knows as a
 * label, beside `RUNNER_LABELS`. A run that uses such a setting needs this label. No label of an operator has a colon.
 */
const FEATURES: Readonly<Record<string, (config: PipelineConfig) => boolean>> = {
  'merge:review': ({ merge }) => merge === 'review',
  'on_schema_change:fail': ({ onSchemaChange }) => onSchemaChange === 'fail',
  'on_schema_change:ignore': ({ onSchemaChange }) => onSchemaChange === 'ignore',
}
/** The features that runners of this version know. */
export const RUNNER_FEATURES: readonly string[] = Object.keys(FEATURES)

/** The features that a runner must know for this configuration. */
export const featuresOf = (config: PipelineConfig): string[] =>
  RUNNER_FEATURES.filter((name) => FEATURES[name]?.(config))

export interface ConfigProblem {
  file: string
  /** 1-based; absent when the problem has no line. */
  line?: number
  /** The configuration key; empty when the whole file cannot be read. */
  key: string
  message: string
}

interface ParsedConfig {
  /** A default replaces each bad value, so check `errors` first. */
  config: PipelineConfig
  errors: ConfigProblem[]
  warnings: ConfigProblem[]
}

export interface TextFile {
  path: string
  text: string
}

const DEFAULTS: PipelineConfig = {
  description: '',
  materialized: 'table',
  mergeStrategy: 'full_refresh',
  uniqueKey: [],
  watermarkColumn: '',
  partitionColumn: '',
  partitionBy: [],
  targetFileSize: null,
  onSchemaChange: 'add',
  archiveLandingZones: false,
  scdValidFrom: 'valid_from',
  scdValidTo: 'valid_to',
  maxRetries: 0,
  retryDelaySeconds: 30,
  keepFailedHours: 0,
  merge: 'auto',
  reviewTimeoutHours: REVIEW_TIMEOUT_HOURS,
  reviewers: 'any',
  engine: 'duckdb',
  runsOn: [],
  memory: null,
  priority: 0,
  tags: [],
}

/** The key that a strategy requires. */
const NEEDS: Partial<Record<MergeStrategy, 'unique_key' | 'partition_column'>> = {
  incremental: 'unique_key',
  delete_insert: 'unique_key',
  scd2: 'unique_key',
  snapshot: 'partition_column',
}

/** The readers of values. They throw `BadValue`, and accept the text of an annotation as well as a YAML value. */
const READERS: { [Name in keyof PipelineConfig]: (value: unknown) => PipelineConfig[Name] } = {
  description: (value) => text(value, CONFIG_LIMITS.descriptionCharacters),
  materialized: (value) => oneOf(value, MATERIALIZATIONS),
  mergeStrategy: (value) => oneOf(value, MERGE_STRATEGIES),
  uniqueKey: columnNames,
  watermarkColumn: (value) => (value === '' ? '' : columnName(value)),
  partitionColumn: (value) => (value === '' ? '' : columnName(value)),
  partitionBy: partitions,
  targetFileSize: fileSize,
  onSchemaChange: (value) => oneOf(value, SCHEMA_CHANGES),
  archiveLandingZones: flag,
  scdValidFrom: columnName,
  scdValidTo: columnName,
  maxRetries: (value) => wholeNumber(value, CONFIG_LIMITS.retries),
  retryDelaySeconds: (value) => wholeNumber(value, CONFIG_LIMITS.retryDelaySeconds),
  keepFailedHours: (value) => decimal(value, CONFIG_LIMITS.keepFailedHours),
  merge: (value) => oneOf(value, MERGES),
  reviewTimeoutHours: (value) => wholeNumber(value, CONFIG_LIMITS.reviewTimeoutHours, 1),
  reviewers: (value) => oneOf(value, REVIEWERS),
  engine: (value) => oneOf(value, ENGINES),
  runsOn: labels,
  memory: memorySize,
  priority,
  tags,
}
type Name = keyof PipelineConfig
/** Names by the key in a file: `merge_strategy` is `mergeStrategy`. */
const NAMES: ReadonlyMap<string, Name> = new Map(
  (Object.keys(READERS) as Name[]).map((name) => [
    name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    name,
  ]),
)

/** Combines the given files to one configuration. Never throws. */
export function parseConfig(files: { config?: TextFile; source?: TextFile }): ParsedConfig {
  const parsed: ParsedConfig = { config: structuredClone(DEFAULTS), errors: [], warnings: [] }
  const settings: Setting[] = []
  if (files.config !== undefined) settings.push(...yamlSettings(files.config, parsed.errors))
  if (files.source !== undefined) settings.push(...annotationSettings(files.source))
  const origin = apply(settings, parsed)
  checkHistoryColumns(parsed, origin)
  checkView(parsed, origin, files.source)
  checkEngine(parsed, origin, files.source)
  warnWithoutReview(parsed, origin)
  const need = NEEDS[parsed.config.mergeStrategy]
  if (need !== undefined && !has(parsed.config, need) && !parsed.errors.some(({ key }) => key === need)) {
    const { file, line } = origin.get('merge_strategy') ?? { file: 'config.yaml', line: undefined }
    parsed.errors.push({
      file,
      line,
      key: need,
      message: `merge_strategy ${parsed.config.mergeStrategy} needs ${need}`,
    })
  }
  return parsed
}

/** A problem as one line of a log or an error list: `config.yaml line 3: ...` */
export function problemText({ file, line, message }: ConfigProblem): string {
  return line === undefined ? `${file}: ${message}` : `${file} line ${line}: ${message}`
}

interface Setting {
  file: string
  line?: number
  key: string
  value: unknown
}

/** Later settings win. A bad value of an overridden key is still reported, because the file is wrong. */
function apply(settings: Setting[], { config, errors, warnings }: ParsedConfig): Map<string, Setting> {
  const origin = new Map<string, Setting>()
  for (const setting of settings) {
    const { file, line, key, value } = setting
    const name = NAMES.get(key)
    if (name === undefined) {
      warnings.push({ file, line, key, message: `unknown key ${shown(key)} is ignored` })
      continue
    }
    if (origin.get(key)?.file === file)
      warnings.push({ file, line, key, message: `duplicate key ${key}: the last value applies` })
    try {
      Object.assign(config, { [name]: READERS[name](value) })
      origin.set(key, setting)
    } catch (error) {
      if (!(error instanceof BadValue)) throw error
      errors.push({ file, line, key, message: `${key}: ${error.message}` })
    }
  }
  return origin
}

/** `scd2` writes two columns, which need different names. */
function checkHistoryColumns({ config, errors }: ParsedConfig, origin: ReadonlyMap<string, Setting>): void {
  const { mergeStrategy, scdValidFrom, scdValidTo } = config
  if (mergeStrategy !== 'scd2' || scdValidFrom.toLowerCase() !== scdValidTo.toLowerCase()) return
  const { file, line } = origin.get('scd_valid_to') ??
    origin.get('scd_valid_from') ?? { file: 'config.yaml', line: undefined }
  errors.push({
    file,
    line,
    key: 'scd_valid_to',
    message: `scd_valid_to: names the same column as scd_valid_from, ${shown(scdValidTo)}`,
  })
}

/** Only a pipeline with `merge: review` has reviews. */
function warnWithoutReview({ config, warnings }: ParsedConfig, origin: ReadonlyMap<string, Setting>): void {
  if (config.merge === 'review') return
  for (const key of ['reviewers', 'review_timeout_hours']) {
    const setting = origin.get(key)
    if (setting === undefined) continue
    const { file, line } = setting
    warnings.push({ file, line, key, message: `${key} has no effect without merge: review` })
  }
}

/** Keys about stored rows. A view has none, so they must have their default. */
const ROW_KEYS = [
  'merge_strategy',
  'unique_key',
  'watermark_column',
  'partition_column',
  'partition_by',
  'target_file_size',
  'on_schema_change',
  'archive_landing_zones',
]

function checkView(
  { config, errors }: ParsedConfig,
  origin: ReadonlyMap<string, Setting>,
  source: TextFile | undefined,
): void {
  if (config.materialized !== 'view') return
  const refuseKey = (key: string, message: string) => {
    const { file, line } = origin.get(key) ?? { file: 'config.yaml', line: undefined }
    errors.push({ file, line, key, message })
  }
  if (source !== undefined && commentMarkOf(source.path) === '#')
    refuseKey('materialized', 'materialized: view needs a pipeline of type sql, not python')
  for (const key of ROW_KEYS) {
    const name = NAMES.get(key)
    if (name !== undefined && JSON.stringify(config[name]) !== JSON.stringify(DEFAULTS[name]))
      refuseKey(key, `${key} cannot be used with materialized: view, because a view stores no rows`)
  }
}

/** Python and stored views have engines of their own. */
function checkEngine(
  { config, errors }: ParsedConfig,
  origin: ReadonlyMap<string, Setting>,
  source: TextFile | undefined,
): void {
  const { engine, materialized } = config
  if (engine === 'duckdb') return
  const isPython = source !== undefined && commentMarkOf(source.path) === '#'
  if (!isPython && materialized !== 'view') return
  const { file, line } = origin.get('engine') ?? { file: 'config.yaml', line: undefined }
  const kind = isPython ? 'a pipeline of type python' : 'materialized: view'
  errors.push({ file, line, key: 'engine', message: `engine: ${engine} cannot be used with ${kind}` })
}

function has(config: PipelineConfig, key: 'unique_key' | 'partition_column'): boolean {
  return key === 'unique_key' ? config.uniqueKey.length > 0 : config.partitionColumn !== ''
}

function annotationSettings({ path, text: source }: TextFile): Setting[] {
  return readAnnotations(source, commentMarkOf(path)).map(({ key, value, line }) => ({
    file: path,
    line,
    key,
    value,
  }))
}

function yamlSettings({ path, text: yaml }: TextFile, errors: ConfigProblem[]): Setting[] {
  const unreadable = (message: string, line?: number): Setting[] => {
    errors.push({ file: path, line, key: '', message })
    return []
  }
  if (new TextEncoder().encode(yaml).length > CONFIG_LIMITS.bytes)
    return unreadable(`the file is larger than ${CONFIG_LIMITS.bytes} bytes`)
  const lines = new LineCounter()
  const document = readYaml(yaml, lines)
  const [fault] = document.errors
  // Values are built only from a document without errors: a document that the parser rejected can be slow to build.
  if (fault !== undefined)
    return unreadable(
      // The parser's own message for this error addresses programmers, not authors.
      fault.code === 'MULTIPLE_DOCS'
        ? 'the file contains more than one YAML document: --- is allowed only at its beginning'
        : `not valid YAML: ${fault.message}`,
      lines.linePos(fault.pos[0]).line,
    )
  if (document.contents === null || (isScalar(document.contents) && document.contents.value === null))
    return []
  if (!isMap<ParsedNode, ParsedNode | null>(document.contents))
    return unreadable('the file must be a YAML mapping of keys to values')
  const settings: Setting[] = []
  for (const { key: keyNode, value: valueNode } of document.contents.items) {
    const key = isScalar(keyNode) ? String(keyNode.value) : ''
    const { line } = lines.linePos(keyNode.range[0])
    try {
      const value: unknown = valueNode?.toJS(document, { maxAliasCount: YAML_ALIASES }) ?? null
      // A key without a value (`key:`) keeps its default.
      if (value !== null) settings.push({ file: path, line, key, value })
    } catch (error) {
      if (!(error instanceof ReferenceError)) throw error
      errors.push({
        file: path,
        line,
        key,
        message: `${key}: a YAML alias is unknown, or the file uses more than ${YAML_ALIASES} aliases`,
      })
    }
  }
  return settings
}
