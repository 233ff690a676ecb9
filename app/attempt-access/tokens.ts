// A bearer token contains its claims and their HMAC. All replicas share the key, in row `attempt_token` of `secret`. State that
// may end before the token expires, such as an open branch, is checked in the catalog.
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { AttemptClaims, Claims, ReadClaims } from '../iceberg/claims.ts'

type Unsigned<C extends Claims> = Omit<C, 'kind' | 'expiresAt'> & { expiresAt: Date }

/**
 * A token has a few hundred bytes, or a few thousand with the roles of its reader. Longer tokens are rejected without hashing.
 */
const TOKEN_LENGTH_MAX = 12_288
/**
 * Part of the signed text. A change of the claims' shape needs a new value, so that older tokens are rejected instead of
 * misread.
 */
const SHAPE = 'sluice-token-1.'
/** No token starts with this text, so the catalog id never equals a token's signature. */
const CATALOG_ID = 'sluice-catalog-1'

export type Tokens = ReturnType<typeof makeTokens>

/**
 * @param secret the signing key; tokens signed with another key are rejected.
 * @param lakeRoot the start of the lake's locations. Sidecars forget what they cached under another root.
 */
export function makeTokens(secret: string, lakeRoot: string) {
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
     * Identifies this catalog to sidecars, which use the id as a cache key. The id is the same from every replica. Only an API
     * process of this catalog can compute it.
     */
    catalogId: createHmac('sha256', secret)
      .update(CATALOG_ID + lakeRoot)
      .digest('base64url'),

    /** Creates the token that an attempt sends to the catalog and the object gateway. */
    attempt: (claims: Unsigned<AttemptClaims>) =>
      sign({ kind: 'attempt', ...claims, expiresAt: claims.expiresAt.getTime() }),

    /** Creates the token of a reader of main, valid for every commit up to `commit`. */
    read: (claims: Unsigned<ReadClaims>) =>
      sign({ kind: 'read', ...claims, expiresAt: claims.expiresAt.getTime() }),

    /** Returns the claims; null for a token that is foreign, altered, or expired at `now`. */
    verify(token: string, now: Date): Claims | null {
      if (token.length > TOKEN_LENGTH_MAX) return null
      const [payload, signature, ...rest] = token.split('.')
      if (payload === undefined || signature === undefined || rest.length > 0) return null
      const expected = mac(payload)
      const presented = Buffer.from(signature, 'base64url')
      if (presented.length !== expected.length || !timingSafeEqual(presented, expected)) return null
      // The signature proves that `sign` created these claims, so they need no schema check.
      const claims: Claims = JSON.parse(Buffer.from(payload, 'base64url').toString())
      return claims.expiresAt > now.getTime() ? claims : null
    },
  }
}
