import { randomBytes } from 'node:crypto'

declare const brand: unique symbol
type Branded<Name extends string> = string & { readonly [brand]: Name }

export type PipelineId = Branded<'PipelineId'>
export type RunId = Branded<'RunId'>
export type TriggerId = Branded<'TriggerId'>

export type NewId = () => string

/** Bounds below and above every id, for iteration in the order of ids. */
export const FIRST_ID = '00000000-0000-0000-0000-000000000000'
export const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

let latest = 0
let counter = 0

/**
 * A version 7 UUID (RFC 9562, section 6.2, method 1). Ids are ordered by time, so that indexes on them grow at one end. A
 * counter orders the ids that one process creates within one millisecond.
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
  if (timeOf !== latest) {
    timeOf = latest
    const hex = latest.toString(16).padStart(12, '0')
    time = `${hex.slice(0, 8)}-${hex.slice(8)}`
  }
  const random = sixteenDigits()
  const variant = VARIANTS[HEX.indexOf(random.charAt(0))]
  return `${time}-${(0x7000 | counter).toString(16)}-${variant}${random.slice(1, 4)}-${random.slice(4)}`
}

const HEX = '0123456789abcdef'
const VARIANTS = '89ab89ab89ab89ab'

/** The first two groups of ids in this millisecond. */
let time = ''
let timeOf = 0

/** Random bytes are drawn and converted to text in bulk. One draw per id would cost more than the rest of the id. */
const POOL_BYTES = 4_096
let pool = ''
let used = 0

function sixteenDigits() {
  if (used === pool.length) {
    pool = randomBytes(POOL_BYTES).toString('hex')
    used = 0
  }
  used += 16
  return pool.slice(used - 16, used)
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
export const isUuid = (text: string) => UUID.test(text)
