import { shown } from '../../../lake/pipeline/names.ts'
import { quoteLiteral } from '../../../lake/quote.ts'
import { landingName } from '../author/csv-fault.ts'
import { argument, type ReaderCall } from './calls.ts'
import { DELIMITER, sniffCall } from './csv-formats.ts'
import { contentOf } from './files.ts'
import { type Reader, refusal } from './reader.ts'

// The engine's sample has only the first rows of a CSV file. One pass over the bytes of all files finds quotes that come late, and a
// header that comes again.

/** The engine's sample has 20,480 rows. A smaller file is in the sample completely. */
const SAMPLE_BYTES = 40_960
/** A longer first line is not compared. */
const HEADER_BYTES = 65_536
const NEWLINE = 0x0a
const RETURN = 0x0d
const QUOTE = 0x22
/** Bytes before the first quote of a value. */
const BEFORE_VALUE = Buffer.from('\n\r,;|\t')

/** Positions of bytes in a file. Null: none. */
interface Lines {
  /** The first quote that opens a value. */
  quote: number | null
  /** The first line that repeats the header. */
  repeated: number | null
}

/** The arguments `quote` and `escape` for quotes that come late. Refuses a header that comes again. */
export async function lineArguments(reader: Reader): Promise<Record<string, string>> {
  const { call, files } = reader
  let more: Record<string, string> = {}
  for (const file of files) {
    const { quote, repeated } = await linesOf(call, file)
    if (repeated !== null) await judgeRepeated(reader, file, repeated)
    const isLate = quote !== null && quote >= SAMPLE_BYTES
    if (isLate && argument(call, 'quote', 'encoding') === undefined)
      more = { ...more, ...(await lateQuote(reader, file)) }
  }
  return more
}

/** The quote that only a look at the whole file shows. The look takes many times as long as reading. */
async function lateQuote({ call, rows }: Reader, file: string): Promise<Record<string, string>> {
  const sniffed = `SELECT "Quote" FROM ${sniffCall(call, file)}`
  if ((await rows(sniffed))[0]?.[0] !== '(empty)') return {}
  const [[quote] = []] = await rows(`SELECT "Quote" FROM ${sniffCall(call, file, { sample_size: '-1' })}`)
  return quote === '"' ? { quote: quoteLiteral(quote), escape: quoteLiteral(quote) } : {}
}

/** A line like the header is no row, unless the author says that the file has a header, or none. */
async function judgeRepeated({ call, rows, warn }: Reader, file: string, at: number): Promise<void> {
  if (argument(call, 'skip', 'names', 'columns') !== undefined) return
  const [[hasHeader, first] = []] = await rows(
    `SELECT "HasHeader"::VARCHAR, "Columns"[1].name FROM ${sniffCall(call, file)}`,
  )
  if (hasHeader !== 'true') return
  const line = 1 + (await newlinesBefore(call, file, at))
  const text = `${landingName(file)} line ${line}, column ${shown(first ?? '')}: the line repeats the header`
  if (argument(call, 'header') === undefined)
    throw refusal(`${text}: correct the file, or write header=true to read the line as a row`)
  warn(`${text}, and is read as a row`)
}

async function linesOf(call: ReaderCall, file: string): Promise<Lines> {
  const lines: Lines = { quote: null, repeated: null }
  let header: Buffer | null = null
  let rest: Buffer = Buffer.alloc(0)
  let offset = 0
  for await (const chunk of contentOf(call, file)) {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    header ??= headerOf(bytes)
    lines.quote ??= offsetBy(offset, quoteAt(bytes))
    if (header !== null) lines.repeated ??= offsetBy(offset, repeatedAt(bytes, header))
    // The end of a chunk can hold the beginning of a repeated header.
    const kept = Math.min(bytes.length, (header?.length ?? 0) + 2)
    rest = Buffer.from(bytes.subarray(bytes.length - kept))
    offset += bytes.length - kept
  }
  return lines
}

const offsetBy = (offset: number, at: number | null) => (at === null ? null : offset + at)

/** The first line without its end. Null: the file has one line, or a long one, or one column. */
function headerOf(bytes: Buffer): Buffer | null {
  const end = bytes.subarray(0, HEADER_BYTES).indexOf(NEWLINE)
  if (end <= 0) return null
  const mark = bytes.toString('hex', 0, 3) === 'efbbbf' ? 3 : 0
  const line = Buffer.from(bytes.subarray(mark, bytes[end - 1] === RETURN ? end - 1 : end))
  return DELIMITER.test(line.toString('latin1')) ? line : null
}

/** The position of a line that is equal to the first one. */
function repeatedAt(bytes: Buffer, header: Buffer): number | null {
  for (let at = bytes.indexOf(header, 1); at !== -1; at = bytes.indexOf(header, at + 1)) {
    const after = bytes[at + header.length]
    if (bytes[at - 1] === NEWLINE && (after === undefined || after === NEWLINE || after === RETURN)) return at
  }
  return null
}

/** The position of a quote that opens a value. */
function quoteAt(bytes: Buffer): number | null {
  for (let at = bytes.indexOf(QUOTE); at !== -1; at = bytes.indexOf(QUOTE, at + 1))
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
