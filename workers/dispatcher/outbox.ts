import type { Sql } from '../../drizzle/client.ts'
import { type Backoff, backoffMs } from '../../ground/process/backoff.ts'
import { claimEffects, delayEffect, OUTBOX_BATCH, removeEffect } from './store.ts'

/** A cancel that a runner does not answer is dropped after this many tries. Other effects then retry hourly. */
export const EFFECT_TRIES = 20

/** Performs one effect. It may be performed again after a crash, so it is idempotent. */
export type Effect = (payload: Record<string, unknown>) => Promise<void>

/** Delay between tries, before and after the first `EFFECT_TRIES` tries. */
const RETRY: Backoff = { firstMs: 500, limitMs: 60_000 }
const RARELY_MS = 3_600_000

/**
 * Performs due effects. It claims a batch in one statement and holds no connection during the effects. A failed effect is
 * retried without limit, because no other part may ever find the data that it cleans up. `lastTry` limits the tries of effects
 * that call a peer which may be gone forever. True: more effects may be due.
 */
export async function performDue(
  sql: Sql,
  effects: Readonly<Record<string, Effect>>,
  onError: (kind: string, error: unknown) => void,
  lastTry = Number.POSITIVE_INFINITY,
): Promise<boolean> {
  const claimed = await claimEffects(sql, Object.keys(effects))
  await Promise.all(
    claimed.map(async ({ id, kind, payload, tries }) => {
      try {
        await effects[kind]?.(payload)
        await removeEffect(sql, id)
      } catch (error) {
        onError(kind, error)
        if (tries >= lastTry) return removeEffect(sql, id)
        const delayMs = tries < EFFECT_TRIES ? backoffMs(tries, RETRY) : RARELY_MS
        await delayEffect(sql, id, delayMs)
      }
    }),
  )
  return claimed.length === OUTBOX_BATCH
}
