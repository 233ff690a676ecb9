/** Which callers may write through Iceberg REST, and how their changes become a commit. See ADR 49. */
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import { type TableName, tableKey } from '../../ground/names.ts'
import { CommitFailed } from '../../lake/iceberg/format/requirements.ts'
import type { Resources } from '../access/service.ts'
import { AppError } from '../core/errors.ts'
import type { NewId } from '../core/ids.ts'
import { callerNameOf, exchangeOf } from '../http/exchange.ts'
import { answerOnce, answerWithin, type IdempotencyKey, type Once } from '../http/idempotency.ts'
import { idempotencyKeyOf } from '../http/idempotency-key.ts'
import { lockedHead } from '../versions/store/branches.ts'
import { isKept, tableIn } from '../versions/store/tables.ts'
import { closeUserBranch, HIDDEN, openUserBranch } from '../versions/store/user-branches.ts'
import { commitToUserBranch } from '../versions/store/user-commits.ts'
import { badRequest, forbidden, notKept } from './errors.ts'
import { nameFiles } from './named-files.ts'
import type { Session, Sessions } from './session.ts'
import type { NewState } from './table-states.ts'

export interface UserWritingDeps {
  sql: Sql
  newId: NewId
  sessions: Sessions
  /** Finds the owners of tables; undefined in the community edition. */
  resources: Pick<Resources, 'table' | 'namespace' | 'isLeftoverOfNamespace'> | undefined
  /** Merges a hidden branch into main after its tests; null: main is read-only. Throws AppError. */
  mergeToMain: MergeToMain | null
}

export type MergeToMain = (
  branch: string,
  message: string,
  request: Request,
  /** Runs in the transaction of the merge. */
  within: (tx: SqlTx) => Promise<void>,
) => Promise<unknown>

/** A hidden branch that its process left behind closes after this time. Tests of a merge take at most ten minutes. */
const HIDDEN_HOURS = 1

/** A request with the path that names its warehouse. */
export interface WriteRequest {
  request: Request
  prefix: string
  body: string
}

/** A caller who may write to an open branch, or to main. */
export interface Writing {
  request: Request
  session: Session
  author: string | null
}

export type UserWriting = ReturnType<typeof makeUserWriting>

export function makeUserWriting({ sql, newId, sessions, resources, mergeToMain }: UserWritingDeps) {
  /** Throws 403 for a read-only warehouse. */
  async function writing({ request, prefix }: WriteRequest): Promise<Writing> {
    const session = await sessions.session(request, prefix)
    if (session.view.branch === null && !(session.isMain && mergeToMain))
      throw forbidden(`warehouse ${prefix} is read-only: write to an open branch, then merge the branch`)
    return { request, session, author: callerNameOf(request) }
  }

  /** Throws 403 without write permission, and `unseen` for a table that the caller does not see. */
  async function requireWrite(
    { request, session }: Writing,
    table: TableName,
    unseen?: Error,
  ): Promise<void> {
    const { access } = exchangeOf(request)
    if (resources === undefined || access.isAdmin) return
    if (await access.may(await resources.table(table), 'write')) return
    const seen = await tableIn(sql, session.view, table, await session.visible())
    if (seen === null && unseen !== undefined) throw unseen
    throw forbidden(`write permission required on the pipeline or the namespace of ${tableKey(table)}`)
  }

  async function perform(
    tx: SqlTx,
    { branch, author, message }: { branch: string; author: string | null; message: string },
    states: readonly NewState[],
  ): Promise<Done> {
    const kept = states.flatMap(({ keptState }) => keptState ?? [])
    if (kept.length > 0) await lockedHead(tx)
    for (const { table, file } of kept) if (!(await isKept(tx, table, file))) throw notKept(file)
    const head = newId()
    const changes = states.map(({ change }) => change)
    const outcome = await commitToUserBranch(tx, { id: head, branch, author, message, changes })
    if (outcome.kind === 'closed') throw new CommitFailed(`branch ${branch} is not open`)
    if (outcome.kind === 'changed')
      throw new CommitFailed(`table ${outcome.table} has changed: load it and commit again`)
    // A merge to main names them, so that an engine can remove its files after failed tests.
    if (!branch.startsWith(HIDDEN)) await nameFiles(tx, filesOf(states))
    return { location: states[0]?.location ?? '', head }
  }

  /** Commits to a hidden branch on the state that the caller read, and merges it into main like a branch of a user. */
  async function performOnMain(
    { request, session, author }: Writing,
    merge: MergeToMain,
    states: readonly NewState[],
    record: (tx: SqlTx, done: Done) => Promise<void> = async () => {},
  ): Promise<Done> {
    const branch = `${HIDDEN}${newId()}`
    const message = messageOf(states)
    const opened = {
      name: branch,
      kind: 'user',
      base: session.view.commit,
      from: null,
      description: message,
      createdBy: author,
      expiresInHours: HIDDEN_HOURS,
    } as const
    const { location } = await sql.begin(async (tx) => {
      await openUserBranch(tx, opened)
      return perform(tx, { branch, author, message }, states)
    })
    try {
      await merge(branch, message, request, async (tx) => {
        await nameFiles(tx, filesOf(states))
        await record(tx, { location, head: null })
      })
    } catch (error) {
      throw refusalOf(error)
    } finally {
      await sql.begin((tx) => closeUserBranch(tx, branch))
    }
    return { location, head: null }
  }

  /** Commits states, once per idempotency key. Returns the metadata file of the first table. */
  async function commitOnce(by: Writing, body: string, prepare: () => Promise<NewState[]>): Promise<Done> {
    const { author, session } = by
    const { branch } = session.view
    const key = keyOf(by.request, body)
    if (branch === null) {
      if (mergeToMain === null) throw new Error('a write to main was not refused')
      if (key === null) return performOnMain(by, mergeToMain, await prepare())
      return answerOf(
        await answerWithin<Done>(sql, key, async (record) =>
          performOnMain(by, mergeToMain, await prepare(), record),
        ),
      )
    }
    const commit = (tx: SqlTx, states: NewState[]) =>
      perform(tx, { branch, author, message: messageOf(states) }, states)
    if (key === null) {
      const states = await prepare()
      return sql.begin((tx) => commit(tx, states))
    }
    return answerOf(
      await answerOnce(sql, key, {
        prepare,
        perform: async (tx, states) => asAnswer(tx, await commit(tx, states)),
      }),
    )
  }

  /** Performs a change that belongs to no branch, once per idempotency key. Its answer is stored after it. */
  async function changeOnce<Answer extends object>(
    { request }: Writing,
    body: string,
    change: () => Promise<Answer>,
  ): Promise<Answer> {
    const key = keyOf(request, body)
    if (key === null) return change()
    const perform = async (_: SqlTx, answer: Answer) => ({ status: 200, body: answer })
    return answerOf(await answerOnce(sql, key, { prepare: change, perform }))
  }

  return { writing, requireWrite, commitOnce, changeOnce }
}

/** The metadata file of the first table, and the commit of the branch; null on main. */
interface Done {
  location: string
  head: string | null
}

const asAnswer = async (_: SqlTx, body: Done) => ({ status: 200, body })

function answerOf<Answer>(done: Once<Answer> | null): Answer {
  if (done === null) throw new Error('a change was neither performed nor refused')
  return done.answer.body
}

const filesOf = (states: readonly NewState[]): string[] => states.flatMap(({ files }) => files ?? [])

function messageOf([first, ...others]: readonly NewState[]): string {
  if (first === undefined) throw new Error('a commit changes no table')
  const isOne = others.every(({ change }) => change.state === null)
  return isOne ? first.message : `${first.message} and ${others.length} more tables`
}

/** Engines repeat a commit after a conflict. After failed tests they must not. */
function refusalOf(error: unknown): unknown {
  if (!(error instanceof AppError) || error.code !== 'FAILED_PRECONDITION') return error
  const { results } = error.body
  if (!Array.isArray(results)) return new CommitFailed('main has changed: load the tables and commit again')
  const failed = results.filter((result) => result.status === 'failed')
  const names = failed.map((result) => `${result.table} ${result.name}`)
  return badRequest(`quality tests failed: ${names.join(', ')}; nothing was committed`)
}

function keyOf(request: Request, body: string): IdempotencyKey | null {
  const key = request.headers.get('idempotency-key')
  if (key === null) return null
  if (!/^[\x20-\x7e]{1,255}$/.test(key))
    throw badRequest('Idempotency-Key: must have 1 to 255 printable ASCII characters')
  return idempotencyKeyOf(request, { 'idempotency-key': key }, { body })
}
