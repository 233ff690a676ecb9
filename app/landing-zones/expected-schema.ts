// The expected schema of a zone: a text such as `code:VARCHAR,delay:INTEGER`, and its comparison with detected columns.
import { invalid } from '../core/errors.ts'

interface ExpectedColumn {
  name: string
  type: string
}

interface SchemaDifference {
  column: string
  kind: 'missing' | 'unexpected' | 'other_type'
  /** Null: the column is unexpected. */
  expected_type: string | null
  /** Null: the column is missing. */
  detected_type: string | null
}

/**
 * Parses `col:type,col:type`. A name with other characters is in double quotes. Throws 400 for any other text, and for a
 * repeated name.
 */
export function parseExpectedSchema(text: string): ExpectedColumn[] {
  const columns: ExpectedColumn[] = []
  const names = new Set<string>()
  for (const part of partsOf(text)) {
    const column = columnOf(part.trim())
    if (column === null)
      throw invalid('expected_schema', `'${part.trim().slice(0, 80)}' does not have the form col:type`)
    if (names.has(column.name))
      throw invalid('expected_schema', `contains the column ${column.name} more than once`)
    names.add(column.name)
    columns.push(column)
  }
  return columns
}

/** The text that `parseExpectedSchema` parses to these columns. */
export const expectedSchemaOf = (columns: readonly ExpectedColumn[]): string =>
  columns
    .map(({ name, type }) => `${PLAIN_NAME.test(name) ? name : `"${name.replaceAll('"', '""')}"`}:${type}`)
    .join(',')

/**
 * The differences between expected and detected columns. Names are compared without case, as SQL does. Missing columns and other
 * types come first, in the expected order.
 */
export function differencesOf(
  expected: readonly ExpectedColumn[],
  detected: readonly ExpectedColumn[],
): SchemaDifference[] {
  const [wanted, found] = [expected, detected].map(
    (columns) => new Map(columns.map((column) => [column.name.toLowerCase(), column])),
  ) as [Map<string, ExpectedColumn>, Map<string, ExpectedColumn>]
  const differing = expected.flatMap(({ name, type }): SchemaDifference[] => {
    const other = found.get(name.toLowerCase())
    if (other !== undefined && canonicalType(other.type) === canonicalType(type)) return []
    const kind = other === undefined ? 'missing' : 'other_type'
    return [{ column: name, kind, expected_type: type, detected_type: other?.type ?? null }]
  })
  const unexpected = detected
    .filter(({ name }) => !wanted.has(name.toLowerCase()))
    .map(({ name, type }) => ({
      column: name,
      kind: 'unexpected' as const,
      expected_type: null,
      detected_type: type,
    }))
  return [...differing, ...unexpected]
}

/** A name that needs no quotes. A quote inside such a name is part of the name. */
const PLAIN_NAME = /^[^\s:,()"][^\s:,()]*$/
const QUOTED_NAME = /^"((?:[^"]|"")+)"$/

function columnOf(text: string): ExpectedColumn | null {
  const colon = text.startsWith('"') ? endOfQuoted(text, 0) : text.indexOf(':')
  if (colon < 0 || text[colon] !== ':') return null
  const [written, type] = [text.slice(0, colon).trim(), text.slice(colon + 1).trim()]
  const name = PLAIN_NAME.test(written) ? written : QUOTED_NAME.exec(written)?.[1]?.replaceAll('""', '"')
  return name === undefined || !isType(type) ? null : { name, type }
}

/** The position of the first character after a quoted name and spaces; -1 if the quote has no end. */
function endOfQuoted(text: string, from: number): number {
  const quoted = /"(?:[^"]|"")*"\s*/y
  quoted.lastIndex = from
  return quoted.test(text) ? quoted.lastIndex : -1
}

/** Splits at commas outside parentheses and outside quotes, in one pass. */
function partsOf(text: string): string[] {
  const parts: string[] = []
  let from = 0
  let depth = 0
  let isQuoted = false
  for (let at = 0; at < text.length; at++) {
    const character = text[at]
    // A quote starts a name at the start of a column or of a field. Elsewhere it is part of a plain name.
    if (character === '"' && (isQuoted || depth > 0 || text.slice(from, at).trim() === ''))
      isQuoted = !isQuoted
    else if (isQuoted) continue
    else if (character === '(') depth++
    else if (character === ')') depth = Math.max(0, depth - 1)
    else if (character === ',' && depth === 0) {
      parts.push(text.slice(from, at))
      from = at + 1
    }
  }
  return [...parts, text.slice(from)]
}

/**
 * One step of a type: a word, a number, a quoted field name, an array suffix, or one of `( ) ,`. For example `DECIMAL(14,2)`,
 * `TIMESTAMP WITH TIME ZONE`, `INTEGER[]`, `STRUCT(a BIGINT, "b c" VARCHAR)[]`.
 */
const STEP = /\s*(?:([A-Za-z_][A-Za-z0-9_]*)|(\d+)|("(?:[^"]|"")+")|(\[\d*\])|([(),]))/y

type Step = 'word' | 'number' | 'name' | 'array' | '(' | ')' | ','

/** The steps that may follow each step. The start of a type is the step `(` without a parenthesis. */
const NEXT: Readonly<Record<Step, readonly Step[]>> = {
  '(': ['word', 'number', 'name'],
  ',': ['word', 'number', 'name'],
  name: ['word'],
  word: ['word', '(', ')', 'array', ','],
  number: [')', ','],
  array: ['array', ')', ','],
  ')': ['array', ')', ','],
}

/** Whether a text has the form of a type. Whether the engine knows the type is not checked. */
function isType(text: string): boolean {
  let last: Step = '('
  let depth = 0
  STEP.lastIndex = 0
  while (STEP.lastIndex < text.length) {
    const [, word, number, name, array, mark] = STEP.exec(text) ?? []
    const step = (mark ??
      (word && 'word') ??
      (number && 'number') ??
      (name && 'name') ??
      (array && 'array')) as Step | undefined
    if (step === undefined || !NEXT[last].includes(step)) return false
    if (depth === 0 && (step === ',' || step === ')' || (last === '(' && step !== 'word'))) return false
    depth += step === '(' ? 1 : step === ')' ? -1 : 0
    last = step
  }
  return depth === 0 && text !== '' && (last === 'word' || last === 'array' || last === ')')
}

/** Names of types in the engine, each with its other names. */
const ALIASES: Readonly<Record<string, readonly string[]>> = {
  BIGINT: ['INT8', 'LONG', 'INT64'],
  BIT: ['BITSTRING'],
  BLOB: ['BYTEA', 'BINARY', 'VARBINARY'],
  BOOLEAN: ['BOOL', 'LOGICAL'],
  DECIMAL: ['NUMERIC', 'DEC'],
  DOUBLE: ['FLOAT8', 'DOUBLE PRECISION'],
  FLOAT: ['FLOAT4', 'REAL'],
  HUGEINT: ['INT128'],
  INTEGER: ['INT', 'INT4', 'SIGNED', 'INTEGRAL', 'INT32'],
  SMALLINT: ['INT2', 'SHORT', 'INT16'],
  TIMESTAMP: ['DATETIME', 'TIMESTAMP WITHOUT TIME ZONE', 'TIMESTAMP_US'],
  'TIMESTAMP WITH TIME ZONE': ['TIMESTAMPTZ'],
  'TIME WITH TIME ZONE': ['TIMETZ'],
  TINYINT: ['INT1'],
  UBIGINT: ['UINT64'],
  UINTEGER: ['UINT32'],
  USMALLINT: ['UINT16'],
  UTINYINT: ['UINT8'],
  UUID: ['GUID'],
  VARCHAR: ['TEXT', 'STRING', 'CHAR', 'BPCHAR', 'NVARCHAR', 'CHARACTER VARYING'],
}
const NAME_OF = new Map(
  Object.entries(ALIASES).flatMap(([name, others]) => others.map((other) => [other, name] as const)),
)

/** A form of the type that is equal for two spellings of one type. Fields of nested types keep the names of their types. */
export function canonicalType(type: string): string {
  const spaced = type
    .replace(/("(?:[^"]|"")+")|\s+/g, (_, quoted: string | undefined) => quoted ?? ' ')
    .replace(/("(?:[^"]|"")+")| ?([(),[\]]) ?/g, (_, quoted: string | undefined, mark) => quoted ?? mark)
    .replace(/("(?:[^"]|"")+")|[a-z]+/g, (text, quoted: string | undefined) => quoted ?? text.toUpperCase())
    .trim()
  const [, words = '', rest = ''] = /^([A-Z0-9_ ]+)(.*)$/s.exec(spaced) ?? []
  const name = NAME_OF.get(words.trim()) ?? words.trim()
  if (name === 'VARCHAR') return name + rest.replace(/^\(\d+\)/, '')
  // The engine's defaults: DECIMAL is DECIMAL(18,3), and a scale is 0.
  if (name === 'DECIMAL' && !rest.startsWith('(')) return `DECIMAL(18,3)${rest}`
  if (name === 'DECIMAL') return `DECIMAL${rest.replace(/^\((\d+)\)/, '($1,0)')}`
  return name + rest
}
