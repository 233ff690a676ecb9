// JSON with exact int64 values. Snapshot ids are random 63-bit integers. Plain JSON.parse rounds them, so the metadata would
// point at a snapshot that does not exist. Requires the source text in JSON.parse's reviver and JSON.rawJSON: Bun, Node >= 22,
// Deno, Chromium >= 114.

declare global {
  interface JSON {
    /** ES2026 proposal-json-parse-with-source; absent on Node 20. */
    rawJSON?(text: string): object
  }
}

/** Values under these names are always `bigint`, even small ones, so that callers handle only one type. */
const ID_NAMES: ReadonlySet<string> = new Set(['snapshot-id', 'parent-snapshot-id', 'current-snapshot-id'])
const ID_LIST_NAMES: ReadonlySet<string> = new Set(['snapshot-ids'])

/** Functions that walk JSON call themselves for each level. A struct in a struct takes five levels in a schema. */
const LEVELS_MAX = 500

/**
 * Parses JSON. Snapshot ids become `bigint`. Other integers that a double cannot hold also become `bigint`; all other numbers
 * stay `number`.
 * @throws SyntaxError for text that is not JSON, is nested too deeply, or has a snapshot id that is not a 64-bit integer.
 */
export function parseJson(text: string): unknown {
  checkLevels(text)
  return JSON.parse(text, (name: string, value: unknown, context?: { source?: string }) => {
    if (typeof value === 'number') return exactNumber(name, value, context?.source)
    if (ID_LIST_NAMES.has(name) && Array.isArray(value)) return value.map((id) => toId(name, id))
    return value
  })
}

/** Counts open brackets outside of strings, in one pass. */
function checkLevels(text: string): void {
  let levels = 0
  for (let at = 0; at < text.length; at += 1) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        at = endOfString(text, at + 1)
        break
      case OPEN_BRACE:
      case OPEN_BRACKET:
        levels += 1
        if (levels > LEVELS_MAX) throw new SyntaxError(`the JSON is nested deeper than ${LEVELS_MAX} levels`)
        break
      case CLOSE_BRACE:
      case CLOSE_BRACKET:
        levels -= 1
    }
  }
}

const [QUOTE, BACKSLASH] = [0x22, 0x5c]
const [OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET] = [0x7b, 0x7d, 0x5b, 0x5d]

/** The position of the quote that ends a string. */
function endOfString(text: string, from: number): number {
  let at = from
  while (at < text.length && text.charCodeAt(at) !== QUOTE) at += text.charCodeAt(at) === BACKSLASH ? 2 : 1
  return at
}

/** Writes JSON. Every `bigint` becomes a plain integer, and undefined fields are left out. */
export const stringifyJson = (value: unknown): string =>
  JSON.stringify(value, (_, member: unknown) => (typeof member === 'bigint' ? exactLiteral(member) : member))

function exactNumber(name: string, value: number, source: string | undefined): number | bigint {
  const exact = Number.isSafeInteger(value) || !Number.isInteger(value) ? value : fromSource(value, source)
  return ID_NAMES.has(name) ? toId(name, exact) : exact
}

function fromSource(value: number, source: string | undefined): number | bigint {
  if (source === undefined)
    throw new Error(`this runtime cannot read the integer ${value} exactly: use Bun, Node >= 22 or Deno`)
  return /^-?\d+$/.test(source) ? BigInt(source) : value
}

function toId(name: string, value: unknown): bigint {
  const isInteger = typeof value === 'bigint' || (typeof value === 'number' && Number.isInteger(value))
  const id = isInteger ? BigInt(value) : undefined
  if (id === undefined || BigInt.asIntN(64, id) !== id) {
    throw new SyntaxError(`${name} is not a 64-bit integer: ${String(value)}`)
  }
  return id
}

function exactLiteral(value: bigint): object {
  if (!JSON.rawJSON)
    throw new Error('this runtime cannot write 64-bit integers as JSON: use Bun, Node >= 22 or Deno')
  return JSON.rawJSON(value.toString())
}
