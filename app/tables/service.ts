import type { Sql } from '../../drizzle/client.ts'
import { type TableName, tableKey } from '../../ground/names.ts'
import { quoteIdentifier } from '../../lake/quote.ts'
import { EVERYTHING, type Visible } from '../core/access.ts'
import { failedPrecondition, notFound, unavailable } from '../core/errors.ts'
import type { LakeVersion } from '../core/lake-version.ts'
import { limits } from '../core/limits.ts'
import { type Page, pageOf } from '../core/pagination.ts'
import type { ObjectStore } from '../objects/port.ts'
import type { QueryService } from '../query/service.ts'
import { readableView, type View } from '../versions/views.ts'
import { type MetaFile, readMetaFile } from './meta-file.ts'
import {
  columnDescriptionsOf,
  type Table,
  type TableFilesQuery,
  type TableMetadata,
  type TableQuery,
  type TableStatistics,
  type UpdateTableMetadata,
} from './schema.ts'
import {
  countTables,
  type ListedTable,
  listedTables,
  metadataOf,
  type StoredMetadata,
  storeMetadata,
  tableAt,
} from './store.ts'
import { type LakeFiles, makeTableFiles } from './table-files.ts'

interface TableDeps {
  sql: Sql
  objects: ObjectStore
  lake: LakeFiles
  queries: QueryService
  /** Whether users' descriptions of tables are stored; false with METADATA=off. */
  metadataStore: boolean
}

export type TableService = ReturnType<typeof makeTableService>

/** Every operation needs a query service, because a table is shown only when it can be read (specification: Errors). */
export function makeTableService({ sql, objects, lake, queries, metadataStore }: TableDeps) {
  const tableFiles = makeTableFiles(lake)

  const storedOf = async (tables: readonly TableName[]): Promise<(StoredMetadata | null)[]> =>
    metadataStore ? metadataOf(sql, tables) : tables.map(() => null)

  /** Null: main as it is now. */
  const viewAt = async ({ branch, as_of }: LakeVersion, visible: Visible): Promise<View | null> =>
    branch === undefined && as_of === undefined ? null : readableView(sql, { branch, as_of }, visible)

  async function existing(name: TableName, version: LakeVersion = {}, visible = EVERYTHING) {
    const table = await tableAt(sql, name, await viewAt(version, visible))
    if (table === null) throw notFound(`table ${tableKey(name)}`)
    return table
  }

  /** The location of the metadata of a table's state. Throws 409 for a view. */
  async function stateOf(name: TableName, version: LakeVersion, visible: Visible): Promise<string> {
    await queries.requireAvailable()
    const { kind, metadataLocation } = await existing(name, version, visible)
    if (kind === 'view')
      throw failedPrecondition(`files of view ${tableKey(name)} not listed: a view stores no rows`)
    return metadataLocation
  }

  return {
    /** Lists the tables that the caller sees. */
    async list({ namespace, layer, search, ...query }: TableQuery, visible = EVERYTHING) {
      await queries.requireAvailable()
      const page: Page = pageOf(query, limits.listCap)
      const filter = { namespace, layer, search, visible, view: await viewAt(query, visible) }
      const [tables, total] = await Promise.all([listedTables(sql, filter, page), countTables(sql, filter)])
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

    async get(name: TableName, version: LakeVersion = {}, visible = EVERYTHING): Promise<Table> {
      await queries.requireAvailable()
      const table = await existing(name, version, visible)
      const [[stored], file] = await Promise.all([storedOf([name]), readMetaFile(objects, name)])
      return tableViewOf(table, stored ?? null, file)
    },

    /** The rows of a view come from other tables, so they need the caller's visibility. */
    async preview(
      name: TableName,
      version: LakeVersion,
      limit: number,
      signal: AbortSignal,
      visible = EVERYTHING,
      sharer: string | null = null,
    ) {
      await queries.requireAvailable()
      await existing(name, version, visible)
      const path = [name.namespace, name.layer, name.name].map(quoteIdentifier).join('.')
      const { branch, as_of } = version
      return queries.run({ sql: `SELECT * FROM ${path}`, limit, branch, as_of }, signal, visible, sharer)
    },

    async files(name: TableName, query: TableFilesQuery, visible = EVERYTHING) {
      const page = pageOf(query)
      return { page, ...(await tableFiles.page(await stateOf(name, query, visible), page)) }
    },

    async statistics(name: TableName, version: LakeVersion, visible = EVERYTHING): Promise<TableStatistics> {
      return tableFiles.statistics(await stateOf(name, version, visible))
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

const sizeOf = ({ namespace, layer, name, kind, rowCount, sizeBytes }: ListedTable) => ({
  namespace,
  layer,
  name,
  kind,
  row_count: rowCount,
  size_bytes: sizeBytes,
})

/** Stored metadata takes precedence over the file, field by field. */
const tableViewOf = (
  table: NonNullable<Awaited<ReturnType<typeof tableAt>>>,
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
  read: (item: Item, index: number) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = []
  for (let from = 0; from < items.length; from += READS_AT_ONCE)
    results.push(
      ...(await Promise.all(
        items.slice(from, from + READS_AT_ONCE).map((item, index) => read(item, from + index)),
      )),
    )
  return results
}
