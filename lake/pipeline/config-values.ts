import { splitList } from './annotations.ts'
import { shown } from './names.ts'
import { readYaml, YAML_ALIASES } from './yaml.ts'

const PARTITION_TRANSFORMS = ['identity', 'year', 'month', 'day', 'hour'] as const

export interface PartitionBy {
  column: string
  transform: (typeof PARTITION_TRANSFORMS)[number]
}

/** A tag of a pipeline. */
const PIPELINE_TAG = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/

/** A label of a runner (`RUNNER_LABELS`), which pipelines name in `runs_on`. */
export const RUNNER_LABEL = /^[a-z0-9][a-z0-9._-]{0,62}$/

export const CONFIG_LIMITS = {
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

/** The message describes the required value and shows the given value. */
export class BadValue extends Error {}

const refuse = (rule: string, value: unknown): never => {
  throw new BadValue(`${rule}, not ${shown(value)}`)
}

export function text(value: unknown, characters: number): string {
  if (typeof value !== 'string') return refuse('must be text', value)
  if (value.length > characters)
    throw new BadValue(`must have at most ${characters} characters, not ${value.length}`)
  return value
}

export function oneOf<const Choice extends string>(value: unknown, choices: readonly Choice[]): Choice {
  const rule = choices.length === 1 ? `must be ${choices[0]}` : `must be one of ${choices.join(', ')}`
  return choices.find((choice) => choice === value) ?? refuse(rule, value)
}

export function flag(value: unknown): boolean {
  if (value === true || value === 'true') return true
  if (value === false || value === 'false') return false
  return refuse('must be true or false', value)
}

export function wholeNumber(value: unknown, max: number, min = 0): number {
  const number = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value
  if (typeof number !== 'number' || !Number.isSafeInteger(number) || number < min || number > max)
    return refuse(`must be a whole number from ${min} to ${max}`, value)
  return number
}

/** A number that may have a fraction. */
export function decimal(value: unknown, max: number): number {
  const number = typeof value === 'string' && /^\d{1,15}(\.\d{1,15})?$/.test(value) ? Number(value) : value
  if (typeof number !== 'number' || !(number >= 0 && number <= max))
    return refuse(`must be a number from 0 to ${max}`, value)
  return number
}

/** A size such as 128MB, in bytes. */
export function fileSize(value: unknown): number {
  const { min, max } = CONFIG_LIMITS.fileMegabytes
  const megabytes = typeof value === 'string' ? Number(/^(\d{1,4})\s*MB$/i.exec(value)?.[1]) : Number.NaN
  if (!(megabytes >= min && megabytes <= max))
    return refuse(`must be a size from ${min}MB to ${max}MB`, value)
  return megabytes * 1_048_576
}

/** A size such as 512MB or 16GB, in bytes. */
export function memorySize(value: unknown): number {
  const { min, max } = CONFIG_LIMITS.memoryBytes
  const [, digits, unit] = typeof value === 'string' ? (/^(\d{1,7})\s*(MB|GB)$/i.exec(value) ?? []) : []
  const bytes = Number(digits) * (unit?.toUpperCase() === 'GB' ? 1_073_741_824 : 1_048_576)
  if (!(bytes >= min && bytes <= max)) return refuse('must be a size such as 512MB or 16GB', value)
  return bytes
}

export function priority(value: unknown): number {
  const number = typeof value === 'string' && /^-?\d{1,3}$/.test(value) ? Number(value) : value
  const max = CONFIG_LIMITS.priority
  if (typeof number !== 'number' || !Number.isInteger(number) || Math.abs(number) > max)
    return refuse(`must be a whole number from -${max} to ${max}`, value)
  return number
}

export function labels(value: unknown): string[] {
  return wordsOf(value, 'labels', RUNNER_LABEL)
}

export function tags(value: unknown): string[] {
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

export function columnName(value: unknown): string {
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
export function columnNames(value: unknown): string[] {
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
export function partitions(value: unknown): PartitionBy[] {
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
