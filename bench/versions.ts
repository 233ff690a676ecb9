// `npm run bench -- versions <commit> [<commit>]` compares a commit with another one, or with this checkout. Each version is
// checked out and installed in a scratch folder, and started as users start it. Both services take short turns, so that other work
// on the machine disturbs both alike. The ratio of a figure is the median of the ratios of its turns. A ratio above 1 means that
// the later version is slower or larger.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { endWith } from '../tools/kit/scratch.ts'
import { type Service, startService } from '../tools/service/service.ts'
import { type Client, clientOf } from './client.ts'
import { figuresOf, timed } from './figures.ts'

const TURNS = Number(process.env.TURNS ?? 15)
const STARTS = Number(process.env.STARTS ?? 5)
const PIPELINES = 32
/** Callers of one turn request this number of runs or queries altogether. */
const RUNS_OF_TURN = 64
const CALLERS = 50
const QUERIES_OF_TURN = 400
const SETTLE_MS = 5_000
const POLL_MS = 40
const MB = 1_048_576
const root = join(import.meta.dirname, '..')
const median = (values: readonly number[]) => figuresOf(values).p50
const LONG = `select i as id, 'customer ' || (i * 31) % 5000 as customer, (i * 1.37)::decimal(14,2) as amount,
  date '2024-01-01' + (i % 365)::integer as booked, if(i % 5 = 0, null, 'note ' || i) as note from range(1000) t(i)`

type Measure = (client: Client) => Promise<number>

/** One turn of each figure: the median in milliseconds, or the milliseconds per run or query of many callers. */
const MEASURES: Record<string, Measure> = {
  'run with a test': async (client) => median(await timed(8, () => client.runToSuccess('tested'))),
  'run without a test': async (client) => median(await timed(8, () => client.runToSuccess('plain'))),
  [`${PIPELINES} callers, per run`]: async (client) => {
    const names = Array.from({ length: PIPELINES }, (_, n) => `many_${n}`)
    return perItem(RUNS_OF_TURN, names, (name) => client.runToSuccess(name))
  },
  'query of one row': async (client) => median(await timed(60, (n) => rowsOf(client, oneRow(n)))),
  [`${CALLERS} callers, per query`]: async (client) => {
    const callers = Array.from({ length: CALLERS }, (_, n) => n)
    return perItem(QUERIES_OF_TURN, callers, (n) => rowsOf(client, oneRow(n)))
  },
  'query of 1,000 rows': async (client) =>
    median(await timed(30, () => rowsOf(client, 'select * from gold.long'))),
  'upload to running': async (client) => median(await timed(6, () => uploadToRunning(client))),
}

const oneRow = (n: number) => `select id, customer, amount from gold.long where id = ${n}`
const rowsOf = (client: Client, sql: string) => client.call('POST', '/query', { sql })

/** Measures the versions and prints one line per figure. */
export async function benchVersions([before, after]: string[]) {
  if (before === undefined) throw new Error('versions needs a commit: npm run bench -- versions <commit>')
  const scratch = await mkdtemp(join(tmpdir(), 'sluice-versions-'))
  const clear = async () => {
    await rm(scratch, { recursive: true, force: true })
    git('worktree', 'prune')
  }
  const cancelClear = endWith(clear)
  try {
    const sides = [
      checkout(before, join(scratch, 'before')),
      after === undefined ? root : checkout(after, join(scratch, 'after')),
    ]
    console.log(`  ${''.padEnd(28)}${[before, after ?? 'here', 'times'].map(column).join('')}`)
    await inTurns(sides)
    await starts(sides)
  } finally {
    cancelClear()
    await clear()
  }
}

async function inTurns(sides: readonly string[]) {
  const services: Service[] = []
  try {
    for (const side of sides) services.push(await start(side))
    const clients = services.map(({ url }) => clientOf(url))
    for (const client of clients) await prepare(client)
    await Bun.sleep(SETTLE_MS)
    print('memory at idle, MB of PSS', [services.map(({ pid }) => proportionalBytes(pid) / MB)])
    for (const [name, measure] of Object.entries(MEASURES)) {
      for (const client of clients) await measure(client)
      print(name, await turns(TURNS, clients, measure))
    }
    print('memory after work, MB of PSS', [services.map(({ pid }) => proportionalBytes(pid) / MB)])
  } finally {
    for (const service of services) await service.stop()
  }
}

/** Starts each version on a fresh data directory, and waits until it is ready. */
async function starts(sides: readonly string[]) {
  const samples = await turns(STARTS, sides, async (side) => {
    const since = performance.now()
    const service = await start(side)
    const readyMs = performance.now() - since
    await service.stop()
    return readyMs
  })
  print('start to ready, fresh data', samples)
}

/** The figures of each turn, in the order of the sides. The side that begins alternates. */
async function turns<Side>(times: number, sides: readonly Side[], measure: (side: Side) => Promise<number>) {
  const samples: number[][] = []
  for (let turn = 0; turn < times; turn++) {
    const figures: number[] = []
    const order = [...sides.entries()]
    for (const [n, side] of turn % 2 === 0 ? order : order.toReversed()) figures[n] = await measure(side)
    samples.push(figures)
  }
  return samples
}

function print(name: string, samples: readonly number[][]) {
  const of = (n: number) => samples.map((turn) => turn[n] ?? Number.NaN)
  const ratios = samples.map(([before = Number.NaN, after = Number.NaN]) => after / before)
  const cells = [median(of(0)), median(of(1)), median(ratios)].map((value) => column(value.toFixed(2)))
  console.log(`  ${name.padEnd(28)}${cells.join('')}`)
}

const column = (text: string) => text.slice(0, 9).padStart(11)
const git = (...args: string[]) =>
  execFileSync('git', args, { cwd: root, stdio: ['ignore', 'pipe', 'ignore'] })

/** Checks out a commit and installs what it needs with its own set-up. */
function checkout(commit: string, folder: string): string {
  git('worktree', 'add', '--detach', folder, commit)
  execFileSync('node', ['.setup/setup.mjs'], { cwd: folder, stdio: 'ignore' })
  return folder
}

const start = (checkout: string) =>
  startService({ LOG_FORMAT: 'text' }, undefined, {
    cwd: checkout,
    command: ['node', '.setup/bun.mjs', 'sidecars/supervisor/main.ts'],
  })

async function prepare(client: Client) {
  const { call, create } = client
  const publish = (name: string) => call('POST', `/pipelines/default/gold/${name}/publish`)
  const names = ['plain', 'tested', 'landed', ...Array.from({ length: PIPELINES }, (_, n) => `many_${n}`)]
  for (const name of names) await create(name, 'select 1 as a')
  await create('long', LONG)
  const test = { name: 'one-row', severity: 'error', sql: 'select count(*) - 1 from {{ this }}' }
  for (const name of names.filter((each) => each !== 'plain'))
    await call('POST', `/pipelines/default/gold/${name}/tests`, test)
  for (const name of [...names, 'long']) await publish(name)
  await client.runToSuccess('long')
  await call('POST', '/landing-zones', { namespace: 'default', name: 'drop' })
  const config = { namespace: 'default', zone_name: 'drop' }
  await call('POST', '/pipelines/default/gold/landed/triggers', { type: 'landing_zone_upload', config })
}

/** Milliseconds per item, while each caller works through its share of `count` items. */
async function perItem<Caller>(
  count: number,
  callers: readonly Caller[],
  work: (caller: Caller) => Promise<unknown>,
) {
  const since = performance.now()
  await Promise.all(
    callers.map(async (caller) => {
      for (let n = 0; n < count / callers.length; n++) await work(caller)
    }),
  )
  return (performance.now() - since) / count
}

interface Runs {
  total: number
  runs: { status: string; started_at: string | null }[]
}

/** Milliseconds from an upload to the start of the run that it triggers, by the clock of this machine. */
async function uploadToRunning({ call }: Client): Promise<number> {
  const runs = () => call<Runs>('GET', '/runs?limit=1&namespace=default&layer=gold&pipeline=landed')
  const { total } = await runs()
  const form = new FormData()
  form.set('file', new File(['a,b\n1,2\n'], 'small.csv', { type: 'text/csv' }))
  const since = performance.timeOrigin + performance.now()
  await call('POST', '/landing-zones/default/drop/files', form)
  for (;;) {
    await Bun.sleep(POLL_MS)
    const { total: now, runs: found } = await runs()
    const [run] = found
    if (now > total && run?.status === 'success' && run.started_at) return Date.parse(run.started_at) - since
  }
}

/** The memory of a process and all its descendants. Shared pages count once. */
function proportionalBytes(pid: number): number {
  const parents = new Map<number, number>()
  for (const name of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry)))
    parents.set(Number(name), Number(/PPid:\s+(\d+)/.exec(read(`/proc/${name}/status`))?.[1]))
  const isOwn = (each: number | undefined): boolean =>
    each === pid || (each !== undefined && each > 1 && isOwn(parents.get(each)))
  const kilobytes = (each: number) =>
    Number(/Pss:\s+(\d+)/.exec(read(`/proc/${each}/smaps_rollup`))?.[1] ?? 0)
  return [...parents.keys()].filter(isOwn).reduce((sum, each) => sum + kilobytes(each) * 1024, 0)
}

/** The text of a file of `/proc`, which is gone when its process has ended. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
