import { shown } from '../../../lake/pipeline/names.ts'
import { quoteLiteral } from '../../../lake/quote.ts'
import { argument, type Changes, callWith, ofFile, type ReaderCall } from './calls.ts'
import { landingName } from './csv-fault.ts'
import { DELIMITER, sniffCall, UNTYPED } from './csv-formats.ts'
import { contentOf } from './files.ts'
import { orNull, type Reader, refusal } from './reader.ts'

// The engine's sample has only the first rows of a CSV file. One pass over the bytes of all files finds quotes that come late, and a
// header that comes again.

/** The engine's sample has 20,480 rows. A smaller file is in the sample completely. */
const SAMPLE_BYTES = 40_960
/** A line for spreadsheets above the header, with a byte order mark or without. */
const NOTE = /^(?:\xef\xbb\xbf)?"?sep=.?"?\r?\n/i
const HEAD_BYTES = 16
const BLANKS = Buffer.from(' \t\r\n')
/** A longer first line is not compared. */
const HEADER_BYTES = 65_536
const NEWLINE = 0x0a
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
  /** The file has only blanks and ends of lines. */
  isEmpty: boolean
  /** The first line is `sep=`, with a delimiter. */
  isNoted: boolean
}

interface Quotes {
  quote: string
  escape: string
}

/**
 * The arguments `quote` and `escape` for quotes that come late, and `skip` for a note of spreadsheets. Leaves out empty files, to
 * which the engine would give a column. `opened` has the quotes that open values. Refuses a header that comes again.
 */
export async function lineChanges(reader: Reader): Promise<Changes & { opened: ReadonlySet<string> }> {
  const { call, files } = reader
  const found = new Map<string, Lines>()
  const empty: string[] = []
  for (const file of files) {
    const lines = await linesOf(call, file)
    if (lines.repeated !== null) await judgeRepeated(reader, file, lines.repeated)
    if (lines.isEmpty) empty.push(file)
    else found.set(file, lines)
  }
  noteEmpty(reader, empty, found.size)
  const quotes = argument(call, 'quote', 'encoding') === undefined ? await quoteArguments(reader, found) : {}
  return {
    more: { ...skipArgument(call, found), ...quotes },
    files: empty.length > 0 && found.size > 0 ? [...found.keys()] : null,
    opened: new Set(
      [...found.values()].flatMap(({ quote, single }) => [
        ...(quote === null ? [] : ['"']),
        ...(single === null ? [] : ["'"]),
      ]),
    ),
  }
}

function noteEmpty({ isNewTable, warn }: Reader, empty: readonly string[], fullCount: number): void {
  const [file, ...others] = empty
  if (file === undefined) return
  if (isNewTable && fullCount === 0)
    throw refusal(
      `${landingName(file)} is empty, so the new table would have no columns: upload a file with a header, or set the file aside (quarantine)`,
    )
  const more = others.length > 0 ? ` and ${others.length} more files are` : ' is'
  warn(`${landingName(file)}${more} empty`)
}

/** Spreadsheets write a line such as `sep=;` above the header. */
function skipArgument(call: ReaderCall, found: ReadonlyMap<string, Lines>): Record<string, string> {
  if (argument(call, 'skip', 'encoding') !== undefined) return {}
  const [noted] = [...found].find(([, { isNoted }]) => isNoted) ?? []
  const [plain] = [...found].find(([, { isNoted }]) => !isNoted) ?? []
  if (noted === undefined) return {}
  if (plain === undefined) return { skip: '1' }
  throw refusal(
    `${landingName(noted)}: the first line is a note for spreadsheets (sep=), and ${landingName(plain)} has no such line: remove the line, or read the file by a call of its own`,
  )
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
      WITH texts AS (SELECT lower(replace(line::VARCHAR, chr(65279), '')) AS text FROM ${asRows} line)
      SELECT (count(*) > 1)::VARCHAR FROM texts WHERE text = (SELECT text FROM texts LIMIT 1)`),
  )
  return counted?.[0]?.[0] !== 'false'
}

async function linesOf(call: ReaderCall, file: string): Promise<Lines> {
  const lines: Lines = { quote: null, single: null, repeated: null, isEmpty: true, isNoted: false }
  /** Undefined: the end of the first line is not read yet. */
  let header: Header | null | undefined
  let rest: Buffer = Buffer.alloc(0)
  let offset = 0
  for await (const chunk of contentOf(call, file)) {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    if (header === undefined) header = headerOf(bytes)
    if (offset === 0) lines.isNoted = NOTE.test(bytes.toString('latin1', 0, HEAD_BYTES))
    if (lines.isEmpty)
      lines.isEmpty = chunk
        .subarray(offset === 0 ? markBytes(chunk) : 0)
        .every((byte) => BLANKS.includes(byte))
    lines.quote ??= offsetBy(offset, quoteAt(bytes, QUOTE))
    lines.single ??= offsetBy(offset, quoteAt(bytes, SINGLE_QUOTE))
    if (header) lines.repeated ??= offsetBy(offset, repeatedAt(bytes, header))
    // The end of a chunk can hold the beginning of a repeated header.
    const kept = header === undefined ? bytes.length : Math.min(bytes.length, header?.lineMax ?? 2)
    rest = Buffer.from(bytes.subarray(bytes.length - kept))
    offset += bytes.length - kept
  }
  // The last line needs no end.
  if (header)
    lines.repeated ??= offsetBy(offset, repeatedAt(Buffer.concat([rest, Buffer.of(NEWLINE)]), header))
  return lines
}

const offsetBy = (offset: number, at: number | null) => (at === null ? null : offset + at)

/** The first line of a file, to find the lines that repeat it. Letter case, quotes and byte order marks make no difference. */
interface Header {
  text: string
  /** How such a line can begin. */
  starts: Buffer[]
  /** The most bytes of such a line, with the ends of lines around it. */
  lineMax: number
}

const markBytes = (bytes: Buffer) => (bytes.toString('hex', 0, 3) === 'efbbbf' ? 3 : 0)

const MARK = '\ufeff'
/** Bytes of quotes and of a byte order mark that such a line can have more. */
const MORE_BYTES = 64

/** Null: the line is long, or has one column. Undefined: its end is not among the bytes. */
function headerOf(bytes: Buffer): Header | null | undefined {
  const end = bytes.subarray(0, HEADER_BYTES).indexOf(NEWLINE)
  if (end === -1) return bytes.length < HEADER_BYTES ? undefined : null
  const line = bytes.toString('utf8', 0, end).replace(MARK, '').trimEnd()
  const delimiter = DELIMITER.exec(line)?.index
  if (delimiter === undefined) return null
  const first = line.slice(0, delimiter + 1)
  const word = first.search(/\p{L}/u)
  const title = first.slice(0, word + 1).toUpperCase() + first.slice(word + 1).toLowerCase()
  // A header that repeats in the middle of a file is seldom written in other ways.
  const starts = new Set([first, first.toLowerCase(), first.toUpperCase(), title, MARK])
  return {
    text: folded(line),
    starts: Array.from(starts, (start) => Buffer.from(`\n${start}`)),
    lineMax: end + MORE_BYTES,
  }
}

const folded = (line: string) => line.replace(MARK, '').replaceAll('"', '').trimEnd().toLowerCase()

/** The position of a line that repeats the header. */
function repeatedAt(bytes: Buffer, { text, starts, lineMax }: Header): number | null {
  let first: number | null = null
  for (const start of starts)
    for (let at = bytes.indexOf(start); at !== -1; at = bytes.indexOf(start, at + start.length)) {
      const line = bytes.subarray(at + 1, at + lineMax)
      const end = line.indexOf(NEWLINE)
      if (end < text.length || folded(line.toString('utf8', 0, end)) !== text) continue
      first = Math.min(first ?? at + 1, at + 1)
      break
    }
  return first
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
