// The tokens of a SQL text. They locate names in a text that the engine's parser has accepted or will check later. The scanner
// only moves forward, so its time grows with the length of the text, whatever an author writes.

export interface Token {
  at: number
  text: string
  /** The name of an identifier, without its quotes. */
  name?: string
}

const BLANK = /\s+/y
const WORD = /[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*/y
const NUMBER = /\d\w*/y
const DOLLAR = /\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$/y

/** Splits a text into the tokens of the engine's scanner, without blanks and comments. An unclosed token extends to the end. */
export function tokensOf(sql: string): Token[] {
  const tokens: Token[] = []
  for (let at = afterBlanks(sql, 0); at < sql.length; ) {
    const end = afterToken(sql, at)
    tokens.push({ at, ...tokenIn(sql.slice(at, end)) })
    at = afterBlanks(sql, end)
  }
  return tokens
}

function tokenIn(text: string): Omit<Token, 'at'> {
  if (text.startsWith('"')) {
    const isClosed = text.length > 1 && text.endsWith('"')
    return { text, name: text.slice(1, isClosed ? -1 : undefined).replaceAll('""', '"') }
  }
  return matchedAt(WORD, text, 0) === text.length ? { text, name: text } : { text }
}

/** The position after blanks and comments. A line comment ends at a line feed or a carriage return. */
export function afterBlanks(sql: string, start: number): number {
  let at = start
  for (;;) {
    if (sql.startsWith('--', at)) at = afterLine(sql, at)
    else if (sql.startsWith('/*', at)) at = afterComment(sql, at)
    else {
      const blank = matchedAt(BLANK, sql, at)
      if (blank === 0) return at
      at += blank
    }
  }
}

function afterToken(sql: string, at: number): number {
  const character = sql.charAt(at)
  if (character === "'" || character === '"') return afterQuoted(sql, character, at + 1)
  if ((character === 'e' || character === 'E') && sql.charAt(at + 1) === "'") return afterEscaped(sql, at + 2)
  if (character === '$') {
    const mark = matchedAt(DOLLAR, sql, at)
    if (mark > 0) return afterText(sql, sql.slice(at, at + mark), at + mark)
  }
  return at + (matchedAt(WORD, sql, at) || matchedAt(NUMBER, sql, at) || 1)
}

/** The length of a match at a position; 0 without a match. */
function matchedAt(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at
  return pattern.test(text) ? pattern.lastIndex - at : 0
}

function afterLine(sql: string, from: number): number {
  let at = from
  while (at < sql.length && sql.charAt(at) !== '\n' && sql.charAt(at) !== '\r') at += 1
  return at
}

/** A doubled quote belongs to the text. */
function afterQuoted(sql: string, quote: string, from: number): number {
  let at = sql.indexOf(quote, from)
  while (at !== -1 && sql.charAt(at + 1) === quote) at = sql.indexOf(quote, at + 2)
  return at === -1 ? sql.length : at + 1
}

/** `E'it\'s'`: a backslash escapes the next character. */
function afterEscaped(sql: string, from: number): number {
  for (let at = from; at < sql.length; ) {
    const character = sql.charAt(at)
    const isPair = character === '\\' || (character === "'" && sql.charAt(at + 1) === "'")
    if (character === "'" && !isPair) return at + 1
    at += isPair ? 2 : 1
  }
  return sql.length
}

/** Returns the position after a comment. Comments can be nested. */
function afterComment(sql: string, start: number): number {
  const mark = /\/\*|\*\//g
  mark.lastIndex = start
  let depth = 0
  for (let match = mark.exec(sql); match !== null; match = mark.exec(sql)) {
    depth += match[0] === '/*' ? 1 : -1
    if (depth === 0) return mark.lastIndex
  }
  return sql.length
}

function afterText(sql: string, closing: string, from: number): number {
  const at = sql.indexOf(closing, from)
  return at === -1 ? sql.length : at + closing.length
}
