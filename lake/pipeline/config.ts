// A pipeline's configuration. Header annotations override `config.yaml` key by key, and `config.yaml` overrides the defaults.
// The same rules apply to runs, previews and publish validation.
import { isMap, isScalar, LineCounter, type ParsedNode } from 'yaml'
import { commentMarkOf, readAnnotations, splitList } from './annotations.ts'
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

const PARTITION_TRANSFORMS = ['identity', 'year', 'month', 'day', 'hour'] as const
export interface PartitionBy {
  column: string
  transform: (typeof PARTITION_TRANSFORMS)[number]
}

/** The engine for the SQL of a pipeline. `auto`: DuckDB, and then Spark when DuckDB lacks memory. */
export const ENGINES = ['duckdb', 'spark', 'auto'] as const
/** The label of runners that can execute Spark SQL. */
export const SPARK_LABEL = 'engine:spark'
/** The error of a runner without this label. */
export const NO_SPARK =
  'engine spark: this runner has neither SPARK_REMOTE nor Sail: set SPARK_REMOTE, or install pysail in its Python'

/** A tag of a pipeline. */
const PIPELINE_TAG = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/

/** A label of a runner (`RUNNER_LABELS`), which pipelines name in `runs_on`. */
export const RUNNER_LABEL = /^[a-z0-9][a-z0-9._-]{0,62}$/

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

const CONFIG_LIMITS = {
  /** The size of `config.yaml`: enough for a page of text, and far too small to overload a YAML parser. */
  bytes: 65_536,
  /** The length of a list in one text. The maximum number of columns with the longest names fits. */
  listCharacters: 16_384,
  columns: 32,
  columnNameCharacters: 255,
  descriptionCharacters: 10_000,
  retries: 100,
  /** Smaller files cost a reader more than they save. The object gateway accepts files of up to 1 GiB. */
  fileMegabytes: { min: 1, max: 512 },
  retryDelaySeconds: 86_400,
  /** One year: kept branches keep files and history of main. */
  keepFailedHours: 8_760,
  /** A year; the branch of a run in review keeps its files as long. */
  reviewTimeoutHours: 8_760,
  labels: 16,
  tags: 32,
  /** From 64 MB, with which an engine starts, to more than any machine has. */
  memoryBytes: { min: 67_108_864, max: 1_125_899_906_842_624 },
  priority: 100,
} as const

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

/** The message describes the required value and shows the given value. */
class BadValue extends Error {}

const refuse = (rule: string, value: unknown): never => {
  throw new BadValue(`${rule}, not ${shown(value)}`)
}

function text(value: unknown, characters: number): string {
  if (typeof value !== 'string') return refuse('must be text', value)
  if (value.length > characters)
    throw new BadValue(`must have at most ${characters} characters, not ${value.length}`)
  return value
}

function oneOf<const Choice extends string>(value: unknown, choices: readonly Choice[]): Choice {
  const rule = choices.length === 1 ? `must be ${choices[0]}` : `must be one of ${choices.join(', ')}`
  return choices.find((choice) => choice === value) ?? refuse(rule, value)
}

function flag(value: unknown): boolean {
  if (value === true || value === 'true') return true
  if (value === false || value === 'false') return false
  return refuse('must be true or false', value)
}

function wholeNumber(value: unknown, max: number, min = 0): number {
  const number = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value
  if (typeof number !== 'number' || !Number.isSafeInteger(number) || number < min || number > max)
    return refuse(`must be a whole number from ${min} to ${max}`, value)
  return number
}

/** A number that may have a fraction. */
function decimal(value: unknown, max: number): number {
  const number = typeof value === 'string' && /^\d{1,15}(\.\d{1,15})?$/.test(value) ? Number(value) : value
  if (typeof number !== 'number' || !(number >= 0 && number <= max))
    return refuse(`must be a number from 0 to ${max}`, value)
  return number
}

/** A size such as 128MB, in bytes. */
function fileSize(value: unknown): number {
  const { min, max } = CONFIG_LIMITS.fileMegabytes
  const megabytes = typeof value === 'string' ? Number(/^(\d{1,4})\s*MB$/i.exec(value)?.[1]) : Number.NaN
  if (!(megabytes >= min && megabytes <= max))
    return refuse(`must be a size from ${min}MB to ${max}MB`, value)
  return megabytes * 1_048_576
}

/** A size such as 512MB or 16GB, in bytes. */
function memorySize(value: unknown): number {
  const { min, max } = CONFIG_LIMITS.memoryBytes
  const [, digits, unit] = typeof value === 'string' ? (/^(\d{1,7})\s*(MB|GB)$/i.exec(value) ?? []) : []
  const bytes = Number(digits) * (unit?.toUpperCase() === 'GB' ? 1_073_741_824 : 1_048_576)
  if (!(bytes >= min && bytes <= max)) return refuse('must be a size such as 512MB or 16GB', value)
  return bytes
}

function priority(value: unknown): number {
  const number = typeof value === 'string' && /^-?\d{1,3}$/.test(value) ? Number(value) : value
  const max = CONFIG_LIMITS.priority
  if (typeof number !== 'number' || !Number.isInteger(number) || Math.abs(number) > max)
    return refuse(`must be a whole number from -${max} to ${max}`, value)
  return number
}

function labels(value: unknown): string[] {
  return wordsOf(value, 'labels', RUNNER_LABEL)
}

function tags(value: unknown): string[] {
  return wordsOf(value, 'tags', PIPELINE_TAG)
}

/** Reads a YAML list or comma-separated text, like `columnNames`. */
function wordsOf(value: unknown, noun: 'labels' | 'tags', pattern: RegExp): string[] {
  const words = listed(value)
  const max = CONFIG_LIMITS[noun]
  if (words === null || words.length > max) return refuse(`must be a list of at most ${max} ${noun}`, value)
  const wordOf = (word: unknown): string =>
    typeof word === 'string' && pattern.test(word)
      ? word
      : refuse(`must be ${noun} that match ${pattern.source}`, word)
  return [...new Set(words.map(wordOf))]
}

function columnName(value: unknown): string {
  if (
    typeof value !== 'string' ||
    value.trim() === '' ||
    value.length > CONFIG_LIMITS.columnNameCharacters ||
    /\p{Cc}/u.test(value)
  )
    return refuse('must be the name of a column', value)
  return value
}

/** Reads a YAML list or comma-separated text. An annotation may also contain a one-line YAML list. */
function columnNames(value: unknown): string[] {
  const names = listed(value)
  if (names === null) return refuse('must be a list of columns', value)
  return bounded(names.map(columnName))
}

/** The entries of a list; null for another value. */
function listed(value: unknown): unknown[] | null {
  refuseLongList(value)
  const isFlow = typeof value === 'string' && /^\[.*\]$/.test(value)
  const entries = typeof value === 'string' ? (isFlow ? yamlFlow(value) : splitList(value)) : value
  return Array.isArray(entries) ? entries : null
}

/** Reads a YAML list of `{column, transform}`. An annotation contains the list on one line. */
function partitions(value: unknown): PartitionBy[] {
  const rule = 'must be a list of {column, transform}'
  refuseLongList(value)
  const list = typeof value === 'string' ? yamlFlow(value) : value
  if (!Array.isArray(list)) return refuse(rule, value)
  const fields = list.map((field: unknown): PartitionBy => {
    if (typeof field !== 'object' || field === null || !('column' in field)) return refuse(rule, field)
    const column = columnName(field.column)
    const transform = PARTITION_TRANSFORMS.find(
      (candidate) => candidate === ('transform' in field ? field.transform : 'identity'),
    )
    const choices = PARTITION_TRANSFORMS.join(', ')
    return { column, transform: transform ?? refuse(`the transform must be one of ${choices}`, field) }
  })
  bounded(fields.map(({ column, transform }) => `${column} by ${transform}`))
  return fields
}

/** A line may be as long as a source. Megabytes of commas should not become an array. */
function refuseLongList(value: unknown): void {
  if (typeof value === 'string' && value.length > CONFIG_LIMITS.listCharacters)
    throw new BadValue(`must have at most ${CONFIG_LIMITS.listCharacters} characters, not ${value.length}`)
}

/** Parses one line of YAML; undefined when the line is not YAML. */
function yamlFlow(line: string): unknown {
  const document = readYaml(line)
  if (document.errors.length > 0) return undefined
  try {
    return document.toJS({ maxAliasCount: YAML_ALIASES })
  } catch (error) {
    if (error instanceof ReferenceError) return undefined
    throw error
  }
}

function bounded(names: string[]): string[] {
  if (names.length > CONFIG_LIMITS.columns)
    throw new BadValue(`must have at most ${CONFIG_LIMITS.columns} columns`)
  // Column names are compared without case.
  const folded = names.map((name) => name.toLowerCase())
  const repeated = names.find((name, index) => folded.indexOf(name.toLowerCase()) !== index)
  if (repeated !== undefined) throw new BadValue(`names ${shown(repeated)} twice`)
  return names
}
