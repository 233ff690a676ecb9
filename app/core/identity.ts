/** Who calls. */
export interface Identity {
  /** An API key is a machine with full rights; a user is the subject of a token. */
  readonly kind: 'anonymous' | 'api-key' | 'user'
  /** What the audit log shows, and what owns things: a token's subject, and empty for all others. */
  readonly userId: string
  /** For people to read: of the user, or of the key; empty for anonymous callers. No right comes from it. */
  readonly name: string
  /** `admin` among them for who the operator lists as such. */
  readonly roles: readonly string[]
}

export const ANONYMOUS: Identity = { kind: 'anonymous', userId: '', name: '', roles: [] }

/** Whether rights on single things need not be asked about. Means nothing where nobody has to say who they are. */
export const isAdmin = ({ kind, roles }: Identity): boolean => kind === 'api-key' || roles.includes('admin')
