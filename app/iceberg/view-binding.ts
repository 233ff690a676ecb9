/**
 * Binds the text of a view that an engine sends. The text must be one read-only query of the dialect `duckdb`. It must
 * have the columns of its schema, on the branch that gets the view. See ADR 54.
 */
import type { Sql } from '../../drizzle/client.ts'
import { type TableName, tableKey } from '../../ground/names.ts'
import { splitStatements } from '../../lake/engine/statement.ts'
import { type Column, columnsOf, type Schema } from '../../lake/iceberg/format/types.ts'
import { DIALECT } from '../../lake/iceberg/format/wire.ts'
import {
  parseViewMetadata,
  type ViewMetadata,
  type ViewVersion,
  viewReads,
} from '../../lake/iceberg/views/view.ts'
import { boundVersion } from '../../lake/iceberg/views/view-updates.ts'
import { schemaForReplace } from '../../lake/iceberg/write/evolution.ts'
import {
  isBalanced,
  keysIn,
  partialNamesIn,
  storedName,
  VIEW_DEPTH_MAX,
  withTables,
} from '../../lake/pipeline/view-sql.ts'
import type { MetadataFiles } from '../versions/metadata-files.ts'
import { type CatalogTable, tablesIn } from '../versions/store/tables.ts'
import { badRequest, unsupported } from './errors.ts'
import type { Writing } from './user-writing.ts'

/**
 * The columns of a query on a branch, or on main for null, without its rows. Tables that the caller does not see do not exist.
 * Throws AppError.
 */
export type ColumnsOfQuery = (
  sql: string,
  version: { namespace: string; branch: string | null },
  request: Request,
) => Promise<readonly Column[]>

export interface ViewBindingDeps {
  sql: Sql
  files: MetadataFiles
  /** Null: no query service. */
  columnsOfQuery: ColumnsOfQuery | null
}

export function makeViewBinding({ sql, files, columnsOfQuery }: ViewBindingDeps) {
  /** The metadata with bound versions: those that `before` has not, and the current one if it changes. */
  async function bound(
    by: Writing,
    view: TableName,
    next: ViewMetadata,
    before: ViewMetadata | null,
  ): Promise<ViewMetadata> {
    const old = new Set(before?.versions.map((version) => version['version-id']))
    const current = next['current-version-id']
    const versions: ViewVersion[] = []
    for (const version of next.versions) {
      const id = version['version-id']
      const isNew = !old.has(id) || (id === current && id !== before?.['current-version-id'])
      versions.push(isNew ? await bind(by, view, version, schemaOf(next, version)) : version)
    }
    return { ...next, versions }
  }

  async function bind({ request, session }: Writing, view: TableName, version: ViewVersion, schema: Schema) {
    const text = oneQuery(textOf(version))
    const tables = new Map(
      (await tablesIn(sql, session.view, await session.visible())).map((table) => [tableKey(table), table]),
    )
    const reads = keysIn(text).filter((key) => tables.has(key))
    const partial = partialNamesIn(text).find((name) => tables.has(`${view.namespace}.${name}`))
    if (partial !== undefined)
      throw badRequest(`view: name the table ${partial} with its namespace: ${view.namespace}.${partial}`)
    await checkCycle(tableKey(view), reads, tables)
    const stored = withTables(text, reads, storedName)
    if (columnsOfQuery === null)
      throw unsupported('views: no query service is configured, which would bind their SQL')
    // LIMIT 0 reads no rows. The line breaks end a comment at the end of the text.
    const found = await columnsOfQuery(
      `select * from (\n${stored}\n) limit 0`,
      { namespace: view.namespace, branch: session.view.branch },
      request,
    )
    const [columns, wanted] = [columnsOf(schemaForReplace(found).schema), columnsOf(schema)]
    if (shown(columns) !== shown(wanted))
      throw badRequest(`schema: the query has the columns ${shown(columns)}, the schema has ${shown(wanted)}`)
    return boundVersion(version, { sql: stored, reads })
  }

  /** Throws 400 for a view that would read itself through the views that it reads. */
  async function checkCycle(
    own: string,
    reads: readonly string[],
    tables: ReadonlyMap<string, CatalogTable>,
  ): Promise<void> {
    const seen = new Set<string>()
    let open = [...reads]
    for (let depth = 0; open.length > 0; depth += 1) {
      if (open.includes(own)) throw badRequest(`view: ${own} would read itself`)
      if (depth > VIEW_DEPTH_MAX)
        throw badRequest(`view: views read views more than ${VIEW_DEPTH_MAX} levels deep`)
      const next = new Set<string>()
      for (const key of open) {
        const table = seen.has(key) ? undefined : tables.get(key)
        seen.add(key)
        if (table?.kind !== 'view') continue
        const metadata = parseViewMetadata((await files.read(table.metadataLocation)).text)
        for (const read of viewReads(metadata)) next.add(read)
      }
      open = [...next]
    }
  }

  return { bound }
}

/** The text of the dialect that Sluice binds. Throws 400 with the dialects that the version has. */
function textOf({ representations }: ViewVersion): string {
  const found = representations.find(({ dialect }) => dialect.toLowerCase() === DIALECT)
  if (found !== undefined) return found.sql
  const dialects = representations.map(({ dialect }) => dialect)
  throw badRequest(
    `representations: one of the dialect ${DIALECT} is required, and the view has ${dialects.join(', ')}`,
  )
}

/** The only statement of a text. The engine judges what it does. */
function oneQuery(sql: string): string {
  const [statement, ...others] = splitStatements(sql)
  if (statement === undefined || others.length > 0 || !isBalanced(statement.text))
    throw badRequest('representations: the SQL of a view must be one query')
  return statement.text
}

function schemaOf({ schemas }: ViewMetadata, version: ViewVersion): Schema {
  const schema = schemas.find((candidate) => candidate['schema-id'] === version['schema-id'])
  if (schema === undefined) throw badRequest(`schema-id: schema ${version['schema-id']} does not exist`)
  return schema
}

const shown = (columns: readonly Column[]) => columns.map(({ name, type }) => `${name} ${type}`).join(', ')
