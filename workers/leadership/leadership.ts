// What only one replica may do. The lease runs on the database's time; what keeps a leader that was paused from writing
// after it wakes is not the lease but its epoch, which every writing transaction locks (docs/adr/0012-leadership.md).
import type { Log } from '../../app/core/log.ts'
import { type Backoff, backoffMs } from '../../app/core/process/backoff.ts'
import { type Fenced, inTransaction, openPool } from '../../drizzle/client.ts'
import { startSupervisor } from '../../drizzle/supervisor.ts'
import { startLoop } from '../threads/loop.ts'
import {
  currentLeader,
  endBackend,
  type Lease,
  lockLease,
  releaseLease,
  renewLease,
  takeLease,
} from './store.ts'

/**
 * What only one replica does: its lease, and how often that is renewed or asked for. A leader that is gone has been
 * replaced after the lease, one interval, and the end of its backend.
 */
export const LEADER_LEASE_MS = 9_000
const LEADER_RENEW_MS = 3_000
/** How soon a database that is away is asked again. */
const LEADER_RETRY: Backoff = { firstMs: 250, limitMs: 1_000 }
/** A leader's connection: waiting for a lock, one statement, thinking inside a transaction, one whole transaction. */
const LEADER_LOCK_MS = 5_000
const LEADER_STATEMENT_MS = 15_000
const LEADER_IDLE_MS = 5_000
/** And saying nothing at all, though it is asked to renew or to challenge much more often: its client has given it up. */
const LEADER_SILENCE_MS = 60_000

export interface Leadership {
  /**
   * A transaction on the leader's one connection that holds only while it leads: null when it does not (any more), and
   * then nothing was done. Throws what `work` throws, and when the connection is lost; whether a commit that was under
   * way at that moment has happened is then for the database to tell. Keep it well within the lease: a renewal waits for
   * it. A second write waits for the first, so `work` must not start one.
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

interface Held extends Lease {
  /** When the renewal that was answered last was asked for, by a clock that does not go backwards. */
  renewedAt: number
}

export function startLeadership(options: LeadershipOptions): Leadership {
  const { databaseUrl, role, holder, log, onChange = () => {} } = options
  const { leaseMs = LEADER_LEASE_MS, renewMs = LEADER_RENEW_MS, silenceMs = LEADER_SILENCE_MS } = options
  let held: Held | null = null
  let isStopping = false
  /** The epoch whose lease this process may take before its end: the last one held here, at first any of this process. */
  let ownEpoch: number | 'any' = 'any'
  /** Times in a row that the database has not answered. */
  let failures = 0
  const supervisor = startSupervisor(databaseUrl, LEADER_STATEMENT_MS)
  /** Used for transactions only, so there is one backend. A lost one is replaced, and the row names the one that leads. */
  const sql = openPool(databaseUrl, supervisor, {
    max: 1,
    application: applicationName(role, holder),
    settings: {
      lock_timeout: LEADER_LOCK_MS,
      statement_timeout: LEADER_STATEMENT_MS,
      idle_in_transaction_session_timeout: LEADER_IDLE_MS,
      // The server does not learn that the client has given up a connection whose packets the network drops.
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
      if (failures === 0) log.warn(`leadership of the ${role} could not be asked for or renewed`, { error })
      failures += 1
      loop.nudgeWithin(Math.min(renewMs, backoffMs(failures, LEADER_RETRY)))
    },
    async tick() {
      if (held === null || !(await renew(held))) await challenge()
      failures = 0
      return false
    },
  })

  /** True while this process leads. An expired lease is renewed too if nobody else has taken the epoch. */
  async function renew(mine: Held): Promise<boolean> {
    const askedAt = performance.now()
    const isRenewed = await renewLease(sql, mine, leaseMs)
    if (isRenewed) mine.renewedAt = askedAt
    else lose(mine)
    return isRenewed
  }

  async function challenge() {
    const seen = await currentLeader(sql, role)
    const isOwn = seen?.holder === holder && (ownEpoch === 'any' || ownEpoch === seen.epoch)
    if (seen !== undefined && !seen.hasExpired && !isOwn) {
      if (ownEpoch === 'any') ownEpoch = 0
      return
    }
    // Before the row is touched, because a leader paused inside a transaction holds a lock on it.
    if (seen !== undefined) await endBackend(sql, seen.backendPid, applicationName(role, seen.holder))
    const askedAt = performance.now()
    const epoch = await takeLease(sql, { role, holder, leaseMs, seenEpoch: seen?.epoch ?? null, isOwn })
    if (epoch === null) return
    held = { role, epoch, renewedAt: askedAt }
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

  return {
    isLeading: () => held !== null && performance.now() - held.renewedAt < leaseMs,

    async write(work) {
      const mine = held
      if (mine === null) return null
      const done = await inTransaction(sql, async (tx) =>
        (await lockLease(tx, mine)) ? { value: await work(tx) } : null,
      )
      if (done !== null) return done.value
      lose(mine)
      return null
    },

    async stop() {
      isStopping = true
      await loop.stop()
      const mine = held
      if (mine !== null) {
        await releaseLease(sql, mine).catch((error) =>
          log.warn(`leadership of the ${role} was not given up`, { error }),
        )
        lose(mine)
      }
      await sql.end({ timeout: 1 })
      supervisor.stop()
    },
  }
}

/** What Postgres keeps of an application name. */
const NAME_BYTES = 63

/** What Postgres shows of the connection, by which a challenger knows the old leader's. */
const applicationName = (role: string, holder: string) => `sluice ${role} ${holder}`.slice(0, NAME_BYTES)
