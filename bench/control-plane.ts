// What the service itself costs of a run: a runner that does nothing, 32 callers who each wait for the success of their run
// before they ask for the next. Beside it in the same run, on the same Postgres: three durable commits per run through
// the same database client, and graphile-worker with a task that does nothing.
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Logger, run as runGraphileWorker } from 'graphile-worker'
import postgres from 'postgres'
import { newId, type RunId } from '../app/ids.ts'
import { publishedPipeline } from '../app/pipelines/queries.ts'
import { makeNotices, RUN_COMPLETED } from '../app/runs/notices.ts'
import { makeRunService } from '../app/runs/service.ts'
import { type Database, migrate, openDatabase } from '../drizzle/client.ts'
import { startPostgres } from '../sidecars/supervisor/postgres.ts'
import { cpuOf } from './cpu.ts'
import { figuresOf, printFigures } from './figures.ts'
import { addPublished } from './pipelines.ts'

const CALLERS = 32
const PIPELINES = 500
const WARM_UP_MS = 2_000
const MEASURE_MS = 8_000

export async function benchControlPlane() {
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  await chmod(dataDir, 0o755)
  const server = await startPostgres({ dataDir, log: () => {} })
  try {
    await migrate(server.url)
    const cpu = cpuOf(server.pid)
    const rates: Record<string, Rate> = {}
    const latencies = await services(server.url, cpu, rates)
    rates['three durable commits per run'] = await commits(server.url, cpu)
    rates['graphile-worker, no-op task'] = await graphileWorker(server.url, cpu)
    printRates(rates)
    printFigures(latencies, 'one durable commit')
  } finally {
    await server.stop()
    await rm(dataDir, { recursive: true, force: true })
  }
}

interface Rate {
  perSecond: number
  /** CPU per run, in milliseconds: of this process with all its threads, and of Postgres. */
  own: number
  postgres: number
}

/** How often `once` happened in a second, when so many callers do it again and again. */
async function rateOf(
  cpu: ReturnType<typeof cpuOf>,
  once: (caller: number) => Promise<unknown>,
  callers = CALLERS,
): Promise<Rate> {
  let isOver = false
  let count = 0
  const calling = Array.from({ length: callers }, async (_, caller) => {
    while (!isOver) {
      await once(caller)
      count += 1
    }
  })
  await Bun.sleep(WARM_UP_MS)
  const [since, before, spent] = [performance.now(), count, cpu()]
  await Bun.sleep(MEASURE_MS)
  const [ms, done, now] = [performance.now() - since, count - before, cpu()]
  isOver = true
  await Promise.all(calling)
  return {
    perSecond: (done * 1000) / ms,
    own: (now.own - spent.own) / done,
    postgres: (now.postgres - spent.postgres) / done,
  }
}

export async function services(url: string, cpu: ReturnType<typeof cpuOf>, rates: Record<string, Rate>) {
  const database = openDatabase(url, { connections: 1, rawConnections: 12, application: 'bench api' })
  const dispatcher = await startDispatcher(url)
  const pipelines = await addPublished(database.sql, PIPELINES)
  const runs = makeRunService({
    sql: database.sql,
    newId,
    notices: makeNotices(database.sql, () => {}),
    runnable: async (ref) =>
      ({ ...(await publishedPipeline(database.sql, ref)), pipelineType: 'sql' }) as never,
    nudge: () => dispatcher.postMessage('nudge'),
  })
  const ends = await listenToEnds(database)
  let turn = 0
  const accepted: number[] = []
  const succeeded: number[] = []
  async function runOnce() {
    const since = performance.now()
    const pipeline = pipelines[turn++ % pipelines.length] ?? ''
    const { run_id } = await runs.request({
      namespace: 'default',
      layer: 'gold',
      pipeline,
      trigger: 'manual',
    })
    accepted.push(performance.now() - since)
    await ends.of(run_id)
    succeeded.push(performance.now() - since)
  }
  rates['runs, 32 callers'] = await rateOf(cpu, runOnce)
  const latencies = {
    '32 callers: request to 202': figuresOf(accepted.splice(0)),
    '32 callers: request to success': figuresOf(succeeded.splice(0)),
  }
  for (let n = 0; n < 200; n++) await runOnce()
  const alone = {
    'one caller: request to 202': figuresOf(accepted),
    'one caller: request to success': figuresOf(succeeded),
  }
  await new Promise((resolve) => {
    dispatcher.onmessage = resolve
    dispatcher.postMessage('stop')
  })
  dispatcher.terminate()
  const [{ count } = { count: '' }] = await database.sql<{ count: string }[]>`
    select count(*) from run where status <> 'success'`
  if (count !== '0') throw new Error(`${count} runs did not end in success`)
  const commit = figuresOf(
    await oneByOne(
      200,
      () => database.sql`insert into outbox (kind, payload, due_at) values ('none', '{}', now())`,
    ),
  )
  await database.close()
  return { ...latencies, ...alone, 'one durable commit': commit }
}

async function oneByOne(times: number, work: () => Promise<unknown>) {
  const samples: number[] = []
  for (let n = 0; n < times; n++) {
    const since = performance.now()
    await work()
    samples.push(performance.now() - since)
  }
  return samples
}

async function startDispatcher(url: string): Promise<Worker> {
  const worker = new Worker(new URL('./no-op-dispatcher.worker.ts', import.meta.url))
  await new Promise((resolve) => {
    worker.onmessage = resolve
    worker.postMessage({ start: url })
  })
  return worker
}

/** Hears of the runs that have ended as any program beside the database can. */
async function listenToEnds({ sql }: Database) {
  const waiting = new Map<string, () => void>()
  const early = new Set<string>()
  await sql.listen(RUN_COMPLETED, (payload) => {
    for (const { run_id } of JSON.parse(payload) as { run_id: RunId }[]) {
      const tell = waiting.get(run_id)
      if (tell === undefined) early.add(run_id)
      else tell()
      waiting.delete(run_id)
    }
  })
  return {
    of: (id: string) =>
      early.delete(id) ? Promise.resolve() : new Promise<void>((resolve) => waiting.set(id, resolve)),
  }
}

/** This machine's own limit: what a run costs at least when each of its three steps is a commit of its own. */
async function commits(url: string, cpu: ReturnType<typeof cpuOf>): Promise<Rate> {
  const sql = postgres(url, { max: CALLERS, onnotice: () => {} })
  await sql`create table if not exists bench_commit (at timestamptz)`
  const rate = await rateOf(cpu, async () => {
    for (let n = 0; n < 3; n++) await sql`insert into bench_commit values (clock_timestamp())`
  })
  await sql`drop table bench_commit`
  await sql.end()
  return rate
}

async function graphileWorker(url: string, cpu: ReturnType<typeof cpuOf>): Promise<Rate> {
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
  runner.events.on('pool:gracefulShutdown', () => {})
  await runner.stop()
  await runner.promise
  return rate
}

function printRates(rates: Record<string, Rate>) {
  const number = (value: number, digits: number) => value.toFixed(digits).padStart(12)
  const first = Object.values(rates)[0]?.perSecond ?? Number.NaN
  console.log(
    `  ${''.padEnd(44)}${['per second', 'ours to it', 'ms CPU own', 'ms CPU pg'].map((h) => h.padStart(12)).join(' ')}`,
  )
  for (const [name, { perSecond, own, postgres: server }] of Object.entries(rates))
    console.log(
      `  ${name.padEnd(44)}${number(perSecond, 0)} ${number(first / perSecond, 2)} ${number(own, 2)} ${number(server, 2)}`,
    )
}
