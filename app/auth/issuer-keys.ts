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
import type { Clock } from '../core/clock.ts'
import { unavailable } from '../core/errors.ts'
import { isSafeAddress } from '../core/safe-address.ts'

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
const ANSWER_BYTES = 262_144

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

export interface IssuerKeysDeps {
  issuer: string
  clock: Clock
  /** Called when a fetch failed. */
  onFailure(error: unknown): void
}

interface Known {
  find: ReturnType<typeof createLocalJWKSet>
  text: string
  askedMs: number
}

export function makeIssuerKeys({ issuer, clock, onFailure }: IssuerKeysDeps): IssuerKeys {
  let known: Known | null = null
  let askedMs = Number.NEGATIVE_INFINITY
  let asking: Promise<void> | null = null
  let version = 0

  const isUsable = () => known !== null && clock.elapsed() - known.askedMs < USABLE_MS
  const mayAsk = () => clock.elapsed() - askedMs >= (known === null ? RETRY_MS : FETCH_EVERY_MS)

  /** One fetch at a time, shared by all callers that wait. A failure keeps the known keys. */
  function ask(): Promise<void> {
    if (asking !== null) return asking
    askedMs = clock.elapsed()
    asking = fetchKeys(issuer)
      .then(({ keys, text }) => {
        if (known?.text !== text) version += 1
        known = { find: createLocalJWKSet(keys), text, askedMs }
      })
      .catch(onFailure)
      .finally(() => {
        asking = null
      })
    return asking
  }

  async function find(header: JWSHeaderParameters, token: FlattenedJWSInput): Promise<CryptoKey> {
    if (!isUsable()) {
      if (asking !== null || mayAsk()) await ask()
      if (!isUsable()) throw unavailable('the identity provider')
    }
    try {
      return await keysNow()(header, token)
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey) || (asking === null && !mayAsk())) throw error
      await ask()
      return keysNow()(header, token)
    }
  }

  function keysNow() {
    if (known === null) throw unavailable('the identity provider')
    return known.find
  }

  return {
    find,
    version() {
      if (known !== null && clock.elapsed() - known.askedMs > FRESH_MS && mayAsk()) void ask()
      return isUsable() ? version : null
    },
  }
}

async function fetchKeys(issuer: string): Promise<{ keys: JSONWebKeySet; text: string }> {
  const discovery = fieldsOf(await fetchText(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`))
  if (discovery.issuer !== issuer) throw new Error(`the identity provider calls itself another issuer`)
  const address = discovery.jwks_uri
  if (typeof address !== 'string' || !isSafeAddress(address))
    throw new Error('the identity provider names no safe address of its keys')
  const text = await fetchText(address)
  const { keys } = fieldsOf(text)
  if (!Array.isArray(keys)) throw new Error('the identity provider has no list of keys')
  return { keys: { keys }, text }
}

function fieldsOf(text: string): Record<string, unknown> {
  const value: unknown = JSON.parse(text)
  if (typeof value !== 'object' || value === null) throw new Error('the identity provider answers no object')
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
    throw new Error(`the identity provider answers ${response.status}`)
  }
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body) {
    size += chunk.byteLength
    if (size > ANSWER_BYTES) throw new Error('the identity provider answers too much')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}
