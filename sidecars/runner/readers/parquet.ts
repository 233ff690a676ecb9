import { type DuckType, parseDuckType, renderDuckType } from '../../../lake/iceberg/format/duckdb-type.ts'
import { shown } from '../../../lake/pipeline/names.ts'
import { quoteIdentifier, quoteList, quoteLiteral } from '../../../lake/quote.ts'
import { argument, callWith, type ReaderCall } from './calls.ts'
import { FILE_ARGUMENT, FILE_COLUMN, numbered, placeOf, type Reader, refusal } from './reader.ts'

// Parquet: DuckDB takes the columns of the first file. With `union_by_name` it takes the columns of all files, with the wider
// of two types, also within lists, structs and maps. A float counts as wider than whole numbers and decimals, which it can change.

/** The types whose values each wider type can change. */
const CHANGED_BY: readonly [RegExp, RegExp][] = [
  [/^DOUBLE$/, /^(?:U?(?:BIGINT|HUGEINT)|DECIMAL\(.*\))$/],
  [/^FLOAT$/, /^(?:U?(?:INTEGER|BIGINT|HUGEINT)|DECIMAL\(.*\))$/],
  [/^DECIMAL\(.*\)$/, /^(?:U?(?:BIGINT|HUGEINT)|DECIMAL\(.*\))$/],
  [/^BLOB$/, /^VARCHAR$/],
]
/** The types whose values have another meaning in a wider type, with the types that have it. */
const ANOTHER_MEANING: readonly [RegExp, RegExp][] = [
  [/^(?:U?(?:TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|FLOAT|DOUBLE|DECIMAL\(.*\))$/, /^BOOLEAN$/],
  [/^TIMESTAMP WITH TIME ZONE$/, /^(?:DATE|TIMESTAMP(?:_S|_MS|_NS)?)$/],
]
/** The engine has decimals of at most so many digits, and reads longer ones as DOUBLE. */
const DECIMAL_DIGITS = 38

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
  await judgeSchemas(reader)
  if (argument(call, 'schema') !== undefined || files.length < 2) return {}
  const more: Record<string, string> =
    argument(call, 'union_by_name') === undefined ? { union_by_name: 'true' } : {}
  const common = new Map(
    (await reader.describe(callWith(call, { ...more, filename: null }))).map(({ name, type }) => [
      name,
      type,
    ]),
  )
  const known = new Set([...common.keys()].map((name) => name.toLowerCase()))
  for (const alike of await filesBySchema(reader)) {
    const columns = await reader.describe(callOf(call, alike.slice(0, 1), { filename: null }))
    const left = columns.filter(({ name }) => !known.has(name.toLowerCase()))
    for (const { name } of left.slice(0, 1))
      reader.warn(
        `${placeOf(alike[0] ?? '', name)}: the first file does not have the column, so the column is left out: leave out union_by_name=false`,
      )
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

/** Refuses decimals that the engine cannot read. Warns of times that it cuts, and of names that it changes. */
async function judgeSchemas(reader: Reader): Promise<void> {
  const { call, files, rows, warn } = reader
  const schema = `parquet_schema(${quoteList(files)})`
  const isCut = `logical_type LIKE '%isAdjustedToUTC=1%NANOS=Nano%'`
  const found = await rows(
    `SELECT name, file_name, precision::VARCHAR FROM ${schema} WHERE precision > ${DECIMAL_DIGITS} OR ${isCut} ORDER BY precision DESC NULLS LAST, file_name, column_id LIMIT 1`,
  )
  for (const [name, file = null, precision] of found) {
    const place = placeOf(file, name ?? '')
    if (precision != null)
      throw refusal(
        `${place}: decimals of ${precision} digits: the limit is ${DECIMAL_DIGITS}: write the column with fewer digits, or as text`,
      )
    warn(
      `${place}: times with a zone and nanoseconds are cut to microseconds: write the file with microseconds`,
    )
  }
  for (const name of numbered(await reader.describe(callWith(call, { filename: null })))) {
    const [written] = await rows(`SELECT name FROM ${schema} WHERE name = ${quoteLiteral(name)} LIMIT 1`)
    if (written === undefined)
      warn(
        `${placeOf(files[0] ?? '', name)}: a file has two columns of one name: a number is added to the second one`,
      )
  }
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

/** Refuses values that have another meaning in the common type, and values that the common type would change. */
async function refuseChanged({ rows }: Reader, { name, from, type, wide }: Difference): Promise<void> {
  const isIn = (pairs: readonly [RegExp, RegExp][]) =>
    pairs.some(([wider, narrower]) => wider.test(wide) && narrower.test(type))
  const isAnother = isIn(ANOTHER_MEANING)
  if (!isAnother && !isIn(CHANGED_BY)) return
  const changed = isAnother
    ? 'v IS NOT NULL'
    : `TRY_CAST(TRY_CAST(v AS ${wide}) AS ${type}) IS DISTINCT FROM v`
  const [found] = await rows(
    `SELECT CAST(v AS VARCHAR), ${FILE_COLUMN} FROM (${from}) WHERE ${changed} LIMIT 1`,
  )
  if (found === undefined) return
  const [value, file = null] = found
  const place = `${placeOf(file, name)}: ${shown(value ?? '')}`
  throw isAnother
    ? refusal(
        `${place} is ${type} here, and the column is ${wide} in another file: read the files one by one, and cast the column`,
      )
    : refusal(
        `${place} is ${type} here, and ${wide} in another file cannot keep it: read the files one by one, and cast the column`,
      )
}
