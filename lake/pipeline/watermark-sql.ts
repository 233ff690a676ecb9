// Puts the watermark into rendered SQL as a value, whatever its text is. While a template is rendered, private characters stand
// for the characters of the value. They show where the value stands in the rendered SQL. It is escaped inside
// quotes, and becomes a literal of its type outside of them.

import { quoteLiteral } from '../quote.ts'

export type SqlDialect = 'duckdb' | 'spark'

interface WatermarkLiteral {
  readonly value: string
  /** DuckDB's name of the column's type. */
  readonly type: string
  readonly dialect: SqlDialect
}

/** The value cannot stand where the template puts it. */
export class Misplaced extends Error {}

/**
 * Renders a template with a value in place of the watermark. `render` renders it with a text in that place. Throws Misplaced, and the
 * errors of `render`.
 */
export function renderValue(
  literal: WatermarkLiteral,
  template: string,
  render: (text: string) => string,
): string {
  const { value, type, dialect } = literal
  const cipher = cipherOf(value, template)
  const risky = render(cipher.risky)
  const all = rendered(() => render(cipher.all))
  if (all !== null && cipher.decode(all) === cipher.decode(risky)) return placed(all, cipher, literal)
  // The template computes with the value, so its own text is needed. Text is then allowed in quotes only.
  if (type === 'VARCHAR' && (isBare(all ?? '', cipher, dialect) || isBare(risky, cipher, dialect)))
    throw new Misplaced('watermark_value is text: write what the template makes of it in quotes')
  if (cipher.decode(risky) !== render(value))
    throw new Misplaced('the template changes special characters of watermark_value: use the value as it is')
  return placed(risky, cipher, literal)
}

/** A filter may refuse stand-ins, such as `int`. */
function rendered(render: () => string): string | null {
  try {
    return render()
  } catch {
    return null
  }
}

/** The first of the private characters of Unicode, which texts rarely contain. */
const FIRST_PRIVATE = 0xf0000
/** Characters that have no meaning inside of quotes, in both dialects. */
const HARMLESS = /[\p{L}\p{N}_ .:+-]/u

/** Stand-ins for the characters of a value. */
interface Cipher {
  /** The value with a stand-in for each character. */
  readonly all: string
  /** The value with stand-ins for the characters that may have a meaning in SQL. */
  readonly risky: string
  decode(text: string): string
  /** Matches stand-ins that follow each other. */
  readonly runs: RegExp
}

/** Chooses stand-ins that the template does not contain. */
function cipherOf(value: string, template: string): Cipher {
  const taken = new Set(template)
  const codes = new Map<string, string>()
  const characters = new Map<string, string>()
  let code = FIRST_PRIVATE
  const next = (): string => {
    const character = String.fromCodePoint(code++)
    return taken.has(character) ? next() : character
  }
  for (const character of new Set(value)) {
    const standIn = next()
    codes.set(character, standIn)
    characters.set(standIn, character)
  }
  const encoded = (which: (character: string) => boolean) =>
    [...value].map((each) => (which(each) ? (codes.get(each) ?? each) : each)).join('')
  const runs = new RegExp(`[${[...characters.keys()].join('')}]+`, 'gu')
  return {
    all: encoded(() => true),
    risky: encoded((character) => !HARMLESS.test(character)),
    decode: (text) =>
      text.replace(runs, (run) => [...run].map((each) => characters.get(each) ?? each).join('')),
    runs,
  }
}

/** Whether a stand-in is outside of quotes, names and comments. */
const isBare = (sql: string, { runs }: Cipher, dialect: SqlDialect): boolean =>
  partsOf(sql, dialect).some(({ kind, text }) => kind === 'code' && text.search(runs) !== -1)

/** Replaces the stand-ins in rendered SQL. Throws Misplaced. */
function placed(sql: string, cipher: Cipher, literal: WatermarkLiteral): string {
  return partsOf(sql, literal.dialect)
    .map(({ kind, text, quote }) => {
      if (kind === 'code') return placedInCode(text, cipher, literal)
      return text.replace(cipher.runs, (run) => inQuotes(cipher.decode(run), quote))
    })
    .join('')
}

/** `code` is one word, or text without words. */
interface Part {
  readonly kind: 'code' | 'quoted'
  readonly text: string
  readonly quote: Quote
}

/** The quotes of a part. Inside `raw` and `dollar`, nothing can be escaped. */
type Quote = "'" | '"' | '`' | 'backslash' | 'raw' | 'dollar' | 'comment' | 'none'

const NAME_CHARACTER = 'A-Za-z_\\u0080-\\u{10ffff}'
const WORD = `[${NAME_CHARACTER}][\\w$\\u0080-\\u{10ffff}]*`
const COMMENT = '--[^\\n\\r]*|\\/\\*'
// A text without an end goes to the end of the SQL, also after a last backslash. So no pattern goes back.
const doubled = (quote: string) => `${quote}[^${quote}]*(?:${quote}${quote}[^${quote}]*)*(?:${quote}|$)`
const escaped = (quote: string, more = '') =>
  `${quote}[^${quote}\\\\]*(?:(?:\\\\[\\s\\S]${more})[^${quote}\\\\]*)*(?:${quote}|\\\\?$)`

const PARTS: Record<SqlDialect, string> = {
  duckdb: [
    COMMENT,
    `[eE]${escaped("'", "|''")}`,
    doubled("'"),
    doubled('"'),
    `\\$(?:${WORD})?\\$`,
    WORD,
  ].join('|'),
  spark: [COMMENT, '[rR](?:\'[^\']*\'|"[^"]*")', escaped("'"), escaped('"'), doubled('`'), WORD].join('|'),
}

function partsOf(sql: string, dialect: SqlDialect): Part[] {
  const parts: Part[] = []
  const pattern = new RegExp(PARTS[dialect], 'gu')
  let end = 0
  for (let match = pattern.exec(sql); match !== null; match = pattern.exec(sql)) {
    const [start] = match
    const quote = quoteOf(start, dialect)
    if (quote === 'dollar') pattern.lastIndex = afterText(sql, start, match.index + start.length)
    else if (start === '/*') pattern.lastIndex = afterComment(sql, match.index)
    parts.push({ kind: 'code', text: sql.slice(end, match.index), quote: 'none' })
    end = pattern.lastIndex
    const text = sql.slice(match.index, end)
    parts.push({ kind: quote === 'none' ? 'code' : 'quoted', text, quote })
  }
  return [...parts, { kind: 'code', text: sql.slice(end), quote: 'none' }]
}

function quoteOf(start: string, dialect: SqlDialect): Quote {
  if (start.startsWith('--') || start === '/*') return 'comment'
  if (/^[rR]['"]/.test(start) && dialect === 'spark') return 'raw'
  if (/^[eE]'/.test(start) && dialect === 'duckdb') return 'backslash'
  const [first] = start
  if (first === '$') return 'dollar'
  if (first === '`') return '`'
  if (first !== "'" && first !== '"') return 'none'
  return dialect === 'spark' ? 'backslash' : first
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

function inQuotes(value: string, quote: Quote): string {
  refuseNull(value)
  switch (quote) {
    case "'":
    case '"':
    case '`':
      return value.replaceAll(quote, quote + quote)
    case 'backslash':
      return value.replace(/[\\'"]/g, '\\$&')
    case 'raw':
    case 'dollar':
      if (/['"$]/.test(value)) throw new Misplaced('watermark_value has quotes: write it in plain quotes')
      return value
    default:
      return value.replace(/[^\p{L}\p{N}_ .:+-]/gu, '?')
  }
}

function placedInCode(text: string, cipher: Cipher, { value, type, dialect }: WatermarkLiteral): string {
  if (text.search(cipher.runs) === -1) return text
  const decoded = cipher.decode(text)
  const isAlone = text.replace(cipher.runs, '') === ''
  if (isAlone) return decoded === value ? typed(value, type, dialect) : textLiteral(decoded, dialect)
  if (!/^\w+$/.test(decoded))
    throw new Misplaced('watermark_value is part of a name: write it alone, or in quotes')
  return decoded
}

const textLiteral = (value: string, dialect: SqlDialect): string => {
  refuseNull(value)
  return dialect === 'spark' ? `'${inQuotes(value, 'backslash')}'` : quoteLiteral(value)
}

function refuseNull(value: string) {
  if (value.includes('\0')) throw new Misplaced('watermark_value contains a null byte')
}

const SPARK_TYPES: Readonly<Record<string, string>> = {
  INTEGER: 'INT',
  TIMESTAMP: 'TIMESTAMP_NTZ',
  'TIMESTAMP WITH TIME ZONE': 'TIMESTAMP',
}

/** The value as a literal of its type. A number is written as it is, so that arithmetic needs no thought. */
function typed(value: string, type: string, dialect: SqlDialect): string {
  const isPlain = /^(?:INTEGER|BIGINT|DECIMAL\(.*\))$/.test(type) && /^-?\d+(?:\.\d+)?$/.test(value)
  if (isPlain) return value.startsWith('-') ? `(${value})` : value
  const text = textLiteral(value, dialect)
  const name = dialect === 'spark' ? (SPARK_TYPES[type] ?? type) : type
  return type === 'VARCHAR' || type === 'UUID' ? text : `CAST(${text} AS ${name})`
}
