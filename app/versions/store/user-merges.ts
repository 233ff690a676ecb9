// Merges of users' branches into main, and their rebases. See ADR 43.
import { alias } from 'drizzle-orm/pg-core'
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import { rulesOf } from '../../../drizzle/protection.ts'
import { nullable, pick, type RowOf, recordset, select } from '../../../drizzle/rows.ts'
import { branchEntries, mainEntries } from '../../../drizzle/schema/catalog.ts'
import { type TableName, tableKey } from '../../../ground/names.ts'
import type { Decision } from '../../protection/rule.ts'
import { lockedHead, type MergeOutcome, mergeBranches } from './branches.ts'
import type { OpenBranch } from './user-branches.ts'

const entry = alias(branchEntries, 'entry')
const CHANGE = {
  ...pick(entry, 'namespace', 'layer', 'name', 'contentId', 'baseContent'),
  liveContent: nullable(alias(mainEntries, 'live').contentId),
  rules: rulesOf('entry'),
}
/** A changed table: its content on the branch, on main at the base of the branch, and on main now; and its rules. */
export type BranchChange = RowOf<typeof CHANGE>

/** The changes of a branch, ordered by table. */
export const changesOf = (sql: Sql | SqlTx, branch: string) => select(sql, CHANGE)`
  from branch_entry entry
  left join main_entry live on live.to_commit is null and live.namespace = entry.namespace
    and live.layer = entry.layer and live.name = entry.name
  where entry.ref = ${branch}
  order by entry.namespace, entry.layer, entry.name`

/** Deletes entries whose content is the one of main at the base. Without such an entry the branch reads the same. */
export async function dropUnchanged(tx: SqlTx, branch: string): Promise<void> {
  await tx`delete from branch_entry where ref = ${branch} and content_id is not distinct from base_content`
}

/** The tables that changed both on the branch and on main. */
export const conflictsIn = (changes: readonly BranchChange[]): BranchChange[] =>
  changes.filter(({ baseContent, liveContent }) => baseContent !== liveContent)

/** Whether main changed one of these tables after the commit `since`. The caller has locked main. */
export async function hasMoved(tx: SqlTx, since: number, tables: readonly TableName[]): Promise<boolean> {
  if (tables.length === 0) return false
  const [moved] = await tx`
    select from ${recordset(tx, mainEntries, ['namespace', 'layer', 'name'], tables, 'read')}
    where exists (
      select from main_entry entry
      where entry.namespace = read.namespace and entry.layer = read.layer and entry.name = read.name
        and (entry.from_commit > ${since} or entry.to_commit > ${since}))
    limit 1`
  return moved !== undefined
}

type UserMergeOutcome = Extract<MergeOutcome, { kind: 'merged' | 'protected' }>

interface UserMerge {
  branch: OpenBranch
  /** The id of the new commit of main. */
  id: string
  author: string | null
  message: string
  changes: readonly BranchChange[]
  /** Absent: nobody saw the change before it merges, as in a write to main. */
  decision?: Decision | undefined
}

/**
 * Merges a branch into main as one commit. The caller has locked main and the branch, and has found no conflict. Returns the
 * number of the commit. `protected`: a table needs another decision; the caller's transaction must then end without a commit.
 */
export async function mergeUserBranch(tx: SqlTx, merge: UserMerge): Promise<UserMergeOutcome> {
  const { branch, id, author, message, changes, decision } = merge
  await Promise.all([
    tx`
      insert into lake_commit (id, ref, base, author, message, tables)
      values (${id}, ${branch.name}, ${branch.base}, ${author}, ${message}, ${changes.map(tableKey)})`,
    tx`update lake_ref set head = ${id} where name = ${branch.name}`,
  ])
  const outcomes = await mergeBranches(tx, [
    { branch: branch.name, testedCommit: id, runId: null, message, decision },
  ])
  const outcome = outcomes.get(branch.name)
  if (outcome?.kind !== 'merged' && outcome?.kind !== 'protected')
    throw new Error(`branch ${branch.name} was not merged although it is locked and has no conflict`)
  return outcome
}

/**
 * Moves a branch to the head of main. The caller has locked main and the branch, and has found no conflict. So the base content
 * of each changed table is the one of main now.
 */
export async function rebaseBranch(tx: SqlTx, branch: string): Promise<void> {
  const head = await lockedHead(tx)
  await tx`
    update lake_ref set base = ${head}, updated_at = clock_timestamp() where name = ${branch} and base <> ${head}`
}
