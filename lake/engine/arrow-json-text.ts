/**
 * Arrow IPC as `arrow.ts` writes it to the JSON text of its rows, by the rules of `arrow-json.ts`. A column of plain
 * values becomes text at once, without a JavaScript value per cell. The text is JSON whatever the stream holds: it comes from an
 * engine.
 */
import { isUtf8 } from 'node:buffer'
import { type Data, DataType, type Decimal, type Field, Precision, RecordBatchReader } from 'apache-arrow'
import { batchesOf } from './arrow-batches.ts'
import {
  DECIMAL_NUMBER_WIDTH,
  decoderOf,
  engineType,
  FRACTION_DIGITS,
  INTEGERS_AS_TEXT,
  type JsonColumn,
  jsonColumns,
} from './arrow-json.ts'
import { JsonBytes } from './json-bytes.ts'
import { civilDate, isoTime, isoTimestamp } from './json-values.ts'

export interface JsonRows {
  columns: JsonColumn[]
  /** Rows as objects keyed by column name, as text in UTF-8: `{"a":1},{"a":2}`, a batch at a time. None is empty. */
  batches: Iterable<Uint8Array>
}

/** Of so many rows; throws, maybe when batches are asked for, where there are more. */
export function arrowToJsonText(ipc: Uint8Array, rows: number): JsonRows {
  const reader = RecordBatchReader.from(ipc).open()
  const { fields } = reader.schema
  const { columns, write } = rowWriter(fields)
  function* batches() {
    for (const batch of batchesOf(reader, { rows, bytes: ipc.byteLength })) {
      const out = new JsonBytes()
      write(batch.columns, batch.rows, out)
      yield out.end()
    }
  }
  return { columns, batches: batches() }
}

export interface RowWriter {
  columns: JsonColumn[]
  /** What each row's text has beside its values. */
  keysLength: number
  /** Writes so many rows; `children` are their columns. */
  write(children: readonly Data[], count: number, out: JsonBytes): void
}

export function rowWriter(fields: readonly Field[]): RowWriter {
  const columns = jsonColumns(fields)
  const keys = columns.map(({ name }, index) => `${index === 0 ? '{' : ','}${JSON.stringify(name)}:`)
  const keyBytes = keys.map((key) => new TextEncoder().encode(key))
  const writers = fields.map(writerOf)
  return {
    columns,
    keysLength: keys.reduce((sum, key) => sum + key.length, 1),
    write(children, count, out) {
      const cells = writers.flatMap((writer, index) => {
        const [data, key] = [children[index], keyBytes[index]]
        return data && key ? [{ key, writeAt: writer(data, out) }] : []
      })
      for (let row = 0; row < count; row += 1) {
        if (row > 0) out.byte(COMMA)
        for (const { key, writeAt } of cells) {
          out.copy(key, 0, key.length)
          writeAt(row)
        }
        out.byte(CLOSING_BRACE)
      }
    },
  }
}

const [QUOTE, COMMA, COLON, CLOSING_BRACE, LETTER_T] = [34, 44, 58, 125, 84]

/** Writes the value in a row. */
type WriteAt = (row: number) => void
type Writer = (data: Data, out: JsonBytes) => WriteAt

function writerOf(field: Field): Writer {
  const write = plainWriter(field)
  return (data, out) => {
    const writeAt = write(data, out)
    if (data.nullCount === 0) return writeAt
    return (row) => (data.getValid(row) ? writeAt(row) : out.ascii('null'))
  }
}

/** Values that are there; NULLs have been seen to. */
function plainWriter(field: Field): Writer {
  const type: DataType = field.type
  if (DataType.isUtf8(type) && !INTEGERS_AS_TEXT.has(engineType(field))) return textWriter
  if (DataType.isBool(type)) return booleanWriter
  if (DataType.isFloat(type) && type.precision === Precision.DOUBLE) return numberWriter
  if (DataType.isInt(type)) return type.bitWidth === 64 ? wideWriter(type.isSigned) : numberWriter
  if (DataType.isDecimal(type) && type.precision <= DECIMAL_NUMBER_WIDTH) return decimalWriter(type)
  if (DataType.isDate(type)) return dateWriter()
  if (DataType.isTimestamp(type)) return timestampWriter(FRACTION_DIGITS[type.unit], type.timezone ? 'Z' : '')
  const decode = decoderOf(field)
  return (data, out) => {
    const valueAt = decode(data)
    return (row) => out.json(valueAt(row))
  }
}

const booleanWriter: Writer = ({ values }, out) => {
  return (row) => out.ascii(((values[row >> 3] >> (row & 7)) & 1) === 1 ? 'true' : 'false')
}

const numberWriter: Writer = ({ values }, out) => {
  return (row) => out.number(values[row])
}

/**
 * 64-bit integers read as two halves: a bigint for each would cost more than all the rest. What is no safe integer is
 * not exact either.
 */
function numbersOf({ buffer, byteOffset, byteLength }: ArrayBufferView, isSigned = true) {
  const lower = new Uint32Array(buffer, byteOffset, byteLength / 4)
  const upper = isSigned ? new Int32Array(buffer, byteOffset, byteLength / 4) : lower
  return (at: number) => (upper[at * 2 + 1] ?? 0) * 2 ** 32 + (lower[at * 2] ?? 0)
}

function wideWriter(isSigned: boolean): Writer {
  return ({ values }, out) => {
    const numberAt = numbersOf(values, isSigned)
    return (row) => {
      const number = numberAt(row)
      if (Number.isSafeInteger(number)) out.number(number)
      else out.ascii(`"${values[row]}"`)
    }
  }
}

/** Both numbers are exact, so their quotient is the double nearest to the decimal. */
function decimalWriter({ scale }: Decimal): Writer {
  const divisor = 10 ** scale
  return ({ values }, out) => {
    const numberAt = numbersOf(values)
    if (scale <= FRACTION_DIGITS_MAX) return (row) => out.fraction(numberAt(row * 2), scale)
    return (row) => out.number(numberAt(row * 2) / divisor)
  }
}
const FRACTION_DIGITS_MAX = 6

/** Rows of one table are often of few days. */
const DAYS_KNOWN = 4_096

/** By day. */
function makeDates(): (day: number) => string | null {
  const known = new Map<number, string | null>()
  return (day) => {
    let date = known.get(day)
    if (date === undefined) {
      date = civilDate(day)
      if (known.size < DAYS_KNOWN) known.set(day, date)
    }
    return date
  }
}

function writeQuoted(text: string | null, out: JsonBytes): void {
  if (text === null) {
    out.ascii('null')
    return
  }
  out.byte(QUOTE)
  out.ascii(text)
  out.byte(QUOTE)
}

function dateWriter(): Writer {
  const dateOf = makeDates()
  return ({ values }, out) => {
    return (row) => writeQuoted(dateOf(values[row]), out)
  }
}

function timestampWriter(digits: number, zone: '' | 'Z'): Writer {
  const dateOf = makeDates()
  const perSecond = 10 ** digits
  const perDay = 86_400 * perSecond
  return ({ values }, out) => {
    const numberAt = numbersOf(values)
    return (row) => {
      const units = numberAt(row)
      if (!Number.isSafeInteger(units)) {
        const text = isoTimestamp(values[row], digits)
        writeQuoted(text === null ? null : text + zone, out)
        return
      }
      const day = Math.floor(units / perDay)
      const ofDay = units - day * perDay
      const seconds = Math.floor(ofDay / perSecond)
      out.byte(QUOTE)
      out.ascii(`${dateOf(day)}`)
      out.byte(LETTER_T)
      if (ofDay === seconds * perSecond) writeClock(seconds, out)
      else out.ascii(isoTime(ofDay, digits))
      out.ascii(zone)
      out.byte(QUOTE)
    }
  }
}

/** As `isoTime` has it. */
function writeClock(seconds: number, out: JsonBytes): void {
  const minutes = Math.floor(seconds / 60)
  const hours = Math.floor(minutes / 60)
  out.digits(hours, 2)
  out.byte(COLON)
  out.digits(minutes - hours * 60, 2)
  out.byte(COLON)
  out.digits(seconds - minutes * 60, 2)
}

/** What JSON does not have in a text as it is; bytes read as Latin-1 are enough to see that. */
const ESCAPED = /["\\]|[^ -\u00ff]/
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

const textWriter: Writer = ({ values, valueOffsets, length }, out) => {
  const [first, end] = [valueOffsets[0] ?? 0, valueOffsets[length] ?? 0]
  const bytes = Buffer.from(values.buffer, values.byteOffset + first, end - first)
  if (!isUtf8(bytes)) return (row) => out.json(textAt(row))
  const isPlain = !ESCAPED.test(bytes.toString('latin1'))
  const isBetweenCharacters = (at: number) => at === end || (values[at] & 0xc0) !== 0x80
  return (row) => {
    const [from, to] = [valueOffsets[row], valueOffsets[row + 1]]
    if (!isBetweenCharacters(from) || !isBetweenCharacters(to)) {
      out.json(textAt(row))
      return
    }
    out.byte(QUOTE)
    if (isPlain) out.copy(values, from, to)
    else out.escaped(values, from, to)
    out.byte(QUOTE)
  }
  function textAt(row: number): string {
    return decoder.decode(values.subarray(valueOffsets[row], valueOffsets[row + 1]))
  }
}
