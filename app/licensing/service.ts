// Enforces the licence of the Pro edition while the service runs. The licence limits the number of users and has a last day.
// Users are subjects of tokens. API keys belong to machines: they need no slot. Keys, runs and schedules work after that day.
import { LRUCache } from 'lru-cache'
import type { Sql } from '../../drizzle/client.ts'
import type { License } from '../config/license.ts'
import type { Clock } from '../core/clock.ts'
import { forbidden } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { AdmitUser } from '../http/auth.ts'
import { ACTIVE_DAYS, claimUserSlot, touchUser } from './store.ts'

/** The database records the activity of a user with a slot once in this time, not at each request. */
const PLACED_MS = 3_600_000
/** A refused user is checked again after this time, because a slot may be free. */
const REFUSED_MS = 10_000
/** Users whose decision is cached. Each request of a further user costs a statement. */
const KNOWN_USERS = 10_000
/** The log warns on each of these last days, because a new licence takes time to buy. */
const WARNING_DAYS = 30
const DAY_MS = 86_400_000
/** The interval of checks for the end of the licence; the log gets one line per day. */
const WATCH_MS = 3_600_000

export interface Licensing {
  /** Throws an AppError (403) for a user whom the licence does not allow. */
  admit: AdmitUser
  /** Whether the licence has ended. */
  hasEnded(): boolean
  /** Stops the checks for the end of the licence. */
  stop(): void
}

interface LicensingDeps {
  license: License
  sql: Sql
  clock: Clock
  log: Log
  /** Subjects that are admitted beyond the limit of users, so that an administrator can repair the installation. */
  admins: readonly string[]
}

interface Admission {
  isPlaced: boolean
  untilMs: number
}

export function makeLicensing({ license, sql, clock, log, admins }: LicensingDeps): Licensing {
  const endMs = Date.parse(license.expiresAt)
  const adminIds = new Set(admins)
  const admissions = new LRUCache<string, Admission>({ max: KNOWN_USERS })
  /** Concurrent requests of one user share a check. */
  const pendingChecks = new Map<string, Promise<boolean>>()
  let warnedDay = -1

  const leftMs = () => endMs - clock.now().getTime()
  const hasEnded = () => leftMs() <= 0

  async function checkUser(userId: string): Promise<boolean> {
    const isPlaced =
      (await touchUser(sql, userId)) || (await claimUserSlot(sql, { userId, maxUsers: license.maxUsers }))
    admissions.set(userId, { isPlaced, untilMs: clock.elapsed() + (isPlaced ? PLACED_MS : REFUSED_MS) })
    return isPlaced
  }

  function checkUserOnce(userId: string): Promise<boolean> {
    const pending = pendingChecks.get(userId)
    if (pending !== undefined) return pending
    const check = checkUser(userId).finally(() => pendingChecks.delete(userId))
    pendingChecks.set(userId, check)
    return check
  }

  function conclude(userId: string, isPlaced: boolean): undefined {
    if (isPlaced || adminIds.has(userId)) return undefined
    throw forbidden(
      `the licence allows ${license.maxUsers} users, and that many others were active in the last ${ACTIVE_DAYS} days: ask the operator for a larger licence`,
    )
  }

  function watch() {
    const daysLeft = Math.ceil(leftMs() / DAY_MS)
    const today = Math.floor(clock.now().getTime() / DAY_MS)
    if (daysLeft > WARNING_DAYS || today === warnedDay) return
    warnedDay = today
    if (daysLeft > 0)
      log.warn(`the licence ends in ${daysLeft} days: set a new licence, or users are refused`, {
        expires_at: license.expiresAt,
      })
    else
      log.error('the licence has ended, and users are refused: set a new licence', {
        expires_at: license.expiresAt,
      })
  }
  watch()
  const timer = setInterval(watch, WATCH_MS)

  return {
    admit({ userId }) {
      if (hasEnded())
        throw forbidden(`the licence ended on ${license.expiresAt}: ask the operator to set a new one`)
      const cached = admissions.get(userId)
      if (cached !== undefined && cached.untilMs > clock.elapsed()) return conclude(userId, cached.isPlaced)
      return checkUserOnce(userId).then((isPlaced) => conclude(userId, isPlaced))
    },
    hasEnded,
    stop: () => clearInterval(timer),
  }
}
