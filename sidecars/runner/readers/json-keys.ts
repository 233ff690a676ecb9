import type { Column } from '../../../lake/engine/instance.ts'
import { type DuckType, parseDuckType } from '../../../lake/iceberg/format/duckdb-type.ts'
import { shown } from '../../../lake/pipeline/names.ts'
import { quoteLiteral } from '../../../lake/quote.ts'
import { callWith, type ReaderCall } from './calls.ts'
import { landingName } from './csv-fault.ts'
import { FILE_ARGUMENT, FILE_COLUMN, numbered, placeOf, type Reader, refusal } from './reader.ts'

// The keys of JSON objects as written. The engine leaves out keys that have no column, and renames keys that differ in case only.

/** Structs whose keys are compared. Each needs a read of the files. */
const EXAMINED_STRUCTS = 20
const SHOWN_KEYS = 10

/** Warns of keys that the types of the author leave out. */
export async function warnOfKeys({ call, rows, warn }: Reader, columns: readonly Column[]): Promise<void> {
  const fields = columns.map(({ name, type }) => ({ name, type: parseDuckType(type) }))
  for (const { name, path, names } of structsOf({ kind: 'struct', fields }).slice(0, EXAMINED_STRUCTS)) {
    const known = names.map(quoteLiteral).join(', ')
    const value = `json_extract(json, ${quoteLiteral(path)})`
    // The engine gives a list for a path with wildcards.
    const each = /\[\*\]|\.\*/.test(path) ? `unnest(${value})` : value
    const found = await rows(
      `SELECT k, min(${FILE_COLUMN}) FROM (SELECT unnest(json_keys(e)) AS k, ${FILE_COLUMN} FROM (SELECT ${each} AS e, ${FILE_COLUMN} FROM ${objectsCall(call)})) WHERE k NOT IN (${known}) GROUP BY k ORDER BY k LIMIT ${SHOWN_KEYS}`,
    )
    const [[, file = null] = []] = found
    if (found.length === 0) continue
    const keys = found.map(([key]) => shown(`${name}${key ?? ''}`)).join(', ')
    warn(
      `${landingName(file ?? '')}: keys without a column are left out: ${keys}: give them columns if they matter`,
    )
  }
}

/** The structs of a type, with the names of their fields. */
function structsOf(
  type: DuckType,
  at = { name: '', path: '$' },
): { name: string; path: string; names: string[] }[] {
  switch (type.kind) {
    case 'list':
      return structsOf(type.element, { name: at.name, path: `${at.path}[*]` })
    case 'map':
      return structsOf(type.value, { name: `${at.name}*.`, path: `${at.path}.*` })
    case 'struct':
      return [
        { ...at, names: type.fields.map(({ name }) => name) },
        ...type.fields.flatMap((field) =>
          structsOf(field.type, {
            name: `${at.name}${field.name}.`,
            path: `${at.path}.${JSON.stringify(field.name)}`,
          }),
        ),
      ]
    default:
      return []
  }
}

/**
 * The engine adds a number to keys that differ in case only. Warns of such keys. Their values cannot be looked at, so such keys are
 * refused if a column may round numbers.
 */
export async function hasRenamed(
  { call, rows, warn }: Reader,
  columns: readonly Column[],
  mayRound: boolean,
): Promise<boolean> {
  for (const name of numbered(columns)) {
    const keys = `(SELECT unnest(json_keys(json)) AS k, ${FILE_COLUMN} FROM ${objectsCall(call)})`
    const stem = quoteLiteral(name.replace(/_\d+$/, '').toLowerCase())
    const [[key, file = null, isKey] = []] = await rows(
      `SELECT k, ${FILE_COLUMN}, k = ${quoteLiteral(name)} FROM ${keys} WHERE k = ${quoteLiteral(name)} OR lower(k) = ${stem} AND k NOT IN (${columns.map((column) => quoteLiteral(column.name)).join(', ')}) ORDER BY 3 DESC LIMIT 1`,
    )
    if (isKey === 'true') continue
    // The new name of a key may be another key, which then has another number.
    const text =
      key === undefined
        ? `column ${shown(name)} is no key of the files: its key differs from another one in case only`
        : `${placeOf(file, key ?? '')}: another key differs in case only: the values are in column ${shown(name)}`
    if (mayRound) throw refusal(`${text}: long numbers of the files would be rounded: rename the key`)
    warn(`${text}: rename the key, or select the column under another name`)
    return true
  }
  return false
}

const OF_OBJECTS = new Set([null, 'format', 'compression', 'ignore_errors', 'maximum_object_size'])

/** The call that reads each value of the files as written. */
export const objectsCall = (call: ReaderCall): string =>
  callWith(
    {
      ...call,
      name: call.name.startsWith('read_ndjson') ? 'read_ndjson_objects' : 'read_json_objects',
      arguments: call.arguments.filter(({ name }) => OF_OBJECTS.has(name)),
    },
    FILE_ARGUMENT,
  )
