// Token buckets: each client has a bucket, which refills over time. An LRU cache holds the buckets; an evicted bucket is full.

import { LRUCache } from 'lru-cache'
import type { Clock } from '../core/clock.ts'
import { AppError } from '../core/errors.ts'
import type { Identity } from '../core/identity.ts'
import { limits } from '../core/limits.ts'
import { isForwarded, type Sender } from './client-address.ts'
import type { Route } from './route-table.ts'

export interface RateLimit {
  /** Sustained requests per second of a client; `burst` is the maximum at once. */
  perSecond: number
  burst: number
}

export interface Allowance {
  limit: number
  remaining: number
  /** 0: the request may be answered. */
  retryAfterSeconds: number
}

export interface Buckets {
  /** Takes a token, if one is left. */
  consume(client: string): Allowance
  /** The state of the bucket, without taking a token. */
  look(client: string): Allowance
}

export function makeBuckets(
  { perSecond, burst }: RateLimit,
  { clock, kept = limits.cachedBuckets }: { clock: Clock; kept?: number },
): Buckets {
  const buckets = new LRUCache<string, { tokens: number; atMs: number }>({ max: kept })

  function tokensOf(client: string, nowMs: number) {
    const bucket = buckets.peek(client)
    if (bucket === undefined) return burst
    return Math.min(burst, bucket.tokens + (Math.max(0, nowMs - bucket.atMs) / 1_000) * perSecond)
  }

  const allowance = (tokens: number, isGranted: boolean): Allowance => ({
    limit: burst,
    remaining: Math.max(0, Math.floor(tokens)),
    retryAfterSeconds: isGranted ? 0 : Math.max(1, Math.ceil((1 - tokens) / perSecond)),
  })

  return {
    consume(client) {
      const nowMs = clock.elapsed()
      const tokens = tokensOf(client, nowMs)
      const isGranted = tokens >= 1
      const tokensLeft = isGranted ? tokens - 1 : tokens
      buckets.set(client, { tokens: tokensLeft, atMs: nowMs })
      return allowance(tokensLeft, isGranted)
    },
    look(client) {
      const tokens = tokensOf(client, clock.elapsed())
      return allowance(tokens, tokens >= 1)
    },
  }
}

/**
 * Limit of wrong credentials behind one proxy, as a multiple of the limit of one client. One client cannot exhaust the limit of
 * its proxy; two can. Requests through that proxy then get 429 for a wrong credential, and for a short credential that was not
 * used before. All other credentials still work.
 */
const PROXY_FAILURES_FACTOR = 2
/** The same factor for webhook tokens. Tokens have 256 random bits, and systems of many owners call them through one proxy. */
export const PROXY_WEBHOOK_FAILURES_FACTOR = 10

/** Limits of wrong credentials per minute: for the client's address, and for the proxy that forwards it. */
export interface Failures {
  /** Counts a wrong credential. `isGuess` is false for a credential that cannot be a guess, such as an expired token. */
  consume(sender: Sender, isGuess?: boolean): Allowance
  /** The limit of the client's address, without counting. */
  look(sender: Sender): Allowance
  /** The limit of the proxy that forwards the request, without counting. */
  lookAtProxy(sender: Sender): Allowance
}

export function makeFailures(
  { authFailures }: { authFailures: number | null },
  clock: Clock,
  proxyFactor = PROXY_FAILURES_FACTOR,
): Failures | null {
  if (authFailures === null) return null
  const bucketsOf = (perMinute: number) =>
    makeBuckets({ perSecond: perMinute / 60, burst: perMinute }, { clock })
  const clients = bucketsOf(authFailures)
  const proxies = bucketsOf(authFailures * proxyFactor)
  return {
    consume(sender, isGuess = true) {
      const allowed = clients.consume(networkOf(sender.address))
      if (allowed.retryAfterSeconds > 0 || !isGuess || !isForwarded(sender)) return allowed
      const ofProxy = proxies.consume(networkOf(sender.peer))
      return ofProxy.retryAfterSeconds > 0 ? ofProxy : allowed
    },
    look: ({ address }) => clients.look(networkOf(address)),
    lookAtProxy: (sender) => proxies.look(isForwarded(sender) ? networkOf(sender.peer) : ''),
  }
}

/** Counts a request and returns its allowance; null: the request is not counted. */
export type LimitRequest = (
  route: Route | null,
  identity: Identity | null,
  address: () => string,
) => Allowance | null

/**
 * Each of these requests occupies an engine. They also count in a second bucket of the client, a fifth as large as the bucket
 * for all requests.
 */
const COSTLY = new Set([
  'POST /api/v1/query',
  'POST /api/v1/pipelines/:ns/:layer/:name/preview',
  'GET /api/v1/tables/:ns/:layer/:name/preview',
  'POST /api/v1/pipelines/:ns/:layer/:name/tests/run',
])
const COSTLY_SHARE = 5
/** An engine reads a table by thousands of ranges of its files, so S3 requests count in a bucket that is larger by this. */
const FILES_FACTOR = 20

/** Counts requests to the API. Probes, pages, runners and webhooks have limits of their own or need none. */
export function makeLimitRequest(rateLimit: RateLimit | null, clock: Clock): LimitRequest {
  if (rateLimit === null) return () => null
  const all = makeBuckets(rateLimit, { clock })
  const costly = makeBuckets(
    {
      perSecond: rateLimit.perSecond / COSTLY_SHARE,
      burst: Math.max(1, Math.floor(rateLimit.burst / COSTLY_SHARE)),
    },
    { clock },
  )
  const files = makeBuckets(
    { perSecond: rateLimit.perSecond * FILES_FACTOR, burst: rateLimit.burst * FILES_FACTOR },
    { clock },
  )
  return (route, identity, address) => {
    // An engine that works for the service is no client of its own.
    if (identity === null || identity.kind === 'work') return null
    const client = clientOf(identity, address)
    if (route?.pattern.startsWith('/s3/')) return files.consume(client)
    const allowed = all.consume(client)
    if (allowed.retryAfterSeconds > 0 || route === null) return allowed
    return COSTLY.has(`${route.method} ${route.pattern}`) ? costly.consume(client) : allowed
  }
}

function clientOf({ kind, userId, name }: Identity, address: () => string) {
  switch (kind) {
    case 'user':
      return `user ${userId}`
    case 'api-key':
      return `key ${name}`
    case 'anonymous':
    case 'work':
      return networkOf(address())
  }
}

/** An IPv6 client has 2^64 addresses, so its network is counted. */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address
  const [head = '', tail] = address.split('::')
  const groups = head === '' ? [] : head.split(':')
  const after = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - groups.length - after.length)
  return [...groups, ...Array.from({ length: zeros }, () => '0'), ...after].slice(0, 4).join(':')
}

export const tooManyRequests = (why: string, retryAfterSeconds: number) =>
  new AppError(429, 'RATE_LIMITED', why, { headers: { 'retry-after': String(retryAfterSeconds) } })

/** Adds the state of the client's bucket to the headers of a response. */
export function setAllowanceHeaders(headers: Headers, { limit, remaining }: Allowance) {
  headers.set('ratelimit-limit', String(limit))
  headers.set('ratelimit-remaining', String(remaining))
}
