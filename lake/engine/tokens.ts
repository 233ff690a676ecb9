// The tokens of a SQL text. They locate names in a text that the engine's parser has accepted or will check later.

export interface Token {
  at: number
  text: string
  /** The name of an identifier, without its quotes. */
  name?: string
}

/** Tokens of the engine's scanner. An unclosed token extends to the end of the text. */
const TOKEN =
  /(?<blank>\s+|--[^\n\r]*)|(?<comment>\/\*)|(?<text>[eE]'(?:[^'\\]|\\[\s\S]|'')*(?:'|$)|'(?:[^']|'')*(?:'|$))|(?<dollar>\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$)|"(?<quoted>(?:[^"]|"")*)(?:"|$)|(?<word>[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*)|\d\w*|[\s\S]/y

/** Splits a text into the tokens of the engine's scanner, without blanks and comments. */
export function tokensOf(sql: string): Token[] {
  const tokens: Token[] = []
  TOKEN.lastIndex = 0
  for (let match = TOKEN.exec(sql); match !== null; match = TOKEN.exec(sql)) {
    const { index: at, 0: text } = match
    const { blank, comment, dollar, quoted, word } = match.groups ?? {}
    if (comment !== undefined) TOKEN.lastIndex = afterComment(sql, at)
    else if (dollar !== undefined) TOKEN.lastIndex = afterText(sql, dollar, at + dollar.length)
    else if (blank === undefined) tokens.push({ at, text, name: quoted?.replaceAll('""', '"') ?? word })
  }
  return tokens
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
