// Messages on a byte stream: a length of four bytes, then JSON. Dates and bytes, which JSON does not know, are marked.

/** A message as it goes over the wire. */
export function frameOf(message: unknown): Uint8Array {
  const text = JSON.stringify(message, function (this: Record<string, unknown>, key, value) {
    // Dates have become texts before they come here.
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
 * Takes chunks as they come and hands on whole messages; throws what `hear` throws, and at a message longer than
 * `bytesMax`, after which the stream is of no use.
 */
export function makeFrameReader(hear: (message: unknown) => void) {
  let chunks: Uint8Array[] = []
  let size = 0
  let wanted = HEAD_BYTES
  let isHead = true

  return (chunk: Uint8Array, bytesMax: number) => {
    chunks.push(chunk)
    size += chunk.byteLength
    while (size >= wanted) {
      const bytes =
        chunks.length === 1 && chunks[0]
          ? Buffer.from(chunks[0].buffer, chunks[0].byteOffset, size)
          : Buffer.concat(chunks)
      const taken = bytes.subarray(0, wanted)
      chunks = [bytes.subarray(wanted)]
      size -= wanted
      if (isHead) {
        wanted = taken.readUInt32BE()
        if (wanted > bytesMax) throw new Error(`a message of ${wanted} bytes`)
        isHead = false
        continue
      }
      isHead = true
      wanted = HEAD_BYTES
      hear(JSON.parse(taken.toString(), revive))
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
