// Access tokens of users: JSON Web Tokens that the configured issuer has signed for the configured audience. Everything but the
// signature's key id and algorithm comes from the configuration, never from the token.

import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { decodeProtectedHeader, errors, type JWTPayload, jwtVerify } from 'jose'
import { LRUCache } from 'lru-cache'
import type { Clock } from '../core/clock.ts'
import type { OidcSettings } from '../core/config.ts'
import { AppError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { IssuerKeys } from './issuer-keys.ts'

/** What a token says about its bearer. */
export interface User {
  kind: 'user'
  userId: string
  name: string
  roles: readonly string[]
}

export interface AccessTokens {
  /**
   * The user, or why there is none. Throws an AppError (503) while nobody can say. `isGuessing`: whether so many wrong ones came
   * from there that one which nobody has used yet is not worth looking at, where it might be guessed.
   */
  verify(token: string, isGuessing: () => boolean): User | TokenRefusal | Promise<User | TokenRefusal>
}

/** For the client to read: says no more than its own token does. */
export class TokenRefusal {
  constructor(
    readonly why: string,
    /** False: the issuer has signed the token, so its bearer guesses nothing. */
    readonly isGuess = true,
  ) {}
}

/** Asymmetric ones only: with a shared secret, whoever may check could also sign. */
const ALGORITHMS = ['RS256', 'ES256', 'EdDSA']
const TYPES = new Set(['jwt', 'at+jwt', 'application/jwt', 'application/at+jwt'])
/** Keys that a token brings along or points to, and extensions: none is known here, so none may be there. */
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
  /** By digest: tokens themselves are not kept. */
  const verified = new LRUCache<string, Verified>({ max: limits.accessTokensKept })

  function verify(token: string) {
    if (token.length > limits.accessTokenLength) return new TokenRefusal('the token is too long')
    const digest = hash('sha256', token, 'base64')
    const known = verified.get(digest)
    if (known !== undefined && known.untilMs > clock.now().getTime() && known.version === keys.version())
      return known.user
    if (known !== undefined) verified.delete(digest)
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
    if (user === null) return new TokenRefusal('the token names no user')
    // Remembered under the keys as they were: where others have come meanwhile, it is verified again.
    assert(payload.exp !== undefined, 'a token was verified without the claim that it requires')
    const untilMs = (payload.exp + settings.clockSkewSeconds) * 1_000
    if (version !== null) verified.set(digest, { user, untilMs, version })
    return user
  }

  function userOf(payload: JWTPayload): User | null {
    const subject: unknown = payload.sub
    if (typeof subject !== 'string' || !isPlainText(subject, limits.subjectLength)) return null
    const named = [payload.name, payload.preferred_username, payload.email].find(
      (name): name is string => typeof name === 'string' && isPlainText(name, limits.subjectLength),
    )
    const roles = rolesOf(payload, settings.rolesClaim)
    return {
      kind: 'user',
      userId: subject,
      name: named ?? subject,
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

/** jose looks at the claims only of what was signed by the issuer: whoever reads this holds a token of his. */
function refusalOf(error: unknown): TokenRefusal {
  if (error instanceof errors.JWTExpired) return new TokenRefusal('the token has expired', false)
  if (error instanceof errors.JWTClaimValidationFailed)
    return new TokenRefusal(`the claim ${error.claim} of the token is not as it must be`)
  return new TokenRefusal('the token is not valid')
}

/** Stored, logged and compared: no control characters, no halves of surrogate pairs, no spaces around. */
export const isPlainText = (text: string, lengthMax: number) =>
  text !== '' && text.length <= lengthMax && text.trim() === text && !/\p{C}/u.test(text)

function rolesOf(payload: JWTPayload, claim: string): string[] {
  const found = Object.hasOwn(payload, claim)
    ? payload[claim]
    : claim.split('.').reduce<unknown>(fieldOf, payload)
  const listed = typeof found === 'string' ? found.split(' ') : Array.isArray(found) ? found : []
  return listed
    .slice(0, limits.rolesKept)
    .filter((role): role is string => typeof role === 'string' && isPlainText(role, limits.subjectLength))
}

const fieldOf = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? Object.getOwnPropertyDescriptor(value, name)?.value
    : undefined
