// The service dies in the middle of a reaper tick, and the next tick finishes the work. Deleted runs leave no rows behind, and
// kept runs lose none.
import { randomUUID } from 'node:crypto'
import { expect, test } from '@playwright/test'
import type postgres from 'postgres'
import { holding, startTree, type Tree, until } from './tree.ts'

const OLD_RUNS = 3_000

let tree: Tree
let sql: postgres.Sql
test.beforeAll(async () => {
  tree = await startTree()
  sql = await tree.connect()
  // The reaper makes its first tick at the start.
  await until(lastTick, ({ last_run_at }) => last_run_at !== null)
})
test.afterAll(async () => {
  await sql.end({ timeout: 1 })
  await tree.stop()
})

for (const [name, table] of Object.entries({
  // Run histories are deleted together with their runs. A lock here stops the tick between a run's first row and its last.
  'inside the transaction of a batch': 'transition',
  // At this point all old runs are deleted, and the files of the lake are not.
  'between two duties': 'audit_entry',
}))
  test(`the next reaper tick recovers from a kill ${name}`, async () => {
    const pipeline = `kept_${table}`
    const recentRun = await success(pipeline)
    await addOldRuns(pipeline)
    const held = holding(await tree.connect(), `lock table ${table} in share mode`)
    await held.taken
    await sql`update reaper_status set last_run_at = null`
    // The kill interrupts this call, so its answer is ignored.
    void tree.call('POST', '/admin/retention/run').catch(() => {})
    await until(
      () => sql`
        select 1 from pg_stat_activity
        where datname = current_database() and application_name like 'sluice reaper%' and wait_event_type = 'Lock'`,
      (rows) => rows.length > 0,
    )
    process.kill(await tree.pidOf('api'), 'SIGKILL')
    await held.release()

    const { failures } = await until(lastTick, ({ last_run_at }) => last_run_at !== null)
    expect(failures).toEqual([])
    const runs = await sql<{ id: string }[]>`select id from run where pipeline = ${pipeline}`
    expect(runs.map(({ id }) => id)).toEqual([recentRun])
    expect(await orphans()).toEqual({ logs: 0, attempts: 0, results: 0, moves: 0 })
    expect(await rowsOf(pipeline)).toEqual([{ a: 1 }])
    const { body } = await tree.call<{ logs: unknown[] }>('GET', `/runs/${recentRun}/logs`)
    expect(body.logs.length).toBeGreaterThan(0)
    // The service continues as before.
    await success(pipeline)
  })

test('branches of deleted runs are deleted when old enough, and counted @reaper.branches', async () => {
  const [old, young] = [randomUUID(), randomUUID()]
  // A process that dies before its run is recorded leaves a branch like these.
  for (const [run, hours] of [
    [old, 7],
    [young, 5],
  ] as const)
    await sql`
      insert into lake_ref (name, state, base, run_id, attempt, created_at)
      select 'run-' || ${run}::text || '-1', 'open', max(number), ${run}::uuid, 1, clock_timestamp() - ${hours} * interval '1 hour'
      from lake_commit`
  const { status, body } = await tree.call<{ branches_cleaned: number }>('POST', '/admin/retention/run')
  expect([status, body.branches_cleaned]).toEqual([202, 1])
  const branches =
    await sql`select run_id from lake_ref where state = 'open' and run_id in ${sql([old, young])}`
  expect(branches).toEqual([{ run_id: young }])
})

const lastTick = async () =>
  (await tree.call<{ last_run_at: string | null; failures: string[] }>('GET', '/admin/retention/status')).body

/** Publishes the pipeline, which is made if necessary, and runs it. Returns the id of the successful run. */
async function success(name: string): Promise<string> {
  await tree.publish(name, 'select 1 as a')
  const id = await tree.requestRun(name)
  expect(await tree.ended(id)).toMatchObject({ status: 'success' })
  return id
}

/** Adds runs that failed half a year ago, with all rows that belong to them. */
async function addOldRuns(pipeline: string) {
  await sql.begin(async (tx) => {
    await tx`
      create temporary table old on commit drop as
      select gen_random_uuid() as id, clock_timestamp() - interval '200 days' - n * interval '1 minute' as at
      from generate_series(1, ${OLD_RUNS}) n`
    await tx`
      insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones, snapshot,
        machine_version, status, attempt, waiting, created_at, started_at, finished_at)
      select o.id, p.id, p.namespace, p.layer, p.name, 'sql', 'manual', '{}', '[]', '{}', 1, 'failed', 1, false, o.at, o.at, o.at
      from old o, pipeline p where p.name = ${pipeline}`
    await tx`
      insert into run_log (run_id, seq, at, level, message)
      select id, line, clock_timestamp(), 'info', 'a young line of an old run' from old, generate_series(1, 3) line`
    await tx`
      insert into run_attempt (run_id, attempt, pipeline_id, branch, base_commit, landing_watermark, runner_url, state)
      select o.id, 1, p.id, 'run-' || o.id || '-1', 0, 0, '', 'closed' from old o, pipeline p where p.name = ${pipeline}`
    await tx`
      insert into quality_result (run_id, pipeline_id, name, severity, status, value, duration_ms, created_at)
      select o.id, p.id, 'a-test', 'error', 'passed', 0, 1, o.at from old o, pipeline p where p.name = ${pipeline}`
    await tx`
      insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
      select 'run', id, at, 'requested', '', 'pending.waiting', '[]', 'manual' from old`
  })
}

/** Counts rows whose run no longer exists. */
async function orphans() {
  const [row] = await sql`
    select (select count(*)::int from run_log c where not exists (select from run where id = c.run_id)) as logs,
      (select count(*)::int from run_attempt c where not exists (select from run where id = c.run_id)) as attempts,
      (select count(*)::int from quality_result c where not exists (select from run where id = c.run_id)) as results,
      (select count(*)::int from transition c
        where c.machine = 'run' and not exists (select from run where id = c.entity_id)) as moves`
  return row
}

async function rowsOf(name: string): Promise<unknown> {
  // The API may still be looking for the query service, which restarted together with it.
  const { body } = await until(
    () => tree.call<{ rows: unknown[] }>('POST', '/query', { sql: `select a from gold.${name}` }),
    ({ status }) => status === 200,
  )
  return body.rows
}
