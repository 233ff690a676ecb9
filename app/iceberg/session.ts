// A session is one caller's view of one warehouse. Attempts and readers have a token (access.ts); users have the credentials of
// the API (user-sessions.ts).
import type { TableName } from '../../ground/names.ts'
import type { Visible } from '../core/access.ts'
import type { Branch } from '../versions/store/branches.ts'
import type { View } from '../versions/store/tables.ts'
import type { AttemptClaims } from './claims.ts'

export type Session = {
  view: View
  /** When the branch of a user was opened. A later branch may have the same name. */
  openedAt?: Date
  /** The session sees main as it is now, and is no token of an attempt or a reader. */
  isMain: boolean
  /** Null for a session that may not commit. */
  own: { claims: AttemptClaims; branch: Branch } | null
  /** The visibility of the caller. An attempt also sees its own table. */
  visible(): Promise<Visible>
}

/** A session that commits to its branch. */
export type Writer = NonNullable<Session['own']> & {
  /** Metadata file of the committed table on the branch; null: the branch has no such table. */
  metadataLocation: string | null
}

/** Decides which view of a warehouse a request gets. A warehouse is named by the prefix of its routes, or by its name. */
export interface Sessions {
  session(request: Request, prefix: string): Promise<Session>
  writer(request: Request, prefix: string, tableNamed: () => TableName): Promise<Writer>
}
