// Reads the header `Idempotency-Key` and decides which requests are equal.
import { createHash } from 'node:crypto'
import { Type as t } from '@sinclair/typebox'
import { targetOf } from '../wire/target.ts'
import { exchangeOf } from './exchange.ts'
import type { IdempotencyKey } from './idempotency.ts'

/** Declared as `headers` by every route that accepts the key. */
export const IdempotencyHeaders = t.Object({
  'idempotency-key': t.Optional(
    t.String({
      pattern: '^[\\x20-\\x7e]{1,255}$',
      description:
        'A name for the request, 1 to 255 printable ASCII characters; a repetition gets the first response',
      examples: ['2f1c1a52-nightly-2026-03-01'],
    }),
  ),
})
export type IdempotencyHeaders = typeof IdempotencyHeaders.static

/** The key of a request whose body is known only after it was received. */
export type KeyOf = (body: object) => IdempotencyKey | null
export const withoutKey: KeyOf = () => null

/**
 * Null: no key was sent, so every repetition is performed. `input` is the body after its schema, or a value that represents the
 * body.
 */
export function idempotencyKeyOf(
  request: Request,
  headers: IdempotencyHeaders,
  input: object,
): IdempotencyKey | null {
  const key = headers['idempotency-key']
  if (key === undefined) return null
  const { route, identity } = exchangeOf(request)
  return {
    caller: identity?.userId ?? '',
    operation: `${route.method} ${route.pattern}`,
    key,
    requestHash: hashOf([targetOf(request.url).path, input]),
  }
}

/** The order of fields does not matter. */
const hashOf = (value: unknown) =>
  createHash('sha256')
    .update(JSON.stringify(value, (_, inner: unknown) => (isFields(inner) ? sorted(inner) : inner)))
    .digest('hex')

const isFields = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const sorted = (fields: Record<string, unknown>) =>
  Object.fromEntries(Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1)))
