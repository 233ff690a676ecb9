import { shown } from '../../../lake/pipeline/names.ts'
import { quoteIdentifier, quoteList } from '../../../lake/quote.ts'
import { argument, callWith } from './calls.ts'
import { FILE_ARGUMENT, FILE_COLUMN, placeOf, type Reader, refusal } from './reader.ts'
import { isLong, survives } from './text-types.ts'

// Parquet: DuckDB takes the columns of the first file. With `union_by_name` it takes the columns of all files, with the wider
// of two types. DOUBLE counts as wider than whole numbers, which it can change.

const EXACT = /^(?:U?(?:BIGINT|HUGEINT)|DECIMAL\(.*\))$/
const NUMBER = /^(?:U?(?:TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|FLOAT|DOUBLE|DECIMAL\(.*\))$/

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
  const typed = await reader.rows(
    `SELECT name, duckdb_type, min(file_name) FROM parquet_schema(${quoteList(files)}) GROUP BY ALL`,
  )
  for (const [name, type, file] of typed) {
    const wide = common.get(name ?? '')
    if (name === null || name === undefined || !type || !file || wide === undefined || wide === type) continue
    if (type === 'BOOLEAN' && NUMBER.test(wide))
      throw refusal(
        `${placeOf(file, name)}: the column is BOOLEAN here and ${wide} in another file: read the files one by one, and cast the column`,
      )
    if (wide === 'DOUBLE' && EXACT.test(type)) await refuseChanged(reader, { name, type })
  }
  return more
}

/** Refuses whole numbers and decimals that DOUBLE would change. */
async function refuseChanged(
  { files, rows }: Reader,
  { name, type }: { name: string; type: string },
): Promise<void> {
  const holders = await rows(
    `SELECT DISTINCT file_name FROM parquet_schema(${quoteList(files)}) WHERE name = '${name.replaceAll("'", "''")}' AND duckdb_type = '${type}'`,
  )
  const paths = holders.flatMap(([path]) => path ?? [])
  const [found] = await rows(
    `SELECT v, ${FILE_COLUMN} FROM (SELECT CAST(${quoteIdentifier(name)} AS VARCHAR) AS v, ${FILE_COLUMN} FROM read_parquet(${quoteList(paths)}, union_by_name=true, filename=${FILE_ARGUMENT.filename}))
     WHERE ${isLong('v')} AND NOT (${survives('v')}) LIMIT 1`,
  )
  if (found === undefined) return
  throw refusal(
    `${placeOf(found[1] ?? null, name)}: ${shown(found[0] ?? '')} is ${type} here, and DOUBLE in another file cannot keep it: read the files one by one, and cast the column`,
  )
}
