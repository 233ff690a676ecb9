// SQL text for the engine. Every value that is not a constant of the service passes through these functions.

/** Quotes an identifier: `we"ird` becomes `"we""ird"`. Throws on a null byte, which no identifier can hold. */
export const quoteIdentifier = (name: string): string => `"${refuseNull(name).replaceAll('"', '""')}"`

/** A name as the engine's DESCRIBE writes it: quoted unless it is a plain word. For people, not for SQL. */
export const describedIdentifier = (name: string): string =>
  /^[a-z_][a-z0-9_]*$/i.test(name) ? name : `"${name.replaceAll('"', '""')}"`

/** Quotes a text literal: `it's` becomes `'it''s'`. Throws on a null byte, because the engine's parser cuts the text there. */
export const quoteLiteral = (text: string): string => `'${refuseNull(text).replaceAll("'", "''")}'`

/** Makes a list literal of texts: `['a', 'b']`. */
export const quoteList = (texts: readonly string[]): string => `[${texts.map(quoteLiteral).join(', ')}]`

function refuseNull(text: string): string {
  if (text.includes('\0')) throw new TypeError('SQL text cannot contain a null byte')
  return text
}
