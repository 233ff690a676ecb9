// Access tokens of users: JSON Web Tokens that the configured issuer signed for the configured audience. Only the key id and
// the algorithm of the signature come from the token; everything else comes from the configuration.

import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { decodeProtectedHeader, errors, type JWTPayload, jwtVerify } from 'jose'
import { LRUCache } from 'lru-cache'
import type { OidcSettings } from '../config/access-settings.ts'
import type { Clock } from '../core/clock.ts'
import { AppError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { IssuerKeys } from './issuer-keys.ts'

/** The user that a token names. */
export interface User {
  kind: 'user'
  userId: string
  name: string
  roles: readonly string[]
}

export interface AccessTokens {
  /**
   * Returns the user, or the reason of a refusal. Throws an AppError (503) while no decision is possible. `isGuessing` tells
   * whether the sender has sent too many wrong credentials. An unused token is then refused without a check, if tokens of its
   * kind could be guessed.
   */
  verify(token: string, isGuessing: () => boolean): User | TokenRefusal | Promise<User | TokenRefusal>
}

/** Shown to the client; reveals no more than the client's own token. */
export class TokenRefusal {
  constructor(
    readonly why: string,
    /** False: the issuer signed the token, so its bearer does not guess. */
    readonly isGuess = true,
  ) {}
}

/** Asymmetric algorithms only: with a shared secret, every verifier could also sign. */
const ALGORITHMS = ['RS256', 'ES256', 'EdDSA']
const TYPES = new Set(['jwt', 'at+jwt', 'application/jwt', 'application/at+jwt'])
/** Headers with keys, with addresses of keys, or with extensions. None of them is supported, so all are refused. */
const REFUSED_HEADERS = ['jku', 'jwk', 'x5u', 'x5c', 'crit', 'b64', 'enc', 'zip']

interface Verified {
  user: User
  untilMs: number
  version: number
}

export function makeAccessTokens(
  settings: OidcSettings,
  deps: { keys: IssuerKeys; clock: Clock },
): AccessTokens {
  const { keys, clock } = deps
  const admins = new Set(settings.admins)
  /** Keyed by digest, because tokens themselves must not be stored. */
  const verified = new LRUCache<string, Verified>({ max: limits.cachedAccessTokens })

  function verify(token: string) {
    if (token.length > limits.accessTokenLength)
      return new TokenRefusal(`the token is longer than ${limits.accessTokenLength} characters`)
    const digest = hash('sha256', token, 'base64')
    const cached = verified.get(digest)
    if (cached !== undefined && cached.untilMs > clock.now().getTime() && cached.version === keys.version())
      return cached.user
    if (cached !== undefined) verified.delete(digest)
    return verifyAnew(token, digest)
  }

  async function verifyAnew(token: string, digest: string): Promise<User | TokenRefusal> {
    if (!hasPlainHeader(token)) return new TokenRefusal('the token is not valid')
    const version = keys.version()
    let payload: JWTPayload
    try {
      const result = await jwtVerify(token, keys.find, {
        algorithms: ALGORITHMS,
        issuer: settings.issuer,
        audience: settings.audience,
        clockTolerance: settings.clockSkewSeconds,
        currentDate: clock.now(),
        requiredClaims: ['exp', 'sub'],
      })
      payload = result.payload
    } catch (error) {
      if (error instanceof AppError) throw error
      return refusalOf(error)
    }
    const user = userOf(payload)
    if (user === null)
      return new TokenRefusal(
        `the claim sub of the token is not a plain text of 1 to ${limits.subjectLength} characters`,
      )
    // Cached under the keys before the check. If the keys have changed in the meantime, the token is verified again.
    assert(payload.exp !== undefined, 'a verified token has no claim exp')
    const untilMs = (payload.exp + settings.clockSkewSeconds) * 1_000
    if (version !== null) verified.set(digest, { user, untilMs, version })
    return user
  }

  function userOf(payload: JWTPayload): User | null {
    const subject: unknown = payload.sub
    if (typeof subject !== 'string' || !isPlainText(subject, limits.subjectLength)) return null
    const displayName = [payload.name, payload.preferred_username, payload.email].find(
      (name): name is string => typeof name === 'string' && isPlainText(name, limits.subjectLength),
    )
    const roles = rolesOf(payload, settings.rolesClaim)
    return {
      kind: 'user',
      userId: subject,
      name: displayName ?? subject,
      roles: admins.has(subject) && !roles.includes('admin') ? [...roles, 'admin'] : roles,
    }
  }

  return { verify }
}

function hasPlainHeader(token: string): boolean {
  if (token.split('.', 4).length !== 3) return false
  try {
    const { alg, typ, kid, ...rest } = decodeProtectedHeader(token)
    if (alg === undefined || !ALGORITHMS.includes(alg)) return false
    if (typ !== undefined && !(typeof typ === 'string' && TYPES.has(typ.toLowerCase()))) return false
    if (kid !== undefined && typeof kid !== 'string') return false
    return !REFUSED_HEADERS.some((name) => name in rest)
  } catch {
    return false
  }
}

/** jose checks claims only after the signature. The reader of a reason about claims therefore holds a token of the issuer. */
function refusalOf(error: unknown): TokenRefusal {
  if (error instanceof errors.JWTExpired) return new TokenRefusal('the token has expired', false)
  if (error instanceof errors.JWTClaimValidationFailed)
    return new TokenRefusal(`the claim ${error.claim} of the token is missing or has a wrong value`)
  return new TokenRefusal('the token is not valid')
}

/** Whether a text can be stored, logged and compared: no control characters, no lone surrogates, no spaces around it. */
export const isPlainText = (text: string, lengthMax: number) =>
  text !== '' && text.length <= lengthMax && text.trim() === text && !/\p{C}/u.test(text)

function rolesOf(payload: JWTPayload, claim: string): string[] {
  const claimValue = Object.hasOwn(payload, claim)
    ? payload[claim]
    : claim.split('.').reduce<unknown>(fieldOf, payload)
  const listed =
    typeof claimValue === 'string' ? claimValue.split(' ') : Array.isArray(claimValue) ? claimValue : []
  return listed
    .slice(0, limits.rolesMax)
    .filter((role): role is string => typeof role === 'string' && isPlainText(role, limits.subjectLength))
}

const fieldOf = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? Object.getOwnPropertyDescriptor(value, name)?.value
    : undefined
