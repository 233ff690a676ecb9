// Measures what runs cost in a real Postgres with a million pipelines, by the statements of the service. Then prints the
// assumptions and a simulated day of 100 million runs on several numbers of shards.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newId, type PipelineId } from '../app/core/ids.ts'
import type { Log } from '../app/core/log.ts'
import { anySlot, applyOutcomes, type LogLine, startWaiting } from '../app/runs/service.ts'
import { lookAhead } from '../app/triggers/due.ts'
import { commitToBranch } from '../app/versions/store/branches.ts'
import { type Fenced, migrate, openDatabase, type Sql } from '../drizzle/client.ts'
import { type Postgres, startPostgres } from '../sidecars/supervisor/postgres.ts'
import { startService } from '../tools/service/service.ts'
import { DISPATCHER_SESSION } from '../workers/dispatcher/dispatcher.ts'
import { tickSchedules } from '../workers/scheduler.ts'
import { startServer } from './client.ts'
import { figuresOf, printFigures, printTable, timed } from './figures.ts'
import { addPublished, requestRuns } from './pipelines.ts'
import { printDay, type RunCosts } from './scale-day.ts'

const PIPELINES = 1_000_000
const PIPELINES_AT_ONCE = 50_000
const BATCHES = [1, 16, 128]
/** Runs of each batch size, after as many that only warm up. */
const RUNS = 3_840
const BACKLOGS = [1_000, 10_000, 50_000]
const DUE = 1_000
const TICKS = 10
const IDLE_SECONDS = 20
/** Log lines of a typical run besides those of the service. */
const LINES = 6
const PAGE_TABLES = [
  'run',
  'run_attempt',
  'run_log',
  'transition',
  'lake_ref',
  'lake_commit',
  'lake_content',
  'main_entry',
  'branch_entry',
]

const quiet: Log = { info: () => {}, warn: () => {}, error: () => {}, named: () => quiet }
const slots = (count: number) => Array(count).fill(anySlot('http://127.0.0.1:1'))

/** Sessions with the settings of the API, and of two dispatchers. */
interface Sessions {
  plain: Sql
  one: Sql
  two: Sql
}

interface Pipeline {
  id: PipelineId
  name: string
}

export async function benchScale() {
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  let server = await startPostgres({ dataDir, log: () => {} })
  try {
    await migrate(server.url)
    await withSql(server.url, (sql) => sql`alter system set shared_preload_libraries = 'pg_stat_statements'`)
    await server.stop()
    server = await startPostgres({ dataDir, log: () => {} })
    const plain = openDatabase(server.url, { connections: 1, rawConnections: 3, application: 'bench' })
    const dispatcher = openDatabase(server.url, {
      connections: 1,
      rawConnections: 3,
      application: 'bench',
      settings: { ...DISPATCHER_SESSION, statement_timeout: 600_000 },
    })
    const sessions = { plain: plain.sql, one: dispatcher.session('one'), two: dispatcher.session('two') }
    await measure(server, sessions)
    await Promise.all([plain.close(), dispatcher.close()])
  } finally {
    await server.stop()
    await rm(dataDir, { recursive: true, force: true })
  }
}

async function withSql(url: string, work: (sql: Sql) => Promise<unknown>) {
  const database = openDatabase(url, { connections: 1, rawConnections: 1, application: 'bench' })
  await work(database.sql)
  await database.close()
}

async function measure(server: Postgres, sessions: Sessions) {
  const sql = sessions.plain
  await sql`create extension pg_stat_statements`
  const pipelines = await fill(sql)
  await measureIdleReplica(server, sql)
  let noticeBytes = 0
  await sql.listen('sluice_announcement', (payload) => {
    noticeBytes += Buffer.byteLength(payload)
  })

  const before = await sizes(sql)
  const perBatch: RunCosts[] = []
  for (const batch of BATCHES) {
    await cycles(sessions, pipelines, batch)
    await sql`checkpoint`
    await sql`select pg_stat_statements_reset()`
    const [from, cpu, notices] = [await counters(sql), cpuMs(server.pid), noticeBytes]
    const took = await cycles(sessions, pipelines, batch)
    const [to, used] = [await counters(sql), cpuMs(server.pid) - cpu]
    perBatch.push({
      batch,
      ...took,
      postgresMs: used / RUNS,
      statements: to.statements / RUNS,
      transactions: (to.transactions - from.transactions) / RUNS,
      walBytes: (to.walBytes - from.walBytes) / RUNS,
      fullPageImages: (to.images - from.images) / RUNS,
      noticeBytes: (noticeBytes - notices) / RUNS,
    })
  }
  const grown = await sizes(sql)
  const runs = RUNS * 2 * BATCHES.length
  const diskBytes = Object.fromEntries(
    PAGE_TABLES.map((table) => [table, ((grown[table] ?? 0) - (before[table] ?? 0)) / runs]),
  )
  printTable('cost of one run, by the size of its batches', perBatch)
  printTable('bytes of one run on disk, with indexes', [diskBytes])

  const ticks = await measureTicks(sessions)
  const backlog = await measureBacklogs(sessions, pipelines, server)
  const largest = perBatch.at(-1)
  const smallest = perBatch[0]
  assert(largest && smallest)
  printDay({
    smallest,
    largest,
    ...ticks,
    ...backlog,
    diskBytes: Object.values(diskBytes).reduce((a, b) => a + b, 0),
  })
}

async function fill(sql: Sql): Promise<Pipeline[]> {
  for (let first = 0; first < PIPELINES; first += PIPELINES_AT_ONCE)
    await addPublished(sql, PIPELINES_AT_ONCE, first)
  await sql`
    insert into schedule (id, pipeline_id, cron, next_run_at)
    select gen_random_uuid(), id, '0 0 1 1 *', clock_timestamp() + interval '1 day' from pipeline`
  await sql`vacuum analyze`
  // A random order: neighbours on the pages of the tables are not due together.
  return sql<Pipeline[]>`select id, name from pipeline order by md5(id::text)`
}

/** A whole replica without requests: its statements, and the reaper's first tick over all pipelines. */
async function measureIdleReplica({ url, pid }: Postgres, sql: Sql) {
  await sql`select pg_stat_statements_reset()`
  const reaped = Promise.withResolvers<number>()
  const runner = await startServer('runner.process.ts')
  const environment = { LOG_FORMAT: 'text', DATABASE_URL: url, RUNNER_URLS: runner.url, QUERY_URLS: 'none' }
  const service = await startService(environment, (line) => {
    const [, ms] = /reaper tick completed.* ms=(\d+)/.exec(line) ?? []
    if (ms !== undefined) reaped.resolve(Number(ms))
  })
  const reaperMs = await reaped.promise
  const [from, cpu] = [await counters(sql), cpuMs(pid)]
  await Bun.sleep(IDLE_SECONDS * 1_000)
  const [to, used] = [await counters(sql), cpuMs(pid) - cpu]
  const [open] = await sql<{ count: number }[]>`
    select count(*)::int from pg_stat_activity where application_name like 'sluice%'`
  const slowest = await sql<{ calls: number; ms: number; text: string }[]>`
    select calls::int, total_exec_time as ms, regexp_replace(left(query, 600), '\\s+', ' ', 'g') as text
    from pg_stat_statements order by total_exec_time desc limit 4`
  await service.stop()
  await runner.stop()
  console.log('  most expensive statements of a replica that starts')
  for (const { calls, ms, text } of slowest)
    console.log(`  ${ms.toFixed(0).padStart(8)} ms ${String(calls).padStart(6)} calls  ${text.slice(0, 110)}`)
  printTable('an idle replica, per second', [
    {
      statements: (to.statements - from.statements) / IDLE_SECONDS,
      transactions: (to.transactions - from.transactions) / IDLE_SECONDS,
      walBytes: (to.walBytes - from.walBytes) / IDLE_SECONDS,
      postgresMs: used / IDLE_SECONDS,
      connections: open?.count ?? Number.NaN,
      'reaper ms': reaperMs,
    },
  ])
}

/** Requests, starts, commits and merges `RUNS` runs in batches. Returns the mean milliseconds of a start and of an end. */
async function cycles({ plain, one }: Sessions, pipelines: readonly Pipeline[], batch: number) {
  let [startMs, endMs] = [0, 0]
  for (let first = 0; first < RUNS; first += batch) {
    await requestRuns(plain, pipelines.slice(first, first + batch))
    let since = performance.now()
    const { attempts } = await startWaiting(one, slots(batch), 'bench')
    startMs += performance.now() - since
    assert(attempts.length === batch)
    const committed = await Promise.all(attempts.map((attempt) => commit(plain, attempt)))
    since = performance.now()
    const { completed } = await applyOutcomes(
      one,
      attempts.map((attempt, n) => executed(attempt, committed[n] ?? null)),
      attempts.flatMap(linesOf),
    )
    endMs += performance.now() - since
    assert(completed.filter(({ status }) => status === 'success').length === batch)
  }
  return { startMs: (startMs * batch) / RUNS, endMs: (endMs * batch) / RUNS }
}

type Attempt = Awaited<ReturnType<typeof startWaiting>>['attempts'][number]

/** One commit of the pipeline's table to the attempt's branch, as a runner makes it. */
async function commit(sql: Sql, { branch, pipeline }: Attempt): Promise<string> {
  const [id, contentId] = [newId(), newId()]
  const isCommitted = await commitToBranch(sql, {
    id,
    branch,
    head: null,
    table: { namespace: 'default', layer: 'gold', name: pipeline },
    tableUuid: newId(),
    snapshotId: '1',
    message: 'bench',
    content: {
      kind: 'table',
      contentId,
      metadataLocation: `s3://sluice/default/gold/${pipeline}/metadata/${contentId}.metadata.json`,
      columns: Array.from({ length: 10 }, (_, n) => ({ name: `column_${n}`, type: 'BIGINT' })),
      rowCount: 1,
      sizeBytes: 100,
    },
  })
  assert(isCommitted)
  return id
}

const executed = ({ runId, attempt }: Attempt, testedCommit: string | null) => ({
  runId,
  attempt,
  runnerBoot: 'bench',
  kind: 'executed' as const,
  testedCommit,
  rowsWritten: 1,
  tests: [],
  inputTables: [],
  landingFileIds: [],
  archivesLandingZones: false,
  keepFailedHours: 0,
})

const linesOf = ({ runId, attempt }: Attempt): LogLine[] =>
  Array.from({ length: LINES }, (_, n) => ({
    runId,
    seq: attempt * 1_000_000 + 100 + n,
    at: new Date(),
    level: 'info',
    message: `line ${n} says in about sixty characters what the run has done`,
  }))

async function measureTicks({ plain: sql, one }: Sessions) {
  const write: Fenced = (work) => sql.begin((tx) => work(tx)) as never
  const tick = () => tickSchedules({ write, newId, log: quiet })
  await tick()
  const idle = figuresOf(await timed(TICKS, tick))
  const due: number[] = []
  for (let n = 0; n < TICKS; n++) {
    await sql`
      update schedule set next_run_at = clock_timestamp() - interval '1 minute'
      where id in (select id from schedule order by id offset ${n * DUE} limit ${DUE})`
    due.push(...(await timed(1, async () => assert((await tick())?.requested === DUE))))
  }
  const look = figuresOf(await timed(TICKS, () => lookAhead(sql)))
  console.log(`\n  ticks with ${PIPELINES.toLocaleString('en')} pipelines and as many schedules`)
  printFigures(
    {
      [`scheduler, ${DUE} due`]: figuresOf(due),
      'scheduler, nothing due': idle,
      'triggers, nothing due': look,
    },
    'scheduler, nothing due',
  )
  while ((await startAndEnd(one)) > 0);
  return { dueRunMs: figuresOf(due).p50 / DUE }
}

async function startAndEnd(sql: Sql): Promise<number> {
  const { attempts } = await startWaiting(sql, slots(128), 'bench')
  if (attempts.length > 0)
    await applyOutcomes(
      sql,
      attempts.map((attempt) => executed(attempt, null)),
      [],
    )
  return attempts.length
}

/** One start of 128 runs, with a queue of several lengths; and two replicas that start at the same time. */
async function measureBacklogs(
  { plain, one, two }: Sessions,
  pipelines: readonly Pipeline[],
  { pid }: Postgres,
) {
  const points: { waiting: number; ms: number; cpu: number }[] = []
  let together = { alone: 0, both: 0 }
  let [queued, next] = [0, 0]
  for (const waiting of BACKLOGS) {
    for (; queued < waiting; queued += 1_000, next += 1_000)
      await requestRuns(plain, pipelines.slice(next, next + 1_000))
    const [samples, cpu] = [[] as number[], cpuMs(pid)]
    for (let n = 0; n < 5; n++) {
      const since = performance.now()
      const { attempts } = await startWaiting(one, slots(128), 'bench')
      samples.push(performance.now() - since)
      queued -= attempts.length
      await applyOutcomes(
        one,
        attempts.map((attempt) => executed(attempt, null)),
        [],
      )
    }
    points.push({ waiting, ms: figuresOf(samples).p50, cpu: (cpuMs(pid) - cpu) / 5 })
    if (waiting !== 10_000) continue
    const rate = async (replicas: Sql[]) => {
      const since = performance.now()
      const counts = await Promise.all(
        replicas.map(async (replica) => {
          let count = 0
          for (let n = 0; n < 8; n++) count += await startAndEnd(replica).catch(() => 0)
          return count
        }),
      )
      const count = counts.reduce((sum, each) => sum + each, 0)
      queued -= count
      return (count * 1_000) / (performance.now() - since)
    }
    together = { alone: await rate([one]), both: await rate([one, two]) }
  }
  printTable('start of 128 runs while pipelines wait', points)
  printTable('runs/s with a queue of 10,000, started and ended without a merge', [together])
  const [least, most] = [points[0], points.at(-1)]
  assert(least && most)
  const slope = (key: 'ms' | 'cpu') => (most[key] - least[key]) / (most.waiting - least.waiting)
  return { perWaitingMs: slope('ms'), postgresPerWaitingMs: slope('cpu') }
}

async function counters(sql: Sql) {
  const [row] = await sql<{ statements: number; transactions: number; walBytes: number; images: number }[]>`
    select (select sum(calls) from pg_stat_statements where query not ilike 'begin%' and query not ilike 'commit%')::float8 as statements,
      (select xact_commit from pg_stat_database where datname = current_database())::float8 as transactions,
      (pg_current_wal_insert_lsn() - '0/0')::float8 as "walBytes", (select wal_fpi from pg_stat_wal)::float8 as images`
  assert(row)
  return row
}

async function sizes(sql: Sql): Promise<Record<string, number>> {
  const rows = await sql<{ name: string; bytes: number }[]>`
    select relname as name, pg_total_relation_size(oid)::float8 as bytes from pg_class where relname = any(${PAGE_TABLES})`
  return Object.fromEntries(rows.map(({ name, bytes }) => [name, bytes]))
}

/** Milliseconds of processor time of a Postgres server with its processes. The server counts processes that have ended. */
function cpuMs(server: number): number {
  let ticks = 0
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    let fields: string[]
    try {
      fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? []
    } catch {
      continue
    }
    const [parent, user, system, userOfEnded, systemOfEnded] = [1, 11, 12, 13, 14].map((n) =>
      Number(fields[n]),
    )
    if (Number(pid) === server) ticks += (userOfEnded ?? 0) + (systemOfEnded ?? 0)
    if (Number(pid) === server || parent === server) ticks += (user ?? 0) + (system ?? 0)
  }
  return ticks * 10
}
