/** The caller of a request. */
export interface Identity {
  /**
   * An API key is a machine with full rights; a user is the subject of a token. `work` is an engine that executes a run or a
   * preview: it has the rights of its credentials only.
   */
  readonly kind: 'anonymous' | 'api-key' | 'user' | 'work'
  /** The subject of a token; empty for other callers. The audit log shows it, and resources store it as their owner. */
  readonly userId: string
  /** Display name of the user or of the key; empty for anonymous callers. Grants no right. */
  readonly name: string
  /** Contains `admin` for the users that the operator lists as administrators. */
  readonly roles: readonly string[]
}

export const ANONYMOUS: Identity = { kind: 'anonymous', userId: '', name: '', roles: [] }
export const WORK: Identity = { kind: 'work', userId: '', name: '', roles: [] }

/** Whether the caller has all rights. Meaningless where callers need no credential. */
export const isAdmin = ({ kind, roles }: Identity): boolean => kind === 'api-key' || roles.includes('admin')

/** The caller as commits and reviews name people. Empty for callers without a name. */
export const nameOf = ({ userId, name }: Identity): string => userId || name
