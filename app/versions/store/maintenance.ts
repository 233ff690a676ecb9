// SQL of the maintenance of tables: which tables may be maintained, their branches, and the merge. See ADR 53.
import { alias } from 'drizzle-orm/pg-core'
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import { computed, pick, type RowOf, select } from '../../../drizzle/rows.ts'
import { lakeContents, mainEntries } from '../../../drizzle/schema/catalog.ts'
import { type TableName, tableKey } from '../../../ground/names.ts'
import type { Decision } from '../../protection/rule.ts'
import { closeBranches, headOfMain, lockedHead, mergeBranches, openBranches } from './branches.ts'
import { forgetBranches } from './history.ts'
import { isBusy } from './snapshots.ts'

/** The author of commits by maintenance, and the creator of its branches. */
const MAINTENANCE = 'maintenance'
/** After a failure, a table waits for this time, which doubles with each further failure. */
const BACKOFF_HOURS = 1
const BACKOFF_HOURS_MAX = 24
/** Failures count for this time. */
const FAILURES_DAYS = 2

const TABLE = {
  ...pick(alias(mainEntries, 'e'), 'namespace', 'layer', 'name'),
  metadataLocation: alias(lakeContents, 'c').metadataLocation,
}
type MaintainableTable = RowOf<typeof TABLE>

/**
 * Tables of main in a random order, at most `limit`. Leaves out tables that a run or a branch of a user writes, tables whose last
 * change was maintenance, and tables whose maintenance failed recently.
 */
export const maintainableTables = (sql: Sql, limit: number): Promise<MaintainableTable[]> =>
  select(
    sql,
    TABLE,
    sql`
    with failed as materialized (
      select f.description as key, max(f.closed_at) + interval '1 hour' *
        least(${BACKOFF_HOURS_MAX}, ${BACKOFF_HOURS} * power(2, least(count(*), 10) - 1)) as wait_until
      from lake_ref f
      where f.created_by = ${MAINTENANCE} and f.kind = 'run' and f.state = 'deleted'
        and f.closed_at > clock_timestamp() - ${FAILURES_DAYS} * interval '1 day'
      group by f.description)`,
  )`
    from main_entry e join lake_content c on c.id = e.content_id
    where e.to_commit is null and c.operation is distinct from 'replace' and c.snapshot_id is not null
      and not ${isBusy(sql)}
      and not exists (select from failed where failed.wait_until > clock_timestamp()
        and failed.key = e.namespace || '.' || e.layer || '.' || e.name)
    order by random() limit ${limit}`

export interface MaintenanceBranch {
  branch: string
  /** Identifies the work like the id of a run, but no run has this id. */
  runId: string
  table: TableName
}

/** Opens a branch of main. If its work is lost, the reaper closes the branch like that of a missing run. */
export async function openMaintenance(tx: SqlTx, { branch, runId, table }: MaintenanceBranch): Promise<void> {
  await openBranches(tx, [{ branch, base: await headOfMain(tx), runId, attempt: 1 }])
  await tx`
    update lake_ref set created_by = ${MAINTENANCE}, description = ${tableKey(table)} where name = ${branch}`
}

/** Closes a branch whose work failed, so that the table waits. */
export async function failMaintenance(tx: SqlTx, { branch }: MaintenanceBranch): Promise<void> {
  await closeBranches(tx, [branch])
}

/** Removes a branch without work, so that the next tick may try again. */
export async function cancelMaintenance(tx: SqlTx, { branch }: MaintenanceBranch): Promise<void> {
  await forgetBranches(tx, [branch])
}

/** The service rewrites files. The rows stay the same, so nobody has to decide. */
const NOBODYS: Decision = { authors: [], by: null }

/** The runner has compared all rows. Deletes of another engine may have been counted only now. */
const IS_SAME = computed<boolean>("after.operation = 'replace' and after.row_count <= before.row_count")

/**
 * Merges the branch into main, unless main's table has changed, or a run or a branch of a user writes the table. Returns null
 * after the merge, otherwise the reason against it. The run then keeps its base, so its own merge meets no conflict.
 */
export async function mergeMaintenance(
  tx: SqlTx,
  { branch, table }: MaintenanceBranch,
  { commit, message }: { commit: string; message: string },
): Promise<string | null> {
  await lockedHead(tx)
  const [change] = await select(tx, { isSame: IS_SAME, isBusy: computed<boolean>(isBusy(tx)) })`
    from branch_entry own join lake_content after on after.id = own.content_id
    join main_entry e on e.to_commit is null and e.namespace = own.namespace and e.layer = own.layer
      and e.name = own.name
    join lake_content before on before.id = own.base_content
    where own.ref = ${branch}`
  if (change === undefined) return `table ${tableKey(table)} was removed`
  if (change.isBusy) return `a run or a branch of a user writes table ${tableKey(table)}`
  if (!change.isSame) throw new Error(`maintenance of ${tableKey(table)} changed more than files`)
  const outcomes = await mergeBranches(tx, [
    { branch, testedCommit: commit, runId: null, message, decision: NOBODYS },
  ])
  const outcome = outcomes.get(branch)
  if (outcome?.kind === 'conflict') return `main changed table ${outcome.table}`
  if (outcome?.kind === 'protected') throw new Error(`maintenance of ${outcome.table} was refused`)
  if (outcome?.kind !== 'merged') return outcome?.why ?? `branch ${branch} does not exist`
  await tx`update lake_commit set author = ${MAINTENANCE} where id = ${commit}`
  return null
}
