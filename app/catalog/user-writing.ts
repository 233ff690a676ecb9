/** Which callers may write through Iceberg REST, and how their changes become a commit. See ADR 49. */
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import { CommitFailed } from '../../lake/iceberg/format/requirements.ts'
import { type TableName, tableKey } from '../../lake/pipeline/names.ts'
import type { Resources } from '../access/service.ts'
import type { NewId } from '../core/ids.ts'
import { callerNameOf, exchangeOf } from '../http/exchange.ts'
import { answerOnce, type IdempotencyKey } from '../http/idempotency.ts'
import { idempotencyKeyOf } from '../http/idempotency-key.ts'
import { badRequest, forbidden, notKept } from './errors.ts'
import type { Session, Sessions } from './session.ts'
import { lockedHead } from './store/branches.ts'
import { isKept, tableIn } from './store/tables.ts'
import { commitToUserBranch } from './store/user-commits.ts'
import type { NewState } from './table-states.ts'

export interface UserWritingDeps {
  sql: Sql
  newId: NewId
  sessions: Sessions
  /** Finds the owners of tables; undefined in the community edition. */
  resources: Pick<Resources, 'table' | 'namespace' | 'isLeftoverOfNamespace'> | undefined
}

/** A request with the path that names its warehouse. */
export interface WriteRequest {
  request: Request
  prefix: string
  body: string
}

/** A caller who may write to an open branch. */
export interface Writing {
  request: Request
  session: Session
  branch: string
  author: string | null
}

export type UserWriting = ReturnType<typeof makeUserWriting>

export function makeUserWriting({ sql, newId, sessions, resources }: UserWritingDeps) {
  /** Throws 403 for a warehouse that is no branch. */
  async function writing({ request, prefix }: WriteRequest): Promise<Writing> {
    const session = await sessions.session(request, prefix)
    const { branch } = session.view
    if (branch === null)
      throw forbidden(`warehouse ${prefix} is read-only: write to an open branch, then merge the branch`)
    return { request, session, branch, author: callerNameOf(request) }
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

  async function perform(tx: SqlTx, { branch, author }: Writing, states: readonly NewState[]) {
    const [first, ...others] = states
    if (first === undefined) throw new Error('a commit changes no table')
    const kept = states.flatMap(({ keptState }) => keptState ?? [])
    if (kept.length > 0) await lockedHead(tx)
    for (const { table, file } of kept) if (!(await isKept(tx, table, file))) throw notKept(file)
    const head = newId()
    const isOne = others.every(({ change }) => change.state === null)
    const message = isOne ? first.message : `${first.message} and ${others.length} more tables`
    const outcome = await commitToUserBranch(tx, {
      id: head,
      branch,
      author,
      message,
      changes: states.map(({ change }) => change),
    })
    if (outcome.kind === 'closed') throw new CommitFailed(`branch ${branch} is not open`)
    if (outcome.kind === 'changed')
      throw new CommitFailed(`table ${outcome.table} has changed: load it and commit again`)
    return { status: 200, body: { location: first.location, head } }
  }

  /** Commits states, once per idempotency key. Returns the metadata file of the first table. */
  async function commitOnce(
    by: Writing,
    body: string,
    prepare: () => Promise<NewState[]>,
  ): Promise<{ location: string; head: string }> {
    const key = keyOf(by.request, body)
    if (key === null) {
      const states = await prepare()
      return (await sql.begin((tx) => perform(tx, by, states))).body
    }
    const done = await answerOnce(sql, key, { prepare, perform: (tx, states) => perform(tx, by, states) })
    if (done === null) throw new Error('a commit was neither performed nor refused')
    return done.answer.body
  }

  return { writing, requireWrite, commitOnce }
}

function keyOf(request: Request, body: string): IdempotencyKey | null {
  const key = request.headers.get('idempotency-key')
  if (key === null) return null
  if (!/^[\x20-\x7e]{1,255}$/.test(key))
    throw badRequest('Idempotency-Key: must have 1 to 255 printable ASCII characters')
  return idempotencyKeyOf(request, { 'idempotency-key': key }, { body })
}
