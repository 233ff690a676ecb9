/**
 * Branch operations for other transactions: open, close and merge many branches with a fixed number of statements. The
 * dispatcher's thread loads this file, so it imports nothing heavy. See ADR 8.
 *
 * Locks are taken in one order everywhere: main, then branches by name.
 */
import { alias } from 'drizzle-orm/pg-core'
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import { rulesOf } from '../../../drizzle/protection.ts'
import {
  computed,
  insertRows,
  nullable,
  only,
  pick,
  present,
  type RowOf,
  recordset,
  returning,
  select,
} from '../../../drizzle/rows.ts'
import { branchEntries, lakeCommits, lakeRefs, mainEntries } from '../../../drizzle/schema/catalog.ts'
import type { Review } from '../../../drizzle/schema/namespace.ts'
import type { Part } from '../../../drizzle/sql.ts'
import { type TableName, tableKey } from '../../../ground/names.ts'
import type { ContentChange } from '../../../lake/iceberg/format/content-change.ts'
import { type Decision, refusedBy } from '../../protection/rule.ts'
import type { Content } from './tables.ts'

const ref = alias(lakeRefs, 'ref')
/** These columns are null for main only. */
export const BRANCH = {
  ...pick(ref, 'name', 'state', 'head'),
  base: present(ref.base),
  runId: present(ref.runId),
  attempt: present(ref.attempt),
}
export type Branch = RowOf<typeof BRANCH>

export type NewBranch = {
  branch: string
  base: number
  runId: string
  attempt: number
  /** The branch of a user into which the branch merges; by default main. */
  parent?: string
}

export type MergeRequest = {
  branch: string
  /** Id of the branch commit that the quality tests checked. */
  testedCommit: string
  /** The run whose success the merge is; null for a merge by a user. */
  runId: string | null
  message: string
  /** The decision to merge; absent: nobody decided, and the branch merges because its tests passed. */
  decision?: Decision | undefined
}

export type MergeOutcome =
  /** `commit` is the new number on main; `base` is the commit of main from which the result was computed. */
  | { kind: 'merged'; commit: number; base: number }
  /** `table` is the `namespace.layer.name` of a table that changed on main since the branch's base. */
  | { kind: 'conflict'; table: string }
  /** The branch is not open, or its head is not the tested commit. */
  | { kind: 'stale'; why: string }
  /** Main is protected: the rule of `table` demands another decision. */
  | { kind: 'protected'; table: string; rule: Review }

/** The number of main's latest commit; 0 when main has none. */
export const headOfMain = async (sql: Sql | SqlTx): Promise<number> =>
  only(await select(sql, MAIN)`from lake_ref ref where name = 'main'`).number

/** Returns the head of main and locks main until the transaction ends. Every transaction that moves main calls this first. */
export const lockedHead = async (tx: SqlTx): Promise<number> =>
  only(await select(tx, MAIN)`from lake_ref ref where name = 'main' for update`).number

/** The row of main always exists: the migration that creates the table inserts it. */
const MAIN = { number: present(ref.number) }

/** Opens branches on main as of their bases without copying anything. Throws when one of the branches exists already. */
export async function openBranches(tx: SqlTx, branches: NewBranch[]): Promise<void> {
  if (branches.length > 0) await insertBranches(tx, branches)
}

/** `openBranches` as a CTE of another statement. */
export const openedBranchesPart = (tx: SqlTx, branches: NewBranch[]): Part[] =>
  branches.length === 0 ? [] : [tx`opened_branches as (${insertBranches(tx, branches)})`]

const insertBranches = (tx: SqlTx, branches: NewBranch[]) =>
  insertRows(
    tx,
    lakeRefs,
    ['name', 'base', 'runId', 'attempt', 'parent'],
    branches.map(({ branch, ...opened }) => ({ name: branch, ...opened })),
  )

/** Closes the open branches among `names`; a closed branch accepts no commit and no merge. Returns the closed names. */
export async function closeBranches(tx: SqlTx, names: string[]): Promise<string[]> {
  if (names.length === 0) return []
  const closed = await updateClosed(tx, names)
  return closed.map((row) => row.name)
}

/** `closeBranches` as a CTE of another statement. */
export const closedBranchesPart = (tx: SqlTx, names: string[]): Part[] =>
  names.length === 0 ? [] : [tx`closed_branches as (${updateClosed(tx, names)})`]

/**
 * The condition `closed_at is null` avoids the partial index of open branches (`state = 'open'`). That index is full of dead
 * entries of recently closed branches. The primary key on names answers instead.
 */
const updateClosed = (tx: SqlTx, names: string[]) => returning(tx, { name: lakeRefs.name })`
  with open as (
    select name from lake_ref
    where name = any(${names}) and closed_at is null and name <> 'main'
    order by name for update)
  update lake_ref set state = 'deleted', closed_at = clock_timestamp(), kept_until = null
  where lake_ref.name = any(array(select name from open))`

/**
 * A CTE that ends open branches, which stay readable for some hours. Such a branch accepts no commit and no merge, as a closed
 * one. It has no closing time until the reaper closes it, because readers reach its states.
 */
export const keptBranchesPart = (tx: SqlTx, kept: readonly { branch: string; hours: number }[]): Part[] =>
  kept.length === 0
    ? []
    : [
        tx`kept_branches as (
    update lake_ref set state = 'deleted', kept_until = clock_timestamp() + kept.hours * interval '1 hour'
    from unnest(${kept.map(({ branch }) => branch)}::text[], ${kept.map(({ hours }) => hours)}::float8[]) as kept(name, hours)
    where lake_ref.name = kept.name and lake_ref.state = 'open')`,
      ]

/** Finds a branch by name in any state; null when it does not exist. Never returns `main`. */
export async function findBranch(sql: Sql | SqlTx, name: string): Promise<Branch | null> {
  const [row] = await select(sql, BRANCH)`from lake_ref ref where name = ${name} and name <> 'main'`
  return row ?? null
}

/**
 * Finds a branch and the metadata location of one table on it. The location is null without such a table; the result is null
 * without such a branch.
 */
export async function findBranchOf(
  sql: Sql,
  name: string,
  { namespace, layer, name: table }: TableName,
): Promise<{ branch: Branch; metadataLocation: string | null } | null> {
  const location = computed<string | null>(sql`
    (select content.metadata_location
     from (select) as one
     left join branch_entry own
       on own.ref = ref.name and own.namespace = ${namespace} and own.layer = ${layer} and own.name = ${table}
     left join main_entry main
       on main.namespace = ${namespace} and main.layer = ${layer} and main.name = ${table}
         and main.from_commit <= ref.base and (main.to_commit is null or main.to_commit > ref.base)
     join lake_content content
       on content.id = case when own.ref is null then main.content_id else own.content_id end and content.kind = 'table')`)
  const [row] = await select(sql, { ...BRANCH, metadataLocation: location })`
    from lake_ref ref where ref.name = ${name} and ref.name <> 'main'`
  if (row === undefined) return null
  const { metadataLocation, ...branch } = row
  return { branch, metadataLocation }
}

type BranchCommit = {
  id: string
  branch: string
  /** The head from which the new state was computed. */
  head: string | null
  table: TableName
  /** The uuid of the table or view. */
  tableUuid: string
  content: Content
  snapshotId: string | null
  /** Numbers of the change for the history of the table; absent when they are unknown. */
  change?: ContentChange
  message: string
}

/**
 * Moves a branch by one commit of one table. Returns false and writes nothing when the branch is not open or its head has
 * changed. The commit is one statement, so the transaction waits neither for its client nor for the disk. Durability comes
 * later: every record that depends on this commit, such as its merge, is written after it. A durable merge makes this commit
 * durable too. A database crash that loses the commit also loses later records of it. Otherwise the merge finds the commit
 * missing and reports the branch as stale.
 */
export async function commitToBranch(sql: Sql, commit: BranchCommit): Promise<boolean> {
  const { table, content, change } = commit
  const [moved] = await sql`
    with quick as materialized (select set_config('synchronous_commit', 'off', true)),
    branch as (
      select name, base, run_id from lake_ref
      where name = ${commit.branch} and name <> 'main' and state = 'open'
        and head is not distinct from ${commit.head}
      for update),
    content as (
      insert into lake_content
        (id, kind, table_uuid, metadata_location, snapshot_id, columns, row_count, size_bytes, operation, rows_added,
          rows_removed)
      select ${content.contentId}::uuid, ${content.kind}::text, ${commit.tableUuid}::uuid, ${content.metadataLocation},
        ${commit.snapshotId}::text, ${sql.json(content.columns)}::jsonb, ${content.rowCount}::bigint,
        ${content.sizeBytes}::bigint, ${change?.operation ?? null}::text, ${change?.rowsAdded ?? null}::bigint,
        ${change?.rowsRemoved ?? null}::bigint
      from branch),
    -- Reads main as of the branch's base. Current main would hide merges of other branches, which are conflicts.
    entry as (
      insert into branch_entry (ref, namespace, layer, name, content_id, base_content)
      select branch.name, ${table.namespace}, ${table.layer}, ${table.name}, ${content.contentId}::uuid,
        (select content_id from main_entry
         where namespace = ${table.namespace} and layer = ${table.layer} and name = ${table.name}
           and from_commit <= branch.base and (to_commit is null or to_commit > branch.base))
      from branch
      on conflict (ref, namespace, layer, name) do update set content_id = excluded.content_id),
    commit as (
      insert into lake_commit (id, ref, base, run_id, message, tables)
      select ${commit.id}::uuid, branch.name, branch.base, branch.run_id, ${commit.message},
        array[${tableKey(table)}::text]
      from branch)
    update lake_ref set head = ${commit.id}::uuid from branch, quick where lake_ref.name = branch.name
    returning lake_ref.name`
  return moved !== undefined
}

/**
 * Merges branches into main in the given order. Each merge is one commit with all its tables, or does not happen. The outcomes
 * hold once the caller's transaction commits; main stays locked until then. Branches that do not merge stay unchanged.
 */
export async function mergeBranches(tx: SqlTx, requests: MergeRequest[]): Promise<Map<string, MergeOutcome>> {
  const outcomes = new Map<string, MergeOutcome>()
  if (requests.length === 0) return outcomes
  const names = requests.map((request) => request.branch)
  // Each statement sees all data committed before it began. So reads after the lock are final.
  const [main, branches, entries] = await Promise.all([
    lockedHead(tx),
    select(tx, BRANCH)`
      from lake_ref ref where name = any(${names}) and name <> 'main' order by name for update`,
    select(tx, CHANGE)`
      from branch_entry entry
      left join main_entry live on live.to_commit is null and live.namespace = entry.namespace
        and live.layer = entry.layer and live.name = entry.name
      where entry.ref = any(${names})`,
  ])

  let head = main
  const branchOf = new Map(branches.map((branch) => [branch.name, branch]))
  const entriesOf = Map.groupBy(entries, (entry) => entry.ref)
  /**
   * Tables that an earlier branch of this batch moved. A later branch of such a table conflicts, because it was computed from
   * an older state.
   */
  const moved = new Set<string>()
  const merged: MergedRow[] = []
  for (const request of requests) {
    if (outcomes.has(request.branch)) continue
    const branch = branchOf.get(request.branch)
    const stale = whyStale(branch, request.testedCommit)
    if (branch === undefined || stale !== null) {
      outcomes.set(request.branch, { kind: 'stale', why: stale ?? 'the branch does not exist' })
      continue
    }
    const changes = entriesOf.get(request.branch) ?? []
    const clash = changes.find(
      (entry) => entry.baseContent !== entry.liveContent || moved.has(tableKey(entry)),
    )
    if (clash) {
      outcomes.set(request.branch, { kind: 'conflict', table: tableKey(clash) })
      continue
    }
    const guarded = refusedBy(changes, request.decision)
    if (guarded) {
      outcomes.set(request.branch, { kind: 'protected', ...guarded })
      continue
    }
    head += 1
    for (const entry of changes) moved.add(tableKey(entry))
    merged.push({ ...request, number: head, changes })
    outcomes.set(request.branch, { kind: 'merged', commit: head, base: branch.base })
  }
  if (merged.length > 0) await writeMerged(tx, merged)
  return outcomes
}

/** The statements are pipelined and execute in this order: a table's old entry ends before its new entry starts. */
async function writeMerged(tx: SqlTx, merged: MergedRow[]): Promise<void> {
  const moves = merged.flatMap(({ number, changes }) =>
    changes.map((change) => ({ ...change, fromCommit: number })),
  )
  const commits = merged.map(({ testedCommit, ...commit }) => ({ id: testedCommit, ...commit }))
  const last = commits.at(-1)
  if (last === undefined) return
  await Promise.all([
    tx`
      update main_entry live set to_commit = moved.from_commit
      from ${recordset(tx, mainEntries, MOVED, moves, 'moved')}
      where live.to_commit is null and live.namespace = moved.namespace
        and live.layer = moved.layer and live.name = moved.name`,
    insertRows(
      tx,
      mainEntries,
      MOVED,
      moves.filter(({ contentId }) => contentId !== null),
    ),
    // The creation time of a commit of main is the time of its merge.
    tx`
      update lake_commit set number = merged.number, message = merged.message, run_id = merged.run_id,
        created_at = clock_timestamp()
      from ${recordset(tx, lakeCommits, ['id', 'runId', 'message', 'number'], commits, 'merged')}
      where lake_commit.id = merged.id`,
    tx`
      update lake_ref set state = 'merged', closed_at = clock_timestamp()
      where name = any(${merged.map((row) => row.branch)})`,
    tx`update lake_ref set number = ${last.number}, head = ${last.id} where name = 'main'`,
  ])
}

const MOVED = ['namespace', 'layer', 'name', 'contentId', 'fromCommit'] as const
const CHANGE = {
  ...pick(alias(branchEntries, 'entry'), 'ref', 'namespace', 'layer', 'name', 'contentId', 'baseContent'),
  liveContent: nullable(alias(mainEntries, 'live').contentId),
  rules: rulesOf('entry'),
}
type MergedRow = MergeRequest & { number: number; changes: RowOf<typeof CHANGE>[] }

/** Why a branch cannot merge; null: it is open, and its head is the tested commit. */
export function whyStale(branch: Branch | undefined, testedCommit: string): string | null {
  if (branch === undefined) return 'the branch does not exist'
  if (branch.state !== 'open') return `the branch is ${branch.state}`
  if (branch.head === testedCommit.toLowerCase()) return null
  return branch.head === null
    ? 'the branch has no commit'
    : 'the branch has a commit newer than the tested one'
}
