// Finds commits of main whose tables are all kept: recent commits, and commits on which a tag or an open branch is based.
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import { computed, only, select } from '../../../drizzle/rows.ts'

/** A point in the history of main: a commit number, a time, or a tag. */
export type AsOf = { commit: number } | { time: Date } | { tag: string }

type KeptCommit = {
  /** Null: unknown, or no longer kept. */
  commit: number | null
  /** From this commit on, the tables of every commit are kept. */
  oldest: number
}

const KEPT = {
  commit: computed<number | null>('kept.commit::float8'),
  oldest: computed<number>('main.oldest::float8'),
}

/**
 * Finds the commit of main at this point. With `isLocked`, the lock on main keeps the reaper from deleting the
 * commit's history before the transaction ends.
 */
export async function keptCommit(sql: Sql | SqlTx, asOf: AsOf, isLocked = false): Promise<KeptCommit> {
  const wanted =
    'commit' in asOf
      ? sql`select ${asOf.commit}::bigint`
      : 'tag' in asOf
        ? sql`select base from lake_ref where name = ${asOf.tag} and kind = 'tag'`
        : sql`select coalesce(
            (select c.number from lake_commit c where c.number is not null and c.created_at <= ${asOf.time}
              order by c.number desc limit 1),
            (select 0 from lake_ref where name = 'main' and created_at <= ${asOf.time}))`
  const before = sql`
    with main as materialized (
      select number, coalesce(base, 0) as oldest from lake_ref where name = 'main' ${isLocked ? sql`for share` : sql``}),
    wanted as (select (${wanted})::bigint as commit)`
  return only(
    await select(sql, KEPT, before)`
      from main left join lateral (
        select wanted.commit from wanted
        where wanted.commit <= main.number and (wanted.commit >= main.oldest or exists (
          select from lake_ref f where f.state = 'open' and f.kind in ('user', 'tag') and f.base = wanted.commit))
      ) kept on true`,
  )
}
