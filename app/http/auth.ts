import { createHash, timingSafeEqual } from 'node:crypto'
import { type AppError, unauthenticated } from './errors.ts'

/** Who calls. */
export interface Identity {
  /** An API key is a machine with full rights; a user is the subject of a token. */
  readonly kind: 'anonymous' | 'api-key' | 'user'
  /** What the audit log shows, and what owns things: a token's subject, and empty for all others. */
  readonly userId: string
  /** For people to read: of the user, or of the key; empty for anonymous callers. Nothing is decided by it. */
  readonly name: string
  /** `admin` among them for who the operator lists as such. */
  readonly roles: readonly string[]
}

export const ANONYMOUS: Identity = { kind: 'anonymous', userId: '', name: '', roles: [] }

/** Whether rights on single things need not be asked about. Means nothing where nobody has to say who they are. */
export const isAdmin = ({ kind, roles }: Identity): boolean => kind === 'api-key' || roles.includes('admin')

/** Every mode of authentication is one of these; an AppError is the answer to who may not come in. */
export type Authenticate = (request: Request) => Promise<Identity | AppError>

/** Mode none without a key; with one, every request must carry it as `X-Api-Key`. */
export function makeAuthenticate({ apiKey }: { apiKey: string | null }): Authenticate {
  if (apiKey === null) return async () => ANONYMOUS
  const expected = digest(apiKey)
  return async (request) => {
    const presented = request.headers.get('x-api-key')
    if (presented === null) return unauthenticated('X-Api-Key header is missing')
    // Digests have one length, and comparing them says nothing about how much of the key was right.
    if (!timingSafeEqual(digest(presented), expected)) return unauthenticated('X-Api-Key is not valid')
    return { kind: 'api-key', userId: '', name: 'default', roles: [] }
  }
}

const digest = (text: string) => createHash('sha256').update(text).digest()
