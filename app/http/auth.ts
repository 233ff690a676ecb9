import type { AccessTokens } from '../auth/access-tokens.ts'
import { TokenRefusal } from '../auth/access-tokens.ts'
import type { ApiKeys } from '../auth/api-keys.ts'
import type { Sender } from '../core/client-address.ts'
import { KEY_LENGTH_MIN } from '../core/config.ts'
import { type AppError, unauthenticated } from '../core/errors.ts'
import { ANONYMOUS, type Identity } from '../core/identity.ts'
import { limits } from '../core/limits.ts'
import { type Failures, tooManyRequests } from '../core/rate-limit.ts'

type Answer = Identity | AppError

/**
 * Every mode of authentication is one of these; an AppError is the answer to who may not come in.
 */
export type Authenticate = (request: Request, sender: Sender) => Answer | Promise<Answer>

/** Whether somebody who is known may use a route at all; what it is used on is asked about later. */
export type Authorize = (
  identity: Identity,
  route: { method: string; pattern: string },
) => boolean | Promise<boolean>

/** Throws an AppError for a user whom the licence does not allow. No promise where the answer is known. */
export type AdmitUser = (user: Identity) => undefined | Promise<undefined>

export interface AuthenticateParts {
  /** Null: no key opens anything. */
  apiKeys: ApiKeys | null
  tokens: AccessTokens | null
  /** Limits of wrong credentials; null: they are not counted. */
  failures: Failures | null
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

  return ({ headers }, sender) => {
    const key = apiKeys === null ? null : headers.get('x-api-key')
    const authorization = tokens === null ? null : headers.get('authorization')
    const isBearer = authorization !== null && /^bearer(?: |$)/i.test(authorization)
    if (key !== null && isBearer)
      return unauthenticated('send X-Api-Key or Authorization: Bearer, not both', schemes)
    if (key !== null && apiKeys !== null) return ofKey(apiKeys, key, sender)
    if (tokens !== null && authorization !== null && isBearer) return ofBearer(tokens, authorization, sender)
    return unauthenticated(`${missing} header is missing`, schemes)
  }

  function ofKey(known: ApiKeys, key: string, sender: Sender): Answer {
    const name = known.find(key)
    if (name !== null) {
      const identity = proven.get(name)
      if (identity !== undefined) return identity
    }
    // A key that nobody has used yet does not come in among guesses: that answer would tell the right one.
    if (name === null || isGuessing(sender, key))
      return refused(unauthenticated('X-Api-Key is not valid', schemes), sender)
    const identity: Identity = { kind: 'api-key', userId: '', name, roles: [] }
    proven.set(name, identity)
    return identity
  }

  function ofBearer(known: AccessTokens, authorization: string, sender: Sender): Answer | Promise<Answer> {
    const token =
      authorization.length > limits.accessTokenLength + BEARER.length
        ? ''
        : (/^bearer +([\w.~+/=-]+) *$/i.exec(authorization)?.[1] ?? '')
    const user = known.verify(token, () => isGuessing(sender, token))
    return user instanceof Promise ? user.then((one) => ofUser(one, sender)) : ofUser(user, sender)
  }

  function ofUser(user: Identity | TokenRefusal, sender: Sender): Answer {
    if (!(user instanceof TokenRefusal)) return user
    const challenge = `${BEARER}, error="invalid_token", error_description="${user.why}"`
    return refused(unauthenticated(user.why, challenge), sender, user.isGuess)
  }

  /**
   * Whether a credential that nobody has used yet is refused because so many wrong ones came from there. Behind a proxy this
   * holds for the client's own address, so that one attacker locks out nobody else. A short credential can be guessed from
   * many forwarded addresses: it is also refused while its proxy sends guesses.
   */
  function isGuessing(sender: Sender, credential: string): boolean {
    if (failures === null) return false
    if (failures.look(sender).retryAfterSeconds > 0) return true
    return credential.length < KEY_LENGTH_MIN && failures.lookAtProxy(sender).retryAfterSeconds > 0
  }

  /** Signatures cannot be guessed, so tokens are always looked at; who presents too many bad ones is told to wait. */
  function refused(why: AppError, sender: Sender, isGuess = true): AppError {
    const allowed = failures?.take(sender, isGuess)
    return allowed && allowed.retryAfterSeconds > 0
      ? tooManyRequests('too many wrong credentials from this address', allowed.retryAfterSeconds)
      : why
  }
}

const BEARER = 'Bearer realm="sluice"'
