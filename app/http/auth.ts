import { createHash, timingSafeEqual } from 'node:crypto'
import { type AppError, unauthenticated } from './errors.ts'

/** Who calls. `userId` is what the audit log shows: empty in the community edition. */
export interface Identity {
  kind: 'anonymous' | 'api-key'
  userId: string
}

/** Every mode of authentication is one of these; an AppError is the answer to who may not come in. */
export type Authenticate = (request: Request) => Promise<Identity | AppError>

/** Mode none without a key; with one, every request must carry it as `X-Api-Key`. */
export function makeAuthenticate({ apiKey }: { apiKey: string | null }): Authenticate {
  if (apiKey === null) return async () => ({ kind: 'anonymous', userId: '' })
  const expected = digest(apiKey)
  return async (request) => {
    const presented = request.headers.get('x-api-key')
    if (presented === null) return unauthenticated('X-Api-Key header is missing')
    // Digests have one length, and comparing them says nothing about how much of the key was right.
    if (!timingSafeEqual(digest(presented), expected)) return unauthenticated('X-Api-Key is not valid')
    return { kind: 'api-key', userId: '' }
  }
}

const digest = (text: string) => createHash('sha256').update(text).digest()
