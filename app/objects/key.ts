import { AppError } from '../core/errors.ts'

/** Longest key in UTF-8 bytes; S3 has the same limit. */
const KEY_LIMIT_BYTES = 1024
const LAKE = '_lake/'
// The XML in which S3 lists keys cannot represent control characters.
const FORBIDDEN = /[\p{Cc}\p{Noncharacter_Code_Point}\\]/u

export class InvalidKey extends AppError {
  constructor(key: string, why: string) {
    super(400, 'INVALID_ARGUMENT', `path: ${JSON.stringify(key.slice(0, 200))} ${why}`)
  }
}

/** The last check before a key becomes a path of the file system; callers have already validated their paths. */
export function checkKey(key: string): void {
  checkPrefix(key)
  const last = key.slice(key.lastIndexOf('/') + 1)
  if (last === '') throw new InvalidKey(key, 'has an empty segment')
  if (isDots(last)) throw new InvalidKey(key, "has the segment '.' or '..'")
}

/** A prefix may be empty. Its last segment may be empty or the beginning of a name. */
export function checkPrefix(prefix: string): void {
  if (FORBIDDEN.test(prefix) || !prefix.isWellFormed())
    throw new InvalidKey(prefix, 'contains a control character, a backslash or invalid Unicode')
  if (Buffer.byteLength(prefix) > KEY_LIMIT_BYTES)
    throw new InvalidKey(prefix, `is longer than ${KEY_LIMIT_BYTES} bytes`)
  for (const segment of prefix.split('/').slice(0, -1)) {
    if (segment === '') throw new InvalidKey(prefix, 'has an empty segment')
    if (isDots(segment)) throw new InvalidKey(prefix, "has the segment '.' or '..'")
  }
}

/** The folder of a purge must end in '/': the prefix 'a/b' would also remove 'a/bc'. */
export function checkFolder(prefix: string): void {
  checkPrefix(prefix)
  if (!prefix.endsWith('/')) throw new InvalidKey(prefix, 'does not end with /')
}

export const isLakeKey = (key: string) => key.startsWith(LAKE)

/** Orders keys by their UTF-8 bytes, as S3 does. The UTF-16 order differs when surrogates meet U+E000 to U+FFFF. */
export function compareKeys(a: string, b: string): number {
  const shared = Math.min(a.length, b.length)
  for (let index = 0; index < shared; index++) {
    const left = a.charCodeAt(index)
    const right = b.charCodeAt(index)
    if (left !== right) return byteRank(left) - byteRank(right)
  }
  return a.length - b.length
}

const byteRank = (unit: number) => (unit >= 0xd800 && unit < 0xe000 ? unit + 0x2800 : unit)
const isDots = (segment: string) => segment === '.' || segment === '..'
