import type { Sql } from '../../drizzle/client.ts'
import { type TableName, tableKey } from '../../lake/pipeline/names.ts'
import { quoteIdentifier } from '../../lake/quote.ts'
import { EVERYTHING } from '../core/access.ts'
import { notFound, unavailable } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { type Page, pageOf } from '../core/pagination.ts'
import type { ObjectStore } from '../objects/port.ts'
import type { QueryService } from '../query/service.ts'
import { type MetaFile, readMetaFile } from './meta-file.ts'
import {
  columnDescriptionsOf,
  type Table,
  type TableMetadata,
  type TableQuery,
  type UpdateTableMetadata,
} from './schema.ts'
import {
  countTablesOfMain,
  type MainTable,
  metadataOf,
  type StoredMetadata,
  storeMetadata,
  tableOfMain,
  tablesOfMain,
} from './store.ts'

export interface TableDeps {
  sql: Sql
  objects: ObjectStore
  queries: QueryService
  /** Whether users' descriptions of tables are stored; false with METADATA=off. */
  metadataStore: boolean
}

export type TableService = ReturnType<typeof makeTableService>

/** Every operation needs a query service, because a table is shown only when it can be read (specification: Errors). */
export function makeTableService({ sql, objects, queries, metadataStore }: TableDeps) {
  const storedOf = async (tables: readonly TableName[]): Promise<(StoredMetadata | null)[]> =>
    metadataStore ? metadataOf(sql, tables) : tables.map(() => null)

  async function existing(name: TableName) {
    const table = await tableOfMain(sql, name)
    if (table === null) throw notFound(`table ${tableKey(name)}`)
    return table
  }

  return {
    /** Lists the tables that the caller sees. */
    async list({ namespace, layer, ...query }: TableQuery, visible = EVERYTHING) {
      await queries.requireAvailable()
      const page: Page = pageOf(query, limits.listCap)
      const filter = { namespace, layer, visible }
      const [tables, total] = await Promise.all([
        tablesOfMain(sql, filter, page),
        countTablesOfMain(sql, filter),
      ])
      const stored = await storedOf(tables)
      const descriptions = await inTurns(tables, async (table, index) =>
        stored[index]?.description
          ? stored[index].description
          : (await readMetaFile(objects, table)).description,
      )
      return {
        page,
        tables: tables.map((table, index) => ({
          ...sizeOf(table),
          description: descriptions[index] ?? null,
        })),
        total,
      }
    },

    async get(name: TableName): Promise<Table> {
      await queries.requireAvailable()
      const table = await existing(name)
      const [[stored], file] = await Promise.all([storedOf([name]), readMetaFile(objects, name)])
      return shapeOf(table, stored ?? null, file)
    },

    async preview(name: TableName, limit: number, signal: AbortSignal) {
      await queries.requireAvailable()
      await existing(name)
      const path = [name.namespace, name.layer, name.name].map(quoteIdentifier).join('.')
      return queries.run({ sql: `SELECT * FROM ${path}`, limit }, signal)
    },

    async describe(name: TableName, change: UpdateTableMetadata): Promise<TableMetadata> {
      if (!metadataStore) throw unavailable('metadata store')
      await existing(name)
      const stored = await storeMetadata(sql, name, {
        description: change.description,
        owner: change.owner,
        columnDescriptions: columnDescriptionsOf(change),
      })
      return {
        ...name,
        description: stored.description,
        owner: stored.owner,
        column_descriptions: stored.columnDescriptions,
      }
    },
  }
}

const sizeOf = ({ namespace, layer, name, rowCount, sizeBytes }: MainTable) => ({
  namespace,
  layer,
  name,
  row_count: rowCount,
  size_bytes: sizeBytes,
})

/** Stored metadata takes precedence over the file, field by field. */
const shapeOf = (
  table: NonNullable<Awaited<ReturnType<typeof tableOfMain>>>,
  stored: StoredMetadata | null,
  file: MetaFile,
): Table => ({
  ...sizeOf(table),
  description: stored?.description || file.description,
  owner: stored?.owner ?? file.owner,
  columns: table.columns.map(({ name, type }) => ({
    name,
    type,
    description: ownValue(stored?.columnDescriptions, name) || ownValue(file.columns, name) || null,
  })),
})

/** Reads own properties only, because a column may have the name `constructor`. */
const ownValue = (record: Record<string, string> | undefined, key: string): string | undefined =>
  record !== undefined && Object.hasOwn(record, key) ? record[key] : undefined

/** Files that one list reads in parallel (specification: Limits, lineage file reads). */
const READS_AT_ONCE = 20

async function inTurns<Item, Result>(
  items: readonly Item[],
  work: (item: Item, index: number) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = []
  for (let from = 0; from < items.length; from += READS_AT_ONCE)
    results.push(
      ...(await Promise.all(
        items.slice(from, from + READS_AT_ONCE).map((item, index) => work(item, from + index)),
      )),
    )
  return results
}
