import { randomBytes } from 'node:crypto'

declare const brand: unique symbol
type Branded<Name extends string> = string & { readonly [brand]: Name }

export type PipelineId = Branded<'PipelineId'>
export type RunId = Branded<'RunId'>
export type TriggerId = Branded<'TriggerId'>
export type ZoneId = Branded<'ZoneId'>
export type LandingFileId = Branded<'LandingFileId'>

export type NewId = () => string

let latest = 0
let counter = 0

/**
 * A version 7 UUID (RFC 9562, section 6.2, method 1): ordered by time, so that indexes on it grow at one end, and by
 * a counter within one millisecond, so that what one process asks for later sorts later.
 */
export function newId(): string {
  const now = Date.now()
  if (now > latest) {
    latest = now
    counter = randomBytes(2).readUInt16BE() & 0x7ff
  } else if (++counter > 0xfff) {
    latest += 1
    counter = 0
  }
  const bytes = sixteenBytes()
  bytes.writeUIntBE(latest, 0, 6)
  bytes.writeUInt16BE(0x7000 | counter, 6)
  bytes.writeUInt8(0x80 | (bytes.readUInt8(8) & 0x3f), 8)
  const hex = bytes.toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

/** Asked for many at a time, which costs little more than asking for one. */
const POOL_BYTES = 4_096
let pool = randomBytes(POOL_BYTES)
let used = 0

function sixteenBytes() {
  if (used === POOL_BYTES) {
    pool = randomBytes(POOL_BYTES)
    used = 0
  }
  used += 16
  return pool.subarray(used - 16, used)
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
export const isUuid = (text: string) => UUID.test(text)
