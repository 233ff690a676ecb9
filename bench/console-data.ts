// The data behind bench/console-scale.ts: rows as the service itself writes them, many of them.
import { join } from 'node:path'
import type postgres from 'postgres'
import { store } from '../machines/advance.ts'
import { RUN_MACHINE_VERSION } from '../machines/run.ts'
import { newTrigger, TRIGGER_MACHINE_VERSION } from '../machines/trigger.ts'
import type { Client } from './client.ts'
import { storePipelines } from './stored-pipelines.ts'

export const PIPELINES = 10_000
export const RUNS = 1_000_000
/** The graph of one namespace has about 5,000 nodes. */
const NAMESPACES = 5
const ZONES = 250
const DAYS = 80
/** Columns of each table. */
const COLUMNS = 8
/** The newest runs have steps, log lines and test results. The reaper would have removed those of older runs. */
const DETAILED_RUNS = 20_000
const REVIEWS = 10
/** Pipelines with tests and a second version. */
const TESTED = 50
const SCHEDULES = 2_000
const TRIGGERS = 2_000
const BRANCHES = 30
const TAGS = 100

/** A small pipeline in `default.gold` whose runs really execute. */
export const LIVE = 'live'

const CONTEXT = {
  attempt: 1,
  lostRunners: 0,
  lostAlone: 0,
  lostTogether: 0,
  lostEngines: 0,
  conflicts: 0,
  retries: 0,
  proposed: null,
  approved: null,
}
const snapshotOf = (value: string | { running: string }, isOver = true) => ({
  value,
  status: isOver ? 'done' : 'active',
  context: CONTEXT,
})

export async function fillForConsole(sql: postgres.Sql, root: string, client: Client) {
  await storePipelines(sql, join(root, 'objects'), {
    pipelines: PIPELINES,
    namespaces: NAMESPACES,
    zones: ZONES,
  })
  await sql`
    update pipeline set description = 'Orders of the shop, cleaned and joined', created_at = created_at - interval '90 days',
      published_at = created_at, tags = array['daily', 'team-' || abs(hashtext(name)) % 20]`
  await sql`
    update lake_content set columns = (
      select jsonb_agg(jsonb_build_object('name', 'column_' || n, 'type', (array['BIGINT', 'VARCHAR', 'TIMESTAMP'])[1 + n % 3]))
      from generate_series(1, ${COLUMNS}) n)`
  await storeCommits(sql)
  await storeRuns(sql)
  await storeDetails(sql)
  await storeStarts(sql)
  // Leaves the tables in the state that autovacuum would produce.
  await sql`vacuum analyze`
  await useApi(sql, client)
}

/** One commit of main for each table. */
async function storeCommits(sql: postgres.Sql) {
  await sql`
    with numbered as (select *, row_number() over (order by name) as number from pipeline),
    moved as (
      update main_entry entry set from_commit = number from numbered p
      where (entry.namespace, entry.layer, entry.name) = (p.namespace, p.layer, p.name))
    insert into lake_commit (id, ref, number, base, message, tables)
    select gen_random_uuid(), 'main', number, number - 1, namespace || '.' || layer || '.' || name,
      array[namespace || '.' || layer || '.' || name]
    from numbered`
  await sql`
    update lake_ref set (number, head) = (select number, id from lake_commit order by number desc nulls last limit 1)
    where name = 'main'`
}

/** Runs of all pipelines, spread over the days, and some runs in review. */
async function storeRuns(sql: postgres.Sql) {
  await sql`
    with numbered as (
      select p.*, v.published_versions as pins, row_number() over (order by p.id) - 1 as number
      from pipeline p join pipeline_version v on v.pipeline_id = p.id)
    insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, version_number, pins, landing_zones,
      snapshot, machine_version, status, attempt, waiting, created_at, started_at, finished_at, duration_ms, rows_written, error,
      base_commit, merged_commit, traceparent)
    select of.id, p.id, p.namespace, p.layer, p.name, 'sql', (array['manual', 'schedule:0 * * * *', 'webhook'])[1 + n % 3], 1,
      p.pins, '[]', jsonb_set(${sql.json(snapshotOf('success'))}, '{value}', to_jsonb(of.status)), ${RUN_MACHINE_VERSION},
      of.status, 1, false, of.at, of.at, of.at + of.ms * interval '1 ms', of.ms,
      case of.status when 'success' then 10 + n % 1000000 end,
      case of.status when 'failed' then 'test known-customers failed: 17 rows have a customer that does not exist' end,
      p.number, case of.status when 'success' then p.number + 1 end,
      '00-' || replace(of.id::text, '-', '') || '-' || substr(md5(n::text), 1, 16) || '-00'
    from generate_series(1, ${RUNS}) n
    join numbered p on p.number = (hashint4(n) & 1048575) % ${PIPELINES}
    cross join lateral (
      select clock_timestamp() - ${DAYS} * interval '1 day' + n * ${DAYS / RUNS}::float8 * interval '1 day' as at) moment
    cross join lateral (
      select moment.at, 20 + (hashint4(n) & 32767) as ms,
        case when n % 50 = 0 then 'failed' when n % 200 = 1 then 'cancelled' else 'success' end as status,
        (lpad(to_hex((extract(epoch from moment.at) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 14))::uuid as id) of
    order by n`
  await sql`
    with reviewed as (
      insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, version_number, pins, landing_zones,
        snapshot, machine_version, status, phase, attempt, waiting, created_at, started_at, base_commit)
      select gen_random_uuid(), id, namespace, layer, name, 'sql', 'manual', 1, '{}', '[]',
        ${sql.json(snapshotOf({ running: 'review' }, false))}, ${RUN_MACHINE_VERSION}, 'running', 'review', 1, false,
        clock_timestamp(), clock_timestamp(), 1
      from pipeline order by id limit ${REVIEWS} returning id)
    insert into run_review (run_id, attempt, entered_at, expires_at, timeout_hours, four_eyes, tested_commit, rows_written,
      landing_file_ids, archives_landing_zones)
    select id, 1, clock_timestamp(), clock_timestamp() + interval '3 days', 72, false, gen_random_uuid(), 10, '{}', false
    from reviewed`
}

/** Steps, log lines and test results of the newest runs. */
async function storeDetails(sql: postgres.Sql) {
  const newest = sql`(select * from run where status in ('success', 'failed') order by created_at desc limit ${DETAILED_RUNS}) run`
  await sql`
    insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
    select 'run', run.id, run.created_at, step.event, step.from, coalesce(step.to, run.status), '[]', 'runner'
    from ${newest} cross join (values
      (1, 'requested', '', 'pending.waiting'), (2, 'start', 'pending.waiting', 'pending.starting'),
      (3, 'accepted', 'pending.starting', 'running.rendering'), (4, 'entered', 'running.rendering', 'running.executing'),
      (5, 'entered', 'running.executing', 'running.testing'), (6, 'executed', 'running.testing', null)) step (n, event, "from", "to")
    order by run.created_at, step.n`
  await sql`
    insert into run_log (run_id, seq, at, level, message)
    select id, 1001000 + line, created_at, 'info', 'line ' || line || ': read 120,000 rows of 12 files in 31 ms'
    from ${newest} cross join generate_series(1, 8) line`
  await sql`
    insert into quality_result (run_id, pipeline_id, name, severity, status, value, duration_ms, created_at)
    select id, pipeline_id, 'test-' || n, case n when 1 then 'warn' else 'error' end,
      case when n = 2 and status = 'failed' then 'failed' else 'passed' end, 0, 12, created_at
    from ${newest} cross join generate_series(1, 3) n`
}

/** Schedules and triggers. Nothing is due while the console is measured. */
async function storeStarts(sql: postgres.Sql) {
  await sql`
    insert into schedule (id, pipeline_id, cron, next_run_at)
    select gen_random_uuid(), id, '0 0 1 1 *', clock_timestamp() + interval '30 days'
    from pipeline order by name limit ${SCHEDULES}`
  const armed = { ...(store(newTrigger({ enabled: true, cooldownSeconds: 0 })) as object) }
  await sql`
    insert into trigger (id, pipeline_id, type, config, snapshot, machine_version, state, due_at)
    select gen_random_uuid(), id, 'cron', '{"cron_expr": "0 0 1 1 *"}', ${sql.json(armed)}, ${TRIGGER_MACHINE_VERSION}, 'armed',
      clock_timestamp() + interval '30 days'
    from pipeline order by name limit ${TRIGGERS}`
}

/** Tests, second versions, branches, tags and a pipeline that runs, all by requests. */
async function useApi(sql: postgres.Sql, { call, create, runToSuccess }: Client) {
  const tested = await sql<{ path: string }[]>`
    select '/pipelines/' || namespace || '/' || layer || '/' || name as path from pipeline
    where layer = 'bronze' order by name limit ${TESTED}`
  for (const { path } of tested) {
    const test = { name: 'has-rows', severity: 'warn', sql: 'select 1 from {{ this }} having count(*) = 0' }
    await call('POST', `${path}/tests`, test)
    await call('POST', `${path}/publish`, {})
  }
  for (let n = 0; n < BRANCHES; n++) await call('POST', '/branches', { name: `branch-${n}` })
  for (let n = 0; n < TAGS; n++) await call('POST', '/tags', { name: `tag-${n}` })
  await create(LIVE, 'select range as n from range(10)')
  await call('POST', `/pipelines/default/gold/${LIVE}/publish`, {})
  await runToSuccess(LIVE)
}
