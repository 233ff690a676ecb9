/**
 * Branches of attempts on branches of users: their openings and merges. The dispatcher's thread loads this file, so it imports
 * nothing heavy. See ADR 43.
 */
import { alias } from 'drizzle-orm/pg-core'
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import { computed, pick, present, type RowOf, recordset, select } from '../../../drizzle/rows.ts'
import { branchEntries, lakeCommits, lakeRefs } from '../../../drizzle/schema/catalog.ts'
import type { Part } from '../../../drizzle/sql.ts'
import { tableKey } from '../../../ground/names.ts'
import { BRANCH, type MergeOutcome, type MergeRequest, type NewBranch, whyStale } from './branches.ts'

/**
 * Locks the open branches of users among `names`, so that they stay open and unchanged until the transaction ends. Transactions
 * that only start attempts on these branches do not wait for each other.
 */
export async function lockParents(tx: SqlTx, names: readonly string[]): Promise<void> {
  await tx`
    select from lake_ref where name = any(${[...new Set(names)]}) and kind = 'user' and state = 'open'
    order by name for key share`
}

/** A CTE that locks an open branch of a user, as `lockParents` does. It has one row when the branch is open. */
export const openParentPart = (tx: Sql | SqlTx, name: string): Part => tx`
  open_parent as materialized (
    select name from lake_ref where name = ${name} and kind = 'user' and state = 'open' for key share)`

/**
 * A CTE that adds authors to the branch of `openParentPart`. `authors` is an expression, null when nobody is to be added. Most
 * authors are known already, and then the branch stays unchanged.
 */
export const authoredParentPart = (tx: Sql | SqlTx, name: string, authors: Part): Part => tx`
  authored_parent as (
    update lake_ref set authors = array(select unnest(lake_ref.authors) union select unnest(added.authors))
    from (select ${authors} as authors) added, open_parent
    where lake_ref.name = ${name} and not lake_ref.authors @> added.authors)`

/** A CTE that copies the entries of the parents. The new branches start from the contents that the parents have now. */
export function copiedEntriesPart(tx: SqlTx, branches: readonly NewBranch[]): Part[] {
  const nested = branches.filter(({ parent }) => parent !== undefined)
  if (nested.length === 0) return []
  return [
    tx`copied_entries as (
    insert into branch_entry (ref, namespace, layer, name, content_id, base_content)
    select opened.name, own.namespace, own.layer, own.name, own.content_id, own.content_id
    from unnest(${nested.map(({ branch }) => branch)}::text[], ${nested.map(({ parent }) => parent ?? '')}::text[])
      as opened(name, parent)
    join branch_entry own on own.ref = opened.parent)`,
  ]
}

const NESTED = { ...BRANCH, ...pick(alias(lakeRefs, 'ref'), 'parent') }
const CHANGE = {
  ...pick(alias(branchEntries, 'entry'), 'ref', 'namespace', 'layer', 'name', 'contentId', 'baseContent'),
  parent: present(alias(lakeRefs, 'ref').parent),
  /** The content on the parent now. */
  parentContent: computed<string | null>(
    'case when theirs.ref is null then main.content_id else theirs.content_id end',
  ),
}
type Change = RowOf<typeof CHANGE>

/** A merge into a branch is no commit of main. */
type NestedOutcome = { kind: 'merged'; commit: null } | Exclude<MergeOutcome, { kind: 'merged' }>

/**
 * Merges branches of attempts into their parents in the given order, as `mergeBranches` does for main. A table that changed on
 * the parent since the attempt's start is a conflict. The outcomes hold once the caller's transaction commits. A transaction
 * that also locks main must lock main first.
 */
export async function mergeIntoParents(
  tx: SqlTx,
  requests: readonly MergeRequest[],
): Promise<Map<string, NestedOutcome>> {
  const outcomes = new Map<string, NestedOutcome>()
  if (requests.length === 0) return outcomes
  const names = requests.map(({ branch }) => branch)
  // Each statement sees all data committed before it began. So reads after the locks are final.
  const [, branches, changes] = await Promise.all([
    tx`
      select from lake_ref
      where name = any(${names}) or name = any(array(select parent from lake_ref where name = any(${names})))
      order by name for update`,
    select(tx, { ...NESTED, isParentOpen: computed<boolean>('p.name is not null') })`
      from lake_ref ref left join lake_ref p on p.name = ref.parent and p.kind = 'user' and p.state = 'open'
      where ref.name = any(${names}) and ref.kind = 'run'`,
    select(tx, CHANGE)`
      from branch_entry entry
      join lake_ref ref on ref.name = entry.ref
      join lake_ref p on p.name = ref.parent
      left join branch_entry theirs on theirs.ref = p.name and theirs.namespace = entry.namespace
        and theirs.layer = entry.layer and theirs.name = entry.name
      left join main_entry main on main.namespace = entry.namespace and main.layer = entry.layer
        and main.name = entry.name and main.from_commit <= p.base and (main.to_commit is null or main.to_commit > p.base)
      where entry.ref = any(${names}) and entry.content_id is distinct from entry.base_content`,
  ])
  const branchOf = new Map(branches.map((branch) => [branch.name, branch]))
  const changesOf = Map.groupBy(changes, ({ ref }) => ref)
  /** `parent table` of each change by an earlier branch of this batch. */
  const moved = new Set<string>()
  const keyOf = (change: Change) => `${change.parent} ${tableKey(change)}`
  const merged: Merged[] = []
  for (const request of requests) {
    if (outcomes.has(request.branch)) continue
    const branch = branchOf.get(request.branch)
    const why =
      whyStale(branch, request.testedCommit) ??
      (branch?.isParentOpen ? null : `branch ${branch?.parent} is not open`)
    if (branch === undefined || branch.parent === null || why !== null) {
      outcomes.set(request.branch, { kind: 'stale', why: why ?? 'the branch merges into main' })
      continue
    }
    const own = changesOf.get(request.branch) ?? []
    const clash = own.find(
      (change) => change.baseContent !== change.parentContent || moved.has(keyOf(change)),
    )
    if (clash) {
      outcomes.set(request.branch, { kind: 'conflict', table: tableKey(clash) })
      continue
    }
    for (const change of own) moved.add(keyOf(change))
    merged.push({ ...request, parent: branch.parent, changes: own })
    outcomes.set(request.branch, { kind: 'merged', commit: null })
  }
  if (merged.length > 0) await writeMerged(tx, merged)
  return outcomes
}

type Merged = MergeRequest & { parent: string; changes: Change[] }

async function writeMerged(tx: SqlTx, merged: readonly Merged[]): Promise<void> {
  const entries = merged.flatMap(({ parent, changes }) =>
    changes.map((change) => ({ ...change, ref: parent })),
  )
  const commits = merged.map(({ testedCommit, parent, ...commit }) => ({
    ...commit,
    id: testedCommit,
    ref: parent,
  }))
  const heads = [...new Map(commits.map(({ ref, id }) => [ref, { name: ref, head: id }])).values()]
  const names = merged.map(({ branch }) => branch)
  await Promise.all([
    // A table that the parent had not changed is on main at the parent's base as the attempt read it.
    tx`
      insert into branch_entry (ref, namespace, layer, name, content_id, base_content)
      select ref, namespace, layer, name, content_id, base_content
      from ${recordset(tx, branchEntries, ENTRY, entries, 'moved')}
      on conflict (ref, namespace, layer, name) do update set content_id = excluded.content_id`,
    // The creation time of a commit of the parent is the time of its merge.
    tx`
      update lake_commit set ref = merged.ref, message = merged.message, run_id = merged.run_id,
        created_at = clock_timestamp()
      from ${recordset(tx, lakeCommits, ['id', 'ref', 'runId', 'message'], commits, 'merged')}
      where lake_commit.id = merged.id`,
    tx`
      update lake_ref set head = moved.head, updated_at = clock_timestamp()
      from ${recordset(tx, lakeRefs, ['name', 'head'], heads, 'moved')}
      where lake_ref.name = moved.name`,
    // The merged branch keeps only its changes, as the history of its parent.
    tx`delete from branch_entry where ref = any(${names}) and content_id is not distinct from base_content`,
    tx`
      update lake_ref set state = 'merged', closed_at = clock_timestamp() where name = any(${names})`,
  ])
}

const ENTRY = ['ref', 'namespace', 'layer', 'name', 'contentId', 'baseContent'] as const
