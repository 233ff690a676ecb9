// The batches of an Arrow IPC stream from an engine. A few bytes can claim to hold any number of values. So reading is limited
// by the number of bytes that arrived.
import { type Data, DataType, type RecordBatchReader } from 'apache-arrow'

interface StreamLimits {
  /** The sum over all batches. */
  rows: number
  /** The size of the stream. */
  bytes: number
}

export interface Batch {
  columns: Data[]
  rows: number
}

/**
 * Yields the batches that have rows. Throws RangeError when the stream holds fewer values than it claims, or more than the
 * limits allow.
 */
export function* batchesOf(reader: RecordBatchReader, { rows, bytes }: StreamLimits): Generator<Batch> {
  const { fields } = reader.schema
  let [rowsLeft, bytesLeft] = [rows, bytes]
  for (const { data, numRows } of reader) {
    rowsLeft -= numRows
    if (rowsLeft < 0) throw new RangeError(`the Arrow stream has more than ${rows} rows`)
    // A stream without batches also reads as a stream without columns.
    if (numRows === 0) continue
    if (fields.length === 0) throw new RangeError('the Arrow stream has rows without columns')
    bytesLeft -= data.byteLength
    if (bytesLeft < 0) throw new RangeError('the columns of the Arrow stream share their bytes')
    const columns = fields.map((_, index) => childOf(data, index))
    for (const column of columns) if (!DataType.isNull(column.type)) requireSound(column)
    yield { columns, rows: numRows }
  }
}

/** Throws RangeError unless each value has its own bytes or items. */
export function requireSound(data: Data): void {
  const { type, length, children } = data
  if (length === 0) return
  if (!isSound(data, type))
    throw new RangeError(`an Arrow column of type ${type} has fewer values than it declares`)
  for (const child of children) requireSound(child)
}

function isSound(data: Data, type: DataType): boolean {
  const { length, values, valueOffsets, children, stride } = data
  if (DataType.isUtf8(type) || DataType.isBinary(type)) return isRising(valueOffsets, length, values.length)
  if (DataType.isList(type) || DataType.isMap(type))
    return isRising(valueOffsets, length, childOf(data, 0).length)
  if (DataType.isFixedSizeList(type))
    return type.listSize > 0 && length * type.listSize <= childOf(data, 0).length
  if (DataType.isStruct(type)) return children.length > 0 && children.every((child) => child.length >= length)
  // A null column has no buffers, so its length cannot be checked. The engine gives each NULL inside a list or struct a type.
  if (DataType.isNull(type)) return false
  return length <= (DataType.isBool(type) ? 8 * values.length : values.length / stride)
}

/** Whether the first `count + 1` offsets start at 0 or later, never decrease, and stay within `end`. */
function isRising(offsets: Int32Array, count: number, end: number): boolean {
  let last = 0
  for (let index = 0; index <= count; index += 1) {
    const offset = offsets[index] ?? -1
    if (offset < last) return false
    last = offset
  }
  return last <= end
}

export function childOf({ children }: Data, index: number): Data {
  const child = children[index]
  if (child === undefined) throw new TypeError(`the Arrow data has no column ${index}`)
  return child
}
