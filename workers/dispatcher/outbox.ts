import { type Backoff, backoffMs } from '../../app/core/process/backoff.ts'
import type { Sql } from '../../drizzle/client.ts'
import { claimEffects, delayEffect, OUTBOX_BATCH, removeEffect } from './store.ts'

/** A stop that a runner does not answer is asked for again later, and at last no more; other effects then less often. */
export const EFFECT_TRIES = 20

/** Performs one effect. It may be performed again after a crash, so it is idempotent. */
export type Effect = (payload: Record<string, unknown>) => Promise<void>

/** Between two tries at first, and after `EFFECT_TRIES` of them. */
const RETRY: Backoff = { firstMs: 500, limitMs: 60_000 }
const RARELY_MS = 3_600_000

/**
 * Performs due effects: claims a batch in one statement, then holds no connection while it acts.
 * An effect that fails is due again later, for as long as it takes: what it clears up nobody else may ever find. Only one
 * that asks something of somebody who may be gone for good is given up, after its last try. True: there may be more.
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
