// The header `Range` (RFC 9110, section 14).
import type { ByteRange } from '../objects/port.ts'

/**
 * The requested bytes of an object. Null: the whole object, because the header is absent, invalid, or names several ranges.
 * `unsatisfiable`: no byte of the object is in the range.
 */
export function rangeOf(header: string | null, size: number): ByteRange | null | 'unsatisfiable' {
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(header?.trim() ?? '') ?? []
  if (first === '' && last === '') return null
  if (first === '') {
    const length = Math.min(Number(last), size)
    return length === 0 ? 'unsatisfiable' : { start: size - length, end: size }
  }
  const start = Number(first)
  if (last !== '' && Number(last) < start) return null
  if (start >= size) return 'unsatisfiable'
  return { start, end: last === '' ? size : Math.min(Number(last) + 1, size) }
}
