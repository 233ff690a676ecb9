// Measures the cost of the service itself per run, with a runner that does nothing. Each of 32 callers waits until its run
// succeeds, then requests the next run. Two comparisons use the same Postgres in the same benchmark:
// - three durable commits per run through the same database client;
// - graphile-worker with a task that does nothing.
import assert from 'node:assert/strict'
import { Logger, run as runGraphileWorker } from 'graphile-worker'
import postgres from 'postgres'
import { type Figures, figuresOf, printFigures, timed } from './figures.ts'
import { type NoOpService, startNoOpService } from './no-op-service.ts'
import { addPublished } from './pipelines.ts'
import { openCaller } from './requests.ts'

const CALLERS = 32
const PIPELINES = 500
/** Number of runs that a single caller requests, one after the other. */
const ALONE = 200
/**
 * Long enough for just-in-time compilation to settle. Compilation costs 0.2 ms of CPU per run in the third second, and half of
 * that in the tenth.
 */
const WARM_UP_MS = 8_000
const MEASURE_MS = 8_000

export async function benchControlPlane() {
  const service = await startNoOpService()
  const latencies: Record<string, Figures> = {}
  try {
    const runs = await runsPerSecond(service, latencies)
    const oneCommit = () =>
      service.sql`insert into replica (name, alive_until) values (gen_random_uuid()::text, now())`
    latencies['one durable commit'] = figuresOf(await timed(ALONE, oneCommit))
    const rates = {
      'runs, HTTP and a runner over Connect': runs,
      'limit: three durable commits per run': await commits(service.databaseUrl),
      'peer: graphile-worker, no-op task': await graphileWorker(service.databaseUrl),
    }
    for (const [name, perSecond] of Object.entries(rates))
      console.log(
        `  ${name.padEnd(44)}${perSecond.toFixed(0).padStart(9)} per second, ours to it ${(runs / perSecond).toFixed(2)}`,
      )
    printFigures(latencies, 'one durable commit')
  } finally {
    await service.stop()
  }
}

/** Calls of `once` per second when `CALLERS` callers repeat it without a pause. */
async function rateOf(once: (caller: number) => Promise<unknown>, onWarm = () => {}): Promise<number> {
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
  const [since, before] = [performance.now(), count]
  await Bun.sleep(MEASURE_MS)
  const [ms, done] = [performance.now() - since, count - before]
  isOver = true
  await Promise.all(calling)
  return (done * 1000) / ms
}

/** Measures 32 callers, then one. Each caller requests its next run over HTTP when its previous run has succeeded. */
async function runsPerSecond({ url, sql, news }: NoOpService, latencies: Record<string, Figures>) {
  const pipelines = await addPublished(sql, PIPELINES)
  const callers = await Promise.all(Array.from({ length: CALLERS }, () => openCaller(url)))
  const none = () => ({ accepted: [] as number[], running: [] as number[], succeeded: [] as number[] })
  let samples = none()
  let turn = 0
  async function runOnce(caller: number) {
    const since = performance.now()
    const pipeline = pipelines[turn++ % pipelines.length]
    const body = `{"namespace":"default","layer":"gold","pipeline":"${pipeline}"}`
    const answer = await callers[caller]?.post('/api/v1/runs', body)
    const id = /"run_id":"([^"]+)"/.exec(answer ?? '')?.[1]
    assert(id !== undefined, `no run was requested: ${answer}`)
    samples.accepted.push(performance.now() - since)
    // Notifications arrive after the commit. The first says that the run is running, the last that the run has ended.
    const { firstAt, endedAt } = await news.of(id)
    samples.running.push(firstAt - since)
    samples.succeeded.push(endedAt - since)
  }
  function note(who: string) {
    for (const [what, times] of Object.entries(samples))
      latencies[`${who}: POST to ${what}`] = figuresOf(times)
    samples = none()
  }
  const perSecond = await rateOf(runOnce, () => {
    samples = none()
  })
  note(`${CALLERS} callers`)
  await timed(ALONE, () => runOnce(0))
  note('one caller')
  for (const caller of callers) caller.close()
  const [unsuccessful] = await sql<{ count: string }[]>`select count(*) from run where status <> 'success'`
  if (unsuccessful?.count !== '0') throw new Error(`${unsuccessful?.count} runs did not end in success`)
  return perSecond
}

/** The limit of this machine: the least cost of a run whose three steps are one commit each. */
async function commits(url: string): Promise<number> {
  const sql = postgres(url, { max: CALLERS, onnotice: () => {} })
  await sql`create table if not exists bench_commit (at timestamptz)`
  const rate = await rateOf(async () => {
    for (let n = 0; n < 3; n++) await sql`insert into bench_commit values (clock_timestamp())`
  })
  await sql`drop table bench_commit`
  await sql.end()
  return rate
}

async function graphileWorker(url: string): Promise<number> {
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
  const rate = await rateOf(async (caller) => {
    const done = new Promise<void>((resolve) => ended.set(caller, resolve))
    await runner.addJob('nothing', { caller })
    await done
  })
  await runner.stop()
  // The pool resolves before its connections are closed. They report an error when the server stops in the meantime.
  await Bun.sleep(1_000)
  return rate
}
