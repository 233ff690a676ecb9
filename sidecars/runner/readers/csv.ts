import type { Column } from '../../../lake/engine/instance.ts'
import { tokensOf } from '../../../lake/engine/tokens.ts'
import { shown } from '../../../lake/pipeline/names.ts'
import { quoteIdentifier, quoteLiteral } from '../../../lake/quote.ts'
import { argument, type Changes, callWith, canUnite, isDetecting, ofFiles, type ReaderCall } from './calls.ts'
import { landingName } from './csv-fault.ts'
import {
  commonFormat,
  compareColumns,
  compareFormats,
  DELIMITER,
  sniffCall,
  warnOfEqualNames,
} from './csv-formats.ts'
import { lineChanges } from './csv-lines.ts'
import { mayEndInQuote, openQuote } from './cut-files.ts'
import { compressionOf } from './files.ts'
import {
  dateFormat,
  FILE_ARGUMENT,
  factsIn,
  placeOf,
  type Reader,
  refusal,
  type Texts,
  textsOf,
  valueBeside,
} from './reader.ts'
import { factsSql, isCode, isKept, trimmed, typeOf } from './text-types.ts'
import { lossSql, warnOfLoss } from './typed-loss.ts'

// CSV: DuckDB chooses types by the first rows of each file. Here all values are read as text once, and each column gets the type
// that keeps all of them.

/** The names of one argument. */
const TYPES = ['types', 'dtypes', 'column_types']
/** Arguments with which an author chooses the types. */
const OWN_TYPES = ['all_varchar', 'auto_type_candidates']
const SAMPLED_ROWS = 20_480
/** Columns of one query of aggregates. */
const COLUMNS_AT_ONCE = 64
/** Columns whose values are looked at one by one. */
const EXAMINED_COLUMNS = 100

/** The arguments to add to a call of `read_csv`, and its files that are not empty. Throws for dates with two meanings. */
export async function csvChanges(reader: Reader): Promise<Changes> {
  if (!isDetecting(reader.call)) return { more: await columnArguments(reader), files: null }
  const { more, files, opened } = await lineChanges(reader)
  const kept = files === null ? reader : { ...reader, files, call: ofFiles(reader.call, files) }
  const given = Object.entries(more).map(([name, text]) => ({ name, text }))
  const call = { ...kept.call, arguments: [...kept.call.arguments, ...given] }
  return { more: { ...more, ...(await columnArguments({ ...kept, call }, opened)) }, files }
}

async function columnArguments(
  reader: Reader,
  opened: ReadonlySet<string> = new Set(),
): Promise<Record<string, string>> {
  const { call } = reader
  const columns = argument(call, 'columns')
  const names = argument(call, 'names', 'column_names')
  if (columns !== undefined) await compareColumns(reader, keysOf(columns))
  else if (names !== undefined) await compareColumns(reader, textsIn(names))
  if (!isDetecting(call)) return columns === undefined ? {} : ownFormats(reader, 'columns')
  if (argument(call, 'quote', 'encoding') === undefined) await refuseOpenQuotes(reader)
  if (columns !== undefined) return ownFormats(reader, 'columns')
  const { delimiters } = await compareFormats(reader)
  const byName: Record<string, string> = canUnite(call) ? { union_by_name: 'true' } : {}
  const types = argument(call, ...TYPES)
  const isOwn = OWN_TYPES.some((name) => argument(call, name) !== undefined)
  if (isOwn || (types !== undefined && !types.startsWith('{')))
    return { ...byName, ...(await ownFormats(reader, typesName(call), byName)) }
  const given = new Set(types === undefined ? [] : keysOf(types))
  const format = types === undefined ? await commonFormat(reader, opened) : null
  const described = await reader.describe(
    format === null ? callWith(call, { ...byName, filename: null }) : format.sample,
  )
  noteOneColumn(reader, described)
  await warnOfEqualNames(reader, described)
  const open = described.filter(({ name }) => !given.has(name.toLowerCase()))
  const found = await typesOf(reader, open, (text) =>
    format === null
      ? callWith(call, { ...byName, ...typesArgument(call, text), ...FILE_ARGUMENT })
      : callWith(call, { ...format.arguments, columns: structOf(text), ...FILE_ARGUMENT }),
  )
  if (delimiters.has(';')) await warnOfThousands(reader, found.columns, found.asText)
  if (format !== null) return { ...format.arguments, ...found.formats, columns: structOf(found.columns) }
  const own = types === undefined ? {} : await ownFormats(reader, typesName(call), byName)
  return { ...byName, ...own, ...found.formats, ...typesArgument(call, found.columns) }
}

/** Refuses files that end within a quote. Without a strict format with quotes, the engine reads a quote as a part of the value. */
async function refuseOpenQuotes({ call, files, rows }: Reader): Promise<void> {
  for (const file of files) {
    if (compressionOf(call, file) !== 'none' || !mayEndInQuote(file)) continue
    const [[quote, count, first] = []] = await rows(
      `SELECT "Quote", len("Columns")::VARCHAR, "Columns"[1].name FROM ${sniffCall(call, file)}`,
    )
    const isOneOfAll = count === '1' && DELIMITER.test(first ?? '')
    if (quote === '(empty)' && !isOneOfAll) throw openQuote(file)
  }
}

/** A wrong number of values in some lines makes one column of all. A table that exists refuses such a column. */
function noteOneColumn({ call, files, warn, isNewTable }: Reader, columns: readonly Column[]): void {
  const [{ name } = { name: '' }] = columns
  if (columns.length !== 1 || !DELIMITER.test(name) || argument(call, 'delim', 'sep') !== undefined) return
  const text = `${landingName(files[0] ?? '')} is read as one column ${shown(name)}: its lines have different numbers of values: correct the file, or give the reader delim`
  if (isNewTable) throw refusal(text)
  warn(text)
}

/**
 * The formats of the dates to which the author gave a type. Without a format, the engine chooses one for each file. Throws for
 * dates with two meanings.
 */
async function ownFormats(
  reader: Reader,
  typed: string,
  byName: Record<string, string> = {},
): Promise<Record<string, string>> {
  const { call } = reader
  const described = await reader.describe(callWith(call, { ...byName, filename: null }))
  const dates = described.filter(({ type }) => type === 'DATE' || type.startsWith('TIMESTAMP'))
  const texts = structOf(described.map(({ name }) => ({ name, type: 'VARCHAR' })))
  const asText = callWith(call, { ...byName, [typed]: texts, ...FILE_ARGUMENT })
  const formats: Record<string, string> = {}
  for (const column of (await offColumns(reader, dates, asText)).slice(0, EXAMINED_COLUMNS))
    await datedType(reader, column, { asText, formats })
  await warnOfLosses(reader, typed, { described, asText, formats })
  return formats
}

/** Warns of values that the types of the author change. A format that applies to dates says what the author means. */
async function warnOfLosses(
  reader: Reader,
  typed: string,
  { described, asText, formats }: { described: readonly Column[]; asText: string; formats: object },
): Promise<void> {
  const { call } = reader
  const given = argument(call, typed) ?? ''
  const keys = given.startsWith('{') ? new Set(keysOf(given)) : null
  const isFormatted = (name: string) => name in formats || argument(call, name) !== undefined
  const columns = described.filter(
    ({ name, type }) =>
      keys?.has(name.toLowerCase()) !== false &&
      lossSql('v', type) !== null &&
      !(type === 'DATE' && isFormatted('dateformat')) &&
      !(type === 'TIMESTAMP' && isFormatted('timestampformat')),
  )
  const found = await ofEach(reader, columns, asText, (value, type) => [
    `count(*) FILTER (WHERE ${lossSql(value, type) ?? 'false'})`,
  ])
  const lossy = columns.filter((_, index) => Number(found[index]?.[0] ?? 0) > 0)
  for (const { name, type } of lossy.slice(0, EXAMINED_COLUMNS))
    await warnOfLoss(reader, textsOf(name, asText, textOf(call, quoteIdentifier(name), type)), type)
}

interface Found {
  columns: Column[]
  /** The arguments `dateformat` and `timestampformat`. */
  formats: Record<string, string>
  /** The call that reads the columns as texts. */
  asText: string
}

/** Chooses the types by all values. `textCall` reads the columns with these types. */
async function typesOf(
  reader: Reader,
  columns: readonly Column[],
  textCall: (columns: readonly Column[]) => string,
): Promise<Found> {
  const { call } = reader
  const asText = textCall(columns.map(({ name }) => ({ name, type: 'VARCHAR' })))
  const off = await offColumns(reader, await uncertain(reader, columns, asText), asText)
  const types = new Map(columns.map(({ name, type }) => [name, type]))
  const formats: Record<string, string> = {}
  const facts = await ofEach(reader, off, asText, (value) => Object.values(factsSql(value)))
  let unexamined = 0
  for (const [index, column] of off.entries()) {
    const { name, type } = column
    const counts = factsIn(facts[index] ?? [])
    const chosen = typeOf(counts)
    if (chosen !== null) {
      if (chosen === 'DOUBLE' && counts.codes > 0) await warnOfCode(reader, textsOf(name, asText))
      types.set(name, chosen)
      continue
    }
    if (index >= EXAMINED_COLUMNS) {
      types.set(name, 'VARCHAR')
      unexamined += 1
      continue
    }
    const dated = await datedType(reader, column, { asText, formats })
    if (dated !== null) types.set(name, dated)
    else if (type !== 'VARCHAR' && argument(call, 'ignore_errors', 'store_rejects') === undefined) {
      types.set(name, 'VARCHAR')
      const texts = textsOf(name, asText, textOf(call, quoteIdentifier(name), type))
      const { value, file } = await valueBeside(reader, texts, type)
      reader.warn(
        `${placeOf(file, name)}: ${shown(value)} is not of type ${type}: the whole column is read as text`,
      )
    }
  }
  if (unexamined > 0)
    reader.warn(
      `${unexamined} more columns with values of different types, or dates without an ISO format, are read as text`,
    )
  return {
    columns: columns.map(({ name }) => ({ name, type: types.get(name) ?? 'VARCHAR' })),
    formats,
    asText,
  }
}

/** Warns of a text such as `1E5`, which is a number, but also a code of a product. */
async function warnOfCode({ rows, warn }: Reader, { from, column }: Texts): Promise<void> {
  const [[value, file = null] = []] = await rows(`SELECT v, file FROM ${from} WHERE ${isCode('v')} LIMIT 1`)
  warn(
    `${placeOf(file, column)}: ${shown(value ?? '')} is read as a number with an exponent: if it is a code, write types={${quoteLiteral(column)}: 'VARCHAR'}`,
  )
}

/** Warns of numbers such as `1.234` beside semicolons. In countries with a decimal comma, such a number is 1234. */
async function warnOfThousands(reader: Reader, columns: readonly Column[], asText: string): Promise<void> {
  const { call, rows, warn } = reader
  const doubles = columns.filter(({ type }) => type === 'DOUBLE')
  if (argument(call, 'decimal_separator', 'thousands') !== undefined) return
  const counts = await ofEach(reader, doubles, asText, (value) => [
    `count(${value})`,
    `count(*) FILTER (WHERE regexp_full_match(${value}, '[-+]?\\d{1,3}\\.\\d{3}'))`,
  ])
  for (const [index, { name }] of doubles.entries()) {
    const [values, groups] = counts[index] ?? []
    if (values !== groups || values === '0') continue
    const [[value, file = null] = []] = await rows(
      `SELECT v, file FROM ${textsOf(name, asText).from} WHERE v IS NOT NULL LIMIT 1`,
    )
    warn(
      `${placeOf(file, name)}: ${shown(value ?? '')} is read as a number with three decimals, like all values of the column: if the point separates thousands, write thousands='.', decimal_separator=','`,
    )
  }
}

/** The columns with values that their types do not keep. */
async function offColumns(reader: Reader, columns: readonly Column[], asText: string): Promise<Column[]> {
  const off = await ofEach(reader, columns, asText, (value, type) => [offSql(value, type)])
  return columns.filter((_, index) => Number(off[index]?.[0] ?? 0) > 0)
}

/**
 * Aggregates of the texts of each column. The engine's time for aggregates of many columns grows with the square of their
 * number, so the values of many columns become rows of one.
 */
async function ofEach(
  { call, rows }: Reader,
  columns: readonly Column[],
  asText: string,
  aggregates: (value: string, type: string) => string[],
): Promise<(string | null)[][]> {
  if (columns.length === 0) return []
  if (columns.length <= COLUMNS_AT_ONCE) {
    const values = columns.map(
      ({ name, type }, index) => `${textOf(call, quoteIdentifier(name), type)} AS v${index}`,
    )
    const each = columns.map(({ type }, index) => aggregates(`v${index}`, type))
    const [row = []] = await rows(
      `SELECT ${each.flat().join(', ')} FROM (SELECT ${values.join(', ')} FROM ${asText})`,
    )
    const width = row.length / columns.length
    return columns.map((_, index) => row.slice(index * width, (index + 1) * width))
  }
  const found = new Map<Column, (string | null)[]>()
  for (const [type, own] of Map.groupBy(columns, (column) => column.type)) {
    const list = own.map(({ name }) => quoteIdentifier(name)).join(', ')
    const values = `SELECT unnest(range(len(l))) AS i, unnest(l) AS v FROM (SELECT [${list}] AS l FROM ${asText})`
    const answers = await rows(
      `SELECT i, ${aggregates('v', type).join(', ')} FROM (SELECT i, ${textOf(call, 'v', type)} AS v FROM (${values})) GROUP BY i`,
    )
    for (const [index, ...row] of answers) {
      const column = own[Number(index)]
      if (column !== undefined) found.set(column, row)
    }
  }
  return columns.map((column) => found.get(column) ?? [])
}

/** The type of dates in one format. All such columns of a call have the same format. Null: no dates. */
async function datedType(
  reader: Reader,
  column: Column,
  { asText, formats }: { asText: string; formats: Record<string, string> },
): Promise<string | null> {
  const { name, type } = column
  const kept = type === 'DATE' ? 'dateformat' : 'timestampformat'
  if (type !== 'DATE' && !type.startsWith('TIMESTAMP')) return null
  // The reader applies the author's format to every value, or fails.
  if (argument(reader.call, kept) !== undefined) return type
  const format = await dateFormat(reader, textsOf(name, asText))
  if (format === null) return null
  const option = format.includes(':') ? 'timestampformat' : 'dateformat'
  const quoted = quoteLiteral(format)
  if ((formats[option] ?? quoted) !== quoted || argument(reader.call, option) !== undefined) return null
  formats[option] = quoted
  return option === 'dateformat' ? 'DATE' : 'TIMESTAMP'
}

/** The columns whose type could be wrong: all but text. A column without values in the sample has no type yet. */
async function uncertain(reader: Reader, columns: readonly Column[], asText: string): Promise<Column[]> {
  const texts = columns.filter(({ type }) => type === 'VARCHAR')
  const typed = columns.filter(({ type }) => type !== 'VARCHAR')
  if (reader.files.length > 1 || texts.length === 0 || texts.length > COLUMNS_AT_ONCE)
    return [...typed, ...texts]
  const counts = texts.map(({ name }) => `count(${quoteIdentifier(name)})`).join(', ')
  const [row = []] = await reader.rows(`SELECT ${counts} FROM (FROM ${asText} LIMIT ${SAMPLED_ROWS})`)
  return [...typed, ...texts.filter((_, index) => Number(row[index]) === 0)]
}

/** SQL of the number of values that need another type. A text column stays text if one value is only text. */
function offSql(value: string, type: string): string {
  // Programs write a sign in an exponent. Without a sign, the values need a look.
  const kept = isKept(value, type, '[-+]')
  return type === 'VARCHAR'
    ? `CASE WHEN count(*) FILTER (WHERE ${kept}) = 0 THEN count(${value}) ELSE 0 END`
    : `count(${value}) FILTER (WHERE NOT ${kept})`
}

/** The text of a value, with a point in numbers. */
function textOf(call: ReaderCall, value: string, type: string): string {
  const text = trimmed(value)
  const thousands = argument(call, 'thousands')
  const point = argument(call, 'decimal_separator')
  if (type !== 'DOUBLE' && type !== 'BIGINT') return text
  const plain = thousands === undefined ? text : `replace(${text}, ${thousands}, '')`
  return point === undefined ? plain : `replace(${plain}, ${point}, '.')`
}

/** The argument `types`, with the types that the author wrote. */
function typesArgument(call: ReaderCall, columns: readonly Column[]): Record<string, string> {
  const name = typesName(call)
  if (columns.length === 0) return {}
  if (argument(call, name) === undefined) return { types: structOf(columns) }
  const written = (argument(call, name) ?? '').slice(1, -1).trim().replace(/,$/, '')
  const added = structOf(columns).slice(1)
  return { [name]: written === '' ? `{${added}` : `{${written}, ${added}` }
}

/** The name by which the author gives types. */
const typesName = (call: ReaderCall): string =>
  TYPES.find((each) => argument(call, each) !== undefined) ?? 'types'

const structOf = (columns: readonly Column[]): string =>
  `{${columns.map(({ name, type }) => `${quoteLiteral(name)}: ${quoteLiteral(type)}`).join(', ')}}`

/** The texts in a list as written. */
const textsIn = (list: string): string[] =>
  tokensOf(list).flatMap(({ text }) => (text.startsWith("'") ? text.slice(1, -1).replaceAll("''", "'") : []))

/** The names in a struct as written, in lower case. */
function keysOf(struct: string): string[] {
  const tokens = tokensOf(struct)
  return tokens.flatMap(({ text, name }, index) => {
    if (tokens[index + 1]?.text !== ':') return []
    return [(name ?? text.slice(1, -1).replaceAll("''", "'")).toLowerCase()]
  })
}
