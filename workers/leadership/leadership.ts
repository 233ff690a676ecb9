// Leader election for tasks of a single replica. The lease uses the database's clock. The lease does not fence a leader that
// wakes after a pause; its epoch does, because every writing transaction locks it (docs/adr/0012-leadership.md).
import type { Log } from '../../app/core/log.ts'
import { type Fenced, inTransaction, openPool } from '../../drizzle/client.ts'
import { startSupervisor } from '../../drizzle/supervisor.ts'
import { type Backoff, backoffMs } from '../../ground/process/backoff.ts'
import { startLoop } from '../threads/loop.ts'
import {
  acquireLease,
  currentLeader,
  endBackend,
  type Lease,
  lockLease,
  releaseLease,
  renewLease,
} from './store.ts'

/**
 * Duration of the lease, and the interval of renewals and challenges. A dead leader is replaced after the lease, one interval,
 * and the end of its backend.
 */
export const LEADER_LEASE_MS = 9_000
const LEADER_RENEW_MS = 3_000
/** Backoff while the database is unavailable. */
const LEADER_RETRY: Backoff = { firstMs: 250, limitMs: 1_000 }
/** Timeouts of a leader's connection: waiting for a lock, one statement, idling inside a transaction. */
const LEADER_LOCK_MS = 5_000
const LEADER_STATEMENT_MS = 15_000
const LEADER_IDLE_MS = 5_000
/** Timeout of an idle connection. Renewals and challenges are more frequent, so a silent client has dropped the connection. */
const LEADER_SILENCE_MS = 60_000

export interface Leadership {
  /**
   * Runs `work` in a transaction on the leader's only connection. Null: this replica does not lead, and nothing was written.
   * Throws the errors of `work`, and an error when the connection is lost. In that case only the database knows whether the
   * commit happened. The transaction must be much shorter than the lease, because a renewal waits for it. A second write waits
   * for the first, so `work` must not call `write`.
   */
  write: Fenced
  /** A hint whether a tick is worthwhile. It never justifies a write outside `write`. */
  isLeading(): boolean
  /** Releases the lease, so that another replica takes over at once. Waits for a write under way. */
  stop(): Promise<void>
}

export interface LeadershipOptions {
  databaseUrl: string
  /** The role: `scheduler`, `triggers` or `reaper`. A process leads a role with one thread at a time. */
  role: string
  /**
   * The id of this process: `ThreadSettings.processId`. A row of the same holder belongs to an ended thread, so its replacement
   * takes over at once.
   */
  holder: string
  log: Log
  onChange?(isLeading: boolean): void
  /** Milliseconds; tests may shorten them. */
  leaseMs?: number
  renewMs?: number
  silenceMs?: number
}

interface HeldLease extends Lease {
  /** Start of the last successful renewal, by a monotonic clock. */
  renewedAt: number
}

export function startLeadership(options: LeadershipOptions): Leadership {
  const { databaseUrl, role, holder, log, onChange = () => {} } = options
  const { leaseMs = LEADER_LEASE_MS, renewMs = LEADER_RENEW_MS, silenceMs = LEADER_SILENCE_MS } = options
  let held: HeldLease | null = null
  let isStopping = false
  /**
   * The epoch whose lease this thread may take before its expiry: the last epoch held here. At first, any epoch of this
   * process.
   */
  let ownEpoch: number | 'any' = 'any'
  /** Consecutive failures of the database. */
  let failures = 0
  const supervisor = startSupervisor(databaseUrl, LEADER_STATEMENT_MS)
  /** One connection, for transactions only. A lost connection is replaced; the row names the backend that leads. */
  const sql = openPool(databaseUrl, supervisor, {
    max: 1,
    application: applicationName(role, holder),
    settings: {
      lock_timeout: LEADER_LOCK_MS,
      statement_timeout: LEADER_STATEMENT_MS,
      idle_in_transaction_session_timeout: LEADER_IDLE_MS,
      // If the network drops all packets, the server does not notice that the client has closed the connection.
      idle_session_timeout: silenceMs,
    },
    onclose() {
      if (held === null || isStopping) return
      lose(held)
      loop.nudge()
    },
  })

  const loop = startLoop({
    everyMs: renewMs,
    onError(error) {
      if (failures === 0)
        log.warn(`leadership of the ${role} neither acquired nor renewed: retrying`, { error })
      failures += 1
      loop.nudgeWithin(Math.min(renewMs, backoffMs(failures, LEADER_RETRY)))
    },
    async tick() {
      if (held === null || !(await renew(held))) await challenge()
      failures = 0
      return false
    },
  })

  /** True while this process leads. An expired lease is renewed too, unless another epoch has begun. */
  async function renew(lease: HeldLease): Promise<boolean> {
    const sentAt = performance.now()
    const isRenewed = await renewLease(sql, lease, leaseMs)
    if (isRenewed) lease.renewedAt = sentAt
    else lose(lease)
    return isRenewed
  }

  async function challenge() {
    const leader = await currentLeader(sql, role, leaseMs)
    const isOwn = leader?.holder === holder && (ownEpoch === 'any' || ownEpoch === leader.epoch)
    if (leader !== undefined && !leader.hasExpired && !isOwn) {
      if (ownEpoch === 'any') ownEpoch = 0
      return
    }
    // Ends the old leader's backend before locking the row, because a leader paused inside a transaction holds that lock.
    if (leader !== undefined) await endBackend(sql, leader.backendPid, applicationName(role, leader.holder))
    const sentAt = performance.now()
    const epoch = await acquireLease(sql, {
      role,
      holder,
      leaseMs,
      observedEpoch: leader?.epoch ?? null,
      isOwn,
    })
    if (epoch === null) return
    held = { role, epoch, renewedAt: sentAt }
    ownEpoch = epoch
    log.info(`leadership of the ${role} acquired`, { epoch })
    onChange(true)
  }

  function lose(lost: HeldLease) {
    if (held !== lost) return
    held = null
    if (!isStopping) log.warn(`leadership of the ${role} lost`, { epoch: lost.epoch })
    onChange(false)
  }

  return {
    isLeading: () => held !== null && performance.now() - held.renewedAt < leaseMs,

    async write(work) {
      const lease = held
      if (lease === null) return null
      const done = await inTransaction(sql, async (tx) =>
        (await lockLease(tx, lease)) ? { value: await work(tx) } : null,
      )
      if (done !== null) return done.value
      lose(lease)
      return null
    },

    async stop() {
      isStopping = true
      await loop.stop()
      const lease = held
      if (lease !== null) {
        await releaseLease(sql, lease).catch((error) =>
          log.warn(`lease of the ${role} not released: another replica leads after its expiry`, {
            leaseMs,
            error,
          }),
        )
        lose(lease)
      }
      await sql.end({ timeout: 1 })
      supervisor.stop()
    },
  }
}

/** Maximum length of an application name in Postgres, in bytes. */
const NAME_BYTES = 63

/** The name of the connection in `pg_stat_activity`. A challenger identifies the old leader's backend by this name. */
const applicationName = (role: string, holder: string) => `sluice ${role} ${holder}`.slice(0, NAME_BYTES)
