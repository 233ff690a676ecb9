import { shown } from '../../../lake/pipeline/names.ts'
import { quoteLiteral } from '../../../lake/quote.ts'
import { landingName } from '../author/csv-fault.ts'
import { argument, callWith, ofFile, type ReaderCall } from './calls.ts'
import { DELIMITER, sniffCall, UNTYPED } from './csv-formats.ts'
import { contentOf } from './files.ts'
import { orNull, type Reader, refusal } from './reader.ts'

// The engine's sample has only the first rows of a CSV file. One pass over the bytes of all files finds quotes that come late, and a
// header that comes again.

/** The engine's sample has 20,480 rows. A smaller file is in the sample completely. */
const SAMPLE_BYTES = 40_960
/** A longer first line is not compared. */
const HEADER_BYTES = 65_536
const NEWLINE = 0x0a
const RETURN = 0x0d
const QUOTE = 0x22
const SINGLE_QUOTE = 0x27
/** The engine's word for no quote, or no escape. */
const NONE = '(empty)'
/** Bytes before the first quote of a value. */
const BEFORE_VALUE = Buffer.from('\n\r,;|\t')

/** Positions of bytes in a file. Null: none. */
interface Lines {
  /** The first quote that opens a value. */
  quote: number | null
  /** The first single quote that opens a value. */
  single: number | null
  /** The first line that repeats the header. */
  repeated: number | null
}

interface Quotes {
  quote: string
  escape: string
}

/** The arguments `quote` and `escape` for quotes that come late. Refuses a header that comes again. */
export async function lineArguments(reader: Reader): Promise<Record<string, string>> {
  const { call, files } = reader
  const found = new Map<string, Lines>()
  for (const file of files) {
    const lines = await linesOf(call, file)
    if (lines.repeated !== null) await judgeRepeated(reader, file, lines.repeated)
    found.set(file, lines)
  }
  return argument(call, 'quote', 'encoding') === undefined ? quoteArguments(reader, found) : {}
}

/** The arguments apply to all files of the call. Files with other quotes stay as they are, and the late quotes too. */
async function quoteArguments(
  reader: Reader,
  found: ReadonlyMap<string, Lines>,
): Promise<Record<string, string>> {
  const late = new Map<string, Quotes>()
  for (const [file, { quote }] of found) {
    if (quote === null || quote < SAMPLE_BYTES || (await quotesOf(reader, file)) !== null) continue
    // This look takes many times as long as reading.
    const whole = await quotesOf(reader, file, { sample_size: '-1' })
    if (whole?.quote === '"') late.set(file, whole)
  }
  const [first] = late
  if (first === undefined) return {}
  const [file, quotes] = first
  for (const [other, lines] of found) {
    if (lines.quote === null && lines.single === null) continue
    const own = late.get(other) ?? (await orNull(quotesOf(reader, other)))
    if (own === null ? lines.quote === null : own.quote === quotes.quote && own.escape === quotes.escape)
      continue
    reader.warn(
      `${landingName(file)}: quotes that come late stay a part of their values, because ${landingName(other)} has other quotes: read the file by a call of its own`,
    )
    return {}
  }
  const quote = quoteLiteral(quotes.quote)
  return argument(reader.call, 'escape') === undefined
    ? { quote, escape: quoteLiteral(quotes.escape) }
    : { quote }
}

/** The quote and the escape that the engine finds in a file. Null: none. */
async function quotesOf(
  { call, rows }: Reader,
  file: string,
  more: Readonly<Record<string, string>> = {},
): Promise<Quotes | null> {
  const [[quote, escaped] = []] = await rows(`SELECT "Quote", "Escape" FROM ${sniffCall(call, file, more)}`)
  if (!quote || quote === NONE) return null
  return { quote, escape: !escaped || escaped === NONE ? quote : escaped }
}

/** Arguments with which the engine skips such a line, or with which the author can. */
const HANDLING = ['ignore_errors', 'store_rejects', 'all_varchar']

/** A line like the header is no row, unless the author says that the file has a header, or none. */
async function judgeRepeated(reader: Reader, file: string, at: number): Promise<void> {
  const { call, rows, warn } = reader
  if (argument(call, 'skip', 'names', 'columns') !== undefined) return
  const [[hasHeader, first] = []] = await rows(
    `SELECT "HasHeader"::VARCHAR, "Columns"[1].name FROM ${sniffCall(call, file)}`,
  )
  if (hasHeader !== 'true' || !(await isRow(reader, file))) return
  const line = 1 + (await newlinesBefore(call, file, at))
  const text = `${landingName(file)} line ${line}, column ${shown(first ?? '')}: the line repeats the header`
  const isHandled = HANDLING.some((name) => argument(call, name)?.toLowerCase() === 'true')
  if (argument(call, 'header') === undefined && !isHandled)
    throw refusal(
      `${text}: correct the file, write header=true to read the line as a row, or header=false if the file has no header`,
    )
  warn(isHandled ? text : `${text}, and is read as a row`)
}

/** Whether the header comes again as a row, and not within a quoted value. */
async function isRow({ call, rows }: Reader, file: string): Promise<boolean> {
  const asRows = callWith(ofFile(call, file), { ...UNTYPED, header: 'false', all_varchar: 'true' })
  const counted = await orNull(
    rows(`
      WITH texts AS (SELECT line::VARCHAR AS text FROM ${asRows} line)
      SELECT (count(*) > 1)::VARCHAR FROM texts WHERE text = (SELECT text FROM texts LIMIT 1)`),
  )
  return counted?.[0]?.[0] !== 'false'
}

async function linesOf(call: ReaderCall, file: string): Promise<Lines> {
  const lines: Lines = { quote: null, single: null, repeated: null }
  /** Undefined: the end of the first line is not read yet. */
  let header: Buffer | null | undefined
  let rest: Buffer = Buffer.alloc(0)
  let offset = 0
  for await (const chunk of contentOf(call, file)) {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    if (header === undefined) header = headerOf(bytes)
    lines.quote ??= offsetBy(offset, quoteAt(bytes, QUOTE))
    lines.single ??= offsetBy(offset, quoteAt(bytes, SINGLE_QUOTE))
    if (header) lines.repeated ??= offsetBy(offset, repeatedAt(bytes, header))
    // The end of a chunk can hold the beginning of a repeated header.
    const kept = header === undefined ? bytes.length : Math.min(bytes.length, (header?.length ?? 0) + 2)
    rest = Buffer.from(bytes.subarray(bytes.length - kept))
    offset += bytes.length - kept
  }
  // The last line needs no end.
  if (header)
    lines.repeated ??= offsetBy(offset, repeatedAt(Buffer.concat([rest, Buffer.of(NEWLINE)]), header))
  return lines
}

const offsetBy = (offset: number, at: number | null) => (at === null ? null : offset + at)

/** The first line without its end. Null: the line is long, or has one column. Undefined: its end is not among the bytes. */
function headerOf(bytes: Buffer): Buffer | null | undefined {
  const end = bytes.subarray(0, HEADER_BYTES).indexOf(NEWLINE)
  if (end === -1) return bytes.length < HEADER_BYTES ? undefined : null
  const mark = bytes.toString('hex', 0, 3) === 'efbbbf' ? 3 : 0
  const line = Buffer.from(bytes.subarray(mark, bytes[end - 1] === RETURN ? end - 1 : end))
  return DELIMITER.test(line.toString('latin1')) ? line : null
}

/** The position of a line that is equal to the first one. */
function repeatedAt(bytes: Buffer, header: Buffer): number | null {
  // Such texts do not overlap, so the search takes linear time.
  const text = Buffer.concat([Buffer.of(NEWLINE), header])
  for (let at = bytes.indexOf(text); at !== -1; at = bytes.indexOf(text, at + text.length)) {
    const after = bytes[at + text.length]
    if (after === NEWLINE || after === RETURN) return at + 1
  }
  return null
}

/** The position of a quote that opens a value. */
function quoteAt(bytes: Buffer, quote: number): number | null {
  for (let at = bytes.indexOf(quote); at !== -1; at = bytes.indexOf(quote, at + 1))
    if (at > 0 && BEFORE_VALUE.includes(bytes[at - 1] as number)) return at
  return null
}

async function newlinesBefore(call: ReaderCall, file: string, end: number): Promise<number> {
  let count = 0
  let offset = 0
  for await (const bytes of contentOf(call, file)) {
    for (let at = bytes.indexOf(NEWLINE); at !== -1 && offset + at < end; at = bytes.indexOf(NEWLINE, at + 1))
      count += 1
    offset += bytes.length
    if (offset >= end) break
  }
  return count
}
