import { closeSync, openSync, readSync, statSync } from 'node:fs'
import type { Column } from '../../../lake/engine/instance.ts'
import { shown } from '../../../lake/pipeline/names.ts'
import { quoteLiteral } from '../../../lake/quote.ts'
import { argument, callWith, canUnite, ofFile, type ReaderCall, storesRejects } from './calls.ts'
import { landingName } from './csv-fault.ts'
import { numbered, orNull, type Reader, refusal } from './reader.ts'

// The formats of CSV files: delimiter, quotes, header and columns, as the engine finds them in each file.

/** Arguments that change nothing about the format that the first line shows. */
const PLAIN = new Set([
  null,
  'filename',
  'union_by_name',
  'header',
  'delim',
  'sep',
  'quote',
  'escape',
  'sample_size',
])
/** Arguments that a call without types does not have. */
export const UNTYPED = { filename: null, types: null, dtypes: null, column_types: null, columns: null }
/** DuckDB needs 6 ms per file to find out its format. */
const SNIFFED_FILES = 10
/** A character that separates the values of most files. */
export const DELIMITER = /[,;|\t]/
/** Files with other first lines whose columns are compared. */
const COMPARED_FILES = 100
const SHOWN_NAMES = 10

/** SQL of the format that the engine finds in one file. */
export const sniffCall = (
  call: ReaderCall,
  file: string,
  more: Readonly<Record<string, string | null>> = {},
): string =>
  callWith({ ...ofFile(call, file), name: 'sniff_csv' }, { filename: null, union_by_name: null, ...more })

/**
 * Warns of lines that the engine leaves out. Refuses a file without any column of the other files: a broken quote, or no header,
 * made another table of it. Its values would become new columns, and the columns of the table would be NULL.
 */
export async function compareFormats({
  call,
  files,
  rows,
  warn,
}: Reader): Promise<{ delimiters: Set<string> }> {
  const delimiters = new Set<string>()
  const tables: { file: string; names: Set<string> }[] = []
  for (const file of comparedFiles(files)) {
    const found = await orNull(
      rows(
        `SELECT "SkipRows"::VARCHAR, "Comment", "Delimiter", "HasHeader"::VARCHAR, lower(trim(unnest(list_transform("Columns", c -> c.name)))) FROM ${sniffCall(call, file)}`,
      ),
    )
    const [[skipped, comment, delimiter, hasHeader] = []] = found ?? []
    delimiters.add(delimiter ?? '')
    if (Number(skipped) > 0 && argument(call, 'skip') === undefined)
      warn(
        `${landingName(file)}: the first ${skipped} lines are left out: write skip=${skipped} if they hold no data`,
      )
    if (comment && comment !== '(empty)' && argument(call, 'comment') === undefined)
      warn(
        `${landingName(file)}: lines with ${shown(comment)} are left out as comments: write comment='' to read them`,
      )
    if (hasHeader === 'false' && argument(call, 'header', 'names', 'column_names') === undefined)
      warn(
        `${landingName(file)}: no line is read as a header, so the columns are named column0 and so on: write header=true if the first line has the names, or header=false`,
      )
    const names = new Set((found ?? []).flatMap(([, , , , name]) => name ?? []))
    if (names.size > 0) tables.push({ file, names })
  }
  const [first] = tables
  const isUnited = canUnite(call) || argument(call, 'union_by_name')?.toLowerCase() === 'true'
  const way = storesRejects(call) ? 'read the file by a call of its own' : 'write union_by_name=true'
  if (!isUnited && first !== undefined)
    for (const { file, names } of tables) {
      const more = names.difference(first.names)
      if (more.size > 0 && !names.isDisjointFrom(first.names))
        warn(
          `${landingName(file)}: columns that ${landingName(first.file)} does not have are left out: ${namesOf({ names: more })}: ${way}`,
        )
    }
  const others = tables.filter(({ names }) =>
    tables.every((table) => table.names === names || table.names.isDisjointFrom(names)),
  )
  const other = others.find(({ names }) => [...names].some(isNoName)) ?? others.at(-1)
  const usual = tables.find((table) => table !== other)
  if (other === undefined || usual === undefined) return { delimiters }
  throw refusal(
    `${landingName(other.file)} has no column of ${landingName(usual.file)}: ${namesOf(other)} beside ${namesOf(usual)}: correct the file, set it aside (quarantine), or read it by a call of its own`,
  )
}

/**
 * Refuses files whose header has the names of `columns` or `names` in another order. The engine gives the names to values by position, so they
 * would be exchanged.
 */
export async function compareColumns(reader: Reader, names: readonly string[]): Promise<void> {
  const { call, files, rows } = reader
  if (argument(call, 'header')?.toLowerCase() === 'false') return
  const known = new Set(names.map((name) => name.toLowerCase()))
  for (const file of comparedFiles(files)) {
    const found = await orNull(
      rows(
        `SELECT lower(trim(unnest(list_transform("Columns", c -> c.name)))) FROM ${sniffCall(call, file, { columns: null, names: null })} WHERE "HasHeader"`,
      ),
    )
    const header = (found ?? []).map(([name]) => name ?? '')
    // A header with other names is renamed on purpose.
    if (header.length !== known.size || !header.every((name) => known.has(name))) continue
    const at = header.findIndex((name, index) => names[index]?.toLowerCase() !== name)
    const place = at + 1
    if (at !== -1)
      throw refusal(
        `${landingName(file)}, column ${shown(header[at] ?? '')}: the column is number ${place} in the file, and another number in the call: give the names in the order of the file, or write types instead`,
      )
  }
}

/** Files whose formats represent those of all. */
function comparedFiles(files: readonly string[]): string[] {
  const full = files.filter(hasBytes)
  const each =
    full.length <= SNIFFED_FILES ? full.map((file) => [file]) : Map.groupBy(full, firstLine).values()
  return Array.from(each, ([file = '']) => file).slice(0, COMPARED_FILES)
}

/** Warns of names that stand twice in a header. The engine adds a number to the second one. */
export async function warnOfEqualNames(
  { call, files, rows, warn }: Reader,
  columns: readonly Column[],
): Promise<void> {
  if (numbered(columns).length === 0 || argument(call, 'names', 'header') !== undefined) return
  for (const file of comparedFiles(files)) {
    const asRow = callWith(ofFile(call, file), { ...UNTYPED, header: 'false', all_varchar: 'true' })
    const [header = []] = (await orNull(rows(`FROM ${asRow} LIMIT 1`))) ?? []
    const names = header.map((name) => name?.trim() ?? '')
    const folded = names.map((name) => name.toLowerCase())
    const second = names.find((_, at) => folded.indexOf(folded[at] ?? '') < at && folded[at] !== '')
    if (second === undefined) continue
    warn(
      `${landingName(file)}, column ${shown(second)}: the header has the name twice: a number is added to the second one, such as ${shown(`${second}_1`)}`,
    )
    return
  }
}

const hasBytes = (file: string) => statSync(file).size > 0
/** A name that the engine gives, or a whole line. */
const isNoName = (name: string) => /^column\d+$/.test(name) || DELIMITER.test(name)
const namesOf = ({ names }: { names: ReadonlySet<string> }) =>
  [...names].slice(0, SHOWN_NAMES).map(shown).join(', ')

/**
 * The format of many files with the same first line; null: each file has its own format. `opened` has the quotes that open
 * values in any file.
 */
export async function commonFormat({ call, files, rows }: Reader, opened: ReadonlySet<string>) {
  if (files.length <= SNIFFED_FILES || !call.arguments.every(({ name }) => PLAIN.has(name))) return null
  if (new Set(files.map(firstLine)).size > 1) return null
  const sizes = files.map((file) => statSync(file).size)
  const largest = files[sizes.indexOf(Math.max(...sizes))] ?? ''
  const one = ofFile(call, largest)
  const [[delim, quote, escaped, skip, hasHeader] = []] = await rows(
    `SELECT "Delimiter", "Quote", "Escape", "SkipRows"::VARCHAR, "HasHeader"::VARCHAR FROM ${sniffCall(call, largest)}`,
  )
  if (skip !== '0' || hasHeader !== 'true' || !delim || delim === '(empty)') return null
  if (argument(call, 'quote') === undefined && [...opened].some((each) => each !== usedQuote(quote)))
    return null
  const written = (name: string, ...values: (string | null | undefined)[]) =>
    argument(call, name) === undefined
      ? { [name]: quoteLiteral(values.find((value) => value && value !== '(empty)') ?? '"') }
      : {}
  return {
    sample: callWith(one, { filename: null }),
    arguments: {
      ...(argument(call, 'delim', 'sep') === undefined ? { delim: quoteLiteral(delim) } : {}),
      ...written('quote', quote),
      ...written('escape', escaped, quote),
      ...(argument(call, 'header') === undefined ? { header: 'true' } : {}),
    },
  }
}

/** The quote that the engine applies. */
const usedQuote = (found: string | null | undefined) => (found && found !== '(empty)' ? found : '"')

const LINE_BYTES = 65_536

/** The first line of a file, as bytes. A longer line counts as its file's own. */
function firstLine(path: string): string {
  const file = openSync(path, 'r')
  try {
    const bytes = Buffer.alloc(LINE_BYTES)
    const length = readSync(file, bytes, 0, LINE_BYTES, 0)
    const end = bytes.subarray(0, length).indexOf(0x0a)
    return end === -1 ? path : bytes.toString('latin1', 0, end)
  } finally {
    closeSync(file)
  }
}
