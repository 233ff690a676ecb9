import type { JSONValue } from 'postgres'
import type { Sql } from '../../drizzle/client.ts'
import type { Page } from '../core/pagination.ts'
import type { AuditEntry } from './schema.ts'

export interface NewEntry {
  id: string
  userId: string
  action: string
  resource: string
  ip: string
  peer: string
  status: number
  key: string
  /** Requests that the row counts. */
  count: number
  /** Time from the response to the insert, for entries that had to wait; otherwise 0. */
  ageMs: number
}

/** Inserts the entries with one statement, with times in the given order. For an existing entry, only the count changes. */
export async function insertEntries(sql: Sql, entries: readonly NewEntry[]): Promise<void> {
  await sql`
    insert into audit_entry (id, user_id, action, resource, ip, peer, status, key, count, created_at)
    select id, "userId", action, resource, ip, peer, status, key, count, clock_timestamp() - "ageMs" * interval '1 millisecond'
    from jsonb_to_recordset(${sql.json(entries as unknown as JSONValue)})
      as e(id uuid, "userId" text, action text, resource text, ip text, peer text, status int, key text, count int,
        "ageMs" float8)
    on conflict (id) do update set count = excluded.count`
}

/** Newest first, with the total. Entries before the page are skipped in the index. */
export async function listEntries(
  sql: Sql,
  { limit, offset }: Page,
): Promise<{ entries: AuditEntry[]; total: number }> {
  const rows = await sql<(Omit<AuditEntry, 'created_at'> & { created_at: Date; total: string })[]>`
    with counted as materialized (select count(*) as total from audit_entry),
    found as (select id from audit_entry order by created_at desc, id desc limit ${limit} offset ${offset})
    select counted.total, e.* from counted left join (
      select id, user_id, action, resource, detail, ip, peer, status, key, count, created_at from audit_entry
      where id = any(array(select id from found))) e on true
    order by e.created_at desc, e.id desc`
  return {
    entries: rows.flatMap(({ total: _, created_at, ...entry }) =>
      entry.id === null ? [] : [{ ...entry, created_at: created_at.toISOString() }],
    ),
    total: Number(rows[0]?.total),
  }
}
