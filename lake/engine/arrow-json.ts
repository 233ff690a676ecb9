/**
 * Arrow IPC as `arrow.ts` writes it to values ready for JSON, by the service's rules: integers are numbers within 2^53,
 * else text; a DECIMAL is a number up to width 15, else text; times are ISO 8601; a BLOB is base64; a LIST an array; a
 * STRUCT or a MAP an object; NaN and infinities are null. Runs without the engine.
 */
import {
  type Data,
  DataType,
  type Decimal,
  type Field,
  FixedSizeList,
  type List,
  type Map_,
  Precision,
  RecordBatchReader,
  type TimeUnit,
} from 'apache-arrow'
import { batchesOf, childOf } from './arrow-batches.ts'
import {
  base64,
  civilDate,
  decimalText,
  finite,
  integer,
  isoTime,
  isoTimestamp,
  shortFloat,
} from './json-values.ts'

/** The key of a field's metadata that holds the engine's type name. */
export const TYPE_METADATA = 'sluice.type'

export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject
export type JsonObject = { [key: string]: JsonValue }

export interface JsonColumn {
  /** A name given before has `_1`, `_2` behind it. */
  name: string
  /** The engine's type name: `DECIMAL(14,2)`. */
  type: string
}

export interface JsonTable<Row> {
  columns: JsonColumn[]
  rows: Row[]
}

/** Rows as objects keyed by column name, as queries and table previews answer. */
export function arrowToObjects(ipc: Uint8Array): JsonTable<JsonObject> {
  return read(ipc, Number.POSITIVE_INFINITY, (names) => objectMaker(names))
}

/** Rows as arrays in the order of the columns, as pipeline previews answer. Throws where there are more than so many. */
export function arrowToArrays(ipc: Uint8Array, rows: number): JsonTable<JsonValue[]> {
  return read(ipc, rows, () => (values) => values)
}

function read<Row>(
  ipc: Uint8Array,
  rowsMax: number,
  rowsOf: (names: string[]) => (values: JsonValue[]) => Row,
): JsonTable<Row> {
  const reader = RecordBatchReader.from(ipc).open()
  const { fields } = reader.schema
  const columns = jsonColumns(fields)
  const decoders = fields.map(decoderOf)
  const makeRow = rowsOf(columns.map(({ name }) => name))
  const rows: Row[] = []
  for (const batch of batchesOf(reader, { rows: rowsMax, bytes: ipc.byteLength })) {
    const values = batch.columns.flatMap((column, index) => decoders[index]?.(column) ?? [])
    for (let row = 0; row < batch.rows; row += 1) rows.push(makeRow(values.map((valueAt) => valueAt(row))))
  }
  return { columns, rows }
}

/** The columns of a result, each with a name of its own. */
export function jsonColumns(fields: readonly Field[]): JsonColumn[] {
  const names = uniqueNames(fields.map(nameOf))
  return fields.map((field, index) => ({ name: names[index] ?? nameOf(field), type: engineType(field) }))
}

/** The second `a` is `a_1`, or the next number that no other column has. */
export function uniqueNames(names: readonly string[]): string[] {
  const given = new Set(names)
  const used = new Set<string>()
  return names.map((name) => {
    let unique = name
    for (let number = 1; used.has(unique); number += 1) {
      const candidate = `${name}_${number}`
      if (!given.has(candidate)) unique = candidate
    }
    used.add(unique)
    return unique
  })
}

type ValueAt = (index: number) => JsonValue
type Decoder = (data: Data) => ValueAt

/** How the values of a column become ready for JSON. */
export function decoderOf(field: Field): Decoder {
  const decode = plainDecoder(field)
  return (data) => {
    const valueAt = decode(data)
    return data.nullCount === 0 ? valueAt : (index) => (data.getValid(index) ? valueAt(index) : null)
  }
}

/** Values that are there; NULLs have been seen to. */
function plainDecoder(field: Field): Decoder {
  const type: DataType = field.type
  if (DataType.isUtf8(type)) return textDecoder(engineType(field))
  if (DataType.isBool(type)) return booleanDecoder
  if (DataType.isFloat(type)) return type.precision === Precision.SINGLE ? floatDecoder : doubleDecoder
  if (DataType.isDecimal(type)) return decimalDecoder(type)
  if (DataType.isDate(type))
    return ({ values }) =>
      (index) =>
        civilDate(Number(values[index]))
  if (DataType.isTime(type)) return timeDecoder(type.unit)
  if (DataType.isTimestamp(type)) return timestampDecoder(type.unit, type.timezone ? 'Z' : '')
  if (DataType.isBinary(type)) return blobDecoder
  if (DataType.isList(type) || DataType.isFixedSizeList(type)) return listDecoder(type)
  if (DataType.isStruct(type)) return structDecoder(type.children)
  if (DataType.isMap(type)) return mapDecoder(type)
  if (DataType.isInt(type))
    return ({ values }) =>
      (index) =>
        integer(values[index])
  if (DataType.isNull(type)) return () => () => null
  throw new TypeError(`${type} is not a type of a query's result`)
}

const booleanDecoder: Decoder = ({ values }) => {
  return (index) => ((Number(values[index >> 3]) >> (index & 7)) & 1) === 1
}

const floatDecoder: Decoder = ({ values }) => {
  return (index) => shortFloat(Number(values[index]))
}

const doubleDecoder: Decoder = ({ values }) => {
  return (index) => finite(Number(values[index]))
}

const blobDecoder: Decoder = ({ values, valueOffsets }) => {
  return (index) => base64(values.subarray(valueOffsets[index], valueOffsets[index + 1]))
}

/** Integers that no Arrow type holds travel as text and are integers all the same. */
export const INTEGERS_AS_TEXT: ReadonlySet<string> = new Set(['HUGEINT', 'UHUGEINT', 'BIGNUM'])

function textDecoder(name: string): Decoder {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  return ({ values, valueOffsets }) => {
    const textAt = (index: number) =>
      decoder.decode(values.subarray(valueOffsets[index], valueOffsets[index + 1]))
    return INTEGERS_AS_TEXT.has(name) ? (index) => integer(BigInt(textAt(index))) : textAt
  }
}

/** A DECIMAL up to this width is exact in a double. */
export const DECIMAL_NUMBER_WIDTH = 15

function decimalDecoder({ precision, scale }: Decimal): Decoder {
  return ({ values }) => {
    const words: Uint32Array = values
    const wide = new BigInt64Array(words.buffer, words.byteOffset, words.length / 2)
    const textAt = (index: number) => {
      const low = BigInt.asUintN(64, wide[index * 2] ?? 0n)
      return decimalText(((wide[index * 2 + 1] ?? 0n) << 64n) | low, scale)
    }
    return precision <= DECIMAL_NUMBER_WIDTH ? (index) => Number(textAt(index)) : textAt
  }
}

/** By `TimeUnit`: units of a second. */
export const FRACTION_DIGITS = [0, 3, 6, 9] as const

function timeDecoder(unit: TimeUnit): Decoder {
  return ({ values }) =>
    (index) =>
      isoTime(Number(values[index]), FRACTION_DIGITS[unit])
}

function timestampDecoder(unit: TimeUnit, zone: '' | 'Z'): Decoder {
  const digits = FRACTION_DIGITS[unit]
  return ({ values }) => {
    return (index) => {
      const text = isoTimestamp(BigInt(values[index]), digits)
      return text === null ? null : `${text}${zone}`
    }
  }
}

function listDecoder(type: List | FixedSizeList): Decoder {
  const decode = decoderOf(type.valueField)
  return (data) => {
    const items = childOf(data, 0)
    const valueAt = decode(items)
    return (index) => {
      const [start, end] =
        type instanceof FixedSizeList
          ? [index * type.listSize, (index + 1) * type.listSize]
          : [data.valueOffsets[index], data.valueOffsets[index + 1]]
      return Array.from({ length: end - start }, (_, item) => valueAt(start + item))
    }
  }
}

/** A struct whose fields have no names is a tuple, an array in JSON. */
function structDecoder(fields: readonly Field[]): Decoder {
  const decoders = fields.map(decoderOf)
  const names = fields.map(nameOf)
  const make = names.every((name) => name === '')
    ? (values: JsonValue[]) => values
    : objectMaker(uniqueNames(names))
  return (data) => {
    const values = decoders.map((decode, child) => decode(childOf(data, child)))
    return (index) => make(values.map((valueAt) => valueAt(index)))
  }
}

/** Keys become text: a key that is no text is its JSON. */
function mapDecoder({ children }: Map_): Decoder {
  const [entry] = children
  const [keyField, valueField] = entry?.type.children ?? []
  if (keyField === undefined || valueField === undefined) throw new TypeError('a map has a key and a value')
  const [key, value] = [decoderOf(keyField), decoderOf(valueField)]
  return (data) => {
    const entries = childOf(data, 0)
    const [keyAt, valueAt] = [key(childOf(entries, 0)), value(childOf(entries, 1))]
    return (index) => {
      const pairs: [string, JsonValue][] = []
      for (let item = data.valueOffsets[index]; item < data.valueOffsets[index + 1]; item += 1) {
        const name = keyAt(item)
        pairs.push([typeof name === 'string' ? name : JSON.stringify(name), valueAt(item)])
      }
      return Object.fromEntries(pairs)
    }
  }
}

/** An object of values by name; `__proto__` is a name like any other. */
function objectMaker(names: readonly string[]): (values: JsonValue[]) => JsonObject {
  if (names.includes('__proto__'))
    return (values) => Object.fromEntries(names.map((name, index) => [name, values[index] ?? null]))
  return (values) => {
    const object: JsonObject = {}
    for (const [index, name] of names.entries()) object[name] = values[index] ?? null
    return object
  }
}

/** Arrow reads an empty name back as null, whatever its types say. */
const nameOf = ({ name }: { name: string | null }): string => name ?? ''

export const engineType = (field: Field): string => field.metadata.get(TYPE_METADATA) ?? String(field.type)
