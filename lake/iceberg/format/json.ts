// JSON whose int64 values stay exact. Snapshot ids are random 63-bit integers and plain JSON.parse rounds them,
// after which the metadata points at a snapshot that does not exist.
// Needs the source text in JSON.parse's reviver and JSON.rawJSON: Bun, Node >= 22, Deno, Chromium >= 114.

declare global {
  interface JSON {
    /** ES2026 proposal-json-parse-with-source; absent on Node 20. */
    rawJSON?(text: string): object
  }
}

/** Values under these names are always `bigint`, however small; so nobody has to handle two types. */
const ID_NAMES: ReadonlySet<string> = new Set(['snapshot-id', 'parent-snapshot-id', 'current-snapshot-id'])
const ID_LIST_NAMES: ReadonlySet<string> = new Set(['snapshot-ids'])

/**
 * Parses JSON. Snapshot ids become `bigint`; any other number is a `number`, or a `bigint` when it is an integer
 * that a double cannot hold.
 * @throws SyntaxError for text that is not JSON, or a snapshot id that is not a 64-bit integer.
 */
export function parseJson(text: string): unknown {
  if (UNUSUAL.test(text)) return parseExactly(text)
  let value: unknown
  try {
    value = JSON.parse(text.replace(LONG_INTEGER, `$1"${MARK}$2"`))
  } catch {
    // Its error speaks of the text as it is.
    return parseExactly(text)
  }
  return withNumbers('', value)
}

/** A reviver is told where each number stands, and of every other value too: for table metadata that takes ten times as long. */
const parseExactly = (text: string): unknown =>
  JSON.parse(text, (name: string, value: unknown, context?: { source?: string }) => {
    if (typeof value === 'number') return exactNumber(name, value, context?.source)
    if (ID_LIST_NAMES.has(name) && Array.isArray(value)) return value.map((id) => toId(name, id))
    return value
  })

const MARK = 'int64:'
/**
 * What a double may not hold, as a member or an element. In a string the same looks alike: put into quotes there, it ends
 * the string early, and nothing that begins with a letter may follow one.
 */
const LONG_INTEGER = /([:,[]\s*)(-?[1-9]\d{15,})(?![\d.eE])/g
/** Texts in which a string may hold the mark, with letters that are written as numbers; and those that are one number. */
const UNUSUAL = /int64:|\\u|__proto__|^\s*[-\d]/

/** What was parsed, in place, with the marked integers as what they are, and ids as `bigint`. */
function withNumbers(name: string, value: unknown): unknown {
  if (typeof value === 'string')
    return value.startsWith(MARK) ? integerOf(name, value.slice(MARK.length)) : value
  if (typeof value === 'number') return ID_NAMES.has(name) ? toId(name, value) : value
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    for (const [at, element] of value.entries()) value[at] = withNumbers('', element)
    return ID_LIST_NAMES.has(name) ? value.map((id) => toId(name, id)) : value
  }
  for (const [key, member] of Object.entries(value)) {
    const exact = withNumbers(key, member)
    if (exact !== member) Reflect.set(value, key, exact)
  }
  return value
}

function integerOf(name: string, digits: string): number | bigint {
  const value = Number(digits)
  const exact = Number.isSafeInteger(value) ? value : BigInt(digits)
  return ID_NAMES.has(name) ? toId(name, exact) : exact
}

/** Writes JSON with every `bigint` as a plain integer. Fields that are undefined are left out. */
export const stringifyJson = (value: unknown): string => JSON.stringify(withLiterals(value))

/** The same, with a copy of whatever holds a `bigint`: a replacer would be asked about every value. */
function withLiterals(value: unknown): unknown {
  if (typeof value === 'bigint') return exactLiteral(value)
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    const elements = value.map(withLiterals)
    return elements.some((element, at) => element !== value[at]) ? elements : value
  }
  let copy: Record<string, unknown> | undefined
  for (const [key, member] of Object.entries(value)) {
    const literal = withLiterals(member)
    if (literal === member) continue
    copy ??= { ...value }
    copy[key] = literal
  }
  return copy ?? value
}

function exactNumber(name: string, value: number, source: string | undefined): number | bigint {
  const exact = Number.isSafeInteger(value) || !Number.isInteger(value) ? value : fromSource(value, source)
  return ID_NAMES.has(name) ? toId(name, exact) : exact
}

function fromSource(value: number, source: string | undefined): number | bigint {
  if (source === undefined)
    throw new Error(`this runtime cannot read ${value} exactly (Bun, Node >= 22 or Deno can)`)
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
    throw new Error('this runtime cannot write 64-bit integers as JSON (Bun, Node >= 22 or Deno can)')
  return JSON.rawJSON(value.toString())
}
