// Commits of users to their branches: any number of tables in one transaction.
import { alias } from 'drizzle-orm/pg-core'
import type { SqlTx } from '../../../drizzle/client.ts'
import { computed, insertRows, recordset, select } from '../../../drizzle/rows.ts'
import { branchEntries, lakeContents, lakeRenames } from '../../../drizzle/schema/catalog.ts'
import { type TableName, tableKey } from '../../../ground/names.ts'
import type { ContentChange } from '../../../lake/iceberg/format/content-change.ts'
import type { Content } from './tables.ts'
import { lockedBranch } from './user-branches.ts'

export interface UserChange {
  table: TableName
  /** The content from which the new state was computed; null: the table did not exist. */
  base: string | null
  /** Null: the table is dropped. */
  state: { tableUuid: string; snapshotId: string | null; change: ContentChange; content: Content } | null
  /** The name of the directory that has files of the new state, if it is another name. */
  renamedFrom?: TableName
}

interface UserCommit {
  id: string
  branch: string
  author: string | null
  message: string
  changes: readonly UserChange[]
}

type UserCommitOutcome =
  | { kind: 'committed' }
  /** The branch is not open any more. */
  | { kind: 'closed' }
  /** `table` is the `namespace.layer.name` of a table that changed since its new state was computed. */
  | { kind: 'changed'; table: string }

/** Commits all changes or none. The outcome holds once the caller's transaction commits; the branch stays locked until then. */
export async function commitToUserBranch(tx: SqlTx, commit: UserCommit): Promise<UserCommitOutcome> {
  const { id, branch: name, author, message } = commit
  const branch = await lockedBranch(tx, name)
  if (branch === null) return { kind: 'closed' }
  const entries = commit.changes.map(({ table, base, state }) => ({
    ...table,
    contentId: state?.content.contentId ?? null,
    base,
  }))
  const current = await select(tx, CURRENT)`
    from ${recordset(tx, branchEntries, ['namespace', 'layer', 'name'], entries, 'entry')}
    left join branch_entry own on own.ref = ${name} and own.namespace = entry.namespace and own.layer = entry.layer
      and own.name = entry.name
    left join main_entry main on main.namespace = entry.namespace and main.layer = entry.layer
      and main.name = entry.name and main.from_commit <= ${branch.base}
      and (main.to_commit is null or main.to_commit > ${branch.base})`
  const contentOf = new Map(current.map((entry) => [tableKey(entry), entry]))
  const changed = entries.find((entry) => contentOf.get(tableKey(entry))?.contentId !== entry.base)
  if (changed !== undefined) return { kind: 'changed', table: tableKey(changed) }
  const contents = commit.changes.flatMap(({ state }) => {
    if (state === null) return []
    const { content, change, tableUuid, snapshotId } = state
    return [{ id: content.contentId, tableUuid, snapshotId, ...content, ...change }]
  })
  const moved = entries.map(({ base: _, ...entry }) => ({
    ...entry,
    ref: name,
    baseContent: contentOf.get(tableKey(entry))?.mainContent ?? null,
  }))
  const renames = commit.changes.flatMap(({ table, renamedFrom }) =>
    renamedFrom
      ? [{ ...renamedFrom, toNamespace: table.namespace, toLayer: table.layer, toName: table.name }]
      : [],
  )
  await tx`
    with contents as (${insertRows(tx, lakeContents, NEW_CONTENT, contents)}),
    renames as (${insertRows(tx, lakeRenames, RENAME, renames)} on conflict do nothing),
    entries as (
      ${insertRows(tx, branchEntries, ['ref', 'namespace', 'layer', 'name', 'contentId', 'baseContent'], moved)}
      on conflict (ref, namespace, layer, name) do update set content_id = excluded.content_id),
    new_commit as (
      insert into lake_commit (id, ref, base, author, message, tables)
      values (${id}, ${name}, ${branch.base}, ${author}, ${message}, ${entries.map(tableKey).sort()}))
    update lake_ref set head = ${id}, updated_at = clock_timestamp(),
      authors = case when ${author}::text is null or ${author} = any(authors) then authors else authors || ${author}::text end
    where name = ${name}`
  return { kind: 'committed' }
}

const entry = alias(branchEntries, 'entry')
const CURRENT = {
  namespace: entry.namespace,
  layer: computed<TableName['layer']>('entry.layer'),
  name: entry.name,
  contentId: computed<string | null>(
    'case when own.ref is null then main.content_id else own.content_id end',
  ),
  /** The content on main at the base of the branch. */
  mainContent: computed<string | null>('main.content_id'),
}
const RENAME = ['namespace', 'layer', 'name', 'toNamespace', 'toLayer', 'toName'] as const
const NEW_CONTENT = [
  'id',
  'kind',
  'tableUuid',
  'metadataLocation',
  'snapshotId',
  'columns',
  'rowCount',
  'sizeBytes',
  'operation',
  'rowsAdded',
  'rowsRemoved',
] as const
