/** Closes orphaned branches, and deletes old records of closed branches and of commits. See ADR 16. */
import { alias } from 'drizzle-orm/pg-core'
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import { computed, only, pick, present, type RowOf, returning, select } from '../../../drizzle/rows.ts'
import { branchEntries, lakeContents, lakeRefs, mainEntries } from '../../../drizzle/schema/catalog.ts'
import type { Removal } from '../../core/removals.ts'
import { BATCH_ROWS, inBatches, inSequence, type Reaping } from '../../retention/store/reaping.ts'
import { closeBranches, lockedHead } from './branches.ts'
import { keepRunDiffs } from './run-diffs.ts'

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

/** A condition: readers reach the states of the branch or tag `f`. */
export const isReadable = (sql: Sql | SqlTx) => sql`(f.state = 'open' or f.kept_until is not null)`

/** A condition: the readable branch or tag `f` is based on a commit of main where the entry `e` was current. */
export const standsOn = (sql: Sql | SqlTx) => sql`
  ${isReadable(sql)} and f.name <> 'main' and f.base >= e.from_commit and f.base < e.to_commit`

/** A condition: pending or running runs read the branch `f` of a user and will merge into it. */
export const hasUnfinishedRuns = (sql: Sql | SqlTx) => sql`
  exists (select from run r where r.branch = f.name and r.branch <> 'main' and r.status in ('pending', 'running'))`

/** The time of the latest change of a branch: its opening, a commit, a rebase, the merge of a run, or its end. */
export const changedAt = (branch: string) =>
  `greatest(${branch}.created_at, ${branch}.updated_at, ${branch}.closed_at,
    (select latest.created_at from lake_commit latest where latest.id = ${branch}.head))`

const UNUSED = pick(lakeContents, 'id', 'metadataLocation')

/** Deletes the contents that neither main nor a branch references, and returns them. */
async function removeUnusedContents(
  tx: SqlTx,
  contents: readonly { id: string }[],
): Promise<RowOf<typeof UNUSED>[]> {
  if (contents.length === 0) return []
  return returning(tx, UNUSED)`
    delete from lake_content where id = any(${contents.map(({ id }) => id)}::uuid[])
      and not exists (select from main_entry e where e.content_id = lake_content.id)
      and not exists (select from branch_entry e where e.content_id = lake_content.id)
      and not exists (select from branch_entry e where e.base_content = lake_content.id)`
}

/** Notes the contents whose files a tick would find unreferenced. */
function noteForgotten({ dryRun }: Reaping, contents: readonly RowOf<typeof UNUSED>[]) {
  for (const { id } of contents) dryRun?.forgotten.add(id)
  dryRun?.add(
    'table_states',
    contents.map(({ metadataLocation }) => metadataLocation),
  )
}

export const expireLakeHistory = (reaping: Reaping): Promise<void> =>
  inSequence(reaping, async (reaping) => {
    if (reaping.busyTables !== null) await deleteHistory(reaping, reaping.busyTables)
    await closeOrphans(reaping)
    await closeExpired(reaping)
    await closeKept(reaping)
    await deleteBranches(reaping)
    await deleteCommits(reaping)
  })

/** Deletes old history of main. No reader and no open branch uses these entries, and no file's age depends on them. */
async function deleteHistory(reaping: Reaping, except: readonly string[]): Promise<void> {
  const { cutoffs, reaped } = reaping
  const limit = BATCH_ROWS / 2
  await inBatches(reaping, async (tx) => {
    const deleted = await forgetEntries(tx, { before: new Date(cutoffs.lakeHistory), except, limit })
    reaped.historyPruned += deleted.entries + deleted.contents.length
    noteForgotten(reaping, deleted.contents)
    return deleted.entries === limit
  })
}

/**
 * Deletes at most `limit` entries that main replaced before `before`, and contents that no other entry uses. Keeps entries that
 * an open branch or a tag reads, and entries of the tables in `except` (`namespace.layer.name`). The lock on main makes a new
 * branch on an old commit wait, so that the branch sees which commits are kept.
 */
async function forgetEntries(
  tx: SqlTx,
  { before, except, limit }: { before: Date; except: readonly string[]; limit: number },
): Promise<{ entries: number; contents: RowOf<typeof UNUSED>[] }> {
  await lockedHead(tx)
  const deletedEntries = await returning(tx, {
    id: mainEntries.contentId,
    to: present(mainEntries.toCommit),
  })`
    delete from main_entry where ctid = any(array(
      select e.ctid from main_entry e ${replacedAt(tx)}
      where replaced.at < ${before}
        and e.namespace || '.' || e.layer || '.' || e.name <> all(${except as string[]})
        and not exists (select from lake_ref f where ${standsOn(tx)})
      limit ${limit}))`
  const oldestKept = Math.max(0, ...deletedEntries.map(({ to }) => to))
  await tx`update lake_ref set base = greatest(base, ${oldestKept}) where name = 'main' and ${oldestKept} > 0`
  return { entries: deletedEntries.length, contents: await removeUnusedContents(tx, deletedEntries) }
}

/** Closes open branches whose run ended, or was deleted, before the cut-off. */
async function closeOrphans(reaping: Reaping): Promise<void> {
  const cutoff = new Date(reaping.cutoffs.orphanBranches)
  await closeAll(
    reaping,
    (tx) =>
      select(tx, { name: alias(lakeRefs, 'f').name })`
      from lake_ref f left join run r on r.id = f.run_id
      where f.state = 'open' and f.name like 'run-%' and f.created_at < ${cutoff}
        and (r.id is null or (r.status in ('success', 'failed', 'cancelled') and r.finished_at < ${cutoff}))
      order by f.name limit ${ORPHANS_PER_BATCH}`,
  )
}

/**
 * Closes branches of users after their expiry, or after `BRANCH_MAX_IDLE_DAYS` without a change. A branch with unfinished runs
 * stays open until they end.
 */
async function closeExpired(reaping: Reaping): Promise<void> {
  const { now, branchMaxIdleDays } = reaping
  await closeAll(reaping, async (tx) => {
    const isIdle =
      branchMaxIdleDays === null
        ? tx`false`
        : tx`${tx.unsafe(changedAt('f'))} < ${now}::timestamptz - ${branchMaxIdleDays}::float8 * interval '1 day'`
    const expired = await select(tx, { name: alias(lakeRefs, 'f').name })`
      from lake_ref f
      where f.kind = 'user' and f.state = 'open' and (f.expires_at < ${now} or ${isIdle})
        and not ${hasUnfinishedRuns(tx)}
      order by f.name limit ${ORPHANS_PER_BATCH} for update`
    // A statement after the lock sees every run that was requested before it.
    return select(tx, { name: alias(lakeRefs, 'f').name })`
      from lake_ref f
      where f.name = any(${expired.map(({ name }) => name)}) and not ${hasUnfinishedRuns(tx)}`
  })
}

/** Closes branches of runs with a failed gate after the time for which they were kept, or when their run was deleted. */
async function closeKept(reaping: Reaping): Promise<void> {
  await closeAll(
    reaping,
    (tx) =>
      select(tx, { name: alias(lakeRefs, 'f').name })`
      from lake_ref f
      where f.kept_until is not null
        and (f.kept_until < ${reaping.now} or not exists (select from run r where r.id = f.run_id))
      order by f.name limit ${ORPHANS_PER_BATCH}`,
    'kept_branches',
  )
}

async function closeAll(
  reaping: Reaping,
  selected: (tx: SqlTx) => Promise<{ name: string }[]>,
  kind: Removal['kind'] = 'open_branches',
): Promise<void> {
  await inBatches(reaping, async (tx) => {
    const branches = await selected(tx)
    const closed = await closeBranches(
      tx,
      branches.map(({ name }) => name),
    )
    reaping.reaped.branchesCleaned += closed.length
    reaping.dryRun?.add(kind, closed)
    return closed.length === ORPHANS_PER_BATCH
  })
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
    const forgotten = await forgetBranches(tx, names)
    reaped.historyPruned += forgotten.rows
    noteForgotten(reaping, forgotten.contents)
    reaping.dryRun?.add('closed_branches', names)
    return names.length === BRANCHES_PER_BATCH
  })
}

/** Deletes closed branches with their entries, unused contents and unmerged commits. Returns the contents and the number of deleted rows. */
export async function forgetBranches(
  tx: SqlTx,
  names: readonly string[],
): Promise<{ rows: number; contents: RowOf<typeof UNUSED>[] }> {
  await keepRunDiffs(tx, names)
  const entries = await returning(tx, pick(branchEntries, 'contentId', 'baseContent'))`
    delete from branch_entry where ref = any(${names as string[]})`
  const ids = entries.flatMap(({ contentId, baseContent }) => [contentId ?? [], baseContent ?? []].flat())
  const contents = await removeUnusedContents(
    tx,
    ids.map((id) => ({ id })),
  )
  const commits = await tx`delete from lake_commit where ref = any(${names as string[]}) and number is null`
  await tx`delete from lake_ref where name = any(${names as string[]})`
  return { rows: names.length + entries.length + contents.length + commits.count, contents }
}

const DELETED = {
  deleted: computed<string[]>('array(select number::text from gone order by number)'),
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
        returning number)`
    const { deleted: numbers, rowsScanned, last } = only(await select(tx, DELETED, deleted)``)
    if (last === null) return false
    reaped.historyPruned += numbers.length
    reaping.dryRun?.add('commits', numbers)
    after = last
    return rowsScanned === COMMITS_PER_BATCH
  })
}
