import type { Sql } from '../../drizzle/client.ts'

/** A user who was not seen for this long uses no slot of the licence. */
export const ACTIVE_DAYS = 30

/** Records that a user was seen; false for a user without a slot. */
export async function touchUser(sql: Sql, userId: string): Promise<boolean> {
  const rows = await sql`
    update licensed_user set seen_at = now()
    where user_id = ${userId} and seen_at > now() - make_interval(days => ${ACTIVE_DAYS}) returning 1`
  return rows.length > 0
}

/** Gives a user a slot if one of `maxUsers` is free. Concurrent requests, even of other replicas, are serialized. */
export const claimUserSlot = (sql: Sql, { userId, maxUsers }: { userId: string; maxUsers: number }) =>
  sql.begin(async (tx) => {
    await tx`lock table licensed_user in share row exclusive mode`
    await tx`delete from licensed_user where seen_at <= now() - make_interval(days => ${ACTIVE_DAYS})`
    const rows = await tx`
      insert into licensed_user (user_id, seen_at)
      select ${userId}, now() where (select count(*) from licensed_user) < ${maxUsers}
        or exists (select from licensed_user where user_id = ${userId})
      on conflict (user_id) do update set seen_at = excluded.seen_at returning 1`
    return rows.length > 0
  })
