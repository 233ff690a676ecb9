// Catalog queries for the duty that removes unreferenced lake files.
import { alias } from 'drizzle-orm/pg-core'
import type { Sql } from '../../../drizzle/client.ts'
import { COUNT, computed, only, select } from '../../../drizzle/rows.ts'
import { lakeContents } from '../../../drizzle/schema/catalog.ts'
import { runs } from '../../../drizzle/schema/run.ts'
import type { Layer, TableName } from '../../../ground/names.ts'
import { isReadable, replacedAt, standsOn } from './history.ts'

const r = alias(runs, 'r')
const WRITTEN = {
  namespace: r.namespace,
  layer: computed<Layer>('r.layer'),
  name: r.pipeline,
  since: computed<Date>('min(f.created_at)'),
}

/** Tables whose branches are open or were closed after `closedAfter`. `since` is the opening time of the oldest such branch. */
export const branchesSince = (sql: Sql, closedAfter: Date) => select(sql, WRITTEN)`
  from lake_ref f join run r on r.id = f.run_id
  where f.name <> 'main' and (f.state = 'open' or f.closed_at > ${closedAfter})
  group by r.namespace, r.layer, r.pipeline`

export const databaseTime = async (sql: Sql): Promise<Date> =>
  only(await select(sql, { now: computed<Date>('clock_timestamp()') })``).now

/** The number of tables on main. */
export const countTables = async (sql: Sql): Promise<number> =>
  only(await select(sql, { tables: COUNT })`from main_entry where to_commit is null`).tables

/**
 * A state of a table. `isWhole` is true when the state is current, or was current after `graceFrom`. The same
 * holds for states of a branch that is readable, or was readable after `graceFrom`. States at the base of an open branch or a tag are
 * whole too.
 */
const STATE = {
  contentId: alias(lakeContents, 'c').id,
  kind: alias(lakeContents, 'c').kind,
  location: alias(lakeContents, 'c').metadataLocation,
  snapshotId: alias(lakeContents, 'c').snapshotId,
  isWhole: computed<boolean>('state."isWhole"'),
}

/**
 * The states of a table, and those of its later names, which still use files of the directory of this name. Returns the newest
 * states first, because later metadata lists most of the earlier states.
 */
export const statesOf = (sql: Sql, { namespace, layer, name }: TableName, graceFrom: Date) => select(
  sql,
  STATE,
  sql`
  with recursive named as (
    select ${namespace}::text as namespace, ${layer}::text as layer, ${name}::text as name
    union
    select r.to_namespace, r.to_layer, r.to_name from lake_rename r join named using (namespace, layer, name))`,
)`
  from (
    select e.content_id, e.from_commit, e.to_commit is null or replaced.at > ${graceFrom}
      or exists (select from lake_ref f where ${standsOn(sql)}) as "isWhole"
    from (select * from main_entry where (namespace, layer, name) in (select * from named)) e
    left ${replacedAt(sql)}
    union all
    select unnest(array[b.content_id, b.base_content]), null, true from branch_entry b
    join lake_ref f on f.name = b.ref and (${isReadable(sql)} or f.closed_at > ${graceFrom})
    where (b.namespace, b.layer, b.name) in (select * from named)) state
  join lake_content c on c.id = state.content_id
  order by state."isWhole" desc, state.from_commit desc nulls first`
