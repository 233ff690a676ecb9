/**
 * Writes of users through Iceberg REST, on open branches. A commit changes one or several tables in one transaction. It fails
 * if one of the tables changed since the engine read it. See ADR 49.
 */
import type { SqlTx } from '../../drizzle/client.ts'
import { serializeMetadata } from '../../lake/iceberg/format/metadata.ts'
import { CommitFailed } from '../../lake/iceberg/format/requirements.ts'
import { parseCommitRequest, parseCreateTable, parseTransaction } from '../../lake/iceberg/format/wire.ts'
import { type TableName, tableKey } from '../../lake/pipeline/names.ts'
import type { Resources } from '../access/service.ts'
import { exchangeOf } from '../http/exchange.ts'
import { answerOnce, type IdempotencyKey } from '../http/idempotency.ts'
import { idempotencyKeyOf } from '../http/idempotency-key.ts'
import { badRequest, forbidden, noSuchNamespace, noSuchTable, tableExists } from './errors.ts'
import { makeNamespaces, tableNamed } from './namespaces.ts'
import type { LoadedTable } from './service.ts'
import type { Session, Sessions } from './session.ts'
import { tableIn } from './store/tables.ts'
import { commitToUserBranch } from './store/user-commits.ts'
import { makeTableStates, type NewState, type TableStateDeps } from './table-states.ts'

export interface UserWriteDeps extends TableStateDeps {
  sessions: Sessions
  /** Finds the owners of tables; undefined in the community edition. */
  resources: Pick<Resources, 'table'> | undefined
}

/** A request with the path that names its warehouse. */
export interface WriteRequest {
  request: Request
  prefix: string
  body: string
}

/** A caller who may write to an open branch. */
interface Writing {
  request: Request
  session: Session
  branch: string
  author: string | null
}

export type UserWrites = ReturnType<typeof makeUserWrites>

export function makeUserWrites(deps: UserWriteDeps) {
  const { sql, files, sessions, resources } = deps
  const { checkNamespace } = makeNamespaces(deps)
  const states = makeTableStates(deps)
  const commitOnce = makeCommitOnce(deps)

  /** Throws 403 for a warehouse that is no branch. */
  async function onBranch({ request, prefix }: WriteRequest): Promise<Writing> {
    const session = await sessions.session(request, prefix)
    const { branch } = session.view
    if (branch === null)
      throw forbidden(`warehouse ${prefix} is read-only: write to an open branch, then merge the branch`)
    const { identity } = exchangeOf(request)
    return { request, session, branch, author: identity?.userId || identity?.name || null }
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

  return {
    /** Creates a table, or stages one: then nothing is stored, and the first commit creates the table. */
    async create(
      write: WriteRequest,
      levels: readonly string[],
    ): Promise<{ table: TableName; created: LoadedTable }> {
      const wanted = parseCreateTable(write.body)
      const table = tableNamed(levels, wanted.name)
      if (table === null) throw noSuchNamespace(levels)
      const by = await onBranch(write)
      await checkNamespace(by.session, levels)
      await requireWrite(by, table)
      const metadata = states.created(table, wanted)
      const checkNew = async () => {
        if ((await tableIn(sql, by.session.view, table)) !== null) throw tableExists(table)
      }
      if (wanted['stage-create']) {
        await checkNew()
        return { table, created: { location: undefined, metadata: serializeMetadata(metadata), head: null } }
      }
      const done = await commitOnce(by, write.body, async () => {
        await checkNew()
        return [await states.stored(table, null, metadata)]
      })
      return { table, created: { ...done, metadata: await files.read(done.location) } }
    },

    async commit(write: WriteRequest, table: TableName): Promise<LoadedTable> {
      const change = parseCommitRequest(write.body)
      const named = change.identifier && tableNamed(change.identifier.namespace, change.identifier.name)
      if (change.identifier && (!named || tableKey(named) !== tableKey(table)))
        throw badRequest(`identifier: must name table ${tableKey(table)} as the path does`)
      const by = await onBranch(write)
      await requireWrite(by, table, noSuchTable(tableKey(table)))
      const { view } = by.session
      const done = await commitOnce(by, write.body, async () => [await states.committed(view, table, change)])
      return { ...done, metadata: await files.read(done.location) }
    },

    async drop(write: WriteRequest, table: TableName): Promise<void> {
      const by = await onBranch(write)
      await requireWrite(by, table, noSuchTable(tableKey(table)))
      await commitOnce(by, write.body, async () => [await states.dropped(by.session.view, table)])
    },

    /** Commits to several tables at once. */
    async transact(write: WriteRequest): Promise<void> {
      const changes = parseTransaction(write.body).map((change) => {
        const { namespace, name } = change.identifier
        const table = tableNamed(namespace, name)
        if (table === null) throw noSuchTable([...namespace, name].join('.'))
        return { table, change }
      })
      if (new Set(changes.map(({ table }) => tableKey(table))).size < changes.length)
        throw badRequest('table-changes: a table is named twice')
      const by = await onBranch(write)
      for (const { table } of changes) await requireWrite(by, table, noSuchTable(tableKey(table)))
      await commitOnce(by, write.body, async () => {
        const next: NewState[] = []
        for (const { table, change } of changes)
          next.push(await states.committed(by.session.view, table, change))
        return next
      })
    },
  }
}

/** Makes the function that commits states, once per idempotency key. It returns the metadata file of the first table. */
function makeCommitOnce({ sql, newId }: Pick<UserWriteDeps, 'sql' | 'newId'>) {
  async function perform(tx: SqlTx, { branch, author }: Writing, states: readonly NewState[]) {
    const [first, ...others] = states
    if (first === undefined) throw new Error('a commit changes no table')
    const head = newId()
    const outcome = await commitToUserBranch(tx, {
      id: head,
      branch,
      author,
      message: others.length === 0 ? first.message : `${first.message} and ${others.length} more tables`,
      changes: states.map(({ change }) => change),
    })
    if (outcome.kind === 'closed') throw new CommitFailed(`branch ${branch} is not open`)
    if (outcome.kind === 'changed')
      throw new CommitFailed(`table ${outcome.table} has changed: load it and commit again`)
    return { status: 200, body: { location: first.location, head } }
  }

  return async function commitOnce(
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
}

function keyOf(request: Request, body: string): IdempotencyKey | null {
  const key = request.headers.get('idempotency-key')
  if (key === null) return null
  if (!/^[\x20-\x7e]{1,255}$/.test(key))
    throw badRequest('Idempotency-Key: must have 1 to 255 printable ASCII characters')
  return idempotencyKeyOf(request, { 'idempotency-key': key }, { body })
}
