import { type DuckType, parseDuckType, renderDuckType } from '../../../lake/iceberg/format/duckdb-type.ts'
import { shown } from '../../../lake/pipeline/names.ts'
import { quoteIdentifier, quoteLiteral } from '../../../lake/quote.ts'
import { argument, callWith, isDetecting } from './calls.ts'
import { landingName } from './csv-fault.ts'
import { contentOf } from './files.ts'
import { hasRenamed, objectsCall, warnOfKeys } from './json-keys.ts'
import { type JsonFindings, JsonScan } from './json-scan.ts'
import {
  dateFormat,
  FILE_ARGUMENT,
  FILE_COLUMN,
  factsOf,
  placeOf,
  type Reader,
  refusal,
  type Texts,
  valueBeside,
} from './reader.ts'
import { isChanged, isFloat, isKept, numberType } from './text-types.ts'
import { lossSql, warnOfLoss } from './typed-loss.ts'

// JSON: DuckDB looks at all rows, and the types that it chooses are checked against the values as written.

/** An object with more keys of one type is a MAP, whose keys are data. */
const STRUCT_KEYS = 1_000
/** Levels of objects and arrays. The engine needs seconds for a thousand levels, and ends at ten thousand. */
const DEPTH_MAX = 200
/** Values with types of the author that are looked at. Each needs a read of the files. */
const EXAMINED_LEAVES = 100

const LOOK_AT_ALL = {
  sample_size: '-1',
  union_by_name: 'true',
  map_inference_threshold: String(STRUCT_KEYS),
  maximum_sample_files: '-1',
}

/** A part of a column whose type needs a look at its values. */
interface Leaf {
  /** As people know it: `o.items[].qty`. */
  name: string
  column: string
  /** A JSON path below the column. */
  path: string
  isMany: boolean
  /** The key of its values in the files, in lower case. Null: the values have different keys, or none. */
  key: string | null
  type: string
}

/** The arguments to add to a call of `read_json`. Throws for values that no type keeps, and for dates with two meanings. */
export async function jsonArguments(reader: Reader): Promise<Record<string, string>> {
  const { call } = reader
  // The engine parses nested values by recursion, so no value reaches it before this check.
  const found = await scanned(reader)
  if (call.kind === 'json_objects') return {}
  if (argument(call, 'columns') !== undefined) return typedArguments(reader)
  if (!isDetecting(call)) return {}
  const all = Object.fromEntries(
    Object.entries(LOOK_AT_ALL).filter(
      ([name]) => name === 'sample_size' || argument(call, name) === undefined,
    ),
  )
  const described = await reader.describe(callWith(call, { ...all, filename: null }))
  // Such arguments of the author can leave out keys.
  const isPartial = argument(call, 'union_by_name', 'maximum_sample_files', 'ignore_errors') !== undefined
  if (isPartial && argument(call, 'records') === undefined && !described.some(({ name }) => name === 'json'))
    await warnOfKeys(reader, described)
  const types = new Map<string, DuckType>()
  const formats: Record<string, string> = {}
  for (const { name, type } of described) types.set(name, parseDuckType(type))
  const leaves = [...types].flatMap(([name, type]) =>
    leavesOf(type, {
      name,
      column: name,
      path: '$',
      isMany: false,
      key: name === 'json' ? null : name.toLowerCase(),
    }),
  )
  const open = leaves.filter((leaf) => leaf.type === 'JSON' || isOpen(leaf, found))
  const mayRound = open.some(({ type }) => type === 'DOUBLE')
  if (await hasRenamed(reader, described, mayRound)) return all
  if (found.hasLongDecimals && mayRound) await refuseLongNumbers(reader)
  for (const leaf of open) {
    const type = await leafType(reader, leaf, formats)
    const whole = types.get(leaf.column)
    if (type !== leaf.type && whole !== undefined) types.set(leaf.column, replaced(whole, leaf, type))
  }
  const columns = [...types].map(
    ([name, type]) => `${quoteLiteral(name)}: ${quoteLiteral(renderDuckType(type, quoteIdentifier))}`,
  )
  return columns.length === 0 ? all : { columns: `{${columns.join(', ')}}`, ...formats }
}

/**
 * The formats of the dates to which the author gave a type. Throws for dates with two meanings, and warns of values that the types
 * change.
 */
async function typedArguments(reader: Reader): Promise<Record<string, string>> {
  const { call } = reader
  const formats: Record<string, string> = {}
  const described = await reader.describe(callWith(call, { filename: null }))
  const leaves = described.flatMap(({ name, type }) =>
    leavesOf(parseDuckType(type), { name, column: name, path: '$', isMany: false, key: null }, canChange),
  )
  if (argument(call, 'records') === undefined) await warnOfKeys(reader, described)
  for (const leaf of leaves.slice(0, EXAMINED_LEAVES)) {
    const texts = valuesOf(reader, leaf)
    const options = dateOptions(leaf.type)
    const isFormatted = options !== null && argument(call, ...options) !== undefined
    if (options !== null && !isFormatted) {
      const [beside] = await reader.rows(
        `SELECT v FROM ${texts.from} WHERE NOT ${isKept('v', leaf.type)} LIMIT 1`,
      )
      const format = beside === undefined ? null : await dateFormat(reader, texts)
      if (format !== null) formats[options[0]] ??= quoteLiteral(format)
    }
    if (!isFormatted && (options === null || formats[options[0]] === undefined))
      await warnOfLoss(reader, texts, leaf.type)
  }
  return formats
}

/** The findings in the bytes of all files. Throws for values that are nested too deeply. */
async function scanned({ call, files, warn }: Reader): Promise<JsonFindings> {
  const isByLine = argument(call, 'ignore_errors') !== undefined
  const scan = new JsonScan(isByLine)
  for (const file of files) {
    for await (const chunk of contentOf(call, file)) {
      scan.add(chunk)
      if (scan.depth > DEPTH_MAX)
        throw refusal(`${landingName(file)} has JSON of more than ${DEPTH_MAX} levels: flatten its values`)
    }
    scan.end()
    const { tooSmall } = scan.found
    if (tooSmall === null || call.kind === 'json_objects') continue
    const text = `${placeOf(file, tooSmall.key)}: ${shown(tooSmall.value)} is read as 0: write the number as a text in the file`
    if (argument(call, 'columns') === undefined) throw refusal(text)
    warn(text)
    scan.found.tooSmall = null
  }
  return scan.found
}

/** True if a leaf needs a look at its values. */
function isOpen({ type, key }: Leaf, found: JsonFindings): boolean {
  if (type !== 'DOUBLE') return found.hasOtherDates || (found.hasZones && found.hasLocalTimes)
  // The engine adds a number to keys that differ in case only.
  const isAny = key === null || /_\d+$/.test(key) || found.longWholes === null
  return (
    found.hasLongDecimals ||
    (isAny && found.longWholes?.size !== 0) ||
    found.longWholes?.has(key ?? '') === true
  )
}

/** The parts of a type that can hide a changed value. */
function leavesOf(type: DuckType, at: Omit<Leaf, 'type'>, isLeaf = isDetected): Leaf[] {
  switch (type.kind) {
    case 'scalar':
    case 'decimal': {
      const name = renderDuckType(type, quoteIdentifier)
      return isLeaf(name) ? [{ ...at, type: name }] : []
    }
    case 'list':
      return leavesOf(
        type.element,
        { ...at, name: `${at.name}[]`, path: `${at.path}[*]`, isMany: true },
        isLeaf,
      )
    case 'map':
      return leavesOf(
        type.value,
        { ...at, name: `${at.name}.*`, path: `${at.path}.*`, isMany: true, key: null },
        isLeaf,
      )
    case 'struct':
      return type.fields.flatMap((field) =>
        leavesOf(
          field.type,
          {
            ...at,
            name: `${at.name}.${field.name}`,
            path: `${at.path}.${JSON.stringify(field.name)}`,
            key: field.name.toLowerCase(),
          },
          isLeaf,
        ),
      )
  }
}

/** The types that can change a value of a file. */
const canChange = (type: string) => lossSql('v', type) !== null || dateOptions(type) !== null

/** The types among those that the engine detects. */
const isDetected = (type: string) => ['DOUBLE', 'JSON', 'DATE', 'TIMESTAMP'].includes(type)

/** The type with another type at one leaf. */
function replaced(type: DuckType, leaf: Leaf, by: string): DuckType {
  const rest = leaf.path
  const walk = (at: DuckType, path: string): DuckType => {
    if (path === rest) return parseDuckType(by)
    if (at.kind === 'list') return { ...at, element: walk(at.element, `${path}[*]`) }
    if (at.kind === 'map') return { ...at, value: walk(at.value, `${path}.*`) }
    if (at.kind !== 'struct') return at
    const fields = at.fields.map((field) => {
      const below = `${path}.${JSON.stringify(field.name)}`
      return rest.startsWith(below) ? { ...field, type: walk(field.type, below) } : field
    })
    return { ...at, fields }
  }
  return walk(type, '$')
}

/** The values of a leaf as text, with their kind of JSON value. */
function valuesOf({ call }: Reader, { column, path, isMany, name }: Leaf): Texts {
  const columns = `{${quoteLiteral(column)}: 'JSON'}`
  const source = callWith(call, { ...FILE_ARGUMENT, columns, sample_size: null })
  const found = `json_extract(${quoteIdentifier(column)}, ${quoteLiteral(path)})`
  return {
    column: name,
    from: `(SELECT trim(json_extract_string(e, '$')) AS v, json_type(e) AS kind, file FROM (SELECT ${isMany ? `unnest(${found})` : found} AS e, ${FILE_COLUMN} AS file FROM ${source}) WHERE json_type(e) <> 'NULL')`,
  }
}

async function leafType(reader: Reader, leaf: Leaf, formats: Record<string, string>): Promise<string> {
  const texts = valuesOf(reader, leaf)
  switch (leaf.type) {
    case 'DOUBLE':
      return exactType(reader, texts)
    case 'JSON':
      return kindOf(reader, texts)
    default:
      return dateType(reader, texts, { type: leaf.type, formats })
  }
}

async function exactType(reader: Reader, texts: Texts): Promise<string> {
  // Most numbers are short, or floats of programs. The facts about all values cost many times as much as this filter.
  const [other] = await reader.rows(
    `SELECT v FROM ${texts.from} WHERE NOT (${isKept('v', 'DOUBLE')} OR ${isFloat('v')}) LIMIT 1`,
  )
  if (other === undefined) return 'DOUBLE'
  const facts = await factsOf(reader, texts.from)
  const type = facts.values === 0 ? 'DOUBLE' : numberType(facts)
  if (type !== null) return type
  const [[value, file = null] = []] = await reader.rows(
    `SELECT v, file FROM ${texts.from} WHERE ${isChanged('v')} LIMIT 1`,
  )
  throw refusal(
    `${placeOf(file, texts.column)}: no number type keeps ${shown(value ?? '')} and the other values: write the numbers as texts in the file`,
  )
}

const NUMBERS = ['BIGINT', 'UBIGINT', 'HUGEINT', 'UHUGEINT', 'DOUBLE']

/** The type of values of different kinds: text for numbers and texts, JSON for anything with objects or arrays. */
async function kindOf(reader: Reader, { from, column }: Texts): Promise<string> {
  const found = await reader.rows(
    `SELECT kind, min(v), min(file) FROM ${from} GROUP BY kind ORDER BY count(*)`,
  )
  const kinds = new Map(
    found.map(([kind, value, file]) => [kind ?? '', { value: value ?? '', file: file ?? null }]),
  )
  const boolean = kinds.get('BOOLEAN')
  const hasNumbers = NUMBERS.some((kind) => kinds.has(kind))
  if (boolean !== undefined && hasNumbers)
    throw refusal(
      `${placeOf(boolean.file, column)}: ${boolean.value} stands between numbers: correct the file, or read all columns as written (columns={...: 'JSON'})`,
    )
  if (kinds.size < 2) return 'JSON'
  const isScalar = !kinds.has('OBJECT') && !kinds.has('ARRAY')
  const [[kind, { value, file }] = ['', { value: '', file: null }]] = kinds
  reader.warn(
    `${placeOf(file, column)}: ${shown(value)} is of another kind (${kind}) than other values: the whole column is read as ${isScalar ? 'text' : 'JSON'}`,
  )
  return isScalar ? 'VARCHAR' : 'JSON'
}

const TIMESTAMP_OPTIONS = ['timestampformat', 'timestamp_format'] as const
/** The names of the argument with the format of a type; null: values of the type have no format. */
function dateOptions(type: string): readonly [string, string] | null {
  if (type === 'DATE') return ['dateformat', 'date_format']
  return type === 'TIMESTAMP' ? TIMESTAMP_OPTIONS : null
}

async function dateType(
  reader: Reader,
  texts: Texts,
  { type, formats }: { type: string; formats: Record<string, string> },
): Promise<string> {
  const { call } = reader
  const [option, other] = dateOptions(type) ?? TIMESTAMP_OPTIONS
  if (argument(call, option, other) !== undefined) return type
  const [beside] = await reader.rows(`SELECT v FROM ${texts.from} WHERE NOT ${isKept('v', type)} LIMIT 1`)
  if (beside === undefined) return type
  const { values, date, timestamp, timestamptz } = await factsOf(reader, texts.from)
  if (values === date) return type
  if (values === timestamp) return 'TIMESTAMP'
  if (values === timestamptz) return type
  const format = await dateFormat(reader, texts)
  const quoted = format === null ? null : quoteLiteral(format)
  if (quoted !== null && (formats[option] ?? quoted) === quoted) {
    formats[option] = quoted
    return type
  }
  const { value, file } = await valueBeside(reader, texts, type)
  reader.warn(
    `${placeOf(file, texts.column)}: ${shown(value)} is not of type ${type}: the whole column is read as text`,
  )
  return 'VARCHAR'
}

/** A number with decimals and so many characters is looked at. */
const LONG_NUMBER = '[0-9][0-9.]{16}'
const STRING = String.raw`"(?:[^"\\]|\\.)*"`
const DECIMALS = String.raw`-?[0-9]+\.[0-9]+(?:[eE][-+]?[0-9]+)?`
/** Characters of a row that a message may need. */
const ROW_CHARACTERS = 100_000

/** Refuses amounts that the JSON reader would round: it reads each number with decimals as a DOUBLE. */
async function refuseLongNumbers(reader: Reader): Promise<void> {
  const { call, rows } = reader
  const json = 'CAST(json AS VARCHAR)'
  const numbers = `regexp_extract_all(regexp_replace(${json}, ${quoteLiteral(STRING)}, '""', 'g'), ${quoteLiteral(DECIMALS)})`
  const [found] = await rows(
    `SELECT v, file, row FROM (
      SELECT unnest(${numbers}) AS v, ${FILE_COLUMN} AS file, ${json}[:${ROW_CHARACTERS}] AS row
      FROM ${objectsCall(call)} WHERE regexp_matches(${json}, ${quoteLiteral(LONG_NUMBER)})
    ) WHERE ${isChanged('v')} LIMIT 1`,
  )
  if (found === undefined) return
  const [value = '', file = null, row = ''] = found
  const before = (row ?? '').slice(0, (row ?? '').indexOf(value ?? ''))
  const key = [...before.matchAll(/"((?:[^"\\]|\\.)*)"\s*:/g)].at(-1)?.[1] ?? 'json'
  throw refusal(
    `${placeOf(file, key)}: ${shown(value ?? '')} has more digits than a JSON number keeps: write the value as a text in the file`,
  )
}
