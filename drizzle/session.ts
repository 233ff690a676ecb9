// Transactions that follow each other on one connection, in as few round trips as they have questions: BEGIN goes with the
// first statement, COMMIT with the last. Also their connection stays warm: one backend knows all their plans.
import postgres, { type PendingQuery, type Row } from 'postgres'
import { AT_ONCE } from './lost-connections.ts'
import type { Sql, SqlTx } from './sql.ts'
import { type Pulse, silenceOf, watched } from './watched-socket.ts'

/**
 * Of connections whose transactions begin as `read write`: what stands alone there writes nothing. The client sends a
 * statement again whose plan no longer fits its table; one with which COMMIT has gone would be alone then, without the
 * locks and the condition of its transaction.
 */
export const NOTHING_ALONE = { default_transaction_read_only: true }

export type Work<T> = (tx: SqlTx) => Promise<T>

/** What a transaction ends with. */
class Lastly<T> {
  constructor(
    readonly statement: PendingQuery<Row[]>,
    readonly answerOf: (rows: readonly Row[]) => T,
  ) {}
}

/** Transactions of sessions: those know what to do with a `Lastly`. */
const ofSessions = new WeakSet<SqlTx>()

/**
 * Ends the work of a transaction with this statement: on a session COMMIT follows it without waiting for its answer. To be
 * returned as it is from the work. Should the statement fail before it is sent, what was written before is committed
 * without it: so it is the only one that writes, or what was written before may stand alone.
 */
export async function lastly<T>(
  tx: SqlTx,
  statement: PendingQuery<Row[]>,
  answerOf: (rows: readonly Row[]) => T,
): Promise<T> {
  // Nobody but the session, to which the work returns it, ever sees it.
  if (ofSessions.has(tx)) return new Lastly(statement, answerOf) as unknown as T
  return answerOf(await statement)
}

/** Whether the transaction may be committed. Sent with BEGIN, before the first statement. */
export type Fence = (tx: SqlTx) => Promise<boolean>

/**
 * One connection for transactions, and one for statements that are their own, if there are any; another one takes the place
 * of one that is lost, never within a transaction.
 */
export interface Session {
  /**
   * One after the other. Rejects with what `work` throws, and when the connection is lost; whether a commit that was under
   * way at that moment has happened is then for the database to tell. `work` must not wait for another transaction of this
   * session.
   */
  transaction<T>(work: Work<T>): Promise<T>
  /** The same with a condition; null when it does not hold, and then nothing was done. */
  fenced<T>(fence: Fence, work: Work<T>): Promise<{ value: T } | null>
  /** Statements that are their own transactions, in turn with the others. */
  apart<T>(ask: (sql: Sql) => Promise<T>): Promise<T>
  /** What is under way ends first, if it does not take long. */
  close(): Promise<void>
}

export interface SessionOptions {
  /** Shown in pg_stat_activity. */
  application: string
  /** Session settings such as lock_timeout, in milliseconds. */
  settings?: Record<string, string | number>
  /** Shared with pools to the same database. */
  pulse?: Pulse | undefined
  /** A turn that takes this long is given up with its connection, whatever it waits for. */
  turnMs: number
  /** A connection has ended that had been opened or tried. */
  onLost?(): void
}

/** What is under way at the end may take this long. */
const CLOSE_MS = 2_000
/** A connection that does not answer a rollback for so long is given up: by that its transaction ends, too. */
const ROLLBACK_MS = 5_000

/** A connection, from its first statement to its end: the only one of its client, which is given up with it. */
export interface Connection {
  sql: Sql
  isClosed: boolean
  /** Ends the turn under way, if there is one. */
  onClosed(why?: Error): void
}

export function openSession(
  url: string,
  { application, settings, pulse, turnMs, onLost = () => {} }: SessionOptions,
): Session {
  let isClosing = false
  /** When a database was last found that says nothing: who waited then is told so, and does not wait for the same again. */
  let awayAt = Number.NEGATIVE_INFINITY
  const answering = new WeakSet<Connection>()
  const current = { transactions: open(NOTHING_ALONE), apart: open({}) }
  let turns: Promise<unknown> = Promise.resolve()

  function open(more: Partial<typeof NOTHING_ALONE>): Connection {
    const opened: Connection = {
      isClosed: false,
      onClosed: () => {},
      sql: postgres(url, {
        max: 1,
        max_lifetime: null,
        onnotice: () => {},
        connect_timeout: 10,
        ...watched({
          silenceMs: silenceOf(settings),
          pulse,
          onHeard: () => answering.add(opened),
          onSilent: () => answering.delete(opened),
        }),
        connection: { application_name: application, ...settings, ...more, ...AT_ONCE },
        onclose: () => lose(opened),
      }),
    }
    return opened
  }

  /**
   * The client is given up with its connection. It would open another one for what is still to be sent, and the rest of a
   * transaction would go on there, outside any.
   */
  function lose(ended: Connection) {
    if (ended.isClosed) return
    ended.isClosed = true
    const isAway = !answering.has(ended)
    if (isAway) awayAt = performance.now()
    void ended.sql.end({ timeout: 0 }).catch(() => {})
    ended.onClosed(new ConnectionEnded(isAway))
    if (isClosing) return
    if (ended === current.transactions) current.transactions = open(NOTHING_ALONE)
    if (ended === current.apart) current.apart = open({})
    onLost()
  }

  /** What waits for the connection waits here, never in the client, which would reconnect for it. */
  function inTurn<T>(on: keyof typeof current, work: (connection: Connection) => Promise<T>): Promise<T> {
    const since = performance.now()
    const turn = turns.then(async () => {
      const connection = current[on]
      if (connection.isClosed || since < awayAt) throw new ConnectionEnded(since < awayAt)
      const timer = setTimeout(() => lose(connection), turnMs)
      const closed = Promise.withResolvers<never>()
      connection.onClosed = closed.reject
      try {
        return await Promise.race([work(connection), closed.promise])
      } catch (error) {
        // The server has ended the session, and says so before the connection ends: nothing more may be asked of it.
        if (error instanceof postgres.PostgresError && error.severity === 'FATAL') lose(connection)
        throw error
      } finally {
        clearTimeout(timer)
        connection.onClosed = () => {}
      }
    })
    turns = turn.catch(() => {})
    return turn
  }

  return {
    async transaction(work) {
      const done = await inTurn('transactions', (connection) => perform(connection, null, work, lose))
      if (done === null) throw new Error('a transaction without a condition has met one')
      return done.value
    },
    fenced: (fence, work) => inTurn('transactions', (connection) => perform(connection, fence, work, lose)),
    apart: (ask) => inTurn('apart', ({ sql }) => ask(sql)),
    async close() {
      isClosing = true
      await Promise.race([turns, new Promise((resolve) => setTimeout(resolve, CLOSE_MS))])
      await Promise.all(
        Object.values(current).map((connection) => {
          connection.isClosed = true
          connection.onClosed(new ConnectionEnded())
          return connection.sql.end({ timeout: 1 })
        }),
      )
    },
  }
}

/** As the client's own errors are told from others (`isPassing`). */
class ConnectionEnded extends Error {
  readonly code
  constructor(isAway = false) {
    super(isAway ? 'the database does not answer' : 'the connection has ended')
    this.code = isAway ? 'CONNECTION_SILENT' : 'CONNECTION_CLOSED'
  }
}

/**
 * One transaction; null when the fence does not hold. Never settles when the connection is lost meanwhile: `onClosed` has
 * told whoever waits.
 */
export async function perform<T>(
  connection: Connection,
  fence: Fence | null,
  work: Work<T>,
  lose: (connection: Connection) => void,
): Promise<{ value: T } | null> {
  if (connection.isClosed) throw new ConnectionEnded()
  const { sql } = connection
  const begun = sql.unsafe('begin read write').execute()
  // The client takes the failure of the first statement to be written for that of what was written before, and then waits
  // for an answer to it for ever: neither is to be waited for. Whatever has been asked is outside of any transaction.
  const lost = begun.then(never, (error: unknown) => {
    giveUp(connection, lose)
    throw error
  })
  lost.catch(() => {})
  const turn = { connection, isRefused: false, isOver: false }
  const tx = guarded(turn)
  const isAdmitted = (fence?.(tx) ?? Promise.resolve(true)).then((holds) => {
    turn.isRefused = !holds
    return holds
  })
  const asked = Promise.allSettled([isAdmitted, start(work, tx)])
  const [admitted, made] = await Promise.race([lost, asked])
  turn.isOver = true
  if (connection.isClosed) return never()
  await Promise.race([lost, begun])
  if (admitted.status === 'rejected' || !admitted.value || made.status === 'rejected') {
    await rolledBack(connection, lose)
    if (admitted.status === 'rejected') throw admitted.reason
    if (made.status === 'rejected' && admitted.value) throw made.reason
    return null
  }
  const last: Lastly<T> | null = made.value instanceof Lastly ? made.value : null
  const statement = last?.statement.execute()
  const commit = sql.unsafe('commit').execute()
  const [told, ended] = await Promise.allSettled([statement, commit])
  if (connection.isClosed) return never()
  if (told.status === 'rejected') throw told.reason
  if (ended.status === 'rejected') throw ended.reason
  // The server says so to whoever would commit what has failed.
  if (ended.value.command !== 'COMMIT') throw new Error('the transaction had failed and was rolled back')
  return { value: last === null ? made.value : last.answerOf(told.value ?? []) }
}

const never = () => new Promise<never>(() => {})

/** The turn is told why by whoever gives up, not that the connection has ended. */
function giveUp(connection: Connection, lose: (connection: Connection) => void) {
  connection.onClosed = () => {}
  lose(connection)
}

async function rolledBack(connection: Connection, lose: (connection: Connection) => void): Promise<void> {
  const late = Promise.withResolvers<void>()
  const timer = setTimeout(() => {
    giveUp(connection, lose)
    late.resolve()
  }, ROLLBACK_MS)
  await Promise.race([connection.sql.unsafe('rollback').execute(), late.promise]).finally(() =>
    clearTimeout(timer),
  )
}

const start = async <T>(work: Work<T>, tx: SqlTx) => work(tx)

/** In which nothing can be asked once it or its connection has ended, or its condition is known not to hold. */
function guarded(turn: { connection: Connection; isRefused: boolean; isOver: boolean }): SqlTx {
  const tx = new Proxy(turn.connection.sql, {
    apply(target, self, args) {
      if (turn.connection.isClosed) throw new ConnectionEnded()
      if (turn.isOver) throw new Error('the transaction of this statement has ended')
      if (turn.isRefused) throw new Error('the condition of this transaction does not hold')
      return Reflect.apply(target, self, args)
    },
  }) as unknown as SqlTx
  ofSessions.add(tx)
  return tx
}

/** Where transactions go: over a session, or whichever connection of a pool is free. */
export type Transactions = Sql | Session

const isSession = (on: Transactions): on is Session => 'fenced' in on

export async function inTransaction<T>(on: Transactions, work: Work<T>): Promise<T> {
  if (isSession(on)) return on.transaction(work)
  const { value } = await on.begin(async (tx) => ({ value: await work(tx) }))
  return value
}

/** One statement that is its own transaction. */
export const apart = <T>(on: Transactions, ask: (sql: Sql) => Promise<T>): Promise<T> =>
  isSession(on) ? on.apart(ask) : ask(on)
