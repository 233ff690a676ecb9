// One column of a result: its Arrow field, and the conversion of its vectors to Arrow data.
import {
  DuckDBArrayType,
  DuckDBDecimalType,
  DuckDBEnumType,
  DuckDBListType,
  DuckDBMapType,
  DuckDBStructType,
  type DuckDBType,
  DuckDBTypeId,
  DuckDBVector,
} from '@duckdb/node-api'
import {
  Binary,
  Bool,
  BufferType,
  Data,
  type DataType,
  DateDay,
  Decimal,
  Field,
  FixedSizeList,
  Float32,
  Float64,
  Int8,
  Int16,
  Int32,
  Int64,
  List,
  Map_,
  makeData,
  Null,
  Struct,
  TimeMicrosecond,
  TimeNanosecond,
  TimestampMicrosecond,
  TimestampMillisecond,
  TimestampNanosecond,
  TimestampSecond,
  Uint8,
  Uint16,
  Uint32,
  Uint64,
  Utf8,
} from 'apache-arrow'
import { TYPE_METADATA } from './json-shape.ts'
import { typeName } from './type-name.ts'
import {
  arrayChild,
  bitmapOf,
  fixedBytes,
  hasBit,
  listChild,
  listEntries,
  type Rows,
  type Strings,
  stringsOf,
  structChild,
  type Validity,
  type Vector,
  validityOf,
} from './vector.ts'

type Read = (vector: Vector, rows: Rows) => Data

export interface ColumnReader {
  field: Field
  read: Read
}

/** The field and the reader of a column, or of a child of a column. */
export function columnReader(name: string, type: DuckDBType): ColumnReader {
  const { arrow, read } = readerOf(type)
  return { field: new Field(name, arrow, true, new Map([[TYPE_METADATA, typeName(type)]])), read }
}

interface TypeReader {
  arrow: DataType
  read: Read
}

/** Types with the same byte layout in both formats. */
const SAME_LAYOUT: ReadonlyMap<DuckDBTypeId, () => DataType> = new Map<DuckDBTypeId, () => DataType>([
  [DuckDBTypeId.TINYINT, () => new Int8()],
  [DuckDBTypeId.SMALLINT, () => new Int16()],
  [DuckDBTypeId.INTEGER, () => new Int32()],
  [DuckDBTypeId.BIGINT, () => new Int64()],
  [DuckDBTypeId.UTINYINT, () => new Uint8()],
  [DuckDBTypeId.USMALLINT, () => new Uint16()],
  [DuckDBTypeId.UINTEGER, () => new Uint32()],
  [DuckDBTypeId.UBIGINT, () => new Uint64()],
  [DuckDBTypeId.FLOAT, () => new Float32()],
  [DuckDBTypeId.DOUBLE, () => new Float64()],
  [DuckDBTypeId.DATE, () => new DateDay()],
  [DuckDBTypeId.TIME, () => new TimeMicrosecond()],
  [DuckDBTypeId.TIME_NS, () => new TimeNanosecond()],
  [DuckDBTypeId.TIMESTAMP_S, () => new TimestampSecond()],
  [DuckDBTypeId.TIMESTAMP_MS, () => new TimestampMillisecond()],
  [DuckDBTypeId.TIMESTAMP, () => new TimestampMicrosecond()],
  [DuckDBTypeId.TIMESTAMP_NS, () => new TimestampNanosecond()],
  [DuckDBTypeId.TIMESTAMP_TZ, () => new TimestampMicrosecond('UTC')],
])

function readerOf(type: DuckDBType): TypeReader {
  const same = SAME_LAYOUT.get(type.typeId)
  if (same !== undefined) return fixedReader(same())
  if (type instanceof DuckDBDecimalType) return decimalReader(type)
  if (type instanceof DuckDBEnumType) return enumReader(type)
  if (type instanceof DuckDBListType) return listReader(type)
  if (type instanceof DuckDBArrayType) return arrayReader(type)
  if (type instanceof DuckDBStructType) return structReader(type)
  if (type instanceof DuckDBMapType) return mapReader(type)
  switch (type.typeId) {
    case DuckDBTypeId.BOOLEAN:
      return { arrow: new Bool(), read: readBooleans }
    case DuckDBTypeId.VARCHAR:
      return { arrow: new Utf8(), read: stringReader(new Utf8()) }
    case DuckDBTypeId.BLOB:
    case DuckDBTypeId.GEOMETRY:
      return { arrow: new Binary(), read: stringReader(new Binary()) }
    case DuckDBTypeId.SQLNULL:
      return { arrow: new Null(), read: (_, { count }) => makeData({ type: new Null(), length: count }) }
    default:
      return textReader(type)
  }
}

const common = (rows: Rows, { bitmap, nullCount }: Validity) => ({
  length: rows.count,
  nullCount,
  nullBitmap: bitmap,
})

function fixedReader(arrow: DataType): TypeReader {
  const { ArrayType } = arrow
  return {
    arrow,
    read: (vector, rows) => {
      const { bitmap, nullCount } = validityOf(vector, rows)
      const { buffer } = fixedBytes(vector, ArrayType.BYTES_PER_ELEMENT, rows)
      return new Data(arrow, 0, rows.count, nullCount, {
        [BufferType.DATA]: new ArrayType(buffer),
        [BufferType.VALIDITY]: bitmap,
      })
    },
  }
}

const readBooleans: Read = (vector, rows) => {
  const values = fixedBytes(vector, 1, rows)
  const data = bitmapOf(rows.count, (index) => values[index] === 1)
  return makeData({ type: new Bool(), ...common(rows, validityOf(vector, rows)), data })
}

function stringReader(arrow: Utf8 | Binary): Read {
  return (vector, rows) => {
    const validity = validityOf(vector, rows)
    return stringData(arrow, rows, validity, stringsOf(vector, rows, validity))
  }
}

const stringData = (
  type: Utf8 | Binary,
  rows: Rows,
  { bitmap, nullCount }: Validity,
  { offsets, bytes }: Strings,
): Data =>
  new Data(type, 0, rows.count, nullCount, {
    [BufferType.OFFSET]: offsets,
    [BufferType.DATA]: bytes,
    [BufferType.VALIDITY]: bitmap,
  })

/** DuckDB stores a decimal in 2, 4, 8 or 16 bytes, depending on its width. Arrow always uses 16. */
function decimalReader({ width, scale }: DuckDBDecimalType): TypeReader {
  const arrow = new Decimal(scale, width, 128)
  const bytes = width <= 4 ? 2 : width <= 9 ? 4 : width <= 18 ? 8 : 16
  return {
    arrow,
    read: (vector, rows) => {
      const values = fixedBytes(vector, bytes, rows)
      return makeData({
        type: arrow,
        ...common(rows, validityOf(vector, rows)),
        data: new Uint32Array(bytes === 16 ? values.buffer : widened(values, bytes)),
      })
    },
  }
}

function widened(values: Uint8Array<ArrayBuffer>, bytes: 2 | 4 | 8): ArrayBuffer {
  if (bytes === 8) {
    const narrow = new BigInt64Array(values.buffer)
    const wide = new BigInt64Array(narrow.length * 2)
    for (const [index, value] of narrow.entries()) {
      wide[index * 2] = value
      wide[index * 2 + 1] = value < 0n ? -1n : 0n
    }
    return wide.buffer
  }
  const narrow = bytes === 2 ? new Int16Array(values.buffer) : new Int32Array(values.buffer)
  const wide = new Int32Array(narrow.length * 4)
  for (const [index, value] of narrow.entries())
    wide.fill(value < 0 ? -1 : 0, index * 4, index * 4 + 4)[index * 4] = value
  return wide.buffer
}

/** Converts an enum to text, because its dictionary would have to accompany every batch. */
function enumReader({ values }: DuckDBEnumType): TypeReader {
  const texts = values.map((value) => new TextEncoder().encode(value))
  const width = values.length <= 0xff ? 1 : values.length <= 0xffff ? 2 : 4
  const arrow = new Utf8()
  return {
    arrow,
    read: (vector, rows) => {
      const { buffer } = fixedBytes(vector, width, rows)
      const codes =
        width === 1 ? new Uint8Array(buffer) : width === 2 ? new Uint16Array(buffer) : new Uint32Array(buffer)
      const validity = validityOf(vector, rows)
      return stringData(
        arrow,
        rows,
        validity,
        joined(rows, validity, (index) => texts[codes[index] ?? 0]),
      )
    },
  }
}

/** Converts values to the engine's own text, through `@duckdb/node-api`. */
function textReader(type: DuckDBType): TypeReader {
  const arrow = new Utf8()
  const encoder = new TextEncoder()
  return {
    arrow,
    read: (vector, rows) => {
      const validity = validityOf(vector, rows)
      const values = DuckDBVector.create(vector, rows.size, type)
      const text = (index: number) => encoder.encode(String(values.getItem(rows.at?.[index] ?? index)))
      return stringData(arrow, rows, validity, joined(rows, validity, text))
    },
  }
}

function joined(
  { count }: Rows,
  { bitmap }: Validity,
  textAt: (index: number) => Uint8Array | undefined,
): Strings {
  const offsets = new Int32Array(count + 1)
  const texts: Uint8Array[] = []
  let total = 0
  for (let index = 0; index < count; index += 1) {
    const text = bitmap === undefined || hasBit(bitmap, index) ? textAt(index) : undefined
    if (text !== undefined) texts.push(text)
    total += text?.length ?? 0
    offsets[index + 1] = total
  }
  const bytes = new Uint8Array(total)
  let at = 0
  for (const text of texts) {
    bytes.set(text, at)
    at += text.length
  }
  return { offsets, bytes }
}

function structReader({ entryNames, entryTypes }: DuckDBStructType): TypeReader {
  const children = entryTypes.map((type, index) => columnReader(entryNames[index] ?? '', type))
  const arrow = new Struct(children.map(({ field }) => field))
  return {
    arrow,
    read: (vector, rows) => {
      const validity = validityOf(vector, rows)
      const inner = { ...rows, within: validity.bitmap }
      return makeData({
        type: arrow,
        ...common(rows, validity),
        children: children.map(({ read }, index) => read(structChild(vector, index), inner)),
      })
    },
  }
}

function arrayReader({ valueType, length }: DuckDBArrayType): TypeReader {
  const child = columnReader('item', valueType)
  const arrow = new FixedSizeList(length, child.field)
  return {
    arrow,
    read: (vector, rows) => {
      const validity = validityOf(vector, rows)
      const { bitmap } = validity
      const count = rows.count * length
      const at = rows.at
      return makeData({
        type: arrow,
        ...common(rows, validity),
        child: child.read(arrayChild(vector), {
          size: rows.size * length,
          count,
          at:
            at &&
            Int32Array.from(
              { length: count },
              (_, item) => (at[Math.floor(item / length)] ?? 0) * length + (item % length),
            ),
          within: bitmap && bitmapOf(count, (item) => hasBit(bitmap, Math.floor(item / length))),
        }),
      })
    },
  }
}

function listReader({ valueType }: DuckDBListType): TypeReader {
  const child = columnReader('item', valueType)
  const arrow = new List(child.field)
  return {
    arrow,
    read: (vector, rows) => {
      const validity = validityOf(vector, rows)
      const { valueOffsets, items } = listItems(vector, rows, validity)
      return makeData({
        type: arrow,
        ...common(rows, validity),
        valueOffsets,
        child: child.read(listChild(vector).vector, items),
      })
    },
  }
}

/** In both formats, a map is a list of keys and values. */
function mapReader({ keyType, valueType }: DuckDBMapType): TypeReader {
  const key = columnReader('key', keyType)
  const value = columnReader('value', valueType)
  const entry = new Struct<{ key: DataType; value: DataType }>([
    new Field('key', key.field.type, false, key.field.metadata),
    value.field,
  ])
  const arrow = new Map_(new Field('entries', entry, false))
  return {
    arrow,
    read: (vector, rows) => {
      const validity = validityOf(vector, rows)
      const { valueOffsets, items } = listItems(vector, rows, validity)
      const entries = listChild(vector).vector
      const children = [key.read(structChild(entries, 0), items), value.read(structChild(entries, 1), items)]
      const child = makeData({ type: entry, length: items.count, nullCount: 0, children })
      return makeData({ type: arrow, ...common(rows, validity), valueOffsets, child })
    },
  }
}

/**
 * Arrow's offset of each list, and the child items to read. Arrow needs consecutive items, but the engine may share or reorder
 * them.
 */
function listItems(
  vector: Vector,
  rows: Rows,
  { bitmap }: Validity,
): { valueOffsets: Int32Array; items: Rows } {
  const entries = listEntries(vector, rows)
  const { size } = listChild(vector)
  const valueOffsets = new Int32Array(rows.count + 1)
  const starts = new Int32Array(rows.count)
  let count = 0
  let isInOrder = true
  for (let index = 0; index < rows.count; index += 1) {
    if (bitmap === undefined || hasBit(bitmap, index)) {
      const entry = (rows.at?.[index] ?? index) * 2
      starts[index] = Number(entries[entry])
      const length = Number(entries[entry + 1])
      isInOrder &&= length === 0 || starts[index] === count
      count += length
    }
    valueOffsets[index + 1] = count
  }
  if (isInOrder) return { valueOffsets, items: { size, count } }
  const at = new Int32Array(count)
  for (let index = 0; index < rows.count; index += 1) {
    const first = valueOffsets[index] ?? 0
    for (let item = first; item < (valueOffsets[index + 1] ?? 0); item += 1)
      at[item] = (starts[index] ?? 0) + item - first
  }
  return { valueOffsets, items: { size, count, at } }
}
