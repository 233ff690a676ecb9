import { readSync } from 'node:fs'

// The decompressor of the runtime does not report a missing end of a zstd file. The blocks of each frame tell their sizes.
// The format is RFC 8878.

const MAGIC = 0xfd2fb528
const SKIPPABLE = 0x184d2a50
const CHECKSUM_BYTES = 4
const RLE = 1
/** Magic number, frame header, and the header of a block. */
const HEADER_BYTES = 18
const BLOCK_HEADER_BYTES = 3

/** Whether every frame of the file is there to its end. Reads only headers, forward. */
export function hasWholeFrames(file: number, size: number): boolean {
  let at = 0
  while (at < size) {
    const end = frameEnd(file, at)
    if (end === null || end > size) return false
    at = end
  }
  return size > 0
}

/** The end of a frame as its headers tell; null: not a frame, or the file ends before. */
function frameEnd(file: number, start: number): number | null {
  const head = bytesAt(file, start, HEADER_BYTES)
  if (head.length < 8) return null
  const magic = head.readUInt32LE(0)
  // The low digit of a skippable frame's number is free.
  if (magic - (magic % 16) === SKIPPABLE) return start + 8 + head.readUInt32LE(4)
  if (magic !== MAGIC) return null
  const flags = head.readUInt8(4)
  const isSingleSegment = (flags & 0x20) !== 0
  const hasChecksum = (flags & 0x04) !== 0
  const contentSizeBytes = [isSingleSegment ? 1 : 0, 2, 4, 8][flags >> 6] ?? 0
  const dictionaryBytes = [0, 1, 2, 4][flags & 0x03] ?? 0
  let at = start + 5 + (isSingleSegment ? 0 : 1) + dictionaryBytes + contentSizeBytes
  for (;;) {
    const header = bytesAt(file, at, BLOCK_HEADER_BYTES)
    if (header.length < BLOCK_HEADER_BYTES) return null
    const block = header.readUIntLE(0, BLOCK_HEADER_BYTES)
    const isLast = (block & 1) === 1
    at += BLOCK_HEADER_BYTES + (((block >> 1) & 3) === RLE ? 1 : block >> 3)
    if (isLast) return at + (hasChecksum ? CHECKSUM_BYTES : 0)
  }
}

function bytesAt(file: number, at: number, length: number): Buffer {
  const bytes = Buffer.alloc(length)
  return bytes.subarray(0, readSync(file, bytes, 0, length, at))
}
