import { limits } from '../app/limits.ts'
import type { Sql } from '../drizzle/client.ts'

/** Performs one effect. It may be performed again after a crash, so it is idempotent. */
export type Effect = (payload: Record<string, unknown>) => Promise<void>

const RETRY_MAX_MS = 60_000

/**
 * Performs due effects: claims a batch in one statement, then holds no connection while it acts.
 * An effect that fails is due again later, and given up after so many tries. True: there may be more.
 */
export async function performDue(
  sql: Sql,
  effects: Readonly<Record<string, Effect>>,
  onError: (kind: string, error: unknown) => void,
): Promise<boolean> {
  const claimed = await sql<{ id: string; kind: string; payload: Record<string, unknown>; tries: number }[]>`
    update outbox set due_at = clock_timestamp() + ${limits.outboxClaimMs} * interval '1 millisecond', tries = tries + 1
    where id in (
      select id from outbox where due_at <= clock_timestamp() and kind = any(${Object.keys(effects)})
      order by due_at, id limit ${limits.outboxBatch} for update skip locked)
    returning id, kind, payload, tries`
  await Promise.all(
    claimed.map(async ({ id, kind, payload, tries }) => {
      try {
        await effects[kind]?.(payload)
        await sql`delete from outbox where id = ${id}`
      } catch (error) {
        onError(kind, error)
        if (tries >= limits.effectTries) {
          await sql`delete from outbox where id = ${id}`
          return
        }
        const delayMs = Math.min(RETRY_MAX_MS, 250 * 2 ** tries)
        await sql`update outbox set due_at = clock_timestamp() + ${delayMs} * interval '1 millisecond' where id = ${id}`
      }
    }),
  )
  return claimed.length === limits.outboxBatch
}
