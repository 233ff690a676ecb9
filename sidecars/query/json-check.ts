import { isUtf8 } from 'node:buffer'

// JSON text that an engine has written, read once without making anything of it: to make objects of rows only to see that they
// are some takes longer than the query.

/**
 * Whether bytes are the text of so many objects with exactly these names, in this order: `{"a":1},{"a":2}`. As their writer
 * has it: between values there are no blanks.
 */
export function areRows(bytes: Uint8Array, names: readonly string[], count: number): boolean {
  if (count === 0) return bytes.length === 0
  if (names.length === 0 || !isUtf8(bytes)) return false
  const keys = names.map((name, index) =>
    encoder.encode(`${index === 0 ? '{' : ','}${JSON.stringify(name)}:`),
  )
  let at = 0
  for (let row = 0; row < count; row += 1) {
    if (row > 0 && bytes[at++] !== COMMA) return false
    for (const key of keys) {
      for (let index = 0; index < key.length; index += 1) if (bytes[at++] !== key[index]) return false
      at = afterValue(bytes, at)
      if (at === NONE) return false
    }
    if (bytes[at++] !== CLOSING_BRACE) return false
  }
  return at === bytes.length
}

const encoder = new TextEncoder()

/** Stands for a place where there is none, because the text is no JSON. */
const NONE = -1

const [QUOTE, COMMA, COLON, BACKSLASH, LETTER_U, LETTER_E] = [34, 44, 58, 92, 117, 101]
const [OPENING_BRACKET, CLOSING_BRACKET, OPENING_BRACE, CLOSING_BRACE] = [91, 93, 123, 125]
const [MINUS, PLUS, POINT, ZERO, NINE, FIRST_PRINTABLE] = [45, 43, 46, 48, 57, 32]
const LOWER_CASE = 32
const LITERALS = new Map(['null', 'true', 'false'].map((text) => [text.charCodeAt(0), encoder.encode(text)]))
/** What may stand behind a backslash, but for `u` and its digits. */
const SHORT_ESCAPES: ReadonlySet<number | undefined> = new Set(encoder.encode('"\\/bfnrt'))

/** The end of the value that begins there. What is nested is followed in a list: however deep, it takes no call. */
function afterValue(bytes: Uint8Array, start: number): number {
  let at = start
  const open: number[] = []
  for (;;) {
    const code = bytes[at]
    if (code === OPENING_BRACKET || code === OPENING_BRACE) {
      const closing = code === OPENING_BRACKET ? CLOSING_BRACKET : CLOSING_BRACE
      at += 1
      if (bytes[at] !== closing) {
        open.push(closing)
        if (closing === CLOSING_BRACE) at = afterKey(bytes, at)
        if (at === NONE) return NONE
        continue
      }
      at += 1
    } else at = afterPlain(bytes, at)
    if (at === NONE) return NONE
    while (open.length > 0 && bytes[at] === open.at(-1)) {
      open.pop()
      at += 1
    }
    const closing = open.at(-1)
    if (closing === undefined) return at
    if (bytes[at] !== COMMA) return NONE
    at += 1
    if (closing === CLOSING_BRACE) at = afterKey(bytes, at)
    if (at === NONE) return NONE
  }
}

function afterKey(bytes: Uint8Array, start: number): number {
  if (bytes[start] !== QUOTE) return NONE
  const at = afterText(bytes, start)
  return at !== NONE && bytes[at] === COLON ? at + 1 : NONE
}

function afterPlain(bytes: Uint8Array, start: number): number {
  const code = bytes[start] ?? 0
  if (code === QUOTE) return afterText(bytes, start)
  if (code === MINUS || isDigit(code)) return afterNumber(bytes, start)
  const literal = LITERALS.get(code)
  if (literal === undefined) return NONE
  for (let index = 1; index < literal.length; index += 1)
    if (bytes[start + index] !== literal[index]) return NONE
  return start + literal.length
}

/** It begins with its quote. */
function afterText(bytes: Uint8Array, start: number): number {
  for (let at = start + 1; ; at += 1) {
    const code = bytes[at] ?? 0
    if (code === QUOTE) return at + 1
    if (code < FIRST_PRINTABLE) return NONE
    if (code !== BACKSLASH) continue
    at += 1
    if (bytes[at] !== LETTER_U) {
      if (!SHORT_ESCAPES.has(bytes[at])) return NONE
      continue
    }
    for (let digit = 1; digit <= 4; digit += 1) if (!isHexDigit(bytes[at + digit] ?? 0)) return NONE
    at += 4
  }
}

function afterNumber(bytes: Uint8Array, start: number): number {
  let at = bytes[start] === MINUS ? start + 1 : start
  at = bytes[at] === ZERO ? at + 1 : afterDigits(bytes, at)
  if (at !== NONE && bytes[at] === POINT) at = afterDigits(bytes, at + 1)
  if (at === NONE || ((bytes[at] ?? 0) | LOWER_CASE) !== LETTER_E) return at
  const sign = bytes[at + 1]
  return afterDigits(bytes, sign === PLUS || sign === MINUS ? at + 2 : at + 1)
}

/** One at least. */
function afterDigits(bytes: Uint8Array, start: number): number {
  let at = start
  while (isDigit(bytes[at] ?? 0)) at += 1
  return at === start ? NONE : at
}

const isDigit = (code: number) => code >= ZERO && code <= NINE
const isHexDigit = (code: number) =>
  isDigit(code) || ((code | LOWER_CASE) >= 97 && (code | LOWER_CASE) <= 102)
