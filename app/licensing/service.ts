// Enforces the licence of the Pro edition while the service runs: a number of users, until a day. Users are subjects of tokens.
// API keys belong to machines: they need no slot, and still work after the end, as do runs and schedules.
import { LRUCache } from 'lru-cache'
import type { Sql } from '../../drizzle/client.ts'
import type { Clock } from '../core/clock.ts'
import { forbidden } from '../core/errors.ts'
import type { License } from '../core/license.ts'
import type { Log } from '../core/log.ts'
import type { AdmitUser } from '../http/auth.ts'
import { ACTIVE_DAYS, claimUserSlot, touchUser } from './store.ts'

/** A user with a slot is recorded in the database once in this time, not at each request. */
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

interface Known {
  isPlaced: boolean
  untilMs: number
}

export function makeLicensing({ license, sql, clock, log, admins }: LicensingDeps): Licensing {
  const endMs = Date.parse(license.expiresAt)
  const adminIds = new Set(admins)
  const known = new LRUCache<string, Known>({ max: KNOWN_USERS })
  /** Concurrent requests of one user share a check. */
  const asking = new Map<string, Promise<boolean>>()
  let warnedDay = -1

  const leftMs = () => endMs - clock.now().getTime()
  const hasEnded = () => leftMs() <= 0

  async function ask(userId: string): Promise<boolean> {
    const isPlaced =
      (await touchUser(sql, userId)) || (await claimUserSlot(sql, { userId, maxUsers: license.maxUsers }))
    known.set(userId, { isPlaced, untilMs: clock.elapsed() + (isPlaced ? PLACED_MS : REFUSED_MS) })
    return isPlaced
  }

  function askOnce(userId: string): Promise<boolean> {
    const asked = asking.get(userId)
    if (asked !== undefined) return asked
    const answer = ask(userId).finally(() => asking.delete(userId))
    asking.set(userId, answer)
    return answer
  }

  function conclude(userId: string, isPlaced: boolean): undefined {
    if (isPlaced || adminIds.has(userId)) return undefined
    throw forbidden(
      `the licence allows ${license.maxUsers} users, and as many others were here in the last ${ACTIVE_DAYS} days: ask the operator for a larger licence`,
    )
  }

  function watch() {
    const daysLeft = Math.ceil(leftMs() / DAY_MS)
    const today = Math.floor(clock.now().getTime() / DAY_MS)
    if (daysLeft > WARNING_DAYS || today === warnedDay) return
    warnedDay = today
    if (daysLeft > 0)
      log.warn(`the licence ends in ${daysLeft} days: users are refused then`, {
        expires_at: license.expiresAt,
      })
    else log.error('the licence has ended: users are refused', { expires_at: license.expiresAt })
  }
  watch()
  const timer = setInterval(watch, WATCH_MS)

  return {
    admit({ userId }) {
      if (hasEnded())
        throw forbidden(`the licence ended on ${license.expiresAt}: ask the operator to set a new one`)
      const found = known.get(userId)
      if (found !== undefined && found.untilMs > clock.elapsed()) return conclude(userId, found.isPlaced)
      return askOnce(userId).then((isPlaced) => conclude(userId, isPlaced))
    },
    hasEnded,
    stop: () => clearInterval(timer),
  }
}
