// Messages on a byte stream: a length of four bytes, then JSON. Dates and bytes are marked, because JSON has no such types.

/** Encodes a message for the wire. */
export function frameOf(message: unknown): Uint8Array {
  const text = JSON.stringify(message, function (this: Record<string, unknown>, key, value) {
    // `value` of a date is already text here.
    const original = this[key]
    if (original instanceof Date) return { [DATE]: original.getTime() }
    if (original instanceof Uint8Array)
      return {
        [BYTES]: Buffer.from(original.buffer, original.byteOffset, original.byteLength).toString('base64'),
      }
    return value
  })
  const body = Buffer.from(text)
  const frame = Buffer.allocUnsafe(HEAD_BYTES + body.byteLength)
  frame.writeUInt32BE(body.byteLength)
  body.copy(frame, HEAD_BYTES)
  return frame
}

/**
 * Returns a function that consumes chunks and forwards whole messages to `onMessage`. It throws the errors of `onMessage`, and throws if
 * a message is longer than `bytesMax`. The stream is unusable after an error.
 */
export function makeFrameReader(onMessage: (message: unknown) => void) {
  let chunks: Uint8Array[] = []
  let size = 0
  let expectedBytes = HEAD_BYTES
  let isHead = true

  return (chunk: Uint8Array, bytesMax: number) => {
    chunks.push(chunk)
    size += chunk.byteLength
    while (size >= expectedBytes) {
      const bytes =
        chunks.length === 1 && chunks[0]
          ? Buffer.from(chunks[0].buffer, chunks[0].byteOffset, size)
          : Buffer.concat(chunks)
      const part = bytes.subarray(0, expectedBytes)
      chunks = [bytes.subarray(expectedBytes)]
      size -= expectedBytes
      if (isHead) {
        expectedBytes = part.readUInt32BE()
        if (expectedBytes > bytesMax)
          throw new Error(`message of ${expectedBytes} bytes exceeds the limit of ${bytesMax} bytes`)
        isHead = false
        continue
      }
      isHead = true
      expectedBytes = HEAD_BYTES
      onMessage(JSON.parse(part.toString(), revive))
    }
  }
}

const HEAD_BYTES = 4
const DATE = '$date'
const BYTES = '$bytes'

function revive(_: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (DATE in value && typeof value[DATE] === 'number') return new Date(value[DATE])
  if (BYTES in value && typeof value[BYTES] === 'string')
    return new Uint8Array(Buffer.from(value[BYTES], 'base64'))
  return value
}
