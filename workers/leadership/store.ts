// The rows of table `leader`, one per role. Every function uses a transaction, so it runs on the connection that the row names.
import { inTransaction, type Sql, type SqlTx } from '../../drizzle/client.ts'

/** How long a challenger waits for the old leader's backend to end. */
const END_BACKEND_MS = 2_000
/** First half of the advisory lock key; the second half is the hash of the role. */
const LOCK_CLASS = 734_092

/** A role held in an epoch. It is valid only on the connection that acquired it. */
export interface Lease {
  role: string
  epoch: number
}

interface Leader {
  holder: string
  backendPid: number
  epoch: number
  hasExpired: boolean
}

const isLeaderHere = (tx: SqlTx, { role, epoch }: Lease) =>
  tx`role = ${role} and epoch = ${epoch} and backend_pid = pg_backend_pid()`

const leaseEnd = (tx: SqlTx, leaseMs: number) => tx`clock_timestamp() + ${leaseMs}::float8 * interval '1 ms'`

/** A lease that ends later than a new one was written before the clock of the database went back. */
const isOver = (tx: SqlTx, leaseMs: number) =>
  tx`(leader.until <= clock_timestamp() or leader.until > ${leaseEnd(tx, leaseMs)})`

/** Renews the lease. False: another epoch has begun, or another connection holds this epoch. */
export const renewLease = (sql: Sql, lease: Lease, leaseMs: number): Promise<boolean> =>
  inTransaction(sql, async (tx) => {
    const rows = await tx`
      update leader set until = ${leaseEnd(tx, leaseMs)} where ${isLeaderHere(tx, lease)} returning 1`
    return rows.length > 0
  })

/** Locks the epoch, so that no other epoch begins before the end of the transaction. False: the epoch is over. */
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

export const currentLeader = (sql: Sql, role: string, leaseMs: number): Promise<Leader | undefined> =>
  inTransaction(sql, async (tx) => {
    const [leader] = await tx<Leader[]>`
      select holder, backend_pid as "backendPid", epoch::float8 as epoch, ${isOver(tx, leaseMs)} as "hasExpired"
      from leader where role = ${role}`
    return leader
  })

/** Ends a backend only if it has this application name, because operating systems reuse process ids. */
export const endBackend = (sql: Sql, pid: number, application: string): Promise<unknown> =>
  inTransaction(
    sql,
    async (tx) => tx`
      select pg_terminate_backend(pid, ${END_BACKEND_MS}) from pg_stat_activity
      where pid = ${pid} and pid <> pg_backend_pid() and datname = current_database()
        and application_name = ${application}`,
  )

interface Challenge {
  role: string
  holder: string
  leaseMs: number
  /** Null: the role has never been led. */
  observedEpoch: number | null
  /** The current lease belongs to this process, so its expiry is not required. */
  isOwn: boolean
}

/** Returns the new epoch. Null: another challenger was faster, or the old leader's connection still exists. */
export const acquireLease = (sql: Sql, challenge: Challenge): Promise<number | null> =>
  inTransaction(sql, async (tx) => {
    const { role } = challenge
    const [lock] = await tx`select pg_try_advisory_lock(${LOCK_CLASS}, hashtext(${role})) as taken`
    if (!lock?.taken) return null
    const epoch = await beginEpoch(tx, challenge)
    if (epoch === null) await tx`select pg_advisory_unlock(${LOCK_CLASS}, hashtext(${role}))`
    return epoch
  })

/** Like `acquireLease`, but without the advisory lock that a leader's connection holds. */
export async function beginEpoch(
  tx: SqlTx,
  { role, holder, leaseMs, observedEpoch, isOwn }: Challenge,
): Promise<number | null> {
  const [won] = await tx<{ epoch: number }[]>`
    insert into leader (role, holder, backend_pid, epoch, until)
    values (${role}, ${holder}, pg_backend_pid(), 1, ${leaseEnd(tx, leaseMs)})
    on conflict (role) do update
      set holder = excluded.holder, backend_pid = excluded.backend_pid, epoch = leader.epoch + 1, until = excluded.until
      where leader.epoch = ${observedEpoch ?? 0} and (${isOver(tx, leaseMs)} or ${isOwn})
    returning epoch::float8 as epoch`
  return won?.epoch ?? null
}
