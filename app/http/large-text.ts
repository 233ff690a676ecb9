// One large text in a JSON body, taken out as bytes: as texts, the body, what is parsed of it and what is stored of it would
// be in memory at the same time, each as large as the file.
import { isUtf8 } from 'node:buffer'
import { AppError, invalid } from '../core/errors.ts'
import { limits } from '../core/limits.ts'

export interface TakenOut {
  /** The body with an empty text in the place of the large one. */
  rest: string
  /** The large text as UTF-8; it lies in the memory of the body. */
  text: Uint8Array
}

const LARGE_BYTES = 65_536
const [QUOTE, BACKSLASH, OPEN, CLOSE, COMMA, COLON] = [0x22, 0x5c, 0x7b, 0x7d, 0x2c, 0x3a]
const [OPEN_LIST, CLOSE_LIST] = [0x5b, 0x5d]

/**
 * Takes the text of the body's own field `name` out of it, in place: the bytes are not the body any more. Null, and nothing
 * is changed, where it is not there once and large, or the rest is too much: then the body is to be read as any other.
 * Whether the rest is JSON is for whoever parses it; 400 where the text is none, or cannot be stored.
 */
export function takeOut(body: Uint8Array, name: string): TakenOut | null {
  const place = placeOf(body, new TextEncoder().encode(`"${name}"`))
  if (place === null) return null
  const { start, end } = place
  const restBytes = body.byteLength - (end - start)
  if (end - start < LARGE_BYTES || restBytes > limits.jsonBodyBytes) return null
  const rest = utf8Of(body.subarray(0, start)) + utf8Of(body.subarray(end))
  const text = body.subarray(start, withoutEscapes(body, { start, end, name }))
  // A decoder would make a text of it, to be thrown away.
  if (!isUtf8(text)) throw notUtf8()
  return { rest, text }
}

/** The bytes between the quotes of the field's value; null where there is none such, or more than one. */
function placeOf(body: Uint8Array, quoted: Uint8Array): { start: number; end: number } | null {
  let found: { start: number; end: number } | null = null
  let depth = 0
  let isKeyNext = false
  for (let at = 0; at < body.byteLength; at++) {
    switch (body[at]) {
      case OPEN:
        depth += 1
        isKeyNext = depth === 1
        break
      case COMMA:
        isKeyNext = depth === 1
        break
      case OPEN_LIST:
        depth += 1
        break
      case CLOSE:
      case CLOSE_LIST:
        depth -= 1
        break
      case QUOTE: {
        const end = endOfText(body, at)
        if (end === -1) return null
        const isMeant = isKeyNext && isEqual(body.subarray(at, end + 1), quoted)
        // Another way of writing the same name would be the same field.
        if (isKeyNext && !isMeant && body.subarray(at, end).includes(BACKSLASH)) return null
        isKeyNext = false
        at = end
        if (!isMeant) break
        if (found !== null) return null
        const opening = afterSpace(body, afterSpace(body, end + 1, COLON), QUOTE)
        if (opening === -1) return null
        const closing = endOfText(body, opening - 1)
        if (closing === -1) return null
        found = { start: opening, end: closing }
        at = closing
      }
    }
  }
  return found
}

/** Where a text ends that begins with the quote at `from`; -1: nowhere. */
function endOfText(body: Uint8Array, from: number): number {
  for (let at = body.indexOf(QUOTE, from + 1); at !== -1; at = body.indexOf(QUOTE, at + 1)) {
    let backslashes = 0
    while (body[at - 1 - backslashes] === BACKSLASH && at - 1 - backslashes > from) backslashes++
    if (backslashes % 2 === 0) return at
  }
  return -1
}

/** The place after `byte`, which comes next but for white space; -1: it does not. */
function afterSpace(body: Uint8Array, from: number, byte: number): number {
  if (from === -1) return -1
  let at = from
  while (SPACE.has(body[at] ?? 0)) at++
  return body[at] === byte ? at + 1 : -1
}
const SPACE: ReadonlySet<number> = new Set([0x20, 0x09, 0x0a, 0x0d])

const isEqual = (a: Uint8Array, b: Uint8Array) =>
  a.byteLength === b.byteLength && a.every((byte, index) => byte === b[index])

/** What an escape of one letter stands for, by the letter. */
const LETTERS: ReadonlyMap<number, number> = new Map(
  Object.entries({ '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }).map(
    ([letter, meant]) => [letter.charCodeAt(0), meant.charCodeAt(0)],
  ),
)
const LETTER_U = 0x75

interface Text {
  start: number
  end: number
  name: string
}

/** Writes the text over itself, escapes as what they mean, which never takes more bytes; answers where it ends now. */
function withoutEscapes(body: Uint8Array, { start, end, name }: Text): number {
  const encoder = new TextEncoder()
  let to = body.indexOf(BACKSLASH, start)
  if (to === -1 || to > end) to = end
  for (let at = start; at < to; at++) if ((body[at] ?? 0) < 0x20) throw notJson()
  for (let at = to; at < end; ) {
    const byte = body[at] ?? 0
    if (byte < 0x20) throw notJson()
    if (byte !== BACKSLASH) {
      body[to++] = byte
      at += 1
      continue
    }
    const letter = body[at + 1] ?? 0
    if (letter !== LETTER_U) {
      const meant = LETTERS.get(letter)
      if (meant === undefined) throw notJson()
      body[to++] = meant
      at += 2
      continue
    }
    const unit = unitAt(body, at + 2, end)
    at += 6
    if (unit === 0) throw invalid(name, 'must not contain a NUL character')
    if (unit < 0xd800 || unit > 0xdfff) {
      to = putUnit(body, to, unit)
      continue
    }
    const isPair = unit < 0xdc00 && body[at] === BACKSLASH && body[at + 1] === LETTER_U
    const low = isPair ? unitAt(body, at + 2, end) : 0
    if (low < 0xdc00 || low > 0xdfff) throw invalid(name, 'must be valid Unicode')
    at += 6
    to += encoder.encodeInto(String.fromCharCode(unit, low), body.subarray(to)).written
  }
  return to
}

/** Writes a code unit that stands for itself as UTF-8 (RFC 3629), and answers where the next one goes. */
function putUnit(body: Uint8Array, at: number, unit: number): number {
  let to = at
  if (unit < 0x80) {
    body[to++] = unit
    return to
  }
  if (unit < 0x800) body[to++] = 0xc0 | (unit >> 6)
  else {
    body[to++] = 0xe0 | (unit >> 12)
    body[to++] = 0x80 | ((unit >> 6) & 0x3f)
  }
  body[to++] = 0x80 | (unit & 0x3f)
  return to
}

/** The code unit that four hexadecimal digits say. */
function unitAt(body: Uint8Array, at: number, end: number): number {
  if (at + 4 > end) throw notJson()
  let unit = 0
  for (let n = 0; n < 4; n++) {
    unit = unit * 16 + digitOf(body[at + n] ?? 0)
  }
  return unit
}

function digitOf(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30
  const letter = code | 0x20
  if (letter >= 0x61 && letter <= 0x66) return letter - 0x57
  throw notJson()
}

function utf8Of(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (cause) {
    throw notUtf8(cause)
  }
}

const notUtf8 = (cause?: unknown) =>
  new AppError(400, 'INVALID_ARGUMENT', 'body: is not valid UTF-8', { cause })
const notJson = () => new AppError(400, 'INVALID_ARGUMENT', 'body: is not valid JSON')
