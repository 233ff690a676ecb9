/** Closes orphaned branches, and deletes old records of closed branches and of commits. See ADR 16. */
import { alias } from 'drizzle-orm/pg-core'
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import { computed, only, pick, returning, select } from '../../../drizzle/rows.ts'
import { branchEntries, lakeRefs } from '../../../drizzle/schema/index.ts'
import { inBatches, NotLeading, type Reaping } from '../../retention/reaping.ts'
import { closeBranches } from './branches.ts'

/** Each branch has an entry, a content, and one or two commits. */
const BRANCHES_PER_BATCH = 1_000
const ORPHANS_PER_BATCH = 500
const COMMITS_PER_BATCH = 5_000

/**
 * A join for queries about ended entries `e` of main; `replaced.at` is the time when the entry ended. A branch's commit becomes
 * a commit of main by its merge, which also closes the branch. So the later of the two times counts.
 */
export const replacedAt = (sql: Sql | SqlTx) => sql`
  join lateral (
    select greatest(ending.created_at, branch.closed_at) as at from lake_commit ending
    left join lake_ref branch on branch.name = ending.ref and branch.name <> 'main'
    where ending.number = e.to_commit) replaced on true`

/** A condition: the open branch or tag `f` is based on a commit of main where the entry `e` was current. */
export const standsOn = (sql: Sql | SqlTx) => sql`
  f.state = 'open' and f.name <> 'main' and f.base >= e.from_commit and f.base < e.to_commit`

/** A condition: pending or running runs read the branch `f` of a user and will merge into it. */
export const hasUnfinishedRuns = (sql: Sql | SqlTx) => sql`
  exists (select from run r where r.branch = f.name and r.branch <> 'main' and r.status in ('pending', 'running'))`

/** Deletes the contents that neither main nor a branch references. */
export async function removeUnusedContents(tx: SqlTx, contents: readonly { id: string }[]): Promise<number> {
  if (contents.length === 0) return 0
  const { count } = await tx`
    delete from lake_content c where c.id = any(${contents.map(({ id }) => id)}::uuid[])
      and not exists (select from main_entry e where e.content_id = c.id)
      and not exists (select from branch_entry e where e.content_id = c.id)
      and not exists (select from branch_entry e where e.base_content = c.id)`
  return count
}

export async function expireLakeHistory(reaping: Reaping): Promise<void> {
  await closeOrphans(reaping)
  await closeExpired(reaping)
  await deleteBranches(reaping)
  await deleteCommits(reaping)
}

/** Closes open branches whose run ended, or was deleted, before the cut-off. */
async function closeOrphans({ write, cutoffs, reaped, checkRunning }: Reaping): Promise<void> {
  const cutoff = new Date(cutoffs.orphanBranches)
  for (;;) {
    checkRunning()
    const closed = await write(async (tx) => {
      const orphans = await select(tx, { name: alias(lakeRefs, 'f').name })`
        from lake_ref f left join run r on r.id = f.run_id
        where f.state = 'open' and f.name like 'run-%' and f.created_at < ${cutoff}
          and (r.id is null or (r.status in ('success', 'failed', 'cancelled') and r.finished_at < ${cutoff}))
        order by f.name limit ${ORPHANS_PER_BATCH}`
      return closeBranches(
        tx,
        orphans.map(({ name }) => name),
      )
    })
    if (closed === null) throw new NotLeading('another replica leads the reaper')
    reaped.branchesCleaned += closed.length
    if (closed.length < ORPHANS_PER_BATCH) return
  }
}

/** Closes branches of users after their expiry. A branch with unfinished runs stays open until they end. */
async function closeExpired({ write, now, reaped, checkRunning }: Reaping): Promise<void> {
  for (;;) {
    checkRunning()
    const closed = await write(async (tx) => {
      const expired = await select(tx, { name: alias(lakeRefs, 'f').name })`
        from lake_ref f
        where f.kind = 'user' and f.state = 'open' and f.expires_at < ${now} and not ${hasUnfinishedRuns(tx)}
        order by f.name limit ${ORPHANS_PER_BATCH} for update`
      // A statement after the lock sees every run that was requested before it.
      const idle = await select(tx, { name: alias(lakeRefs, 'f').name })`
        from lake_ref f
        where f.name = any(${expired.map(({ name }) => name)}) and not ${hasUnfinishedRuns(tx)}`
      return closeBranches(
        tx,
        idle.map(({ name }) => name),
      )
    })
    if (closed === null) throw new NotLeading('another replica leads the reaper')
    reaped.branchesCleaned += closed.length
    if (closed.length < ORPHANS_PER_BATCH) return
  }
}

/**
 * Deletes closed branches once no file's age depends on their closing time. A branch that was merged into an open branch stays,
 * because it is the history of that branch.
 */
async function deleteBranches(reaping: Reaping): Promise<void> {
  const { cutoffs, reaped } = reaping
  await inBatches(reaping, async (tx) => {
    const branches = await select(tx, { name: alias(lakeRefs, 'f').name })`
      from lake_ref f where f.closed_at < ${new Date(cutoffs.lakeHistory)} and f.name <> 'main' and (f.state = 'deleted'
        or not exists (select from lake_ref p where p.name = f.parent and p.state = 'open'))
      order by f.closed_at limit ${BRANCHES_PER_BATCH}`
    const names = branches.map(({ name }) => name)
    if (names.length === 0) return false
    reaped.historyPruned += await forgetBranches(tx, names)
    return names.length === BRANCHES_PER_BATCH
  })
}

/** Deletes closed branches with their entries, unused contents and unmerged commits. Returns the number of deleted rows. */
export async function forgetBranches(tx: SqlTx, names: readonly string[]): Promise<number> {
  const entries = await returning(tx, pick(branchEntries, 'contentId', 'baseContent'))`
    delete from branch_entry where ref = any(${names as string[]})`
  const ids = entries.flatMap(({ contentId, baseContent }) => [contentId, baseContent ?? []].flat())
  const contents = await removeUnusedContents(
    tx,
    ids.map((id) => ({ id })),
  )
  const commits = await tx`delete from lake_commit where ref = any(${names as string[]}) and number is null`
  await tx`delete from lake_ref where name = any(${names as string[]})`
  return names.length + entries.length + contents + commits.count
}

const DELETED = {
  rowsDeleted: computed<number>('(select count(*) from gone)::int'),
  rowsScanned: computed<number>('(select count(*) from old)::int'),
  last: computed<string | null>('(select max(number) from old)'),
}

/** Deletes commits of main that no entry starts or ends with: their contents were replaced and deleted. */
async function deleteCommits(reaping: Reaping): Promise<void> {
  const { cutoffs, reaped } = reaping
  let after = '-1'
  await inBatches(reaping, async (tx) => {
    const deleted = tx`
      with old as materialized (
        select c.ctid, c.number, c.id from lake_commit c
        where c.number > ${after} and c.created_at < ${new Date(cutoffs.lakeHistory)}
        order by c.number limit ${COMMITS_PER_BATCH}),
      gone as (
        delete from lake_commit where ctid = any(array(
          select o.ctid from old o where o.number < (select number from lake_ref where name = 'main')
            and not exists (select from main_entry e where e.from_commit = o.number)
            and not exists (select from main_entry e where e.to_commit = o.number)))
        returning 1)`
    const { rowsDeleted, rowsScanned, last } = only(await select(tx, DELETED, deleted)``)
    if (last === null) return false
    reaped.historyPruned += rowsDeleted
    after = last
    return rowsScanned === COMMITS_PER_BATCH
  })
}
