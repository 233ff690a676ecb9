import { type TableName, tableKey } from '../../../ground/names.ts'
import type { TableMetadata } from '../../../lake/iceberg/format/metadata.ts'
import { type ViewMetadata, viewReads, viewSchema, viewSql } from '../../../lake/iceberg/views/view.ts'
import { AuthorError } from '../../../lake/pipeline/author-error.ts'
import { parseTableName } from '../../../lake/pipeline/names.ts'
import { VIEW_DEPTH_MAX, withTables } from '../../../lake/pipeline/view-sql.ts'
import { limits } from '../core/limits.ts'
import { tableExpression } from '../engine/sql-names.ts'
import type { LakeSession, TableInput } from './lake-session.ts'

// Finds tables and views of the branch by name. A view is opened with everything that it reads.

/** A table with its files, or a view whose tables are found by name. Null: neither exists. */
type Found = TableInput | { name: TableName; metadata: ViewMetadata } | null

/**
 * Opens tables and views concurrently. `cachedTables` contains metadata that is already loaded; null there means that no table has
 * the name. Throws AuthorError for a view that reads a missing table, or itself.
 */
export async function openInputs(
  tables: readonly TableName[],
  lake: LakeSession,
  cachedTables: ReadonlyMap<string, TableMetadata | null> = new Map(),
  open: LakeSession['open'] = lake.open,
): Promise<Map<string, TableInput | null>> {
  const found = new Map<string, Found>()
  let wanted = tables
  for (let depth = 0; wanted.length > 0; depth += 1) {
    if (depth > VIEW_DEPTH_MAX)
      throw new AuthorError(`views read views more than ${VIEW_DEPTH_MAX} levels deep`, { where: '' })
    const distinct = new Map(wanted.map((table) => [tableKey(table), table]))
    if (found.size + distinct.size > limits.namesPerTemplate)
      throw new AuthorError(`views read more than ${limits.namesPerTemplate} tables`, { where: '' })
    const loaded = await Promise.all(
      Array.from(distinct, async ([key, name]): Promise<Found> => {
        const cached = cachedTables.get(key)
        const metadata = cached === undefined ? await lake.catalog.load(name) : cached
        if (metadata) return open(name, metadata)
        const view = await lake.catalog.loadView(name)
        return view && { name, metadata: view }
      }),
    )
    for (const [index, key] of [...distinct.keys()].entries()) found.set(key, loaded[index] ?? null)
    wanted = loaded
      .flatMap((input) => (input !== null && 'metadata' in input ? readsOf(input.metadata) : []))
      .filter((name) => !found.has(tableKey(name)))
  }
  const inputs = new Map<string, TableInput | null>()
  for (const table of tables) resolve(tableKey(table), [], { found, inputs })
  return inputs
}

/** The inputs, each after the inputs that it reads, and each once. */
export function withReads(inputs: readonly TableInput[]): TableInput[] {
  const all = new Set<TableInput>()
  const add = (input: TableInput) => {
    if (all.has(input)) return
    for (const read of input.view?.reads ?? []) add(read)
    all.add(input)
  }
  for (const input of inputs) add(input)
  return [...all]
}

const readsOf = (view: ViewMetadata): TableName[] => viewReads(view).map((key) => parseTableName(key, ''))

/** Resolves a name whose tables are all found. `readers` are the views on the way to the name. */
function resolve(
  key: string,
  readers: readonly string[],
  maps: { found: ReadonlyMap<string, Found>; inputs: Map<string, TableInput | null> },
): TableInput | null {
  const known = maps.inputs.get(key)
  if (known !== undefined) return known
  const found = maps.found.get(key) ?? null
  if (found === null || !('metadata' in found)) {
    maps.inputs.set(key, found)
    return found
  }
  if (readers.includes(key))
    throw new AuthorError(`view ${key} reads itself: ${[...readers, key].join(' -> ')}`, { where: '' })
  const { name, metadata } = found
  const reads = viewReads(metadata).map((read) => {
    const input = resolve(read, [...readers, key], maps)
    if (input === null)
      throw new AuthorError(`view ${key} cannot be read: table ${read} does not exist`, { where: '' })
    return input
  })
  const sql = withTables(viewSql(metadata), viewReads(metadata), tableExpression)
  const input = {
    name,
    schema: viewSchema(metadata),
    files: [],
    locations: [],
    rowCount: 0,
    view: { sql, reads },
  }
  maps.inputs.set(key, input)
  return input
}
