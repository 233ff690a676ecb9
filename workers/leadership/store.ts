// The row of each role in `leader`. Everything runs in transactions, so on the one connection that the row names.
import { inTransaction, type Sql, type SqlTx } from '../../drizzle/client.ts'

/** How long a challenger waits for the old leader's backend to end. */
const END_BACKEND_MS = 2_000
/** The first half of the advisory locks' key; the second is the hash of the role. */
const LOCK_CLASS = 734_092

/** A role led in an epoch; it holds on the connection that took it. */
export interface Lease {
  role: string
  epoch: number
}

export interface Leader {
  holder: string
  backendPid: number
  epoch: number
  hasExpired: boolean
}

const isLeaderHere = (tx: SqlTx, { role, epoch }: Lease) =>
  tx`role = ${role} and epoch = ${epoch} and backend_pid = pg_backend_pid()`

const leaseEnd = (tx: SqlTx, leaseMs: number) => tx`clock_timestamp() + ${leaseMs}::float8 * interval '1 ms'`

/** False: another epoch has begun, or another connection holds this one. */
export const renewLease = (sql: Sql, lease: Lease, leaseMs: number): Promise<boolean> =>
  inTransaction(sql, async (tx) => {
    const rows = await tx`
      update leader set until = ${leaseEnd(tx, leaseMs)} where ${isLeaderHere(tx, lease)} returning 1`
    return rows.length > 0
  })

/** No other epoch begins before the end of the transaction. False: this one is over. */
export async function lockLease(tx: SqlTx, lease: Lease): Promise<boolean> {
  const rows = await tx`select 1 from leader where ${isLeaderHere(tx, lease)} for share`
  return rows.length > 0
}

export const releaseLease = (sql: Sql, lease: Lease): Promise<unknown> =>
  inTransaction(
    sql,
    async (tx) => tx`
      with released as (update leader set until = clock_timestamp() where ${isLeaderHere(tx, lease)})
      select pg_advisory_unlock(${LOCK_CLASS}, hashtext(${lease.role}))`,
  )

export const currentLeader = (sql: Sql, role: string): Promise<Leader | undefined> =>
  inTransaction(sql, async (tx) => {
    const [leader] = await tx<Leader[]>`
      select holder, backend_pid as "backendPid", epoch::float8 as epoch, until <= clock_timestamp() as "hasExpired"
      from leader where role = ${role}`
    return leader
  })

/** Process ids are used again: a backend is ended only while it carries this application name. */
export const endBackend = (sql: Sql, pid: number, application: string): Promise<unknown> =>
  inTransaction(
    sql,
    async (tx) => tx`
      select pg_terminate_backend(pid, ${END_BACKEND_MS}) from pg_stat_activity
      where pid = ${pid} and pid <> pg_backend_pid() and datname = current_database()
        and application_name = ${application}`,
  )

export interface Challenge {
  role: string
  holder: string
  leaseMs: number
  /** Null: the role has never been led. */
  seenEpoch: number | null
  /** The lease seen is of this process, so it need not have expired. */
  isOwn: boolean
}

/** The new epoch; null when somebody else was faster, or the old leader's connection is still there. */
export const takeLease = (sql: Sql, challenge: Challenge): Promise<number | null> =>
  inTransaction(sql, async (tx) => {
    const { role } = challenge
    const [lock] = await tx`select pg_try_advisory_lock(${LOCK_CLASS}, hashtext(${role})) as taken`
    if (!lock?.taken) return null
    const epoch = await beginEpoch(tx, challenge)
    if (epoch === null) await tx`select pg_advisory_unlock(${LOCK_CLASS}, hashtext(${role}))`
    return epoch
  })

/** The same without the lock that the connection of a leader holds. */
export async function beginEpoch(
  tx: SqlTx,
  { role, holder, leaseMs, seenEpoch, isOwn }: Challenge,
): Promise<number | null> {
  const [won] = await tx<{ epoch: number }[]>`
    insert into leader as l (role, holder, backend_pid, epoch, until)
    values (${role}, ${holder}, pg_backend_pid(), 1, ${leaseEnd(tx, leaseMs)})
    on conflict (role) do update
      set holder = excluded.holder, backend_pid = excluded.backend_pid, epoch = l.epoch + 1, until = excluded.until
      where l.epoch = ${seenEpoch ?? 0} and (l.until <= clock_timestamp() or ${isOwn})
    returning epoch::float8 as epoch`
  return won?.epoch ?? null
}
