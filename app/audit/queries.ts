import type { JSONValue } from 'postgres'
import type { Sql } from '../../drizzle/client.ts'
import type { Page } from '../http/pagination.ts'
import type { AuditEntry } from './schema.ts'

export interface NewEntry {
  id: string
  userId: string
  action: string
  resource: string
  ip: string
  /** How long before the insert the request was answered, where that matters. */
  ageMs: number
}

/** One statement, with times in the order given; entries that are there already stay as they are. */
export async function insertEntries(sql: Sql, entries: readonly NewEntry[]): Promise<void> {
  await sql`
    insert into audit_entry (id, user_id, action, resource, ip, created_at)
    select id, "userId", action, resource, ip, clock_timestamp() - "ageMs" * interval '1 millisecond'
    from jsonb_to_recordset(${sql.json(entries as unknown as JSONValue)})
      as e(id uuid, "userId" text, action text, resource text, ip text, "ageMs" float8)
    on conflict (id) do nothing`
}

/** Newest first. Nothing is counted: the log may have many millions of entries. */
export async function listEntries(
  sql: Sql,
  { limit, offset }: Page,
): Promise<{ entries: AuditEntry[]; hasMore: boolean }> {
  const rows = await sql<(Omit<AuditEntry, 'created_at'> & { created_at: Date })[]>`
    select id, user_id, action, resource, detail, ip, created_at from audit_entry
    order by created_at desc, id desc limit ${limit + 1} offset ${offset}`
  const entries = rows.slice(0, limit).map((row) => ({ ...row, created_at: row.created_at.toISOString() }))
  return { entries, hasMore: rows.length > limit }
}
