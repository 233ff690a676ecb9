import { type DuckType, parseDuckType, renderDuckType } from '../../../lake/iceberg/format/duckdb-type.ts'
import { shown } from '../../../lake/pipeline/names.ts'
import { quoteIdentifier, quoteList } from '../../../lake/quote.ts'
import { argument, callWith, type ReaderCall } from './calls.ts'
import { FILE_ARGUMENT, FILE_COLUMN, placeOf, type Reader, refusal } from './reader.ts'

// Parquet: DuckDB takes the columns of the first file. With `union_by_name` it takes the columns of all files, with the wider
// of two types, also within lists, structs and maps. A float counts as wider than whole numbers and decimals, which it can change.

/** The types that each type of float can change. */
const CHANGED_BY: Readonly<Record<string, RegExp>> = {
  DOUBLE: /^(?:U?(?:BIGINT|HUGEINT)|DECIMAL\(.*\))$/,
  FLOAT: /^(?:U?(?:INTEGER|BIGINT|HUGEINT)|DECIMAL\(.*\))$/,
}
const NUMBER = /^(?:U?(?:TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|FLOAT|DOUBLE|DECIMAL\(.*\))$/

/** A part of a column with another type in some files than in the result. */
interface Difference {
  /** As people know it: `o.items[].qty`. */
  name: string
  /** SQL of its values, from rows with the columns `v` and the file. */
  from: string
  type: string
  wide: string
}

/** The arguments to add to a call of `read_parquet`. Throws for values that the common type of the files would change. */
export async function parquetArguments(reader: Reader): Promise<Record<string, string>> {
  const { call, files } = reader
  if (argument(call, 'schema') !== undefined || files.length < 2) return {}
  const more: Record<string, string> =
    argument(call, 'union_by_name') === undefined ? { union_by_name: 'true' } : {}
  const common = new Map(
    (await reader.describe(callWith(call, { ...more, filename: null }))).map(({ name, type }) => [
      name,
      type,
    ]),
  )
  for (const alike of await filesBySchema(reader)) {
    const columns = await reader.describe(callOf(call, alike.slice(0, 1), { filename: null }))
    for (const { name, type } of columns) {
      const wide = common.get(name)
      if (wide === undefined || wide === type) continue
      const source = `SELECT ${quoteIdentifier(name)} AS v, ${FILE_COLUMN} FROM ${callOf(call, alike, FILE_ARGUMENT)}`
      const whole = { name, from: source }
      for (const difference of differences(whole, parseDuckType(type), parseDuckType(wide)))
        await refuseChanged(reader, difference)
    }
  }
  return more
}

/** The files of a call in groups with equal columns. */
async function filesBySchema({ files, rows }: Reader): Promise<string[][]> {
  const node = `concat_ws(' ', name, type, duckdb_type, num_children, converted_type, logical_type)`
  const found = await rows(
    `SELECT file_name, md5(string_agg(${node}, ', ')) FROM parquet_schema(${quoteList(files)}) GROUP BY file_name ORDER BY file_name`,
  )
  const groups = Map.groupBy(found, ([, schema]) => schema ?? '')
  return Array.from(groups.values(), (group) => group.flatMap(([file]) => file ?? []))
}

/** The call with other files. */
const callOf = (call: ReaderCall, files: readonly string[], more: Record<string, string | null>): string =>
  callWith(
    {
      ...call,
      arguments: [
        { name: null, text: quoteList(files) },
        ...call.arguments.filter(({ name }) => name !== null),
      ],
    },
    more,
  )

function differences(at: Pick<Difference, 'name' | 'from'>, type: DuckType, wide: DuckType): Difference[] {
  const below = (value: string) => `SELECT ${value} AS v, ${FILE_COLUMN} FROM (${at.from})`
  if (type.kind === 'list' && wide.kind === 'list')
    return differences({ name: `${at.name}[]`, from: below('unnest(v)') }, type.element, wide.element)
  if (type.kind === 'map' && wide.kind === 'map')
    return differences({ name: `${at.name}.*`, from: below('unnest(map_values(v))') }, type.value, wide.value)
  if (type.kind === 'struct' && wide.kind === 'struct')
    return type.fields.flatMap((field) => {
      const other = wide.fields.find(({ name }) => name.toLowerCase() === field.name.toLowerCase())
      const part = { name: `${at.name}.${field.name}`, from: below(`v.${quoteIdentifier(field.name)}`) }
      return other === undefined ? [] : differences(part, field.type, other.type)
    })
  const [own, common] = [type, wide].map((each) => renderDuckType(each, quoteIdentifier))
  return own === undefined || common === undefined || own === common
    ? []
    : [{ ...at, type: own, wide: common }]
}

/** Refuses booleans between numbers, and numbers that the common type would change. */
async function refuseChanged({ rows }: Reader, { name, from, type, wide }: Difference): Promise<void> {
  const isBoolean = type === 'BOOLEAN' && NUMBER.test(wide)
  if (!isBoolean && !CHANGED_BY[wide]?.test(type)) return
  const changed = isBoolean ? 'v IS NOT NULL' : `TRY_CAST(CAST(v AS ${wide}) AS ${type}) IS DISTINCT FROM v`
  const [found] = await rows(
    `SELECT CAST(v AS VARCHAR), ${FILE_COLUMN} FROM (${from}) WHERE ${changed} LIMIT 1`,
  )
  if (found === undefined) return
  const [value, file = null] = found
  const place = placeOf(file, name)
  throw isBoolean
    ? refusal(
        `${place}: the column is BOOLEAN here and ${wide} in another file: read the files one by one, and cast the column`,
      )
    : refusal(
        `${place}: ${shown(value ?? '')} is ${type} here, and ${wide} in another file cannot keep it: read the files one by one, and cast the column`,
      )
}
