import type { Sql } from '../../drizzle/client.ts'

/** Effects per pass, and the time until another process may claim the same effect. */
export const OUTBOX_BATCH = 32
const OUTBOX_CLAIM_MS = 30_000

interface DueEffect {
  /** int8 as text. */
  id: string
  kind: string
  payload: Record<string, unknown>
  /** The number of tries, including this one. */
  tries: number
}

/** Claims at most one batch of due effects of these kinds. The claim is exclusive for `OUTBOX_CLAIM_MS`. */
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

/** Deletes the row of a replica, which makes its runs orphans. */
export async function forgetReplica(sql: Sql, name: string): Promise<void> {
  await sql`delete from replica where name = ${name}`
}

/** Deletes the rows of every earlier dispatcher of this process, which makes their runs orphans. */
export async function forgetReplicasOf(sql: Sql, processId: string): Promise<void> {
  await sql`delete from replica where starts_with(name, ${processId})`
}
