// How many rows the large tables have, exactly and at once. Triggers (migration 0004_counts) add a row of differences in the
// transaction of every statement that changes such a table: writers never wait for each other, and a count is a sum over
// what its snapshot sees. Folding replaces differences by their sum, in one statement, so that no snapshot sees both or
// neither; who folds beside another folds what is left.
import type { Sql } from '../../drizzle/client.ts'

/** So many differences are summed in less time than a fold takes. */
const LEFT_ALONE = 128
/** Differences one fold takes: after a standstill, the rest is for the next ones. */
const FOLDED_AT_ONCE = 100_000
/** What comes meanwhile, under the heaviest load some thousands, is summed by every reader. */
const FOLD_EVERY_MS = 1_000
const FOLD_LOCK = 7_340_921_002

/** Answers how many differences there were; when they were few they are left as they are. */
export async function foldCounts(sql: Sql): Promise<number> {
  return (await foldRows(sql)) + (await foldHours(sql))
}

async function foldRows(sql: Sql): Promise<number> {
  const [waiting] = await sql<{ differences: number }[]>`
    select count(*)::int as differences from row_count where not is_sum`
  const differences = waiting?.differences ?? 0
  if (differences <= LEFT_ALONE) return differences
  await sql`
    with mine as materialized (select pg_try_advisory_xact_lock(${FOLD_LOCK}) as locked),
    folded as (
      delete from row_count where ctid = any(array(
        (select ctid from row_count where not is_sum and (select locked from mine) limit ${FOLDED_AT_ONCE})
        union all
        select ctid from row_count where is_sum and (select locked from mine)))
      returning of, namespace, layer, status, rows)
    insert into row_count (of, namespace, layer, status, rows, is_sum)
    select of, namespace, layer, status, sum(rows), true from folded
    group by of, namespace, layer, status having sum(rows) <> 0`
  return differences
}

/** Of the hours, of which there may be many thousands, only those are written that have changed. */
async function foldHours(sql: Sql): Promise<number> {
  const [waiting] = await sql<{ differences: number }[]>`
    select count(*)::int as differences from run_hour where not is_sum`
  const differences = waiting?.differences ?? 0
  if (differences <= LEFT_ALONE) return differences
  await sql`
    with mine as materialized (select pg_try_advisory_xact_lock(${FOLD_LOCK}) as locked),
    taken as materialized (
      select ctid as place, hour from run_hour where not is_sum and (select locked from mine) limit ${FOLDED_AT_ONCE}),
    folded as (
      delete from run_hour where ctid = any(array(
        select place from taken
        union all
        select ctid from run_hour where is_sum and hour in (select hour from taken)))
      returning hour, rows)
    insert into run_hour (hour, rows, is_sum) select hour, sum(rows), true from folded group by hour having sum(rows) <> 0`
  return differences
}

/** Folds again and again, on every replica; `stop` resolves when the fold under way has ended. */
export function startFolding(sql: Sql, onError: (error: unknown) => void): { stop(): Promise<void> } {
  let isStopped = false
  let folding: Promise<unknown> = Promise.resolve()
  let timer: NodeJS.Timeout
  const later = () => {
    timer = setTimeout(() => {
      folding = foldCounts(sql)
        .catch(onError)
        .then(() => isStopped || later())
    }, FOLD_EVERY_MS)
  }
  later()
  return {
    async stop() {
      isStopped = true
      clearTimeout(timer)
      await folding
    },
  }
}
