// For tests: rows of any age, and a reaper that writes without a leader.
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import { cutoffsAt } from '../../machines/retention.ts'
import type { PipelineRef } from '../core/pipeline-ref.ts'
import { nothingReaped, type ReaperObjects, type Reaping } from './store/reaping.ts'
import { tickState } from './store/tick.ts'

const none = () => Promise.reject(new Error('this test has no object store'))
const noObjects: ReaperObjects = {
  list: none,
  versions: none,
  read: none,
  put: none,
  remove: none,
  removeVersion: none,
}

/** A reaper with the present time of the database and the stored settings. Never pauses. */
export async function reapingNow(sql: Sql, objects: ReaperObjects = noObjects): Promise<Reaping> {
  const { config, now } = await tickState(sql)
  return {
    sql,
    async write(work) {
      const done = await sql.begin(async (tx) => ({ value: await work(tx) }))
      return done.value
    },
    objects,
    config,
    now,
    cutoffs: cutoffsAt(now.getTime(), config),
    branchMaxIdleDays: null,
    reaped: nothingReaped(),
    linesGone: [],
    busyTables: null,
    dryRun: null,
    pause: async () => {},
    checkRunning: () => {},
  }
}

interface SomeRuns {
  pipelineId: string
  pipeline: PipelineRef
  count: number
  status: string
  /** Age of the newest run in days. The runs are an hour apart. */
  daysAgo: number
  logLines?: number
}

/** Adds runs, each with a log, an attempt, a file, a result and a history. Returns their ids, oldest first. */
export async function addRuns(sql: Sql, { pipelineId, pipeline, ...some }: SomeRuns): Promise<string[]> {
  const { count, status, daysAgo, logLines = 3 } = some
  const isActive = status === 'pending' || status === 'running'
  return sql.begin(async (tx) => {
    const rows = await tx<{ id: string }[]>`
      insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones, snapshot,
        machine_version, status, attempt, waiting, created_at, started_at, finished_at)
      select ${idAt(tx)}, ${pipelineId}, ${pipeline.namespace}, ${pipeline.layer}, ${pipeline.name}, 'sql', 'manual', '{}',
        '[]', '{}', 1, ${status}, 1, ${status === 'pending'}, at.created_at, at.created_at,
        ${isActive ? null : tx`at.created_at + interval '1 second'`}
      from generate_series(1, ${count}) n
      cross join lateral (select clock_timestamp() - ${daysAgo} * interval '1 day' - (${count} - n) * interval '1 hour'
        as created_at) at
      returning id`
    const ids = rows.map(({ id }) => id)
    const of = tx`from run r where r.id = any(${ids}::uuid[])`
    await tx`insert into run_log (run_id, seq, at, level, message)
      select r.id, line, r.created_at, 'info', 'line ' || line from generate_series(1, ${logLines}) line, run r where r.id = any(${ids}::uuid[])`
    await tx`insert into run_attempt (run_id, attempt, pipeline_id, branch, base_commit, landing_watermark, runner_url, state)
      select r.id, 1, r.pipeline_id, 'run-' || r.id || '-1', 0, 0, '', 'closed' ${of}`
    await tx`insert into run_file (run_id, attempt, landing_file_id, zone_id)
      select r.id, 1, gen_random_uuid(), gen_random_uuid() ${of}`
    await tx`insert into quality_result (run_id, pipeline_id, name, severity, status, value, duration_ms, created_at)
      select r.id, r.pipeline_id, 'a-test', 'error', 'passed', 0, 1, r.created_at ${of}`
    await tx`insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
      select 'run', r.id, r.created_at, 'requested', '', 'pending.waiting', '[]', 'manual' ${of}`
    return ids
  })
}

/** Version 7 ids for the time of each run. */
const idAt = (sql: SqlTx) => sql`
  (lpad(to_hex((extract(epoch from at.created_at) * 1000)::bigint), 12, '0') || '7' ||
    substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid`

/** The number of rows of these runs in each table. */
export async function rowsOf(sql: Sql, ids: readonly string[]) {
  const [row] = await sql`
    select (select count(*)::int from run where id = any(${ids as string[]}::uuid[])) as runs,
      (select count(*)::int from run_log where run_id = any(${ids as string[]}::uuid[])) as logs,
      (select count(*)::int from run_attempt where run_id = any(${ids as string[]}::uuid[])) as attempts,
      (select count(*)::int from run_file where run_id = any(${ids as string[]}::uuid[])) as files,
      (select count(*)::int from quality_result where run_id = any(${ids as string[]}::uuid[])) as results,
      (select count(*)::int from transition where entity_id = any(${ids as string[]}::uuid[])) as moves`
  return row
}

export const runsLeft = async (sql: Sql, ids: readonly string[]): Promise<string[]> =>
  (
    await sql<{ id: string }[]>`
      select id from run where id = any(${ids as string[]}::uuid[]) order by created_at, id`
  ).map(({ id }) => id)
