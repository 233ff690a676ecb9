// Gated merges of branches into main, and rebases. No transaction is open while tests are evaluated. See ADR 43.
import { type Sql, type SqlTx, typedIn } from '../../drizzle/client.ts'
import type { Review } from '../../drizzle/schema/namespace.ts'
import { DEFAULT_NAMESPACE, type TableName, tableKey } from '../../ground/names.ts'
import { parseTableName } from '../../lake/pipeline/names.ts'
import type { Reader } from '../access/code-visibility.ts'
import { type Resources, visibleTables } from '../access/service.ts'
import { type Access, EVERYTHING, type Visible } from '../core/access.ts'
import { AppError, failedPrecondition, forbidden } from '../core/errors.ts'
import type { NewId } from '../core/ids.ts'
import { MAIN } from '../core/lake-version.ts'
import type { PipelineService } from '../pipelines/service.ts'
import { type Decision, refusedBy } from '../protection/rule.ts'
import type { Gate, Judgement } from '../quality-tests/gate.ts'
import { headOfMain, lockedHead } from '../versions/store/branches.ts'
import { HIDDEN, isInUse, lockedBranch, openBranchNamed } from '../versions/store/user-branches.ts'
import {
  type BranchChange,
  changesOf,
  conflictsIn,
  dropUnchanged,
  hasMoved,
  mergeUserBranch,
  rebaseBranch,
} from '../versions/store/user-merges.ts'
import { noOpenBranch } from '../versions/views.ts'
import { preparedPublishes } from './draft-publishes.ts'
import type { MergeBranch, Merged } from './schema.ts'
import { type Caller, checkCreator, inUse } from './service.ts'
import { draftsOf } from './store.ts'

/** A merge whose tested state changes before it commits is tested again, up to this number of tests. */
const TESTS_MAX = 5

/** Names of tables in an error text. The body contains all of them. */
const NAMES_SHOWN = 10

/** The caller of a merge. Tests see what the caller sees. */
export interface Merger extends Caller {
  access: Access
  reader: Reader | null
  /** Ends the tests when the caller leaves. */
  signal: AbortSignal
}

export interface MergeDeps {
  sql: Sql
  newId: NewId
  gate: Gate
  pipelines: Pick<PipelineService, 'preparePublish'>
  /** Finds the owners of tables; undefined in the community edition. */
  resources: Pick<Resources, 'table'> | undefined
}

export type MergeService = ReturnType<typeof makeMergeService>

export function makeMergeService({ sql, newId, gate, pipelines, resources }: MergeDeps) {
  /**
   * Merges a branch into main as one commit, after its tests passed on the result. `within` runs in the transaction of that
   * commit. The request to merge is the decision of its caller about the changes of the branch's authors.
   */
  async function merge(
    name: string,
    { message, publish_drafts: publishesDrafts = false }: MergeBranch,
    by: Merger,
    within?: (tx: SqlTx) => Promise<void>,
  ): Promise<Merged> {
    if (name === MAIN) throw forbidden('branch main is protected: it cannot be merged')
    for (let tests = 0; tests < TESTS_MAX; tests++) {
      const plan = await planOf(sql, name)
      if (plan.changes.length === 0)
        return { status: 'unchanged', commit: plan.commit, tables: [], published: [], drafts: [] }
      await requireWrite(plan.changes, by.access)
      const guarded = refusedBy(plan.changes, decisionOf(name, plan.authors, by))
      if (guarded !== null) throw isProtected(name, guarded, by)
      refuseConflicts(name, plan.changes)
      const present = plan.changes.filter(({ contentId }) => contentId !== null)
      const drafts = await draftsOf(sql, name)
      const publishes = publishesDrafts
        ? await preparedPublishes(pipelines, { name, message, drafts, by })
        : []
      const code = new Map(publishes.map(({ table, prepared }) => [table, prepared.code]))
      const judged = await gate(present, { commit: plan.commit, branch: name }, by, code)
      refuseFailures(name, judged)
      // Tests may take minutes, and the right may have been revoked meanwhile.
      if (judged.results.length > 0) await requireWrite(plan.changes, by.access)
      const tested = { name, message, by, plan, judged, within }
      const left = publishesDrafts
        ? []
        : drafts.map((draft) => ({ pipeline: tableKey(draft), run_id: draft.runId }))
      const merged = await sql
        .begin(async (tx): Promise<Merged> => {
          // Pipelines are locked before main, as in every transaction that changes both.
          const published: Merged['published'] = []
          for (const { table, prepared } of publishes)
            published.push({ pipeline: table, version: (await prepared.perform(typedIn(tx))).version })
          const done = await commitTested(tx, tested)
          if (done === null) throw new Outdated()
          return { ...done, published, drafts: left }
        })
        .catch((error: unknown) => {
          if (error instanceof Outdated) return null
          throw error
        })
      if (merged !== null) return merged
    }
    throw failedPrecondition(
      `branch ${name} was tested ${TESTS_MAX} times, but the tables that its tests read changed each time: merge it again`,
    )
  }

  /** Null: the tested state is not the one that would be merged. */
  async function commitTested(
    tx: SqlTx,
    { name, message, by, plan, judged, within }: Tested,
  ): Promise<Pick<Merged, 'status' | 'commit' | 'tables'> | null> {
    // The statements are pipelined. Those after the locks see every change that was committed before.
    const [, branch, isUsed, changes] = await Promise.all([
      lockedHead(tx),
      lockedBranch(tx, name),
      isInUse(tx, name),
      changesOf(tx, name),
    ])
    if (branch === null) throw noOpenBranch(name)
    if (isUsed) throw inUse(name)
    if (!areSame(changes, plan.changes)) return null
    refuseConflicts(name, changes)
    const reads = judged.reads.map((table) => parseTableName(table, DEFAULT_NAMESPACE))
    if (await hasMoved(tx, plan.commit, reads)) return null
    const outcome = await mergeUserBranch(tx, {
      branch,
      id: newId(),
      author: by.name,
      message: message ?? `merge of branch ${name}`,
      changes,
      decision: decisionOf(name, branch.authors, by),
    })
    if (outcome.kind === 'protected') throw isProtected(name, outcome, by)
    await within?.(tx)
    return { status: 'merged', commit: outcome.commit, tables: changes.map(tableKey) }
  }

  async function requireWrite(tables: readonly TableName[], access: Access): Promise<void> {
    if (access.isAdmin || resources === undefined) return
    for (const table of tables)
      if (!(await access.may(await resources.table(table), 'write')))
        throw forbidden(
          `write permission on all ${tables.length} changed tables required: ask the owners of their pipelines`,
        )
  }

  /** Moves a branch to the head of main. A refusal names the conflicting tables that the caller sees. */
  async function rebase(name: string, caller: Caller, visible: Visible = EVERYTHING): Promise<void> {
    if (name === MAIN) throw forbidden('branch main is protected: it cannot be rebased')
    await checkCreator(sql, name, caller)
    const conflicts = await sql.begin(async (tx) => {
      await lockedHead(tx)
      if ((await lockedBranch(tx, name)) === null) throw noOpenBranch(name)
      await dropUnchanged(tx, name)
      const clashes = conflictsIn(await changesOf(tx, name))
      if (clashes.length === 0) await rebaseBranch(tx, name)
      return clashes
    })
    if (conflicts.length === 0) return
    const shown = (await visibleTables(sql, conflicts, visible)).map(tableKey)
    throw conflicting(name, conflicts.length, shown)
  }

  return { merge, rebase }
}

/** The tested state is not the one that would be merged. */
class Outdated extends Error {}

interface Plan {
  /** The head of main. */
  commit: number
  changes: BranchChange[]
  /** The authors of the branch. */
  authors: readonly string[]
}

interface Tested {
  name: string
  message: string | undefined
  by: Merger
  plan: Plan
  judged: Judgement
  within: ((tx: SqlTx) => Promise<void>) | undefined
}

/** The transaction of the merge compares the plan with the state that it locks. So the plan needs no lock. */
async function planOf(sql: Sql, name: string): Promise<Plan> {
  const [commit, changes] = await Promise.all([headOfMain(sql), changesOf(sql, name)])
  // Read last: a branch that is open now was open when its changes were compared with main.
  const [branch, isUsed] = await Promise.all([openBranchNamed(sql, name), isInUse(sql, name)])
  if (branch === null) throw noOpenBranch(name)
  if (isUsed) throw inUse(name)
  if (!changes.some(({ contentId, baseContent }) => contentId === baseContent))
    return { commit, changes, authors: branch.authors }
  await sql.begin(async (tx) => {
    if ((await lockedBranch(tx, name)) === null) throw noOpenBranch(name)
    await dropUnchanged(tx, name)
  })
  return planOf(sql, name)
}

const areSame = (now: readonly BranchChange[], tested: readonly BranchChange[]) =>
  now.length === tested.length &&
  now.every((change, n) => {
    const before = tested[n]
    return (
      before !== undefined && tableKey(change) === tableKey(before) && change.contentId === before.contentId
    )
  })

/** The request to merge is a decision. A write of an engine to main is none: nobody has seen its change. */
const decisionOf = (branch: string, authors: readonly string[], { access }: Merger): Decision | undefined =>
  branch.startsWith(HIDDEN) ? undefined : { authors, by: access.person }

const isProtected = (branch: string, { table, rule }: { table: string; rule: Review }, by: Merger) =>
  forbidden(
    branch.startsWith(HIDDEN)
      ? `table ${table} of main is protected by review: ${rule}: write to a branch, then ask for its merge`
      : `table ${table} of main is protected by review: ${rule}: ${by.access.person} changed branch ${branch}, so a user who did not change it must merge it`,
  )

function refuseConflicts(name: string, changes: readonly BranchChange[]): void {
  const conflicts = conflictsIn(changes).map(tableKey)
  if (conflicts.length > 0) throw conflicting(name, conflicts.length, conflicts)
}

/** `shown` are the conflicting tables that the caller may see. */
const conflicting = (name: string, count: number, shown: readonly string[]) =>
  new AppError(
    409,
    'FAILED_PRECONDITION',
    `branch ${name} conflicts with main in tables: ${count} (${shown.slice(0, NAMES_SHOWN).join(', ')}); change them on a new branch`,
    { body: { conflicts: shown } },
  )

function refuseFailures(name: string, { results }: Judgement): void {
  const failed = results.filter(({ status }) => status === 'failed')
  if (failed.length === 0) return
  throw new AppError(
    409,
    'FAILED_PRECONDITION',
    `merge of branch ${name} refused by ${failed.length} of ${results.length} quality tests: nothing was merged`,
    { body: { results } },
  )
}
