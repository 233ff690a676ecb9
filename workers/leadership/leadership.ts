// What only one replica may do. The lease runs on the database's time; what keeps a leader that was paused from writing
// after it wakes is not the lease but its epoch, which every writing transaction locks (docs/adr/0012-leadership.md).
import postgres from 'postgres'
import { limits } from '../../app/core/limits.ts'
import type { Log } from '../../app/core/log.ts'
import type { Fenced } from '../../drizzle/client.ts'
import { AT_ONCE } from '../../drizzle/lost-connections.ts'
import { type Connection, NOTHING_ALONE, perform } from '../../drizzle/session.ts'
import { silenceOf, watched } from '../../drizzle/watched-socket.ts'
import { startLoop } from '../threads/loop.ts'

export interface Leadership {
  /**
   * A transaction on the leader's one connection that holds only while it leads: null when it does not (any more), and
   * then nothing was done. Throws what `work` throws, and when the connection is lost; whether a commit that was under
   * way at that moment has happened is then for the database to tell. Keep it well within the lease: a renewal waits for
   * it. A second write waits for the first, so `work` must not start one. Its first statement is sent with the question
   * whether this leads: until that statement is answered `work` does nothing that the database cannot undo.
   */
  write: Fenced
  /** Whether a tick is worth trying. Never a reason to write outside `write`. */
  isLeading(): boolean
  /** Gives the lease up, so that nobody has to wait for its end. Waits for a write under way. */
  stop(): Promise<void>
}

export interface LeadershipOptions {
  databaseUrl: string
  /** What is led: `scheduler`, `triggers`, `reaper`. A process leads a role with one thread at a time. */
  role: string
  /**
   * Who leads: `ThreadSettings.processId`. A row held by this process is of a thread that has ended, so that the one
   * started in its place takes over at once.
   */
  holder: string
  log: Log
  onChange?(isLeading: boolean): void
  /** Milliseconds; tests may shorten them. */
  leaseMs?: number
  renewMs?: number
  silenceMs?: number
}

interface Held {
  epoch: number
  session: Connection
  /** When the renewal that was answered last was asked for, by a clock that does not go backwards. */
  renewedAt: number
}

/** The first half of the advisory locks' key; the second is the hash of the role. */
const LOCK_CLASS = 734_092
/** What Postgres keeps of an application name. */
const NAME_BYTES = 63

export function startLeadership({
  databaseUrl,
  role,
  holder,
  log,
  onChange = () => {},
  leaseMs = limits.leaderLeaseMs,
  renewMs = limits.leaderRenewMs,
  silenceMs = limits.leaderSilenceMs,
}: LeadershipOptions): Leadership {
  let held: Held | null = null
  let isStopping = false
  /** Of which the row would not have to expire for us: the one we held last, or, at our start, any of our process. */
  let ownEpoch: number | 'any' = 'any'
  /** The database has not answered; said once. */
  let isAway = false
  let session = open()
  let turns: Promise<unknown> = Promise.resolve()

  const loop = startLoop({
    everyMs: renewMs,
    onError(error) {
      if (!isAway) log.warn(`leadership of the ${role} could not be asked for or renewed`, { error })
      isAway = true
      loop.nudgeWithin(Math.min(renewMs, limits.leaderRetryMs))
    },
    async tick() {
      await inTurn(async (current) => {
        if (held === null || !(await renew(held))) await challenge(current)
      })
      isAway = false
      return false
    },
  })

  /** True while we lead. A lease that has run out is renewed all the same if nobody else has taken the epoch. */
  async function renew(mine: Held): Promise<boolean> {
    const askedAt = performance.now()
    const renewed = await perform(
      mine.session,
      null,
      async (tx) => {
        const rows = await tx`
          update leader set until = clock_timestamp() + ${leaseMs}::float8 * interval '1 ms'
          where role = ${role} and epoch = ${mine.epoch} and backend_pid = pg_backend_pid() returning 1`
        return rows.length > 0
      },
      close,
    )
    if (renewed?.value !== true) lose(mine)
    else mine.renewedAt = askedAt
    return renewed?.value === true
  }

  async function challenge(current: Connection) {
    const { sql } = current
    const [seen] = await sql<{ holder: string; backend_pid: number; epoch: number; has_expired: boolean }[]>`
      select holder, backend_pid, epoch::float8 as epoch, until <= clock_timestamp() as has_expired
      from leader where role = ${role}`
    const isOurs = seen?.holder === holder && (ownEpoch === 'any' || ownEpoch === seen.epoch)
    if (seen !== undefined && !seen.has_expired && !isOurs) {
      if (ownEpoch === 'any') ownEpoch = 0
      return
    }
    // Before the row is touched, because a leader paused inside a transaction holds a lock on it. Process ids are used
    // again: a backend is ended only while it carries the name of the old holder's.
    if (seen !== undefined)
      await sql`
        select pg_terminate_backend(pid, ${limits.leaderEndBackendMs}) from pg_stat_activity
        where pid = ${seen.backend_pid} and pid <> pg_backend_pid() and datname = current_database()
          and application_name = ${applicationName(role, seen.holder)}`
    const askedAt = performance.now()
    const taken = await perform(
      current,
      null,
      async (tx) => {
        const [lock] = await tx`select pg_try_advisory_lock(${LOCK_CLASS}, hashtext(${role})) as taken`
        if (!lock?.taken) return null
        const [won] = await tx<{ epoch: number }[]>`
          insert into leader as l (role, holder, backend_pid, epoch, until)
          values (${role}, ${holder}, pg_backend_pid(), 1, clock_timestamp() + ${leaseMs}::float8 * interval '1 ms')
          on conflict (role) do update
            set holder = excluded.holder, backend_pid = excluded.backend_pid, epoch = l.epoch + 1, until = excluded.until
            where l.epoch = ${seen?.epoch ?? 0} and (l.until <= clock_timestamp() or ${isOurs})
          returning epoch::float8 as epoch`
        if (won === undefined) await tx`select pg_advisory_unlock(${LOCK_CLASS}, hashtext(${role}))`
        return won?.epoch ?? null
      },
      close,
    )
    const epoch = taken?.value ?? null
    if (epoch === null || current.isClosed) return
    held = { epoch, session: current, renewedAt: askedAt }
    ownEpoch = epoch
    log.info(`this replica leads the ${role}`, { epoch })
    onChange(true)
  }

  function lose(mine: Held) {
    if (held !== mine) return
    held = null
    if (!isStopping) log.warn(`this replica leads the ${role} no longer`, { epoch: mine.epoch })
    onChange(false)
  }

  function open(): Connection {
    const opened: Connection = {
      isClosed: false,
      onClosed: () => {},
      sql: postgres(databaseUrl, {
        max: 1,
        max_lifetime: null,
        onnotice: () => {},
        connect_timeout: 10,
        ...watched({ silenceMs: silenceOf({ statement_timeout: limits.leaderStatementMs }) }),
        connection: {
          application_name: applicationName(role, holder),
          lock_timeout: limits.leaderLockMs,
          statement_timeout: limits.leaderStatementMs,
          idle_in_transaction_session_timeout: limits.leaderIdleMs,
          // Where the network swallows what we send, the server never hears that we have given the connection up.
          idle_session_timeout: silenceMs,
          ...NOTHING_ALONE,
          ...AT_ONCE,
        },
        onclose: () => close(opened),
      }),
    }
    return opened
  }

  /**
   * The client is given up with its connection. It would open another one under the same transaction objects, and work
   * that has slept through the end of its transaction would go on there, outside any.
   */
  function close(ended: Connection) {
    if (ended.isClosed) return
    ended.isClosed = true
    void ended.sql.end({ timeout: 0 }).catch(() => {})
    ended.onClosed()
    if (isStopping) return
    if (ended === session) session = open()
    if (held?.session !== ended) return
    lose(held)
    loop.nudge()
  }

  /** One after the other: what waits for the connection waits here, never in the client, which would reconnect for it. */
  function inTurn<T>(work: (current: Connection) => Promise<T>): Promise<T> {
    const turn = turns.then(async () => {
      const current = session
      // Without an answer for this long the network swallows what we send: another connection may fare better.
      const timer = setTimeout(() => close(current), limits.leaderTurnMs)
      const closed = Promise.withResolvers<never>()
      current.onClosed = () => closed.reject(new Error('the connection has ended'))
      try {
        return await Promise.race([work(current), closed.promise])
      } catch (error) {
        // The server has ended the session, and says so before the connection ends: nothing more may be asked of it.
        if (error instanceof postgres.PostgresError && error.severity === 'FATAL') close(current)
        throw error
      } finally {
        clearTimeout(timer)
        current.onClosed = () => {}
      }
    })
    turns = turn.catch(() => {})
    return turn
  }

  return {
    isLeading: () => held !== null && performance.now() - held.renewedAt < leaseMs,

    async write(work) {
      if (held === null) return null
      return inTurn(async () => {
        const mine = held
        if (mine === null) return null
        const done = await perform(
          mine.session,
          async (tx) => {
            const [isLeader] = await tx`
              select 1 from leader where role = ${role} and epoch = ${mine.epoch} and backend_pid = pg_backend_pid()
              for share`
            return isLeader !== undefined
          },
          work,
          close,
        )
        if (done !== null) return done.value
        lose(mine)
        return null
      })
    },

    async stop() {
      isStopping = true
      await loop.stop()
      const mine = held
      if (mine !== null)
        await inTurn(() =>
          perform(
            mine.session,
            null,
            (tx) => tx`
              with released as (
                update leader set until = clock_timestamp()
                where role = ${role} and epoch = ${mine.epoch} and backend_pid = pg_backend_pid())
              select pg_advisory_unlock(${LOCK_CLASS}, hashtext(${role}))`,
            close,
          ),
        ).catch((error) => log.warn(`leadership of the ${role} was not given up`, { error }))
      await turns
      if (held !== null) lose(held)
      session.isClosed = true
      await session.sql.end({ timeout: 1 })
    },
  }
}

/** What Postgres shows of the connection, by which a challenger knows the old leader's. */
const applicationName = (role: string, holder: string) => `sluice ${role} ${holder}`.slice(0, NAME_BYTES)
