// What the service itself costs of a run: a runner that does nothing, 32 callers who each wait for the success of their run
// before they ask for the next. Beside it in the same run, on the same Postgres: three durable commits per run through
// the same database client, and graphile-worker with a task that does nothing.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Logger, run as runGraphileWorker } from 'graphile-worker'
import postgres from 'postgres'
import { newId } from '../app/core/ids.ts'
import { makeNotices } from '../app/runs/notices.ts'
import { makeRunService } from '../app/runs/service.ts'
import { migrate, openDatabase, type Sql } from '../drizzle/client.ts'
import { startPostgres } from '../sidecars/supervisor/postgres.ts'
import { type CpuMs, countCpu } from './cpu.ts'
import { type Figures, figuresOf, printFigures, timed } from './figures.ts'
import { listenToRuns } from './news.ts'
import { startNoOpService } from './no-op-service.ts'
import { addPublished } from './pipelines.ts'
import { openCaller } from './requests.ts'
import { startThread } from './threads.ts'

const CALLERS = 32
const PIPELINES = 500
/** Runs of one caller alone. */
const ALONE = 200
/** Of a service that has been up for a while: compiling costs 0.2 ms of CPU per run in the third second, half of it in the tenth. */
const WARM_UP_MS = 8_000
const MEASURE_MS = 8_000

export async function benchControlPlane() {
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const server = await startPostgres({ dataDir, log: () => {} })
  const rates: Record<string, Rate> = {}
  const latencies: Record<string, Figures> = {}
  try {
    await migrate(server.url)
    const cpu = countCpu({ processes: { postgres: server.pid } })
    await services(server.url, cpu, rates, latencies)
    rates['limit: three durable commits per run'] = await commits(server.url, cpu)
    rates['peer: graphile-worker, no-op task'] = await graphileWorker(server.url, cpu)
  } finally {
    await server.stop()
    await rm(dataDir, { recursive: true, force: true })
  }
  await overHttp('HTTP and a runner over Connect', rates, latencies)
  await overHttp('the same, a runner without batches', rates, latencies, 'one-by-one')
  printRates(rates)
  printFigures(latencies, 'one durable commit')
}

type Cpu = ReturnType<typeof countCpu>

interface Rate {
  perSecond: number
  /** CPU per run. `own` is this process with all its threads: where there is HTTP it only calls, else it is the service too. */
  cpu: CpuMs
}

/** How often `once` happened in a second, when so many callers do it again and again. */
async function rateOf(
  cpu: Cpu,
  once: (caller: number) => Promise<unknown>,
  onWarm = () => {},
): Promise<Rate> {
  let isOver = false
  let count = 0
  const calling = Array.from({ length: CALLERS }, async (_, caller) => {
    while (!isOver) {
      await once(caller)
      count += 1
    }
  })
  await Bun.sleep(WARM_UP_MS)
  onWarm()
  const [since, before, spent] = [performance.now(), count, cpu()]
  await Bun.sleep(MEASURE_MS)
  const [ms, done, now] = [performance.now() - since, count - before, cpu()]
  isOver = true
  await Promise.all(calling)
  return {
    perSecond: (done * 1000) / ms,
    cpu: Object.fromEntries(
      Object.entries(now).map(([who, ms]) => [who, (ms - (spent[who] ?? Number.NaN)) / done]),
    ),
  }
}

/** The run service and the dispatcher's thread alone: no HTTP, and the runner is a function. */
export async function services(
  url: string,
  cpu: Cpu,
  rates: Record<string, Rate>,
  latencies: Record<string, Figures>,
) {
  const database = openDatabase(url, { connections: 1, rawConnections: 12, application: 'bench api' })
  const dispatcher = await startThread<'ready'>(new URL('./no-op-dispatcher.worker.ts', import.meta.url), {
    start: url,
  })
  const runs = makeRunService({
    sql: database.sql,
    requests: database.session('requests'),
    newId,
    notices: makeNotices(database.sql, () => {}),
    runnable: async () => {
      throw new Error('every pipeline is published')
    },
    nudge: () => dispatcher.thread.postMessage('nudge'),
  })
  await drive('services and dispatcher', database.sql, cpu, rates, latencies, async (pipeline) => {
    const { run_id } = await runs.request({
      namespace: 'default',
      layer: 'gold',
      pipeline,
      trigger: 'manual',
    })
    return run_id
  })
  await new Promise((resolve) => {
    dispatcher.thread.onmessage = resolve
    dispatcher.thread.postMessage('stop')
  })
  dispatcher.thread.terminate()
  latencies['one durable commit'] = figuresOf(
    await timed(
      200,
      () => database.sql`insert into replica (name, alive_until) values (gen_random_uuid()::text, now())`,
    ),
  )
  await database.close()
}

/** The whole service: requests over HTTP, and a runner over Connect. */
export async function overHttp(
  name: string,
  rates: Record<string, Rate>,
  latencies: Record<string, Figures>,
  ...options: 'one-by-one'[]
) {
  const { url, sql, cpu, stop } = await startNoOpService(...options)
  const callers = await Promise.all(Array.from({ length: CALLERS }, () => openCaller(url)))
  try {
    await drive(name, sql, cpu, rates, latencies, async (pipeline, caller) => {
      const asked = `{"namespace":"default","layer":"gold","pipeline":"${pipeline}"}`
      const answer = await callers[caller]?.post('/api/v1/runs', asked)
      return /"run_id":"([^"]+)"/.exec(answer ?? '')?.[1] ?? ''
    })
  } finally {
    for (const caller of callers) caller.close()
    await stop()
  }
}

/** 32 callers, then one, each asking for a run when its last one has succeeded; `request` resolves with the run's id. */
async function drive(
  name: string,
  sql: Sql,
  cpu: Cpu,
  rates: Record<string, Rate>,
  latencies: Record<string, Figures>,
  request: (pipeline: string, caller: number) => Promise<string>,
) {
  const pipelines = await addPublished(sql, PIPELINES)
  const news = await listenToRuns(sql)
  let turn = 0
  let samples = { accepted: [] as number[], running: [] as number[], succeeded: [] as number[] }
  async function runOnce(caller: number) {
    const since = performance.now()
    const id = await request(pipelines[turn++ % pipelines.length] ?? '', caller)
    samples.accepted.push(performance.now() - since)
    // Heard of after the commit: the first news of a run is that it is running, the last that it has ended.
    const { firstAt, endedAt } = await news.of(id)
    samples.running.push(firstAt - since)
    samples.succeeded.push(endedAt - since)
  }
  const forget = () => {
    samples = { accepted: [], running: [], succeeded: [] }
  }
  function tell(callers: string) {
    latencies[`${name}, ${callers}: POST to 202`] = figuresOf(samples.accepted)
    latencies[`${name}, ${callers}: POST to running`] = figuresOf(samples.running)
    latencies[`${name}, ${callers}: POST to success`] = figuresOf(samples.succeeded)
    forget()
  }
  rates[name] = await rateOf(cpu, runOnce, forget)
  tell(`${CALLERS} callers`)
  await timed(ALONE, () => runOnce(0))
  tell('one caller')
  const [left] = await sql<{ count: string }[]>`select count(*) from run where status <> 'success'`
  if (left?.count !== '0') throw new Error(`${left?.count} runs did not end in success`)
}

/** This machine's own limit: what a run costs at least when each of its three steps is a commit of its own. */
async function commits(url: string, cpu: Cpu): Promise<Rate> {
  const sql = postgres(url, { max: CALLERS, onnotice: () => {} })
  await sql`create table if not exists bench_commit (at timestamptz)`
  const rate = await rateOf(cpu, async () => {
    for (let n = 0; n < 3; n++) await sql`insert into bench_commit values (clock_timestamp())`
  })
  await sql`drop table bench_commit`
  await sql.end()
  return rate
}

async function graphileWorker(url: string, cpu: Cpu): Promise<Rate> {
  const ended = new Map<number, () => void>()
  const runner = await runGraphileWorker({
    connectionString: url,
    concurrency: CALLERS,
    maxPoolSize: CALLERS,
    noHandleSignals: true,
    logger: new Logger(() => () => {}),
    taskList: {
      nothing: (payload) => ended.get((payload as { caller: number }).caller)?.(),
    },
  })
  const rate = await rateOf(cpu, async (caller) => {
    const done = new Promise<void>((resolve) => ended.set(caller, resolve))
    await runner.addJob('nothing', { caller })
    await done
  })
  await runner.stop()
  await othersGone(url)
  return rate
}

/** Its pool says that it has ended while its connections are still ending: a server that stops then is an error to them. */
async function othersGone(url: string) {
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  for (let others = 1, tries = 0; others > 0 && tries < 100; tries++) {
    await Bun.sleep(50)
    const [row] = await sql<{ others: number }[]>`
      select count(*)::int as others from pg_stat_activity
      where backend_type = 'client backend' and pid <> pg_backend_pid()`
    others = row?.others ?? 0
  }
  await sql.end()
}

/** How many cores a row kept busy: far fewer than there are means that its runs waited for something else. */
const coresOf = ({ perSecond, cpu }: Rate) =>
  (Object.values(cpu).reduce((sum, ms) => sum + ms, 0) * perSecond) / 1000

function printRates(rates: Record<string, Rate>) {
  const number = (value: number | undefined, digits: number) =>
    (value === undefined ? '' : value.toFixed(digits)).padStart(11)
  const first = Object.values(rates)[0]?.perSecond ?? Number.NaN
  const who = ['own', 'api', 'dispatcher', 'postgres', 'runner']
  const heads = ['per second', 'ours to it', 'cores busy', 'CPU ms own', ...who.slice(1)]
  console.log(`  ${''.padEnd(44)}${heads.map((head) => head.padStart(11)).join(' ')}`)
  for (const [name, { perSecond, cpu }] of Object.entries(rates))
    console.log(
      `  ${name.padEnd(44)}${[number(perSecond, 0), number(first / perSecond, 2), number(coresOf({ perSecond, cpu }), 2), ...who.map((one) => number(cpu[one], 2))].join(' ')}`,
    )
}
