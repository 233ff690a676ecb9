// Refuses what a query of Spark could do besides reading tables. Names are compared outside of strings and comments. The server's
// parser decides whether the text is one query: the text is always sent inside `SELECT * FROM (...)`.

/** Strings, quoted names and comments of Spark SQL. In a raw string, a backslash has no meaning. */
const QUOTED =
  /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|\b[rR](?:'[^']*'|"[^"]*")|'(?:[^'\\]|\\[\s\S])*'|"(?:[^"\\]|\\[\s\S])*"|`(?:[^`]|``)*`/g

/** Functions that call code of the server, and clauses that start programs there. Source: Apache Spark, SQL reference. */
const EFFECTS: readonly (readonly [RegExp, string])[] = [
  [/\b(?:reflect|java_method|try_reflect)\s*\(/i, 'the query calls code of the server (reflect)'],
  [/\busing\s*\u00a4/i, 'the query starts a program on the server (TRANSFORM ... USING)'],
]

/** Why a text is no query that only reads; null: nothing was found. */
export function refusalOfQuery(text: string): string | null {
  const bare = text.replaceAll('\u00a4', ' ').replace(QUOTED, unquoted)
  if (bare.trim() === '') return 'there is no SELECT statement'
  if (/;[\s\u00a4]*\S/.test(bare.replace(/;\s*$/, ''))) return 'one SELECT statement is expected, not several'
  for (const [pattern, effect] of EFFECTS) {
    if (pattern.test(bare)) return `${effect}: a query may only read`
  }
  return null
}

/** A string becomes one character that no query contains otherwise. A quoted name may be that of a function. */
function unquoted(part: string): string {
  if (part.startsWith('--') || part.startsWith('/*')) return ' '
  return part.startsWith('`') ? part.slice(1, -1) : '\u00a4'
}

/** The query as a relation. A final semicolon is allowed, as in DuckDB. The line feeds keep comments inside. */
export const relationOf = (text: string) => `(\n${text.replace(/;\s*$/, '')}\n)`
