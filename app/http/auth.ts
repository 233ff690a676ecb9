import type { AccessTokens } from '../auth/access-tokens.ts'
import { TokenRefusal } from '../auth/access-tokens.ts'
import type { ApiKeys } from '../auth/api-keys.ts'
import { limits } from '../limits.ts'
import { type AppError, unauthenticated } from './errors.ts'
import { ANONYMOUS, type Identity } from './identity.ts'
import { type Buckets, networkOf, tooManyRequests } from './rate-limit.ts'

type Answer = Identity | AppError

/**
 * Every mode of authentication is one of these; an AppError is the answer to who may not come in. `address` is the
 * client's.
 */
export type Authenticate = (request: Request, address: () => string) => Answer | Promise<Answer>

/** Whether somebody who is known may use a route at all; what it is used on is asked about later. */
export type Authorize = (
  identity: Identity,
  route: { method: string; pattern: string },
) => boolean | Promise<boolean>

export interface AuthenticateParts {
  /** Null: no key opens anything. */
  apiKeys: ApiKeys | null
  tokens: AccessTokens | null
  /** Wrong credentials of one address; null: they are not counted. */
  failures: Buckets | null
}

/**
 * Mode none; or `X-Api-Key`, or `Authorization: Bearer`, or either of the two, and of these exactly one with each request. A
 * header whose mode is off is not looked at.
 */
export function makeAuthenticate({ apiKeys, tokens, failures }: AuthenticateParts): Authenticate {
  if (apiKeys === null && tokens === null) return () => ANONYMOUS
  /** Keys that have opened something: they still do from an address that guesses. */
  const proven = new Map<string, Identity>()
  const schemes = [...(tokens ? [BEARER] : []), ...(apiKeys ? ['ApiKey realm="sluice"'] : [])].join(', ')
  const missing = [...(tokens ? ['Authorization: Bearer'] : []), ...(apiKeys ? ['X-Api-Key'] : [])].join(
    ' or ',
  )

  return ({ headers }, address) => {
    const key = apiKeys === null ? null : headers.get('x-api-key')
    const authorization = tokens === null ? null : headers.get('authorization')
    const isBearer = authorization !== null && /^bearer(?: |$)/i.test(authorization)
    if (key !== null && isBearer)
      return unauthenticated('send X-Api-Key or Authorization: Bearer, not both', schemes)
    if (key !== null && apiKeys !== null) return ofKey(apiKeys, key, address)
    if (tokens !== null && authorization !== null && isBearer) return ofBearer(tokens, authorization, address)
    return unauthenticated(`${missing} header is missing`, schemes)
  }

  function ofKey(known: ApiKeys, key: string, address: () => string): Answer {
    const name = known.find(key)
    if (name !== null) {
      const identity = proven.get(name)
      if (identity !== undefined) return identity
    }
    // A key that nobody has used yet does not come in among guesses: that answer would tell the right one.
    if (name === null || isGuessing(address))
      return refused(unauthenticated('X-Api-Key is not valid', schemes), address)
    const identity: Identity = { kind: 'api-key', userId: '', name, roles: [] }
    proven.set(name, identity)
    return identity
  }

  function ofBearer(
    known: AccessTokens,
    authorization: string,
    address: () => string,
  ): Answer | Promise<Answer> {
    const token =
      authorization.length > limits.accessTokenLength + BEARER.length
        ? ''
        : (/^bearer +([\w.~+/=-]+) *$/i.exec(authorization)?.[1] ?? '')
    const user = known.verify(token, () => isGuessing(address))
    return user instanceof Promise ? user.then((one) => ofUser(one, address)) : ofUser(user, address)
  }

  function ofUser(user: Identity | TokenRefusal, address: () => string): Answer {
    if (!(user instanceof TokenRefusal)) return user
    const challenge = `${BEARER}, error="invalid_token", error_description="${user.why}"`
    return refused(unauthenticated(user.why, challenge), address)
  }

  function isGuessing(address: () => string): boolean {
    const guessed = failures?.look(networkOf(address()))
    return guessed !== undefined && guessed.retryAfterSeconds > 0
  }

  /** Signatures cannot be guessed, so tokens are always looked at; who presents too many bad ones is told to wait. */
  function refused(why: AppError, address: () => string): AppError {
    const allowed = failures?.take(networkOf(address()))
    return allowed && allowed.retryAfterSeconds > 0
      ? tooManyRequests('too many wrong credentials from this address', allowed.retryAfterSeconds)
      : why
  }
}

const BEARER = 'Bearer realm="sluice"'
