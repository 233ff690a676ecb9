import { type AccessTokens, TokenRefusal } from '../auth/access-tokens.ts'
import type { ApiKeys } from '../auth/api-keys.ts'
import { KEY_LENGTH_MIN } from '../config/access-settings.ts'
import { type AppError, unauthenticated } from '../core/errors.ts'
import { ANONYMOUS, type Identity } from '../core/identity.ts'
import { limits } from '../core/limits.ts'
import type { Sender } from '../wire/client-address.ts'
import { type Failures, tooManyRequests } from '../wire/rate-limit.ts'
import { targetOf } from '../wire/target.ts'

type AuthOutcome = Identity | AppError

/** A method of authentication. An AppError is the response to a client that is refused. */
export type Authenticate = (request: Request, sender: Sender) => AuthOutcome | Promise<AuthOutcome>

/** Whether an authenticated caller may use a route at all. Rights on the requested resource are checked later. */
export type Authorize = (
  identity: Identity,
  route: { method: string; pattern: string },
) => boolean | Promise<boolean>

/** Throws an AppError for a user that the licence does not allow. Returns no promise when the decision is cached. */
export type AdmitUser = (user: Identity) => undefined | Promise<undefined>

interface AuthenticateParts {
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
  /** Keys that were used before. They still work from an address that has sent too many wrong credentials. */
  const proven = new Map<string, Identity>()
  const schemes = [...(tokens ? [BEARER] : []), ...(apiKeys ? ['ApiKey realm="sluice"'] : [])].join(', ')
  const missing = [...(tokens ? ['Authorization: Bearer'] : []), ...(apiKeys ? ['X-Api-Key'] : [])].join(
    ' or ',
  )

  return ({ headers, url }, sender) => {
    const key = apiKeys === null ? null : headers.get('x-api-key')
    const isBearer = BEARER_SCHEME.test(headers.get('authorization') ?? '')
    if (apiKeys !== null && key === null && isBearer && isOfEngine(targetOf(url).path)) {
      const bearer = bearerIn(headers) ?? ''
      // If no token is valid here, every bearer credential must be a key. A token is never equal to a key.
      if (tokens === null || apiKeys.find(bearer) !== null) return ofKey(apiKeys, bearer, sender)
    }
    const authorization = tokens !== null && isBearer ? headers.get('authorization') : null
    if (key !== null && authorization !== null)
      return unauthenticated('send X-Api-Key or Authorization: Bearer, not both', schemes)
    if (key !== null && apiKeys !== null) return ofKey(apiKeys, key, sender)
    if (tokens !== null && authorization !== null) return ofBearer(tokens, authorization, sender)
    return unauthenticated(`${missing} header is missing`, schemes)
  }

  function ofKey(keys: ApiKeys, key: string, sender: Sender): AuthOutcome {
    const name = keys.find(key)
    if (name !== null) {
      const identity = proven.get(name)
      if (identity !== undefined) return identity
    }
    // After too many wrong keys, even a valid key is refused if it was not used before. Otherwise guessing would find it.
    if (name === null || isGuessing(sender, key))
      return refused(unauthenticated('X-Api-Key is not valid', schemes), sender)
    const identity: Identity = { kind: 'api-key', userId: '', name, roles: [] }
    proven.set(name, identity)
    return identity
  }

  function ofBearer(
    accessTokens: AccessTokens,
    authorization: string,
    sender: Sender,
  ): AuthOutcome | Promise<AuthOutcome> {
    const token =
      authorization.length > limits.accessTokenLength + BEARER.length
        ? ''
        : (/^bearer +([\w.~+/=-]+) *$/i.exec(authorization)?.[1] ?? '')
    const user = accessTokens.verify(token, () => isGuessing(sender, token))
    return user instanceof Promise ? user.then((verified) => ofUser(verified, sender)) : ofUser(user, sender)
  }

  function ofUser(user: Identity | TokenRefusal, sender: Sender): AuthOutcome {
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
    const allowed = failures?.consume(sender, isGuess)
    return allowed && allowed.retryAfterSeconds > 0
      ? tooManyRequests('too many wrong credentials from this address', allowed.retryAfterSeconds)
      : why
  }
}

const BEARER = 'Bearer realm="sluice"'
const BEARER_SCHEME = /^bearer(?: |$)/i

/** The bearer credential of a request; null without any. */
const bearerIn = (headers: Headers): string | null =>
  /^bearer +(\S+) *$/i.exec(headers.get('authorization') ?? '')?.[1] ?? null

/** Query engines send an API key as a bearer credential, because they know no header of ours. */
export const isOfEngine = (path: string) => path.startsWith('/iceberg/')
