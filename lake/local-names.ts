// Names of lake files on a local disk. A name is its key, except for characters that DuckDB reads as a pattern.

/** `~` begins an escape. Lake files of earlier versions have none of these characters in their names. */
const PATTERNS = /[~*?[\]{}]/g
const ESCAPES = /~(7E|2A|3F|5B|5D|7B|7D)/g

/** The name, or the path, of a lake key below the directory of the store. */
export const localNameOf = (key: string): string =>
  key.replace(PATTERNS, (character) => `~${character.charCodeAt(0).toString(16).toUpperCase()}`)

/** The inverse of `localNameOf`. */
export const keyOfLocalName = (name: string): string =>
  name.replace(ESCAPES, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
