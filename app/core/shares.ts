// Limits that all users have together. One user may use a part of each limit, so that nobody can use it up for the others.
import type { Access } from './access.ts'
import { failedPrecondition } from './errors.ts'

/** One user may use a tenth of a limit. */
const USERS_PER_LIMIT = 10

export const shareOf = (limit: number): number => Math.max(1, Math.floor(limit / USERS_PER_LIMIT))

/** The user of a request whose share counts. Null: administrators, API keys and callers without a credential have no share. */
export const sharerOf = ({ owner, isAdmin }: Pick<Access, 'owner' | 'isAdmin'>): string | null =>
  isAdmin ? null : owner

export interface SharedLimit {
  limit: number
  /** Plural, as in `open branches`. */
  things: string
  /** The next step of a caller, as in `delete or merge one`. */
  remedy: string
}

/** Throws 409 unless the caller may create one more. `own` counts the things of `sharer`. */
export function requireRoom(
  { limit, things, remedy }: SharedLimit,
  { total, own }: { total: number; own: number },
  sharer: string | null,
): void {
  if (sharer !== null && own >= shareOf(limit))
    throw failedPrecondition(
      `user ${sharer} has ${own} ${things}, and the limit of one user is ${shareOf(limit)}: ${remedy}`,
    )
  if (total >= limit)
    throw failedPrecondition(`${total} ${things} exist, and the limit of all users is ${limit}: ${remedy}`)
}
