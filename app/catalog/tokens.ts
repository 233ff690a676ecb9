// A bearer token is its own proof: the claims, and their HMAC under a key that every replica shares (row
// `attempt_token` of `secret`). What may end early, such as a branch, is asked of the catalog, not of the token.
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { TableName } from '../../lake/pipeline/names.ts'
import type { Reader } from '../access/code-sight.ts'

/** Reads its branch and its inputs; writes its target while the branch is open. */
export type AttemptClaims = {
  kind: 'attempt'
  branch: string
  runId: string
  attempt: number
  target: TableName
  /** Milliseconds since 1970. */
  expiresAt: number
}

/**
 * Reads main up to a commit; a preview also the landing files of one namespace, as they are. With a reader, what that
 * caller sees of it.
 */
export type ReadClaims = {
  kind: 'read'
  commit: number
  landing?: string
  reader?: Reader
  expiresAt: number
}

export type Claims = AttemptClaims | ReadClaims

type Unsigned<C extends Claims> = Omit<C, 'kind' | 'expiresAt'> & { expiresAt: Date }

/** A token is a few hundred bytes, and with the roles of its reader some thousand; nothing longer is worth hashing. */
const TOKEN_LENGTH_MAX = 12_288
/** Part of what is signed: raised when the claims change shape, so that older tokens are refused and not misread. */
const SHAPE = 'sluice-token-1.'
/** No token begins like this, so that no token is ever signed by it. */
const CATALOG_ID = 'sluice-catalog-1'

export type Tokens = ReturnType<typeof makeTokens>

/** @param secret the key's text; tokens made under another one are not accepted. */
export function makeTokens(secret: string) {
  const mac = (payload: string) =>
    createHmac('sha256', secret)
      .update(SHAPE + payload)
      .digest()
  const sign = (claims: Claims) => {
    const payload = Buffer.from(JSON.stringify(claims)).toString('base64url')
    return `${payload}.${mac(payload).toString('base64url')}`
  }
  return {
    /**
     * Names this catalog to sidecars, the same from every replica, and proves that an API of this catalog names it: sidecars key
     * their caches by it.
     */
    catalogId: createHmac('sha256', secret).update(CATALOG_ID).digest('base64url'),

    /** What an attempt shows to the catalog and to the object gateway. */
    attempt: (claims: Unsigned<AttemptClaims>) =>
      sign({ kind: 'attempt', ...claims, expiresAt: claims.expiresAt.getTime() }),

    /** What a reader of main shows: good for every commit up to `commit`. */
    read: (claims: Unsigned<ReadClaims>) =>
      sign({ kind: 'read', ...claims, expiresAt: claims.expiresAt.getTime() }),

    /** The claims, or null: not one of ours, altered, or expired at `now`. */
    verify(token: string, now: Date): Claims | null {
      if (token.length > TOKEN_LENGTH_MAX) return null
      const [payload, signature, ...rest] = token.split('.')
      if (payload === undefined || signature === undefined || rest.length > 0) return null
      const expected = mac(payload)
      const given = Buffer.from(signature, 'base64url')
      if (given.length !== expected.length || !timingSafeEqual(given, expected)) return null
      // Only `sign` makes such a signature, so these are claims it was given.
      const claims: Claims = JSON.parse(Buffer.from(payload, 'base64url').toString())
      return claims.expiresAt > now.getTime() ? claims : null
    },
  }
}
