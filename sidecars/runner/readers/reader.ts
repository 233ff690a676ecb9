import { EngineError } from '../../../lake/engine/error.ts'
import type { Column } from '../../../lake/engine/instance.ts'
import { shown } from '../../../lake/pipeline/names.ts'
import { quoteIdentifier } from '../../../lake/quote.ts'
import type { ReaderCall } from './calls.ts'
import { landingName } from './csv-fault.ts'
import { differsSql, fitsSql, formatsOf } from './date-formats.ts'
import { factsSql, isKept, type TextFacts, trimmed } from './text-types.ts'

/** A call of a reader, and means to look at its files. */
export interface Reader {
  call: ReaderCall
  /** The files that the call reads, in the order of their names. */
  files: readonly string[]
  /** The result becomes a new table. */
  isNewTable: boolean
  describe(sql: string): Promise<Column[]>
  /** Runs a query whose result is small. */
  rows(sql: string): Promise<(string | null)[][]>
  warn(text: string): void
}

/** A source of texts: SQL of rows with the columns `v` and `file`. */
export interface Texts {
  column: string
  from: string
}

/** The name of the added column with the file of a row. */
export const FILE_COLUMN = 'sluice_file'
export const FILE_ARGUMENT = { filename: `'${FILE_COLUMN}'` } as const

/** Refuses the files of a call, because no value may change in silence. */
export const refusal = (text: string): EngineError => new EngineError('other', text)

/** The place of a value, as people know it: `landing/z/a.csv, column qty`. */
export const placeOf = (file: string | null, column: string): string =>
  `${landingName(file ?? '')}, column ${shown(column)}`

/** The facts about the texts `v` of a source. */
export async function factsOf(reader: Reader, from: string): Promise<TextFacts> {
  const [row = []] = await reader.rows(`SELECT ${Object.values(factsSql('v')).join(', ')} FROM ${from}`)
  return factsIn(row)
}

/** The facts in the values of `factsSql`. */
export function factsIn(row: readonly (string | null)[]): TextFacts {
  const names = Object.keys(factsSql('v'))
  return Object.fromEntries(names.map((name, at) => [name, Number(row[at] ?? 0)])) as unknown as TextFacts
}

/** A value that the type does not keep, and its file. */
export async function valueBeside(
  reader: Reader,
  { from }: Texts,
  type: string,
): Promise<{ value: string; file: string | null }> {
  const [[value, file] = []] = await reader.rows(
    `SELECT v, file FROM ${from} WHERE v IS NOT NULL AND NOT ${isKept('v', type)} LIMIT 1`,
  )
  return { value: value ?? '', file: file ?? null }
}

/** The one format of all values; null: some values are not dates. Throws if the values have two meanings. */
export async function dateFormat(reader: Reader, texts: Texts): Promise<string | null> {
  const { from, column } = texts
  const { value } = await valueBeside(reader, texts, 'TIMESTAMP')
  const formats = formatsOf(value)
  if (formats.length === 0) return null
  const any = `count(coalesce(${formats.map((format) => `try_strptime(v, '${format}')`).join(', ')}))`
  const [row = []] = await reader.rows(
    `SELECT count(v), ${any}, ${fitsSql('v', formats).join(', ')} FROM ${from}`,
  )
  const [values, dates, ...counts] = row.map(Number)
  if (values !== dates) return null
  const fitting = formats.filter((_, index) => counts[index] === values)
  const [only] = fitting
  const meanings = only === undefined ? formats : fitting
  const differs = only === undefined ? `try_strptime(v, '${formats[0]}') IS NULL` : differsSql('v', fitting)
  const [different] = await reader.rows(`SELECT v, file FROM ${from} WHERE ${differs} LIMIT 1`)
  if (only !== undefined && different === undefined) return only
  const [example, file = null] = different ?? []
  const option = meanings[0]?.includes(':') ? 'timestampformat' : 'dateformat'
  const reason =
    only === undefined ? 'the files write dates in different orders' : 'the date has two meanings'
  throw refusal(
    `${placeOf(file, column)}: ${shown(example ?? value)}: ${reason}: give the reader the format (${option}='${meanings[0]}' or '${meanings[1]}'), or read the column as text`,
  )
}

/** SQL of the texts of one column of a source. */
export const textsOf = (column: string, source: string, value = trimmed(quoteIdentifier(column))): Texts => ({
  column,
  from: `(SELECT ${value} AS v, ${FILE_COLUMN} AS file FROM ${source})`,
})

const FATAL: ReadonlySet<string> = new Set(['interrupted', 'out_of_memory', 'broken'])

/** True for an error after which the engine or the attempt cannot go on. */
export const isFatal = ({ kind }: EngineError): boolean => FATAL.has(kind)

/** Null: the engine has refused a query about the files. A refusal of the files is thrown. */
export async function orNull<Result>(work: Promise<Result>): Promise<Result | null> {
  try {
    return await work
  } catch (error) {
    const isEngines = error instanceof EngineError && error.cause !== undefined
    if (isEngines && !isFatal(error)) return null
    throw error
  }
}

/** The columns such as `name_1` beside `name`. The engine gives such a name to the second of two equal names. */
export const numbered = (columns: readonly Column[]): string[] => {
  const names = new Set(columns.map(({ name }) => name.toLowerCase()))
  return columns.flatMap(({ name }) => {
    const [, stem] = /^(.*)_\d+$/.exec(name) ?? []
    return stem !== undefined && names.has(stem.toLowerCase()) ? [name] : []
  })
}
