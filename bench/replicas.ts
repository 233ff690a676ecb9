// Throughput of three replicas beside that of one, on one Postgres with durable commits and one runner that does nothing. The
// machine is the same, so three replicas share the cores that one has alone.
import assert from 'node:assert/strict'
import { anySlot, startWaiting } from '../app/runs/service.ts'
import { openDatabase, type Sql } from '../drizzle/client.ts'
import { namesOf, openFleet } from '../tools/test/replicas/fleet.ts'
import { DISPATCHER_SESSION } from '../workers/dispatcher/dispatcher.ts'
import { startServer } from './client.ts'
import { printTable } from './figures.ts'
import { listenToRuns, type News } from './news.ts'
import { addPublished, requestRuns } from './pipelines.ts'
import { type Caller, openCaller } from './requests.ts'

const REPLICAS = 3
/** Measurements of one replica before and after those of all, of which there are three times as many. */
const ROUNDS = 2
const PIPELINES = 10_000
/** Pipelines that callers over HTTP use in turn. */
const CALLED = 500
const CALLERS = 96
const WARM_UP_MS = 8_000
const MEASURE_MS = 8_000
const BATCH = 1_000
/** Slots that a replica offers in one pass, as a busy dispatcher does. */
const SLOTS = 128

export async function benchReplicas() {
  const runner = await startServer('runner.process.ts')
  const fleet = await openFleet(
    { api: REPLICAS, runner: 0, query: 0 },
    { further: { RUNNER_URLS: runner.url, QUERY_URLS: 'none' }, settings: ['fsync=on'] },
  )
  const sessions = openDatabase(fleet.databaseUrl, {
    connections: 1,
    rawConnections: 4,
    application: 'bench',
    settings: { ...DISPATCHER_SESSION, statement_timeout: 600_000 },
  })
  const { sql } = sessions
  try {
    const [first = '', ...others] = namesOf('api', 1, REPLICAS)
    await fleet.start([first])
    const names = await addPublished(sql, PIPELINES)
    await sql`vacuum analyze`
    const news = await listenToRuns(sql)
    const measure = async (replicas: string[]) => ({
      replicas: replicas.length,
      'requests by HTTP, runs/s': await closedLoop(replicas.map(fleet.urlOf), names, news),
      '10,000 waiting, runs/s': await drained(sql),
    })
    // A new process executes its code slowly for some thousand requests, so the same replicas are measured again and again.
    const rows = []
    for (let n = 0; n < ROUNDS; n++) rows.push(await measure([first]))
    await fleet.start(others)
    for (let n = 0; n < REPLICAS * ROUNDS; n++) rows.push(await measure([first, ...others]))
    for (const name of others) await fleet.end(name)
    for (let n = 0; n < ROUNDS; n++) rows.push(await measure([first]))
    printTable('replicas with a runner that does nothing', rows)
    await fleet.end(first)
    const starts = []
    for (const count of [1, REPLICAS, 1]) starts.push(await startsOnly(sessions, count))
    printTable('starts alone, without ends: dispatchers at once', starts)
  } finally {
    await sessions.close()
    await fleet.stop()
    await runner.stop()
  }
}

/** Runs per second of callers that each request the next run when their run has succeeded. */
async function closedLoop(urls: string[], names: readonly string[], news: News): Promise<number> {
  const callers = await Promise.all(
    Array.from({ length: CALLERS }, (_, n) => openCaller(urls[n % urls.length] as string)),
  )
  let [isOver, count, turn] = [false, 0, 0]
  const loop = async (caller: Caller) => {
    while (!isOver) {
      const body = `{"namespace":"default","layer":"gold","pipeline":"${names[turn++ % CALLED]}"}`
      const answer = await caller.post('/api/v1/runs', body)
      await news.of(/"run_id":"([^"]+)"/.exec(answer)?.[1] ?? assert.fail(answer))
      count += 1
    }
  }
  const calling = Promise.all(callers.map(loop))
  await Bun.sleep(WARM_UP_MS)
  const [since, before] = [performance.now(), count]
  await Bun.sleep(MEASURE_MS)
  const perSecond = ((count - before) * 1_000) / (performance.now() - since)
  isOver = true
  await calling
  for (const caller of callers) caller.close()
  return perSecond
}

const requestAll = async (sql: Sql) => {
  const pipelines = await sql<Parameters<typeof requestRuns>[1][number][]>`select id from pipeline`
  for (let n = 0; n < pipelines.length; n += BATCH) await requestRuns(sql, pipelines.slice(n, n + BATCH))
}

/** Runs per second from the request of a run of each pipeline to the end of the last one. */
async function drained(sql: Sql): Promise<number> {
  const since = performance.now()
  await requestAll(sql)
  for (;;) {
    const [active] = await sql`select 1 from run where status in ('pending', 'running') limit 1`
    if (active === undefined) break
    await Bun.sleep(20)
  }
  return (PIPELINES * 1_000) / (performance.now() - since)
}

/** Starts per second when several dispatchers start the waiting runs of all pipelines at once. */
async function startsOnly(database: ReturnType<typeof openDatabase>, dispatchers: number) {
  await database.sql`truncate run, run_attempt, run_log, transition`
  await requestAll(database.sql)
  let [passes, empty, left] = [0, 0, PIPELINES]
  const slots = Array(SLOTS).fill(anySlot('http://127.0.0.1:1'))
  const since = performance.now()
  await Promise.all(
    Array.from({ length: dispatchers }, async (_, n) => {
      const session = database.session(`dispatcher ${n}`)
      while (left > 0) {
        // The loser of a race for one pipeline tries again, as the dispatcher does.
        const { attempts } = await startWaiting(session, slots, `bench ${n}`).catch(() => ({ attempts: [] }))
        passes += 1
        if (attempts.length === 0) empty += 1
        left -= attempts.length
      }
    }),
  )
  const perSecond = (PIPELINES * 1_000) / (performance.now() - since)
  return { dispatchers, 'starts/s': perSecond, passes, 'empty passes': empty }
}
