/** SQL text for the engine. Everything that is not a constant of ours passes through one of these two. */

/** A quoted identifier: `we"ird` becomes `"we""ird"`. Throws on a null byte, which no identifier can hold. */
export const quoteIdentifier = (name: string): string => `"${refuseNull(name).replaceAll('"', '""')}"`

/** A name as the engine's DESCRIBE writes it: quoted unless it is a plain word. For people, not for SQL. */
export const describedIdentifier = (name: string): string =>
  /^[a-z_][a-z0-9_]*$/i.test(name) ? name : `"${name.replaceAll('"', '""')}"`

/** A quoted text literal: `it's` becomes `'it''s'`. Throws on a null byte, which the engine's parser cuts at. */
export const quoteLiteral = (text: string): string => `'${refuseNull(text).replaceAll("'", "''")}'`

/** A list literal of texts: `['a', 'b']`. */
export const quoteList = (texts: readonly string[]): string => `[${texts.map(quoteLiteral).join(', ')}]`

function refuseNull(text: string): string {
  if (text.includes('\0')) throw new TypeError('SQL text cannot hold a null byte')
  return text
}
