/**
 * Arrow IPC as `arrow.ts` writes it to the JSON text of its rows, by the rules of `arrow-json.ts`. A column of plain
 * values becomes text at once, without a JavaScript value per cell.
 */
import { type Data, DataType, type Decimal, type Field, Precision, RecordBatchReader } from 'apache-arrow'
import {
  childOf,
  DECIMAL_NUMBER_WIDTH,
  decoderOf,
  engineType,
  FRACTION_DIGITS,
  INTEGERS_AS_TEXT,
  type JsonColumn,
  jsonColumns,
} from './arrow-json.ts'
import { civilDate, isoTime, isoTimestamp } from './json-values.ts'

export interface JsonRows {
  columns: JsonColumn[]
  /** Rows as objects keyed by column name, as text: `{"a":1},{"a":2}`, a batch at a time. None is empty. */
  batches: Iterable<string>
}

export function arrowToJsonText(ipc: Uint8Array): JsonRows {
  const reader = RecordBatchReader.from(ipc).open()
  const { fields } = reader.schema
  const { columns, textOf } = rowWriter(fields)
  function* batches() {
    for (const batch of reader) {
      // A stream without batches reads as one that has no columns either.
      if (batch.numRows === 0) continue
      const children = fields.map((_, index) => childOf(batch.data, index))
      yield textOf(children, batch.numRows)
    }
  }
  return { columns, batches: batches() }
}

export interface RowWriter {
  columns: JsonColumn[]
  /** What each row's text has beside its values. */
  keysLength: number
  /** The text of so many rows, of which there is one at least; `children` are their columns. */
  textOf(children: readonly Data[], count: number): string
}

export function rowWriter(fields: readonly Field[]): RowWriter {
  const columns = jsonColumns(fields)
  const keys = columns.map(({ name }, index) => `${index === 0 ? '{' : ','}${JSON.stringify(name)}:`)
  const writers = fields.map(writerOf)
  return {
    columns,
    keysLength: keys.reduce((sum, key) => sum + key.length, 1),
    textOf(children, count) {
      const texts = children.map((data, index) => writers[index]?.(data) ?? nothing)
      return rowsOf(count, keys, texts)
    },
  }
}

function rowsOf(count: number, keys: readonly string[], texts: readonly TextAt[]): string {
  let rows = ''
  for (let row = 0; row < count; row += 1) {
    if (row > 0) rows += ','
    for (let column = 0; column < keys.length; column += 1)
      rows += keys[column] + (texts[column]?.(row) ?? 'null')
    rows += '}'
  }
  return rows
}

/** The JSON text of the value in a row. */
type TextAt = (row: number) => string
type Writer = (data: Data) => TextAt

const nothing: TextAt = () => 'null'

function writerOf(field: Field): Writer {
  const write = plainWriter(field)
  return (data) => {
    const textAt = write(data)
    return data.nullCount === 0 ? textAt : (row) => (data.getValid(row) ? textAt(row) : 'null')
  }
}

/** Values that are there; NULLs have been seen to. */
function plainWriter(field: Field): Writer {
  const type: DataType = field.type
  if (DataType.isUtf8(type) && !INTEGERS_AS_TEXT.has(engineType(field))) return textWriter
  if (DataType.isBool(type)) return booleanWriter
  if (DataType.isFloat(type) && type.precision === Precision.DOUBLE) return doubleWriter
  if (DataType.isInt(type)) return type.bitWidth === 64 ? wideWriter(type.isSigned) : integerWriter
  if (DataType.isDecimal(type) && type.precision <= DECIMAL_NUMBER_WIDTH) return decimalWriter(type)
  if (DataType.isDate(type)) return dateWriter
  if (DataType.isTimestamp(type)) return timestampWriter(FRACTION_DIGITS[type.unit], type.timezone ? 'Z' : '')
  const decode = decoderOf(field)
  return (data) => {
    const valueAt = decode(data)
    return (row) => JSON.stringify(valueAt(row))
  }
}

const booleanWriter: Writer = ({ values }) => {
  return (row) => (((values[row >> 3] >> (row & 7)) & 1) === 1 ? 'true' : 'false')
}

const integerWriter: Writer = ({ values }) => {
  return (row) => `${values[row]}`
}

const doubleWriter: Writer = ({ values }) => {
  return (row) => (Number.isFinite(values[row]) ? `${values[row]}` : 'null')
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
  return ({ values }) => {
    const numberAt = numbersOf(values, isSigned)
    return (row) => {
      const number = numberAt(row)
      return Number.isSafeInteger(number) ? `${number}` : `"${values[row]}"`
    }
  }
}

/** Both numbers are exact, so their quotient is the double nearest to the decimal. */
function decimalWriter({ scale }: Decimal): Writer {
  const divisor = 10 ** scale
  return ({ values }) => {
    const numberAt = numbersOf(values)
    return (row) => `${numberAt(row * 2) / divisor}`
  }
}

const quotedOrNull = (text: string | null): string => (text === null ? 'null' : `"${text}"`)

const dateWriter: Writer = ({ values }) => {
  return (row) => quotedOrNull(civilDate(values[row]))
}

/** Rows of one table are often of few days. */
const DAYS_KNOWN = 4_096

function timestampWriter(digits: number, zone: '' | 'Z'): Writer {
  const dates = new Map<number, string | null>()
  const dateOf = (day: number) => {
    let date = dates.get(day)
    if (date === undefined) {
      date = civilDate(day)
      if (dates.size < DAYS_KNOWN) dates.set(day, date)
    }
    return date
  }
  const perDay = 86_400 * 10 ** digits
  return ({ values }) => {
    const numberAt = numbersOf(values)
    return (row) => {
      const units = numberAt(row)
      if (!Number.isSafeInteger(units)) {
        const text = isoTimestamp(values[row], digits)
        return quotedOrNull(text === null ? null : text + zone)
      }
      const day = Math.floor(units / perDay)
      return `"${dateOf(day)}T${isoTime(units - day * perDay, digits)}${zone}"`
    }
  }
}

/** What JSON does not have in a text as it is. A text decoded from UTF-8 holds no half of a surrogate pair. */
const ESCAPED = /["\\]|[^ -\uffff]/
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

const textWriter: Writer = ({ values, valueOffsets, length }) => {
  const first = valueOffsets[0] ?? 0
  const end = valueOffsets[length] ?? 0
  const all = decoder.decode(values.subarray(first, end))
  // One character for each byte: the texts can be cut out of the whole.
  const isPlain = all.length === end - first
  const textAt = isPlain
    ? (row: number) => all.slice(valueOffsets[row] - first, valueOffsets[row + 1] - first)
    : (row: number) => decoder.decode(values.subarray(valueOffsets[row], valueOffsets[row + 1]))
  return ESCAPED.test(all) ? (row) => JSON.stringify(textAt(row)) : (row) => `"${textAt(row)}"`
}
