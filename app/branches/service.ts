// Branches of users: their lists, openings and ends.
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import { DEFAULT_NAMESPACE, tableKey } from '../../ground/names.ts'
import { parseTableName } from '../../lake/pipeline/names.ts'
import { visibleTables } from '../access/service.ts'
import { EVERYTHING, seesEverything, type Visible } from '../core/access.ts'
import { alreadyExists, failedPrecondition, forbidden, invalid, notFound } from '../core/errors.ts'
import { MAIN } from '../core/lake-version.ts'
import { limits } from '../core/limits.ts'
import { type Page, pageOf } from '../core/pagination.ts'
import { requireRoom, type SharedLimit } from '../core/shares.ts'
import { answerOnce, type IdempotencyKey } from '../http/idempotency.ts'
import { headOfMain } from '../versions/store/branches.ts'
import {
  type CommitFilter,
  closeUserBranch,
  commitsOf,
  countCommitsOf,
  countOpenBranchesOf,
  countShownBranches,
  HIDDEN,
  isInUse,
  type LakeCommit,
  lockedBranch,
  openUserBranch,
  type ShownBranch,
  shownBranch,
  shownBranches,
} from '../versions/store/user-branches.ts'
import { commitAsOf, noOpenBranch } from '../versions/views.ts'
import type { Branch, BranchDetail, BranchQuery, Commit, CreateBranch } from './schema.ts'
import { draftsOf } from './store.ts'

/** Open branches of users. Each one keeps the states that it reads. */
const OPEN_BRANCHES: SharedLimit = { limit: 1_000, things: 'open branches', remedy: 'delete or merge one' }
/** Names of branches that the service makes for runs and builds. */
const RESERVED = /^(run|build)-/

/** The caller of a request about branches. */
export interface Caller {
  /** The user or API key; null without a credential. */
  name: string | null
  isAdmin: boolean
}

export type BranchService = ReturnType<typeof makeBranchService>

export function makeBranchService({ sql }: { sql: Sql }) {
  async function list({ status = 'open', search = '', ...query }: BranchQuery) {
    const page = pageOf(query, limits.listCap)
    const filter = { state: status, search }
    const [branches, total] = await Promise.all([
      shownBranches(sql, filter, page),
      countShownBranches(sql, filter),
    ])
    return { page, branches: branches.map(branchOf), total }
  }

  async function get(name: string): Promise<Branch> {
    const found = await shownBranch(sql, name)
    if (found === null) throw notFound(`branch ${name}`)
    return branchOf(found)
  }

  /** The branch, with the unpublished drafts behind its tables that the caller sees. */
  async function detail(name: string, visible: Visible = EVERYTHING): Promise<BranchDetail> {
    const branch = await get(name)
    const drafts = branch.status === 'open' && name !== MAIN ? await draftsOf(sql, name) : []
    const seen = new Set((await visibleTables(sql, drafts, visible)).map(tableKey))
    return {
      ...branch,
      drafts: drafts
        .filter((draft) => seen.has(tableKey(draft)))
        .map((draft) => ({ pipeline: tableKey(draft), run_id: draft.runId })),
    }
  }

  /** Opens a branch. A repeated key gets the answer of its first request. */
  async function create(request: CreateBranch, caller: Caller, key: IdempotencyKey | null): Promise<Branch> {
    checkName(request.name)
    if (request.from !== undefined && request.from !== MAIN && request.as_of !== undefined)
      throw invalid('as_of', 'is a version of main: omit it, or omit from')
    if (key === null) return sql.begin((tx) => open(tx, request, caller))
    const outcome = await answerOnce(sql, key, {
      prepare: async () => {},
      perform: async (tx) => ({ status: 201, body: await open(tx, request, caller) }),
    })
    return outcome?.answer.body ?? get(request.name)
  }

  async function open(tx: SqlTx, request: CreateBranch, caller: Caller): Promise<Branch> {
    const { name, from = MAIN, description = '', expires_in_hours: expiresInHours = null } = request
    const isFromMain = from === MAIN
    const source = isFromMain ? null : await lockedBranch(tx, from)
    if (!isFromMain && source === null) throw noOpenBranch(from)
    const base =
      source?.base ??
      (request.as_of === undefined ? await headOfMain(tx) : await commitAsOf(tx, request.as_of, true))
    const sharer = caller.isAdmin ? null : caller.name
    requireRoom(OPEN_BRANCHES, await countOpenBranchesOf(tx, 'user', sharer), sharer)
    const opening = { name, kind: 'user' as const, base, from: source, description, expiresInHours }
    if (!(await openUserBranch(tx, { ...opening, createdBy: caller.name })))
      throw alreadyExists(`branch or tag ${name}`)
    const opened = await shownBranch(tx, name)
    if (opened === null) throw new Error(`branch ${name} is missing after its opening`)
    return branchOf(opened)
  }

  /** Closes a branch. Its name is free again. In the Pro edition, only its creator and administrators may close it. */
  async function remove(name: string, caller: Caller): Promise<void> {
    if (name === MAIN) throw forbidden('branch main is protected: it cannot be deleted')
    await checkCreator(sql, name, caller)
    await sql.begin(async (tx) => {
      if ((await lockedBranch(tx, name)) === null) throw noOpenBranch(name)
      if (await isInUse(tx, name)) throw inUse(name)
      await closeUserBranch(tx, name)
    })
  }

  async function commits(name: string, query: { limit?: string; offset?: string }, visible = EVERYTHING) {
    const { status } = await get(name)
    if (status !== 'open') throw noOpenBranch(name)
    const page = pageOf(query)
    return { page, ...(await listCommits(sql, { branch: name, visible }, page)) }
  }

  return { list, get, detail, create, remove, commits }
}

/** Throws 404 for an unknown branch, and 403 for the branch of another user unless the caller is an administrator. */
export async function checkCreator(sql: Sql, name: string, caller: Caller): Promise<void> {
  const found = await shownBranch(sql, name)
  if (found === null) throw notFound(`branch ${name}`)
  if (!caller.isAdmin && caller.name !== found.createdBy)
    throw forbidden(`branch ${name} belongs to another user: ask its creator or an administrator`)
}

/** The refusal to end a branch. */
export const inUse = (name: string) =>
  failedPrecondition(`branch ${name} has unfinished runs: wait for their end, or cancel them`)

/** Throws 400 for a name that is reserved. */
export function checkName(name: string): void {
  if (RESERVED.test(name))
    throw invalid('name', 'must not begin with run- or build-: these names are reserved')
  if (name === MAIN) throw alreadyExists(`branch ${name}`)
}

/** One page of commits that changed a visible table. */
export async function listCommits(sql: Sql, filter: CommitFilter & { visible: Visible }, page: Page) {
  const [found, total] = await Promise.all([commitsOf(sql, filter, page), countCommitsOf(sql, filter)])
  return { commits: await shownCommits(sql, found, filter.visible), total }
}

/** Commits as clients see them. Names of tables that the caller does not see are left out. */
async function shownCommits(sql: Sql, commits: readonly LakeCommit[], visible: Visible): Promise<Commit[]> {
  const seen = seesEverything(visible)
    ? null
    : new Set(await visibleNames(sql, [...new Set(commits.flatMap(({ tables }) => tables))], visible))
  return commits.map(({ id, number, ref, message, author, runId, tables, createdAt }) => ({
    id,
    number,
    // A write of an engine to main is a merge of a branch that nobody sees.
    branch: ref.startsWith(HIDDEN) ? MAIN : ref,
    message,
    author,
    run_id: runId,
    build_id: null,
    tables: seen === null ? tables : tables.filter((table) => seen.has(table)),
    created_at: createdAt.toISOString(),
  }))
}

async function visibleNames(sql: Sql, names: readonly string[], visible: Visible): Promise<string[]> {
  const tables = names.map((name) => parseTableName(name, DEFAULT_NAMESPACE))
  return (await visibleTables(sql, tables, visible)).map(tableKey)
}

const branchOf = (row: ShownBranch): Branch => ({
  name: row.name,
  base_commit: row.base,
  head: row.head,
  commits_ahead: row.ahead,
  commits_behind: row.behind,
  tables_changed: row.tablesChanged,
  status: row.state,
  protected: row.name === MAIN,
  description: row.description,
  created_by: row.createdBy,
  created_at: row.createdAt.toISOString(),
  updated_at: row.updatedAt.toISOString(),
  is_idle: row.isIdle,
  expires_at: row.expiresAt?.toISOString() ?? null,
})
