// The reaper over four million rows, 400,000 old runs with their logs, asked for over HTTP while the API is used. Beside it
// in the same run, on the same Postgres: rows deleted by their place in a copy of the log, in transactions of the same size
// with nothing to look for and nobody to wait for. And the API's own times: the reaper takes a share of what is old in each
// round, and before each share there is a window of the same load without it, so that both see the same tables and caches.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import postgres from 'postgres'
import { startService } from '../.setup/service.ts'
import { figuresOf, printFigures, ratioOfP99 } from './figures.ts'
import { addPublished } from './pipelines.ts'

const PIPELINES = 200
const OLD_RUNS = 400_000
const LINES_PER_RUN = 9
/** Runs that stay, so that the API has as much to list afterwards as before. */
const YOUNG_RUNS = 20_000
/** By count nothing goes. */
const KEPT = 1_000_000
const COPIED_LINES = 400_000
const BATCH_ROWS = 2_500
/** Requests a second, evenly, whatever the answers take. */
const REQUESTS_PER_SECOND = 120
/** One of so many requests lists runs, the others ask for one. */
const LIST_EVERY = 3
const BEFORE_MS = 6_000
/** What is older goes in each round: old runs are of 100 to 300 days ago. */
const ROUNDS_DAYS = [235, 165, 90]

type Sql = postgres.Sql
type Samples = { list: number[]; post: number[] }

export async function benchReaper() {
  const service = await startService({ LOG_FORMAT: 'text', RUNNER_URLS: 'none' })
  const registry = JSON.parse(await readFile(join(service.dataDir, 'run', 'processes.json'), 'utf8'))
  const sql = postgres(registry.database_url, { max: 2, onnotice: () => {} })
  try {
    await post('/admin/retention/run')
    const names = await addPublished(sql, PIPELINES)
    await fill(sql)
    const limit = await plainDelete(sql)
    await sql`checkpoint`

    const samples: Record<'before' | 'during', Samples> = {
      before: { list: [], post: [] },
      during: { list: [], post: [] },
    }
    let took = 0
    let rows = 0
    for (const days of ROUNDS_DAYS) {
      await using(names, samples.before, pause(BEFORE_MS))
      await sql`update retention_config set runs_max_per_pipeline = ${KEPT}, runs_max_age_days = ${days}, logs_max_age_days = ${days}`
      const since = performance.now()
      const reaping = post<Record<string, number>>('/admin/retention/run').then((status) => {
        took += performance.now() - since
        rows += (status.runs_pruned ?? 0) + (status.logs_pruned ?? 0)
      })
      await using(names, samples.during, reaping)
      await reaping
      await asVacuumed(sql)
    }
    const [left] =
      await sql`select count(*)::int as runs from run where created_at < now() - interval '90 days'`
    if (rows < OLD_RUNS * (1 + LINES_PER_RUN) || left?.runs !== 0)
      throw new Error(`${rows} rows are gone, ${left?.runs} old runs are left`)

    const perSecond = (count: number, ms: number) => Math.round((count / ms) * 1_000).toLocaleString('en')
    console.log(`  reaper: ${rows.toLocaleString('en')} rows in ${(took / 1_000).toFixed(1)} s`)
    console.log(
      `  ${perSecond(rows, took).padStart(12)} rows/s  the reaper, start and pauses and the API's load included`,
    )
    console.log(
      `  ${perSecond(COPIED_LINES, limit.async).padStart(12)} rows/s  limit: delete by ctid from a copy, nothing else going on`,
    )
    console.log(
      `  ${perSecond(COPIED_LINES, limit.durable).padStart(12)} rows/s  limit: the same, each batch a durable commit`,
    )
    printFigures(
      {
        'GET /runs before': figuresOf(samples.before.list),
        'GET /runs during': figuresOf(samples.during.list),
        'POST /runs before': figuresOf(samples.before.post),
        'POST /runs during': figuresOf(samples.during.post),
      },
      'GET /runs before',
    )
    for (const [name, kind] of [
      ['GET', 'list'],
      ['POST', 'post'],
    ] as const) {
      const [before, during] = [samples.before[kind], samples.during[kind]]
      const { ratio, low, high } = ratioOfP99(during, before)
      const [is, from, to] = [ratio, low, high].map((value) => value.toFixed(2))
      console.log(
        `  p99 during / before: ${name} ${is}, 90% of resamplings ${from} to ${to} (${before.length} and ${during.length} requests)`,
      )
    }
  } finally {
    await sql.end()
    await service.stop()
  }

  async function post<Answer>(path: string, body?: object): Promise<Answer> {
    const response = await fetch(`${service.url}/api/v1${path}`, {
      method: 'POST',
      ...(body && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    })
    if (!response.ok) throw new Error(`POST ${path}: ${response.status} ${await response.text()}`)
    return response.json()
  }

  /** Lists and requests runs at a steady rate until something has happened; times in milliseconds. */
  async function using(names: readonly string[], samples: Samples, until: Promise<unknown>): Promise<void> {
    const open = new Set<Promise<void>>()
    let isOver = false
    void until.finally(() => {
      isOver = true
    })
    for (let n = 0; !isOver; n++) {
      const isList = n % LIST_EVERY === 0
      const since = performance.now()
      const pipeline = names[n % names.length]
      const request = (
        isList
          ? fetch(`${service.url}/api/v1/runs?limit=50`).then((response) => response.text())
          : post('/runs', { namespace: 'default', layer: 'gold', pipeline })
      ).then(() => {
        samples[isList ? 'list' : 'post'].push(performance.now() - since)
      })
      open.add(request)
      void request.finally(() => open.delete(request))
      await pause(1_000 / REQUESTS_PER_SECOND)
    }
    await Promise.all(open)
  }
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

/** Runs of 100 to 300 days ago, spread over the pipelines as they came, and their lines; a few of yesterday. */
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

/** As autovacuum leaves it, long before the next tick. */
async function asVacuumed(sql: Sql) {
  await sql`vacuum analyze run`
  await sql`vacuum analyze run_log`
}

/** Milliseconds to delete the copied lines, in batches; the copy has the log's index. */
async function plainDelete(sql: Sql) {
  const measure = async (isDurable: boolean) => {
    await sql`create table bench_log (like run_log including all)`
    await sql`insert into bench_log select * from run_log limit ${COPIED_LINES}`
    await sql`vacuum analyze bench_log`
    const since = performance.now()
    for (let deleted = BATCH_ROWS; deleted === BATCH_ROWS; ) {
      deleted = await sql.begin(async (tx) => {
        if (!isDurable) await tx`set local synchronous_commit = off`
        const { count } = await tx`
          delete from bench_log where ctid in (select ctid from bench_log limit ${BATCH_ROWS})`
        return count
      })
    }
    const took = performance.now() - since
    await sql`drop table bench_log`
    return took
  }
  return { async: await measure(false), durable: await measure(true) }
}
