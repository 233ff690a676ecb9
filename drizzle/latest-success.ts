import type { Part, Sql, SqlTx } from './sql.ts'

/**
 * A join for each `trigger_dependency d`: adds the latest success on main of the live pipeline with that name, as `latest`.
 */
export const latestSuccess = (sql: Sql | SqlTx): Part => sql`
  left join lateral (
    select p.id from pipeline p
    where p.deleted_at is null and p.namespace = split_part(substr(d.source, 10), '.', 1)
      and p.layer = split_part(substr(d.source, 10), '.', 2) and p.name = split_part(substr(d.source, 10), '.', 3)
    limit 1) dp on true
  left join lateral (
    select r.id, r.finished_at from run r where r.pipeline_id = dp.id and r.status = 'success' and r.branch = 'main'
    order by r.finished_at desc, r.id desc limit 1) latest on true`
