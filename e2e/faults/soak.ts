// `npm run soak -- --minutes 30`: hostile Python pipelines and malformed requests beside normal runs, on a service of its own.
// It reports restarts of processes, affected normal runs, answers of 500 and the latency of /health/live.
import { parseArgs } from 'node:util'
import { HOSTILE_PYTHON } from './hostile-python.ts'
import { startTree, type Tree, until } from './tree.ts'

/** Limit for the 99th percentile of /health/live. The other limits are: no restart, no affected run, no 500. */
const HEALTH_P99_MS = 250
const HEALTH_EVERY_MS = 100
const REPORT_EVERY_MS = 60_000
const WATCH_EVERY_MS = 1_000
const MINUTES_MAX = 240
/** Concurrent loops per kind of work. The counts are small because the machine is shared with the service. */
const NORMAL_AT_ONCE = 3
const HOSTILE_AT_ONCE = 2
const TRAFFIC_AT_ONCE = 2
const PARTS = ['api', 'runner', 'query', 'postgres']

const NORMAL: Record<string, [file: string, source: string]> = {
  normal_sql: ['pipeline.sql', 'select range as a, hash(range) as b from range(200000)'],
  normal_slow: ['pipeline.sql', 'select max(hash(x.range, y.range)) as a from range(10000) x, range(4000) y'],
  normal_python: ['pipeline.py', 'result = [{"a": n, "b": str(n)} for n in range(1000)]'],
}

/** Requests of a broken or hostile client, and some valid ones: method, path and body. */
const TRAFFIC: readonly [method: string, path: string, body?: object][] = [
  ['GET', '/runs?limit=100'],
  ['GET', '/runs?limit=-1&sort=%00'],
  ['GET', '/tables'],
  ['GET', '/runs/no-uuid'],
  ['GET', `/pipelines/default/gold/${'x'.repeat(300)}`],
  ['POST', '/runs', { namespace: 1, pipeline: [] }],
  ['POST', '/runs', { namespace: 'default', layer: 'gold', pipeline: 'is_not_there' }],
  ['POST', '/pipelines', { namespace: '../..', layer: 'gold', name: "'; drop table run; --" }],
  ['POST', '/query', { sql: 'select 1 as a' }],
  ['POST', '/query', { sql: 'selec 1' }],
  ['POST', '/query', { sql: "select * from read_csv('/etc/passwd')" }],
  ['POST', '/query', { sql: 'select count(*) from gold.normal_sql' }],
  ['POST', '/query', { sql: `select ${'('.repeat(2_000)}1${')'.repeat(2_000)}` }],
  ['PUT', '/files/default/pipelines/gold/normal_sql/..%2f..%2fetc', { content: 'x' }],
  ['POST', '/pipelines/default/gold/normal_sql/preview', {}],
  ['POST', '/pipelines/default/gold/normal_sql/preview', { code: 'select nope', limit: 'many' }],
]

interface Run {
  status: string
  error: string | null
  attempt: number
}

const counts = { normal: 0, hostile: 0, requests: 0, unanswered: 0 }
/** Violated limits, one line each. */
const problems: string[] = []
const healthMs: number[] = []

const { values } = parseArgs({ options: { minutes: { type: 'string', default: '30' } } })
const minutes = Number(values.minutes)
if (!(minutes > 0 && minutes <= MINUTES_MAX)) {
  console.error(`--minutes must be more than 0 and at most ${MINUTES_MAX}`)
  process.exit(2)
}
const tree = await startTree()
try {
  await soak(tree)
} finally {
  await tree.stop()
}
process.exit(report() ? 0 : 1)

async function soak(service: Tree): Promise<void> {
  for (const [name, [file, source]] of Object.entries(NORMAL))
    await tree.publish(name, source, file.endsWith('.py') ? 'python' : 'sql')
  await tree.publish('hostile', HOSTILE_PYTHON, 'python')
  const endAt = Date.now() + minutes * 60_000
  const reporting = setInterval(report, REPORT_EVERY_MS)
  const normal = Object.keys(NORMAL)
  await Promise.all([
    ...workers(NORMAL_AT_ONCE, endAt, (n) => runNormal(pick(normal, n))),
    ...workers(HOSTILE_AT_ONCE, endAt, () => runHostile('hostile')),
    ...workers(TRAFFIC_AT_ONCE, endAt, (n) => send(service, pick(TRAFFIC, n))),
    probeHealth(service, endAt),
    watchProcesses(service, endAt),
  ])
  clearInterval(reporting)
}

function pick<T>(all: readonly T[], n: number): T {
  return all[n % all.length] as T
}

/** Starts `count` loops that work until `endAt`; `n` counts the work of all loops. */
function workers(count: number, endAt: number, work: (n: number) => Promise<void>): Promise<void>[] {
  let begun = 0
  return Array.from({ length: count }, async () => {
    while (Date.now() < endAt)
      await work(begun++).catch((error: unknown) => problems.push(`no answer: ${String(error)}`))
  })
}

async function runNormal(pipeline: string): Promise<void> {
  const { status, error, attempt } = await runToEnd(pipeline)
  counts.normal += 1
  if (status !== 'success' || attempt !== 1)
    problems.push(`affected run of ${pipeline}: ${status} in attempt ${attempt}: ${error}`)
}

async function runHostile(pipeline: string): Promise<void> {
  const { status, error, attempt } = await runToEnd(pipeline)
  counts.hostile += 1
  if (status !== 'failed' || attempt !== 1)
    problems.push(`hostile run of ${pipeline}: ${status} in attempt ${attempt}: ${error}`)
}

async function runToEnd(pipeline: string): Promise<Run> {
  const id = await tree.requestRun(pipeline)
  return until(
    async () => {
      // Polling without a pause would itself load the service.
      await new Promise((resolve) => setTimeout(resolve, 200))
      return (await tree.call<Run>('GET', `/runs/${id}`)).body
    },
    (run) => ['success', 'failed', 'cancelled'].includes(run.status),
    600_000,
  )
}

async function send(service: Tree, [method, path, body]: (typeof TRAFFIC)[number]): Promise<void> {
  counts.requests += 1
  try {
    const { status } = await service.call(method, path, body)
    // 503 (busy) is a valid answer; any other 5xx is a fault of the service.
    if (status >= 500 && status !== 503) problems.push(`${method} ${path}: ${status}`)
  } catch {
    counts.unanswered += 1
  }
}

async function probeHealth({ url }: Tree, endAt: number): Promise<void> {
  while (Date.now() < endAt) {
    const since = performance.now()
    try {
      const response = await fetch(`${url}/health/live`, { signal: AbortSignal.timeout(30_000) })
      await response.arrayBuffer()
      if (response.status !== 200) problems.push(`/health/live: ${response.status}`)
    } catch (error) {
      problems.push(`/health/live: ${String(error)}`)
    }
    healthMs.push(performance.now() - since)
    await new Promise((resolve) => setTimeout(resolve, HEALTH_EVERY_MS))
  }
}

async function watchProcesses(service: Tree, endAt: number): Promise<void> {
  const pidOf = (part: string) => service.pidOf(part).catch(() => 0)
  const known = new Map<string, number>()
  for (const part of PARTS) known.set(part, await pidOf(part))
  while (Date.now() < endAt) {
    for (const part of PARTS) {
      const pid = await pidOf(part)
      if (pid !== known.get(part)) problems.push(`restart of ${part}: ${known.get(part)} is ${pid} now`)
      known.set(part, pid)
    }
    await new Promise((resolve) => setTimeout(resolve, WATCH_EVERY_MS))
  }
}

/** Prints the figures so far. Returns true if all limits hold. */
function report(): boolean {
  const sorted = [...healthMs].sort((a, b) => a - b)
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
  const p99 = at(0.99)
  console.log(
    `${counts.normal} normal runs, ${counts.hostile} hostile ones, ${counts.requests} requests (${counts.unanswered} unanswered); ` +
      `/health/live ${sorted.length} times: p50 ${at(0.5).toFixed(1)} ms, p99 ${p99.toFixed(1)} ms, max ${at(1).toFixed(1)} ms; ` +
      `${problems.length} problems`,
  )
  for (const [problem, same] of Map.groupBy(problems, (text) => text))
    console.log(`  ${same.length} x ${problem}`)
  return problems.length === 0 && counts.unanswered === 0 && p99 < HEALTH_P99_MS
}
