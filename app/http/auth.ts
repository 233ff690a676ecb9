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

/** A method of authentication. An AppError is the response to a client that is refused. */
export type Authenticate = (request: Request, sender: Sender) => Answer | Promise<Answer>

/** Whether an authenticated caller may use a route at all. Rights on the requested resource are checked later. */
export type Authorize = (
  identity: Identity,
  route: { method: string; pattern: string },
) => boolean | Promise<boolean>

/** Throws an AppError for a user that the licence does not allow. Returns no promise when the decision is cached. */
export type AdmitUser = (user: Identity) => undefined | Promise<undefined>

export interface AuthenticateParts {
  /** Null: no key is valid. */
  apiKeys: ApiKeys | null
  tokens: AccessTokens | null
  /** Limits of wrong credentials; null: no limit. */
  failures: Failures | null
}

/**
 * Accepts no credential, `X-Api-Key`, `Authorization: Bearer`, or either of the two, as configured. A request carries exactly
 * one. A header whose mode is off is ignored.
 */
export function makeAuthenticate({ apiKeys, tokens, failures }: AuthenticateParts): Authenticate {
  if (apiKeys === null && tokens === null) return () => ANONYMOUS
  /** Keys that were used before. They still work from an address that guesses. */
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
    // Among guesses, an unused key is refused even when it is valid. Otherwise the response would reveal the right key.
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
   * Whether an unused credential is refused because its sender has sent too many wrong ones. Behind a proxy, the client's own
   * address counts, so that one attacker locks out no other client. A short credential can be guessed from many forwarded
   * addresses, so it is also refused while its proxy sends guesses.
   */
  function isGuessing(sender: Sender, credential: string): boolean {
    if (failures === null) return false
    if (failures.look(sender).retryAfterSeconds > 0) return true
    return credential.length < KEY_LENGTH_MIN && failures.lookAtProxy(sender).retryAfterSeconds > 0
  }

  /** Counts a wrong credential; too many turn 401 into 429. Signatures cannot be guessed, so tokens are always verified. */
  function refused(why: AppError, sender: Sender, isGuess = true): AppError {
    const allowed = failures?.take(sender, isGuess)
    return allowed && allowed.retryAfterSeconds > 0
      ? tooManyRequests('too many wrong credentials from this address', allowed.retryAfterSeconds)
      : why
  }
}

const BEARER = 'Bearer realm="sluice"'
