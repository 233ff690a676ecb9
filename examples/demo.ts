// `npm run demo`: takes files to a gold table through the public interface, step by step.
import { readdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { eachLine } from '../sidecars/supervisor/lines.ts'
import { messageOf } from '../sidecars/supervisor/refusal.ts'
import { call, createOnce, type Run } from './client.ts'
import {
  durationText,
  type LogLine,
  makePhaseLine,
  stepLine,
  tableLines,
  testLines,
  widthOf,
} from './report.ts'

const root = join(import.meta.dirname, '..')
const flights = join(import.meta.dirname, 'flights')
const data = join(root, 'node_modules', 'vega-datasets', 'data')
const isOnce = process.argv.includes('--once')

const ZONES = [
  { name: 'flights', description: 'Flights within the United States, 2001', file: 'flights-3m.parquet' },
  { name: 'airports', description: 'Airports and where they are', file: 'airports.csv' },
]
const PIPELINES = ['bronze/flights', 'bronze/airports', 'silver/flights', 'gold/route_delays']
const GOLD_SQL = `select origin, destination, hour, flights, mean_delay, p95_delay, share_over_15
from gold.route_delays where flights >= 100 order by share_over_15 desc, mean_delay desc limit 10`

const POLL_MS = 20
const LAST_LINES = 20
/** Log lines about the demo's own successful requests. They explain no failure, so they are not printed. */
const OWN_REQUEST = / api +[A-Z]+ \/\S+ 2\d\d /
/** The exit code that shells use after Ctrl-C. */
const INTERRUPTED = 130

const write = (text: string) => void process.stdout.write(text)
const print = (text = '') => write(`${text}\n`)
const width = widthOf(process.stdout.columns)
const phases = makePhaseLine(write, width)
// The reader of the output, such as `head`, may close the pipe before the demo ends.
process.stdout.on('error', () => {})

/** The service ended before it was ready. Its own log gives the reason. */
class NeverReady extends Error {}

const service = startService()
let isInterrupted = false
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    isInterrupted = true
    service.child.kill('SIGINT')
  })
}

process.exit(await demonstrate())

/** Runs the tour. Resolves with the exit code of the demo when the service has stopped. */
async function demonstrate(): Promise<number> {
  print('\nSluice: three million flights, from a file to a gold table\n')
  try {
    await tour(await service.ready)
  } catch (error) {
    phases.end()
    if (!isInterrupted) {
      if (!(error instanceof NeverReady)) print(`\nThe demo failed: ${messageOf(error)}\n`)
      print(service.lastLines())
    }
    service.child.kill('SIGINT')
    await service.child.exited
    if (isInterrupted) print('\nStopped.')
    return isInterrupted ? INTERRUPTED : 1
  }
  if (isOnce) service.child.kill('SIGINT')
  const code = await service.child.exited
  if (code !== 0) print(`\nThe service ended with code ${code}:\n${service.lastLines()}`)
  else if (isInterrupted) print('\nStopped.')
  return code
}

async function tour(base: string) {
  step('service', `ready on ${base}`, 0)
  for (const zone of ZONES) await land(base, zone)
  for (const pipeline of PIPELINES) await publishAndRun(base, pipeline)
  await showGold(base)
  const done = `Done in ${durationText(performance.now())}`
  if (isOnce) return print(`${done}.`)
  print(`${done}. Look around:`)
  print(`  ${base}/console   look at runs, tables, lineage, and change them`)
  print(`  ${base}/swagger   try every operation of the API`)
  print(`  ${base}/inspector   states and history of each run`)
  print(`  curl ${base}/api/v1/query --json '{"sql": "select count(*) from silver.flights"}'`)
  print('\nServing until Ctrl-C.')
}

/** Starts the supervisor as a child process. Its last log lines are stored and printed when the demo fails. */
function startService() {
  const child = Bun.spawn([process.execPath, 'sidecars/supervisor/main.ts'], {
    cwd: root,
    env: { ...process.env, SUPERVISED: '1' },
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'pipe',
    // Ctrl-C must reach only the demo, which then stops the service.
    detached: true,
  })
  const lines: string[] = []
  const { promise: ready, resolve, reject } = Promise.withResolvers<string>()
  const handleLine = (line: string) => {
    if (!OWN_REQUEST.test(line)) lines.push(line)
    if (lines.length > LAST_LINES) lines.shift()
    const address = /Sluice is ready on (http\S+)/.exec(line)?.[1]
    if (address) resolve(address)
  }
  const drained = Promise.all([eachLine(child.stdout, handleLine), eachLine(child.stderr, handleLine)])
  void child.exited.then(async () => {
    await drained
    reject(new NeverReady())
  })
  ready.catch(() => {})
  return { child, ready, lastLines: () => lines.join('\n') }
}

function step(name: string, result: string, since: number) {
  print(stepLine({ name, result, ms: performance.now() - since }, width))
}

async function land(base: string, { name, description, file }: (typeof ZONES)[number]) {
  const since = performance.now()
  const zone = `/landing-zones/default/${name}`
  await createOnce(base, '/landing-zones', { namespace: 'default', name, description })
  const { files } = await call<{ files: { filename: string; size_bytes: number }[] }>(
    base,
    'GET',
    `${zone}/files`,
  )
  const existing = files.find((candidate) => candidate.filename.endsWith(file))
  if (existing !== undefined) return step(`zone ${name}`, `${existing.filename} is already uploaded`, since)
  const form = new FormData()
  form.append('file', Bun.file(join(data, file)), basename(file))
  const uploaded = await call<{ filename: string; size_bytes: number }>(base, 'POST', `${zone}/files`, form)
  step(`zone ${name}`, `${uploaded.filename}, ${(uploaded.size_bytes / 1e6).toFixed(1)} MB uploaded`, since)
}

async function publishAndRun(base: string, pipeline: string) {
  const [layer = '', name = ''] = pipeline.split('/')
  const path = `/pipelines/default/${pipeline}`
  let since = performance.now()
  await createOnce(base, '/pipelines', { namespace: 'default', layer, name })
  const files = (await readdir(join(flights, pipeline), { recursive: true })).filter((file) =>
    file.endsWith('.sql'),
  )
  for (const file of files) {
    const content = await Bun.file(join(flights, pipeline, file)).text()
    await writeOnce(base, `default/pipelines/${pipeline}/${file}`, content)
  }
  const draft = await call<{ draft_dirty: boolean; published_version: number | null }>(base, 'GET', path)
  if (draft.draft_dirty) {
    const { version } = await call<{ version: number }>(base, 'POST', `${path}/publish`, {
      message: 'From the demo',
    })
    step(`${layer}.${name}`, `published as version ${version}`, since)
  } else {
    step(`${layer}.${name}`, `version ${draft.published_version} is already published`, since)
  }

  since = performance.now()
  const { run_id } = await call<{ run_id: string }>(base, 'POST', '/runs', {
    namespace: 'default',
    layer,
    pipeline: name,
  })
  const run = await follow(base, run_id)
  if (run.status !== 'success') throw new Error(`run ${run_id} ${run.status}: ${run.error}`)
  step('', `${(run.rows_written ?? 0).toLocaleString('en-US')} rows`, since)
  const { tests } = await call<{ tests: { name: string; severity: string }[] }>(base, 'GET', `${path}/tests`)
  const { logs } = await call<{ logs: LogLine[] }>(base, 'GET', `/runs/${run_id}/logs`)
  const severities = new Map(tests.map((test) => [test.name, test.severity]))
  for (const line of testLines(logs, severities, width)) print(line)
}

/** Writes a file unless it already has this content, so that a second demo publishes no new version. */
async function writeOnce(base: string, path: string, content: string) {
  const current = await call<{ content: string }>(base, 'GET', `/files/${path}`).catch(() => null)
  if (current?.content !== content) await call(base, 'PUT', `/files/${path}`, { content })
}

/** Prints the phases of a run while it executes. Resolves with the ended run. */
async function follow(base: string, id: string): Promise<Run> {
  let shown: string | undefined
  let since = performance.now()
  for (;;) {
    const run = await call<Run>(base, 'GET', `/runs/${id}`)
    const isOver = run.status !== 'pending' && run.status !== 'running'
    const state = run.status === 'running' ? (run.phase ?? 'running') : run.status
    if (state !== shown && state !== 'merging') {
      if (shown !== undefined) phases.took(performance.now() - since)
      phases.next(state === 'success' ? mergedText(run) : state, { isLast: isOver })
      since = performance.now()
      shown = state
    }
    if (isOver) {
      phases.end()
      return run
    }
    await Bun.sleep(POLL_MS)
  }
}

function mergedText({ merged_commit }: Run) {
  return merged_commit === null ? 'nothing to merge' : `merged as commit ${merged_commit}`
}

async function showGold(base: string) {
  const { columns, rows, duration_ms } = await call<{
    columns: { name: string }[]
    rows: Record<string, unknown>[]
    duration_ms: number
  }>(base, 'POST', '/query', { sql: GOLD_SQL })
  print(
    `\ngold.route_delays: routes and hours with the most delays (at least 100 flights; ${duration_ms} ms)\n`,
  )
  const names = columns.map((column) => column.name)
  for (const line of tableLines(names, rows)) print(line)
  print()
}
