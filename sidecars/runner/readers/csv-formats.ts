import { closeSync, openSync, readSync, statSync } from 'node:fs'
import { shown } from '../../../lake/pipeline/names.ts'
import { quoteLiteral } from '../../../lake/quote.ts'
import { landingName } from '../author/csv-fault.ts'
import { argument, callWith, type ReaderCall } from './calls.ts'
import { orNull, type Reader, refusal } from './reader.ts'

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
/** DuckDB needs 6 ms per file to find out its format. */
const SNIFFED_FILES = 10
/** A character that separates the values of most files. */
export const DELIMITER = /[,;|\t]/
/** Files with other first lines whose columns are compared. */
const COMPARED_FILES = 100
const SHOWN_NAMES = 10

/** SQL of the format that the engine finds in one file. */
export const sniffCall = (call: ReaderCall, file: string): string =>
  callWith(
    {
      ...call,
      name: 'sniff_csv',
      arguments: [
        { name: null, text: quoteLiteral(file) },
        ...call.arguments.filter(({ name }) => name !== null),
      ],
    },
    { filename: null, union_by_name: null },
  )

/**
 * Warns of lines that the engine leaves out. Refuses a file without any column of the other files: a broken quote, or no header,
 * made another table of it. Its values would become new columns, and the columns of the table would be NULL.
 */
export async function compareFormats({ call, files, rows, warn }: Reader): Promise<void> {
  const full = files.filter(hasBytes)
  const each =
    full.length <= SNIFFED_FILES ? full.map((file) => [file]) : Map.groupBy(full, firstLine).values()
  const tables: { file: string; names: Set<string> }[] = []
  for (const [file = ''] of [...each].slice(0, COMPARED_FILES)) {
    const found = await orNull(
      rows(
        `SELECT "SkipRows"::VARCHAR, "Comment", lower(trim(unnest(list_transform("Columns", c -> c.name)))) FROM ${sniffCall(call, file)}`,
      ),
    )
    const [[skipped, comment] = []] = found ?? []
    if (Number(skipped) > 0 && argument(call, 'skip') === undefined)
      warn(
        `${landingName(file)}: the first ${skipped} lines are left out: write skip=${skipped} if they hold no data`,
      )
    if (comment && comment !== '(empty)' && argument(call, 'comment') === undefined)
      warn(
        `${landingName(file)}: lines with ${shown(comment)} are left out as comments: write comment='' to read them`,
      )
    const names = new Set((found ?? []).flatMap(([, , name]) => name ?? []))
    if (names.size > 0) tables.push({ file, names })
  }
  const others = tables.filter(({ names }) =>
    tables.every((table) => table.names === names || table.names.isDisjointFrom(names)),
  )
  const other = others.find(({ names }) => [...names].some(isNoName)) ?? others.at(-1)
  const usual = tables.find((table) => table !== other)
  if (other === undefined || usual === undefined) return
  throw refusal(
    `${landingName(other.file)} has no column of ${landingName(usual.file)}: ${namesOf(other)} beside ${namesOf(usual)}: correct the file, set it aside (quarantine), or read it by a call of its own`,
  )
}

const hasBytes = (file: string) => statSync(file).size > 0
/** A name that the engine gives, or a whole line. */
const isNoName = (name: string) => /^column\d+$/.test(name) || DELIMITER.test(name)
const namesOf = ({ names }: { names: ReadonlySet<string> }) =>
  [...names].slice(0, SHOWN_NAMES).map(shown).join(', ')

/** The format of many files with the same first line; null: each file has its own format. */
export async function commonFormat({ call, files, rows }: Reader) {
  if (files.length <= SNIFFED_FILES || !call.arguments.every(({ name }) => PLAIN.has(name))) return null
  if (new Set(files.map(firstLine)).size > 1) return null
  const sizes = files.map((file) => statSync(file).size)
  const largest = files[sizes.indexOf(Math.max(...sizes))] ?? ''
  const one = {
    ...call,
    arguments: [
      { name: null, text: quoteLiteral(largest) },
      ...call.arguments.filter(({ name }) => name !== null),
    ],
  }
  const [[delim, quote, escaped, skip, hasHeader] = []] = await rows(
    `SELECT "Delimiter", "Quote", "Escape", "SkipRows"::VARCHAR, "HasHeader"::VARCHAR FROM ${sniffCall(call, largest)}`,
  )
  if (skip !== '0' || hasHeader !== 'true' || !delim || delim === '(empty)') return null
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
