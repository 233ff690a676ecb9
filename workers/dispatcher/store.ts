import type { Sql } from '../../drizzle/client.ts'

/** Effects one pass claims, and how long a claim holds before another may try. */
export const OUTBOX_BATCH = 32
const OUTBOX_CLAIM_MS = 30_000

export interface DueEffect {
  /** int8 as text. */
  id: string
  kind: string
  payload: Record<string, unknown>
  /** This one included. */
  tries: number
}

/** Claims effects of these kinds that are due, at most one batch: nobody else claims them for `OUTBOX_CLAIM_MS`. */
export const claimEffects = (sql: Sql, kinds: string[]): Promise<DueEffect[]> => sql<DueEffect[]>`
  update outbox set due_at = clock_timestamp() + ${OUTBOX_CLAIM_MS} * interval '1 millisecond', tries = tries + 1
  where id in (
    select id from outbox where due_at <= clock_timestamp() and kind = any(${kinds})
    order by due_at, id limit ${OUTBOX_BATCH} for update skip locked)
  returning id, kind, payload, tries`

export async function removeEffect(sql: Sql, id: string): Promise<void> {
  await sql`delete from outbox where id = ${id}`
}

export async function delayEffect(sql: Sql, id: string, delayMs: number): Promise<void> {
  await sql`update outbox set due_at = clock_timestamp() + ${delayMs} * interval '1 millisecond' where id = ${id}`
}

/** The runs of this replica are orphans from now on. */
export async function forgetReplica(sql: Sql, name: string): Promise<void> {
  await sql`delete from replica where name = ${name}`
}

/** The runs of every earlier dispatcher of this process are orphans from now on. */
export async function forgetReplicasOf(sql: Sql, processId: string): Promise<void> {
  await sql`delete from replica where starts_with(name, ${processId})`
}
