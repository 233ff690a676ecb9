// Measures the reaper over four million rows: 400,000 old runs with their logs. The benchmark starts it over HTTP while the API
// is used. The limit uses the same Postgres in the same benchmark. It deletes rows by `ctid` from a copy of the log, in
// transactions of the same size.
//
// The API's durations under a steady load are measured in consecutive windows on one database: before the reaper, with it, and
// without it again. The last window shows the noise of this machine. Each round of the reaper removes a share of the old rows.
import postgres from 'postgres'
import { startService } from '../tools/service/service.ts'
import { databaseUrlOf } from './client.ts'
import { figuresOf, printFigures } from './figures.ts'
import { addPublished } from './pipelines.ts'
import type { Caller } from './requests.ts'
import { type Samples, startSteadyLoad } from './steady-load.ts'

const PIPELINES = 200
const OLD_RUNS = 400_000
const LINES_PER_RUN = 9
/** Recent runs that the reaper keeps, so that the API lists the same rows before and after. */
const YOUNG_RUNS = 20_000
/** Limit of runs per pipeline, too high to remove any run by count. */
const KEPT = 1_000_000
const COPIED_LINES = 400_000
const BATCH_ROWS = 2_500
/** Requests per second of each kind. */
const REQUESTS_PER_SECOND = 100
const WINDOW_MS = 3_500
/** Retention in days, one value per round. The old runs are 100 to 300 days old. */
const ROUNDS_DAYS = [250, 200, 150, 90]
const BEFORE = 'before'

type Sql = postgres.Sql

export async function benchReaper() {
  const service = await startService({ LOG_FORMAT: 'text', RUNNER_URLS: 'none' })
  const sql = postgres(databaseUrlOf(service.dataDir), { max: 2, onnotice: () => {} })
  try {
    await reap()
    const names = await addPublished(sql, PIPELINES)
    await fill(sql)
    const limitMs = await plainDelete(sql)
    await sql`checkpoint`

    const load = startSteadyLoad(service.url, kindsOf(names, await youngRuns(sql)), REQUESTS_PER_SECOND)
    const windows: Record<string, Samples> = {}
    const window = async (name: string, over: Promise<unknown>) => {
      windows[name] ??= new Map()
      await load.until(windows[name], over)
      await over
    }
    await load.until(new Map(), pause(WINDOW_MS))
    let took = 0
    let rows = 0
    for (const days of ROUNDS_DAYS) {
      await window(BEFORE, pause(WINDOW_MS))
      await sql`update retention_config set runs_max_per_pipeline = ${KEPT}, runs_max_age_days = ${days}, logs_max_age_days = ${days}`
      const since = performance.now()
      const reaping = reap().then((status) => {
        took += performance.now() - since
        rows += (status.runs_pruned ?? 0) + (status.logs_pruned ?? 0)
      })
      await window('the reaper', reaping)
      await asVacuumed(sql)
      await window('nothing (noise)', pause(WINDOW_MS))
    }
    const [remaining] =
      await sql`select count(*)::int as runs from run where created_at < now() - interval '90 days'`
    if (rows < OLD_RUNS * (1 + LINES_PER_RUN) || remaining?.runs !== 0)
      throw new Error(`${rows} rows deleted, but ${remaining?.runs} old runs remain`)
    await window(BEFORE, pause(WINDOW_MS))
    load.close()

    const perSecond = (count: number, ms: number) => Math.round((count / ms) * 1_000).toLocaleString('en')
    console.log(`  reaper: ${rows.toLocaleString('en')} rows in ${(took / 1_000).toFixed(1)} s`)
    console.log(
      `  ${perSecond(rows, took).padStart(12)} rows/s  the reaper, start and pauses and the API's load included`,
    )
    console.log(
      `  ${perSecond(COPIED_LINES, limitMs).padStart(12)} rows/s  limit: delete by ctid from a copy, nothing else going on`,
    )
    printWindows(windows)
  } finally {
    await sql.end()
    await service.stop()
  }

  async function reap(): Promise<Record<string, number>> {
    const response = await fetch(`${service.url}/api/v1/admin/retention/run`, { method: 'POST' })
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
    return response.json()
  }
}

function printWindows(windows: Record<string, Samples>) {
  for (const kind of windows[BEFORE]?.keys() ?? []) {
    const of = (window: string) => windows[window]?.get(kind) ?? []
    const rows = Object.keys(windows).map((window) => [`${kind}, ${window}`, figuresOf(of(window))] as const)
    printFigures(Object.fromEntries(rows), `${kind}, ${BEFORE}`)
    for (const window of Object.keys(windows).filter((name) => name !== BEFORE)) {
      const ratio = figuresOf(of(window)).p99 / figuresOf(of(BEFORE)).p99
      console.log(`  p99 / before: ${ratio.toFixed(2)}: ${window} (${of(window).length} requests)`)
    }
  }
}

const kindsOf = (names: readonly string[], runs: readonly string[]) => ({
  'GET /runs': (caller: Caller) => caller.get('/api/v1/runs?limit=50'),
  'GET a run': (caller: Caller, n: number) => caller.get(`/api/v1/runs/${runs[n % runs.length]}`),
  'POST /runs': (caller: Caller, n: number) =>
    caller.post(
      '/api/v1/runs',
      JSON.stringify({ namespace: 'default', layer: 'gold', pipeline: names[n % names.length] }),
    ),
})

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

/** Stores runs that are 100 to 300 days old with their log lines, and recent runs without log lines. */
async function fill(sql: Sql) {
  const insertRuns = (count: number, firstDaysAgo: number, overDays: number) => sql`
    with numbered as (select id, name, row_number() over (order by name) - 1 as number from pipeline)
    insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones, snapshot,
      machine_version, status, attempt, waiting, created_at, started_at, finished_at)
    select (lpad(to_hex((extract(epoch from at.at) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 14))::uuid,
      p.id, 'default', 'gold', p.name, 'sql', 'manual', '{}', '[]', '{}', 1, 'failed', 1, false, at.at, at.at, at.at
    from generate_series(1, ${count}) n
    join numbered p on p.number = n % ${PIPELINES}
    cross join lateral (
      select clock_timestamp() - ${firstDaysAgo} * interval '1 day' + n * ${overDays / count}::float8 * interval '1 day' as at) at
    order by n`
  await insertRuns(OLD_RUNS, 300, 200)
  await insertRuns(YOUNG_RUNS, 10, 9)
  await sql`
    insert into run_log (run_id, seq, at, level, message)
    select r.id, 1000000 + line, r.created_at, 'info', 'line ' || line || ' says what happened in so many words'
    from run r, generate_series(1, ${LINES_PER_RUN}) line where r.created_at < now() - interval '90 days'
    order by r.id, line`
  await asVacuumed(sql)
}

async function youngRuns(sql: Sql): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`select id from run order by created_at desc limit 1000`
  return rows.map(({ id }) => id)
}

/** Vacuums the tables. In operation, autovacuum does that long before the next tick of the reaper. */
async function asVacuumed(sql: Sql) {
  await sql`vacuum analyze run`
  await sql`vacuum analyze run_log`
}

/** Measures, in milliseconds, how long deleting copied log lines in batches takes. The copy has the indexes of the log. */
async function plainDelete(sql: Sql): Promise<number> {
  await sql`create table bench_log (like run_log including all)`
  await sql`
    insert into bench_log
    select uuidv7(), n, now(), 'info', 'line ' || n % ${LINES_PER_RUN} || ' says what happened in so many words'
    from generate_series(1, ${COPIED_LINES}) n`
  await sql`vacuum analyze bench_log`
  const since = performance.now()
  for (let deleted = BATCH_ROWS; deleted === BATCH_ROWS; ) {
    deleted = await sql.begin(async (tx) => {
      await tx`set local synchronous_commit = off`
      const { count } = await tx`
        delete from bench_log where ctid in (select ctid from bench_log limit ${BATCH_ROWS})`
      return count
    })
  }
  const took = performance.now() - since
  await sql`drop table bench_log`
  return took
}
