// The public keys of the identity provider, found through its discovery document. They are fetched again when they have aged,
// or when a token names an unknown key. The second happens at most once a minute, whatever tokens name.
import { Buffer } from 'node:buffer'
import {
  type CryptoKey,
  createLocalJWKSet,
  errors,
  type FlattenedJWSInput,
  type JSONWebKeySet,
  type JWSHeaderParameters,
} from 'jose'
import { isSafeAddress } from '../config/safe-address.ts'
import type { Clock } from '../core/clock.ts'
import { unavailable } from '../core/errors.ts'

/** Keys are fetched at most this often, whatever key ids tokens name. */
const FETCH_EVERY_MS = 60_000
/** Keys are used this long without another fetch. */
const FRESH_MS = 600_000
/** Keys are used this long while the provider is unreachable. */
const USABLE_MS = 86_400_000
/** The pause between fetches while no keys are known. */
const RETRY_MS = 5_000
/** Limits of one response of the provider: time and bytes. */
const TIMEOUT_MS = 5_000
const RESPONSE_BYTES_MAX = 262_144

export interface IssuerKeys {
  /**
   * The key that a token's header names. Throws a JOSEError for an unknown key, and an AppError (503) while no keys are known.
   */
  find(header: JWSHeaderParameters, token: FlattenedJWSInput): Promise<CryptoKey>
  /**
   * Changes with the keys: a token that was verified under another version must be verified again. Null: no usable keys. The
   * call also starts a fetch when the keys have aged.
   */
  version(): number | null
}

interface IssuerKeysDeps {
  issuer: string
  clock: Clock
  /** Called when a fetch failed. */
  onFailure(error: unknown): void
}

interface IssuerKeySet {
  find: ReturnType<typeof createLocalJWKSet>
  text: string
  requestedMs: number
}

export function makeIssuerKeys({ issuer, clock, onFailure }: IssuerKeysDeps): IssuerKeys {
  let cachedKeys: IssuerKeySet | null = null
  let requestedMs = Number.NEGATIVE_INFINITY
  let fetching: Promise<void> | null = null
  let version = 0

  const isUsable = () => cachedKeys !== null && clock.elapsed() - cachedKeys.requestedMs < USABLE_MS
  const mayFetch = () => clock.elapsed() - requestedMs >= (cachedKeys === null ? RETRY_MS : FETCH_EVERY_MS)

  /** One fetch at a time, shared by all callers that wait. A failure keeps the known keys. */
  function refresh(): Promise<void> {
    if (fetching !== null) return fetching
    requestedMs = clock.elapsed()
    fetching = fetchKeys(issuer)
      .then(({ keys, text }) => {
        if (cachedKeys?.text !== text) version += 1
        cachedKeys = { find: createLocalJWKSet(keys), text, requestedMs }
      })
      .catch(onFailure)
      .finally(() => {
        fetching = null
      })
    return fetching
  }

  async function find(header: JWSHeaderParameters, token: FlattenedJWSInput): Promise<CryptoKey> {
    if (!isUsable()) {
      if (fetching !== null || mayFetch()) await refresh()
      if (!isUsable()) throw unavailable('the identity provider')
    }
    try {
      return await keysNow()(header, token)
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey) || (fetching === null && !mayFetch())) throw error
      await refresh()
      return keysNow()(header, token)
    }
  }

  function keysNow() {
    if (cachedKeys === null) throw unavailable('the identity provider')
    return cachedKeys.find
  }

  return {
    find,
    version() {
      if (cachedKeys !== null && clock.elapsed() - cachedKeys.requestedMs > FRESH_MS && mayFetch())
        void refresh()
      return isUsable() ? version : null
    },
  }
}

async function fetchKeys(issuer: string): Promise<{ keys: JSONWebKeySet; text: string }> {
  const discovery = fieldsOf(await fetchText(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`))
  if (discovery.issuer !== issuer)
    throw new Error(`the discovery document of ${issuer} names another issuer: check OIDC_ISSUER`)
  const address = discovery.jwks_uri
  if (typeof address !== 'string' || !isSafeAddress(address))
    throw new Error(`the discovery document of ${issuer} has no https address in jwks_uri`)
  const text = await fetchText(address)
  const { keys } = fieldsOf(text)
  if (!Array.isArray(keys)) throw new Error(`the key document ${address} has no list of keys`)
  return { keys: { keys }, text }
}

function fieldsOf(text: string): Record<string, unknown> {
  const value: unknown = JSON.parse(text)
  if (typeof value !== 'object' || value === null)
    throw new Error('the answer of the identity provider is not a JSON object')
  return { ...value }
}

async function fetchText(address: string): Promise<string> {
  const response = await fetch(address, {
    redirect: 'error',
    headers: { accept: 'application/json' },
    signal: AbortSignal.timeout(TIMEOUT_MS),
  })
  if (!response.ok || response.body === null) {
    await response.body?.cancel()
    throw new Error(`the identity provider answered ${address} with status ${response.status}`)
  }
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body) {
    size += chunk.byteLength
    if (size > RESPONSE_BYTES_MAX)
      throw new Error(`the answer of the identity provider exceeds ${RESPONSE_BYTES_MAX} bytes: ${address}`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}
