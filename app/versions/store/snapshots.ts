// SQL of the duty that expires snapshots: finds tables with old states and commits their replacements to main.
import { alias } from 'drizzle-orm/pg-core'
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import { computed, insertRows, pick, type RowOf, select } from '../../../drizzle/rows.ts'
import { lakeContents, mainEntries } from '../../../drizzle/schema/catalog.ts'
import { tableKey } from '../../../ground/names.ts'
import { lockedHead } from './branches.ts'
import { replacedAt } from './history.ts'

const CONTENT = {
  ...pick(alias(mainEntries, 'e'), 'namespace', 'layer', 'name', 'contentId'),
  ...pick(
    alias(lakeContents, 'c'),
    'tableUuid',
    'metadataLocation',
    'snapshotId',
    'columns',
    'rowCount',
    'sizeBytes',
  ),
}

/** A table with states that are old enough to expire, and its current content. */
export interface OldTable extends RowOf<typeof CONTENT> {
  /** Snapshots that are on main, or were until the cut-off. */
  retained: (string | null)[]
  /** An attempt, a review or a branch of a user has the table's next state, so a change now would cause a merge conflict. */
  isBusy: boolean
}

/** Tables with a state that main replaced before the cut-off. Views have no snapshots. */
export async function oldTables(sql: Sql, cutoff: Date): Promise<OldTable[]> {
  const retained = computed<OldTable['retained']>(sql`
    (select array_agg(kept.snapshot_id) from main_entry e
      join lake_content kept on kept.id = e.content_id left ${replacedAt(sql)}
      where e.namespace = r.namespace and e.layer = r.layer and e.name = r.name
        and (e.to_commit is null or replaced.at >= ${cutoff}))`)
  const replaced = sql`
    with replaced as (
      select distinct e.namespace, e.layer, e.name from main_entry e ${replacedAt(sql)}
      where replaced.at < ${cutoff})`
  return select(sql, { ...CONTENT, retained, isBusy: computed<boolean>(isBusy(sql)) }, replaced)`
    from replaced r
    join main_entry e on e.to_commit is null and e.namespace = r.namespace and e.layer = r.layer and e.name = r.name
    join lake_content c on c.id = e.content_id and c.kind = 'table'
    order by e.namespace, e.layer, e.name`
}

/**
 * For a query about `e`: whether an open attempt writes this table. A run in review, or an open branch of a user, may also have
 * changed it.
 */
export const isBusy = (sql: Sql | SqlTx) => sql`
  (exists (select from run_attempt a join run r on r.id = a.run_id
    where a.state = 'open' and r.namespace = e.namespace and r.layer = e.layer and r.pipeline = e.name)
  or exists (select from run r where r.status = 'running' and r.phase = 'review'
    and r.namespace = e.namespace and r.layer = e.layer and r.pipeline = e.name)
  or exists (select from branch_entry b join lake_ref f on f.name = b.ref and f.kind = 'user' and f.state = 'open'
    where b.base_content = e.content_id))`

/** A table whose content will be replaced by a content with this `id` and another metadata file. */
type Replacement = OldTable & { id: string }

/**
 * Creates one commit of main with this id, for the tables whose content is unchanged and that are not busy. Returns their old
 * contents.
 */
export async function replaceContents(
  tx: SqlTx,
  replacements: readonly Replacement[],
  id: string,
): Promise<string[]> {
  const number = (await lockedHead(tx)) + 1
  const old = await select(tx, { id: alias(mainEntries, 'e').contentId })`
    from main_entry e
    where e.to_commit is null and e.content_id = any(${replacements.map(({ contentId }) => contentId)}::uuid[])
      and not ${isBusy(tx)}`
  const ids = old.map(({ id }) => id)
  const changes = replacements.filter(({ contentId }) => ids.includes(contentId))
  if (changes.length === 0) return []
  const entries = changes.map((change) => ({ ...change, contentId: change.id, fromCommit: number }))
  const contents = changes.map((change) => ({ ...change, operation: 'expire', rowsAdded: 0, rowsRemoved: 0 }))
  await Promise.all([
    insertRows(
      tx,
      lakeContents,
      [
        'id',
        'tableUuid',
        'metadataLocation',
        'snapshotId',
        'columns',
        'rowCount',
        'sizeBytes',
        'operation',
        'rowsAdded',
        'rowsRemoved',
      ],
      contents,
    ),
    tx`insert into lake_commit (id, ref, number, base, message, tables)
      values (${id}, 'main', ${number}, ${number - 1}, ${`old snapshots of ${changes.length} tables expired`},
        ${changes.map(tableKey).sort()})`,
    tx`update main_entry set to_commit = ${number} where to_commit is null and content_id = any(${ids}::uuid[])`,
    insertRows(tx, mainEntries, ['namespace', 'layer', 'name', 'contentId', 'fromCommit'], entries),
    tx`update lake_ref set number = ${number}, head = ${id} where name = 'main'`,
  ])
  return ids
}
