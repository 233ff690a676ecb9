// `npm run demo`: from a file to a gold table through the public interface, step by step.
import { readdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { call, createOnce, type Run } from './client.ts'

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

const say = (text = '') => process.stdout.write(`${text}\n`)
const seconds = (since: number) => `${((performance.now() - since) / 1000).toFixed(1)} s`

const service = startService()
const stop = () => service.child.kill('SIGINT')
process.on('SIGINT', stop)
process.on('SIGTERM', stop)

try {
  say('\nSluice: three million flights, from a file to a gold table\n')
  const began = performance.now()
  const base = await service.ready
  step('service', `ready on ${base}`, began)
  for (const zone of ZONES) await land(base, zone)
  for (const pipeline of PIPELINES) await publishAndRun(base, pipeline)
  await showGold(base)
  say(`Done in ${seconds(began)}. Look around:`)
  say(`  ${base}/swagger   every operation, ready to be executed`)
  say(`  ${base}/api/v1/runs   what has run`)
  say(
    `  curl -s ${base}/api/v1/query -H 'content-type: application/json' -d '{"sql": "select count(*) from silver.flights"}'`,
  )
  if (isOnce) {
    stop()
  } else {
    say('\nServing until Ctrl-C.')
  }
} catch (error) {
  say(`\nThe demo failed: ${error instanceof Error ? error.message : error}`)
  say(service.lastLines())
  process.exitCode = 1
  stop()
}
const code = await service.child.exited
process.exit(process.exitCode || code)

/** The supervisor as a child: its log is kept for the case that something fails, its refusals are passed on. */
function startService() {
  const child = Bun.spawn([process.execPath, 'sidecars/supervisor/main.ts'], {
    cwd: root,
    env: { ...process.env, SUPERVISED: '1' },
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'pipe',
    // Ctrl-C reaches the demo, which asks the tree to end.
    detached: true,
  })
  const lines: string[] = []
  const { promise: ready, resolve, reject } = Promise.withResolvers<string>()
  const read = async (stream: ReadableStream<Uint8Array>) => {
    let rest = ''
    const decoder = new TextDecoder()
    for await (const chunk of stream) {
      const parts = (rest + decoder.decode(chunk, { stream: true })).split('\n')
      rest = parts.pop() ?? ''
      for (const line of parts) {
        lines.push(line)
        if (lines.length > 200) lines.shift()
        const address = /Sluice is ready on (http\S+)/.exec(line)?.[1]
        if (address) resolve(address)
      }
    }
  }
  const drained = Promise.all([read(child.stdout), read(child.stderr)])
  void child.exited.then(async () => {
    await drained
    reject(new Error('the service ended before it was ready'))
  })
  ready.catch(() => {})
  return { child, ready, lastLines: () => lines.slice(-20).join('\n') }
}

function step(what: string, result: string, since: number) {
  say(`✓ ${what.padEnd(22)} ${result.padEnd(58)} ${seconds(since).padStart(7)}`)
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
  const there = files.find((candidate) => candidate.filename.endsWith(file))
  if (there !== undefined) return step(`landing zone ${name}`, `${there.filename} is there already`, since)
  const form = new FormData()
  form.append('file', Bun.file(join(data, file)), basename(file))
  const uploaded = await call<{ filename: string; size_bytes: number }>(base, 'POST', `${zone}/files`, form)
  step(
    `landing zone ${name}`,
    `${uploaded.filename}, ${(uploaded.size_bytes / 1e6).toFixed(1)} MB uploaded`,
    since,
  )
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
    step(`${layer}.${name}`, `version ${draft.published_version} is published already`, since)
  }

  since = performance.now()
  const { run_id } = await call<{ run_id: string }>(base, 'POST', '/runs', {
    namespace: 'default',
    layer,
    pipeline: name,
  })
  const run = await follow(base, run_id)
  if (run.status !== 'success') throw new Error(`run ${run_id} ${run.status}: ${run.error}`)
  step(
    '',
    `${(run.rows_written ?? 0).toLocaleString('en-US')} rows merged as commit ${run.merged_commit}`,
    since,
  )
  const { logs } = await call<{ logs: { level: string; message: string }[] }>(
    base,
    'GET',
    `/runs/${run_id}/logs`,
  )
  for (const { message } of logs.filter(({ message }) => /test/i.test(message)))
    say(`  ${' '.repeat(22)} ${message}`)
}

/** Writes a file unless it is there with the same content, so that a second demo publishes nothing new. */
async function writeOnce(base: string, path: string, content: string) {
  const current = await call<{ content: string }>(base, 'GET', `/files/${path}`).catch(() => null)
  if (current?.content !== content) await call(base, 'PUT', `/files/${path}`, { content })
}

/** Shows the phases of a run as they come. */
async function follow(base: string, id: string): Promise<Run> {
  const since = performance.now()
  const seen: string[] = []
  for (;;) {
    const run = await call<Run>(base, 'GET', `/runs/${id}`)
    const state = run.status === 'running' ? (run.phase ?? 'running') : run.status
    if (seen.at(-1) !== state) {
      seen.push(state)
      process.stdout.write(`${seen.length === 1 ? `  ${' '.repeat(23)}` : ' → '}${state} ${seconds(since)}`)
    }
    if (run.status !== 'pending' && run.status !== 'running') {
      process.stdout.write('\n')
      return run
    }
    await Bun.sleep(20)
  }
}

async function showGold(base: string) {
  const { columns, rows, duration_ms } = await call<{
    columns: { name: string }[]
    rows: Record<string, unknown>[]
    duration_ms: number
  }>(base, 'POST', '/query', { sql: GOLD_SQL })
  const names = columns.map((column) => column.name)
  const cells = [names, ...rows.map((row) => names.map((name) => String(row[name])))]
  const widths = names.map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0)))
  say(`\ngold.route_delays: where it is worst to fly (at least 100 flights; ${duration_ms} ms)\n`)
  cells.forEach((row, index) => {
    say(`  ${row.map((cell, column) => cell.padStart(widths[column] ?? 0)).join('  ')}`)
    if (index === 0) say(`  ${widths.map((width) => '─'.repeat(width)).join('  ')}`)
  })
  say()
}
