// Statements about the state of a pipeline, shared by several stores. Only its runs on main count.
import type { Part, Sql, SqlTx } from './sql.ts'

/** The end of a statement `select ...`: the latest run on main of a pipeline, in any state. */
export const latestOnMain = (sql: Sql | SqlTx, pipelineId: Part): Part => sql`
  from run where run.pipeline_id = ${pipelineId} and run.branch = 'main'
  order by run.created_at desc, run.id desc limit 1`

/**
 * The end of a statement `select ...`: the verdict on a pipeline, which is its latest run on main that succeeded or failed. Only a
 * later run with such an end settles a failure.
 */
export const verdictOnMain = (sql: Sql | SqlTx, pipelineId: Part): Part => sql`
  from run where run.pipeline_id = ${pipelineId} and run.branch = 'main' and run.status in ('success', 'failed')
  order by run.created_at desc, run.id desc limit 1`
