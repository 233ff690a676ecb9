// Refuses what a query of Spark could do besides reading tables. Names are compared outside of strings and comments. The server's
// parser decides whether the text is one query: the text is always sent inside `SELECT * FROM (...)`.

/** Functions that call code of the server, and clauses that start programs there. Source: Apache Spark, SQL reference. */
const EFFECTS: readonly (readonly [RegExp, string])[] = [
  [/\b(?:reflect|java_method|try_reflect)\s*\(/i, 'the query calls code of the server (reflect)'],
  [/\busing\s*\u00a4/i, 'the query starts a program on the server (TRANSFORM ... USING)'],
]

/** Why a text is no query that only reads; null: nothing was found. */
export function refusalOfQuery(text: string): string | null {
  const bare = bareOf(text.replaceAll('\u00a4', ' '))
  if (bare === null) return AMBIGUOUS
  if (bare.trim() === '') return 'there is no SELECT statement'
  if (/;[\s\u00a4]*\S/.test(bare.replace(/;\s*$/, ''))) return 'one SELECT statement is expected, not several'
  for (const [pattern, effect] of EFFECTS) {
    if (pattern.test(bare)) return `${effect}: a query may only read`
  }
  return null
}

const AMBIGUOUS =
  'a comment of the query contains /* or ends its line with a backslash, which engines read differently: remove it'

/** The starts of strings, quoted names and comments. */
const QUOTED = /--|\/\*|['"`]/g
const LINE_END = /[\n\r]|$/g

/**
 * The text without comments and strings, in one pass. A string becomes one character that no query contains otherwise. A quoted name may
 * be that of a function, so it stays. Null: engines disagree about the end of a comment.
 */
function bareOf(text: string): string | null {
  const parts: string[] = []
  let copied = 0
  for (let start = indexFrom(QUOTED, text, 0); start < text.length; start = indexFrom(QUOTED, text, copied)) {
    const mark = text.charAt(start)
    const isRaw = RAW_PREFIX.test(text.slice(Math.max(0, start - 2), start))
    parts.push(text.slice(copied, isRaw && mark !== '`' ? start - 1 : start))
    copied = endOfQuoted(text, start, isRaw)
    const quoted = text.slice(start, copied)
    if (mark === '`') parts.push(quoted.slice(1, -1))
    else if (mark === "'" || mark === '"') parts.push('\u00a4')
    else {
      const isNested = mark === '/' && quoted.lastIndexOf('/*') > 0
      if (isNested || (mark === '-' && quoted.endsWith('\\'))) return null
      parts.push(' ')
    }
  }
  return parts.join('') + text.slice(copied)
}

/** In a raw string, a backslash has no meaning. */
const RAW_PREFIX = /(?:^|\W)[rR]$/

/** The position after a string, a quoted name or a comment. An unclosed one extends to the end of the text. */
function endOfQuoted(text: string, start: number, isRaw: boolean): number {
  if (text.startsWith('--', start)) return indexFrom(LINE_END, text, start)
  const isComment = text.startsWith('/*', start)
  const closing = isComment ? '*/' : text.charAt(start)
  let at = start + closing.length
  const escapes = !isComment && !isRaw && closing !== '`'
  while (at < text.length && !text.startsWith(closing, at)) at += escapes && text.charAt(at) === '\\' ? 2 : 1
  return Math.min(text.length, at + closing.length)
}

/** The position of the next match; the length of the text without a match. */
function indexFrom(pattern: RegExp, text: string, from: number): number {
  pattern.lastIndex = from
  return pattern.exec(text)?.index ?? text.length
}

/** The query as a relation. A final semicolon is allowed, as in DuckDB. The line feeds keep comments inside. */
export const relationOf = (text: string) => `(\n${text.replace(/;\s*$/, '')}\n)`
