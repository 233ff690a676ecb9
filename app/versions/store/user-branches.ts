// Branches of users: zero-copy views of the whole lake, with their lists, openings and ends. See ADR 39.
import { alias } from 'drizzle-orm/pg-core'
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import { COUNT, computed, only, pick, present, type RowOf, select } from '../../../drizzle/rows.ts'
import { lakeCommits, lakeRefs } from '../../../drizzle/schema/catalog.ts'
import type { Part } from '../../../drizzle/sql.ts'
import { lockUser } from '../../../drizzle/user-lock.ts'
import { andVisibleId, andVisibleTable, type VisibleTables } from '../../../drizzle/visibility.ts'
import type { Page } from '../../core/pagination.ts'
import { closeBranches } from './branches.ts'
import { changedAt, forgetBranches, hasUnfinishedRuns } from './history.ts'

/** Names of hidden branches begin with a character that no name of a user has. */
export const HIDDEN = '_'

/** A branch without a change for so long is idle. */
const IDLE_DAYS = 30
const ref = alias(lakeRefs, 'ref')
const SHOWN = {
  ...pick(ref, 'name', 'state', 'head', 'description', 'createdBy', 'createdAt', 'expiresAt'),
  base: computed<number>("case when ref.name = 'main' then ref.number else ref.base end::float8"),
  ahead: computed<number>(
    "case when ref.name = 'main' then 0 else (select count(*) from lake_commit own where own.ref = ref.name and own.number is null) end::int",
  ),
  behind: computed<number>(
    "case when ref.name = 'main' then 0 else (select number from lake_ref where name = 'main') - ref.base end::int",
  ),
  tablesChanged: computed<number>(
    '(select count(*) from branch_entry own where own.ref = ref.name and own.content_id is distinct from own.base_content)::int',
  ),
  updatedAt: computed<Date>(changedAt('ref')),
  isIdle: computed<boolean>(
    `ref.kind = 'user' and ref.state = 'open' and ${changedAt('ref')} < clock_timestamp() - ${IDLE_DAYS} * interval '1 day'`,
  ),
}
export type ShownBranch = RowOf<typeof SHOWN>

type BranchFilter = { state: ShownBranch['state']; search: string }

/** `main` and the branches of users, `main` first, without the hidden branches of writes to main. */
export const shownBranches = (sql: Sql, filter: BranchFilter, { limit, offset }: Page) =>
  select(sql, SHOWN)`
    from lake_ref ref where ${isListed(sql, filter)}
    order by ref.name <> 'main', ref.name limit ${limit} offset ${offset}`

export async function countShownBranches(sql: Sql, filter: BranchFilter): Promise<number> {
  return only(await select(sql, { total: COUNT })`from lake_ref ref where ${isListed(sql, filter)}`).total
}

const isListed = (sql: Sql, { state, search }: BranchFilter): Part => sql`
  (ref.kind = 'user' and not starts_with(ref.name, ${HIDDEN}) or ref.name = 'main') and ref.state = ${state} and strpos(ref.name, ${search}) > 0`

/** `main` or a branch of a user, in any state; null when it does not exist. */
export async function shownBranch(sql: Sql | SqlTx, name: string): Promise<ShownBranch | null> {
  const [row] = await select(sql, SHOWN)`
    from lake_ref ref where name = ${name} and (ref.kind = 'user' or ref.name = 'main')`
  return row ?? null
}

const OPEN = { ...pick(ref, 'name', 'head', 'authors', 'createdAt'), base: present(ref.base) }
/** An open branch of a user. */
export type OpenBranch = RowOf<typeof OPEN>

/** An open branch of a user; null when none has this name. */
export async function openBranchNamed(sql: Sql | SqlTx, name: string): Promise<OpenBranch | null> {
  const [row] = await select(sql, OPEN)`
    from lake_ref ref where ref.name = ${name} and ref.kind = 'user' and ref.state = 'open'`
  return row ?? null
}

/**
 * The kept branch of a run with a failed gate. Null when no kept branch has this name, or when the caller may not see the run.
 */
export async function keptBranchNamed(
  sql: Sql,
  name: string,
  { pipelines }: VisibleTables,
): Promise<{ base: number } | null> {
  const [row] = await select(sql, { base: OPEN.base })`
    from lake_ref ref join run r on r.id = ref.run_id
    where ref.name = ${name} and ref.kept_until > clock_timestamp() ${andVisibleId(sql, sql`r.pipeline_id`, pipelines)}`
  return row ?? null
}

/** `openBranchNamed`, and locks the branch until the transaction ends. */
export async function lockedBranch(tx: SqlTx, name: string): Promise<OpenBranch | null> {
  const [row] = await select(tx, OPEN)`
    from lake_ref ref where ref.name = ${name} and ref.kind = 'user' and ref.state = 'open' for update`
  return row ?? null
}

type NewUserBranch = {
  name: string
  kind: 'user' | 'tag'
  base: number
  /** The branch whose entries and head are copied; null: the branch starts as main at `base`. */
  from: OpenBranch | null
  description: string
  createdBy: string | null
  expiresInHours: number | null
}

/**
 * Opens a branch or a tag. An opening from main copies nothing; an opening from a branch copies its changes. A closed branch of
 * the same name is deleted first. Returns false when an open branch or a tag has the name.
 */
export async function openUserBranch(tx: SqlTx, branch: NewUserBranch): Promise<boolean> {
  const { name, kind, base, from, description, createdBy, expiresInHours } = branch
  const closed = await select(tx, { name: alias(lakeRefs, 'f').name })`
    from lake_ref f where f.state <> 'open' and f.kept_until is null and (f.name = ${name} or f.parent = ${name})
    order by f.name for update`
  if (closed.some((found) => found.name === name))
    await forgetBranches(
      tx,
      closed.map((found) => found.name),
    )
  const opened = await tx`
    insert into lake_ref (name, kind, base, head, authors, description, created_by, expires_at)
    values (${name}, ${kind}, ${base}, ${from?.head ?? null}, ${from?.authors ?? []}::text[], ${description}, ${createdBy},
      clock_timestamp() + ${expiresInHours}::float8 * interval '1 hour')
    on conflict do nothing returning name`
  if (opened.length === 0) return false
  if (from !== null)
    await tx`
      insert into branch_entry (ref, namespace, layer, name, content_id, base_content)
      select ${name}, namespace, layer, name, content_id, base_content from branch_entry where ref = ${from.name}`
  return true
}

/** The number of open branches of users, or of tags. */
export async function countOpenBranches(sql: Sql | SqlTx, kind: NewUserBranch['kind']): Promise<number> {
  return only(await select(sql, { total: COUNT })`from lake_ref where kind = ${kind} and state = 'open'`)
    .total
}

/**
 * `countOpenBranches`, also of the branches that `user` created. Concurrent openings of the user wait for the end of this
 * transaction.
 */
export async function countOpenBranchesOf(
  tx: SqlTx,
  kind: NewUserBranch['kind'],
  user: string | null,
): Promise<{ total: number; own: number }> {
  if (user !== null) await lockUser(tx, user)
  const own = computed<number>(tx`count(*) filter (where created_by = ${user})::int`)
  return only(await select(tx, { total: COUNT, own })`from lake_ref where kind = ${kind} and state = 'open'`)
}

/** Whether pending or running runs will merge into the branch. If the branch is locked, no further run is requested. */
export async function isInUse(tx: Sql | SqlTx, name: string): Promise<boolean> {
  const [used] = await tx`select from lake_ref f where f.name = ${name} and ${hasUnfinishedRuns(tx)}`
  return used !== undefined
}

/** Closes a branch of a user. Returns false when it is not open. */
export const closeUserBranch = async (tx: SqlTx, name: string): Promise<boolean> =>
  (await closeBranches(tx, [name])).length === 1

const COMMIT = {
  ...pick(
    alias(lakeCommits, 'c'),
    'id',
    'number',
    'ref',
    'message',
    'author',
    'runId',
    'tables',
    'createdAt',
  ),
}
export type LakeCommit = RowOf<typeof COMMIT>

/** Commits of main or of a branch that changed a visible table. Commits without tables are visible to everybody. */
export interface CommitFilter {
  branch: string
  visible: VisibleTables
  namespace?: string
  /** `namespace.layer.name` */
  table?: string
  from?: Date
  to?: Date
}

/** The commits of main, or of a branch since its opening, newest first. */
export const commitsOf = (sql: Sql, filter: CommitFilter, { limit, offset }: Page) => select(sql, COMMIT)`
  from lake_commit c where ${isShown(sql, filter)}
  order by c.number desc nulls first, c.created_at desc, c.id desc limit ${limit} offset ${offset}`

export async function countCommitsOf(sql: Sql, filter: CommitFilter): Promise<number> {
  return only(await select(sql, { total: COUNT })`from lake_commit c where ${isShown(sql, filter)}`).total
}

function isShown(sql: Sql, { branch, visible, namespace, table, from, to }: CommitFilter): Part {
  const isAny = visible.pipelines === 'all' && visible.namespaces === 'all'
  const entries = sql`
    select from unnest(c.tables) changed (name)
    cross join lateral (select split_part(changed.name, '.', 1) as namespace,
      split_part(changed.name, '.', 2) as layer, split_part(changed.name, '.', 3) as name) entry
    where ${table === undefined ? sql`true` : sql`changed.name = ${table}`}
      ${namespace === undefined ? sql`` : sql`and entry.namespace = ${namespace}`} ${andVisibleTable(sql, visible)}`
  const isOfTables =
    isAny && namespace === undefined && table === undefined
      ? sql``
      : sql`and (exists (${entries}) ${namespace === undefined && table === undefined ? sql`or c.tables = '{}'` : sql``})`
  return sql`${isOn(sql, branch)} ${isOfTables}
    ${from === undefined ? sql`` : sql`and c.created_at >= ${from}`}
    ${to === undefined ? sql`` : sql`and c.created_at < ${to}`}`
}

const isOn = (sql: Sql, branch: string): Part =>
  branch === 'main' ? sql`c.number is not null` : sql`c.ref = ${branch} and c.number is null`

const TAG = { ...pick(ref, 'name', 'description', 'createdBy', 'createdAt'), commit: present(ref.base) }
export type ShownTag = RowOf<typeof TAG>

/** Tags by name. */
export const shownTags = (sql: Sql, { limit, offset }: Page) => select(sql, TAG)`
  from lake_ref ref where ref.kind = 'tag' and ref.state = 'open' order by ref.name limit ${limit} offset ${offset}`

/** A tag; null when none has this name. */
export async function shownTag(sql: Sql | SqlTx, name: string): Promise<ShownTag | null> {
  const [row] = await select(sql, TAG)`
    from lake_ref ref where ref.name = ${name} and ref.kind = 'tag' and ref.state = 'open'`
  return row ?? null
}

/** Deletes a tag. Returns false when none has this name. */
export async function deleteTag(sql: Sql, name: string): Promise<boolean> {
  const { count } = await sql`delete from lake_ref where name = ${name} and kind = 'tag'`
  return count === 1
}
