// A paused leader is replaced and cannot write after it wakes. The tests use the product's lease, its real scheduler, and a
// writer that no unique key would stop.
import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from '@playwright/test'
import type postgres from 'postgres'
import { holding, startTree, type Tree, until } from './tree.ts'

const root = join(import.meta.dirname, '..', '..')
const LEASE_MS = 9_000
/** Minimum time between pause and wake. Even with 0, the wake follows the takeover; set a minute where time allows. */
const PAUSE_MS = Number(process.env.LEADER_PAUSE_MS ?? 0)
const SCHEDULES = 10

let tree: Tree
let sql: postgres.Sql
test.beforeAll(async () => {
  tree = await startTree()
  sql = await tree.connect()
  await sql`create table firing (id bigserial primary key, holder text not null, epoch bigint not null)`
  for (let n = 0; n < SCHEDULES; n++) {
    const pipeline = `scheduled_${n}`
    await tree.publish(pipeline, 'select 1 as a')
    const schedule = { namespace: 'default', layer: 'gold', pipeline, cron: '0 0 1 1 *' }
    expect((await tree.call('POST', '/schedules', schedule)).status).toBe(201)
  }
})
test.afterAll(async () => {
  await sql.end({ timeout: 1 })
  await tree.stop()
})

const paused = new Set<number>()
const children: ChildProcess[] = []
test.afterEach(async () => {
  for (const pid of paused) wake(pid)
  for (const child of children.splice(0)) {
    await end(child)
  }
})

/** Also accepts a process that has already ended. */
const end = (child: ChildProcess) =>
  new Promise<unknown>((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve(null)
    child.once('exit', resolve)
    child.kill('SIGTERM')
  })

function pause(pid: number) {
  paused.add(pid)
  process.kill(pid, 'SIGSTOP')
}
function wake(pid: number) {
  paused.delete(pid)
  process.kill(pid, 'SIGCONT')
}

/** The supervisor pauses with the API, as on a paused machine: alone, it would replace an API that is silent for 10 s. */
const pausedTogether = () => Promise.all(['supervisor', 'api'].map((name) => tree.pidOf(name)))

test('a leader paused between two transactions writes nothing after it wakes @schedules.catch-up', async () => {
  const service = await pausedTogether()
  const rival = await start('e2e/faults/rival.ts', await databaseUrl(), 'rival')
  const old = await writer('old', 'steadily')
  await until(firings, (count) => count > 0)
  await writer('young', 'steadily')

  const since = performance.now()
  for (const pid of [...service, old.pid]) pause(pid)
  await makeDue()
  await expectTakeover(since, { scheduler: 'rival', firing: 'young' })
  await until(runs, (rows) => rows.length === SCHEDULES)
  const before = await firings('old')
  await sleepUntil(since + PAUSE_MS)

  for (const pid of [...service, old.pid]) wake(pid)
  await until(async () => tree.log().includes('leadership of the scheduler lost'), Boolean)
  await old.heard('follows')
  const firedByYoung = await firings('young')
  await until(
    () => firings('young'),
    (count) => count > firedByYoung + 50,
  )
  expect(await firings('old')).toBe(before)
  await expectOneRunEach()
  await rival.stop()
})

test('a leader paused inside a transaction writes nothing after it wakes', async () => {
  const api = await tree.pidOf('api')
  const service = await pausedTogether()
  const old = await writer('old', 'slowly')
  await old.heard('inside')
  const before = await firings()
  await writer('young', 'steadily')
  // The service must lead again before a rival exists that could take the lease.
  await until(
    () => leader('scheduler'),
    (row) => row?.holder !== 'rival' && row?.is_over === false,
  )
  const rival = await start('e2e/faults/rival.ts', await databaseUrl(), 'rival')

  // The new thread ticks at once and waits for the table inside its transaction.
  await sql`delete from run`
  const lock = holding(await tree.connect(), 'lock table run in share mode')
  await lock.taken
  await makeDue()
  process.kill(api, 'SIGUSR2')
  await until(
    () => sql`
      select 1 from pg_stat_activity
      where datname = current_database() and application_name like 'sluice scheduler %'
        and wait_event_type = 'Lock' and query like '%schedule%'`,
    (rows) => rows.length === 1,
  )
  const since = performance.now()
  for (const pid of [...service, old.pid]) pause(pid)
  await lock.release()
  await expectTakeover(since, { scheduler: 'rival', firing: 'young' })
  await until(runs, (rows) => rows.length === SCHEDULES)
  await sleepUntil(since + PAUSE_MS)

  old.child.stdin?.write('go on\n')
  for (const pid of [...service, old.pid]) wake(pid)
  await until(async () => tree.log().split('leadership of the scheduler lost').length > 2, Boolean)
  await old.heard('failed')
  const firedByYoung = await firings('young')
  await until(
    () => firings('young'),
    (count) => count > firedByYoung + 50,
  )
  expect(await firings('old')).toBe(0)
  expect(before).toBe(0)
  await expectOneRunEach()
  const metrics = await (await fetch(`${tree.url}/metrics`)).text()
  expect(metrics).toContain('sluice_worker_restarts_total{worker="scheduler",reason="terminated"} 1')
  await rival.stop()
})

interface Leader {
  holder: string
  epoch: number
  is_over: boolean
}
async function leader(role: string): Promise<Leader | undefined> {
  const [row] = await sql<Leader[]>`
    select holder, epoch::float8 as epoch, until <= clock_timestamp() as is_over from leader where role = ${role}`
  return row
}

async function expectTakeover(since: number, heirs: Record<string, string>) {
  await Promise.all(
    Object.entries(heirs).map(async ([role, heir]) => {
      await until(
        () => leader(role),
        (row) => row?.holder === heir,
      )
      const took = Math.round(performance.now() - since)
      test.info().annotations.push({ type: `takeover of ${role}`, description: `${took} ms` })
    }),
  )
}

const makeDue = () => sql`update schedule set next_run_at = clock_timestamp() - interval '1 day'`
const runs = () => sql<{ id: string; schedule_id: string }[]>`select id, schedule_id from run`

/** The woken service has executed the runs that its rival requested. No run was requested twice. */
async function expectOneRunEach() {
  const ended = await until(
    () => sql<{ status: string; schedule_id: string }[]>`select status, schedule_id from run`,
    (rows) => rows.every(({ status }) => status === 'success'),
  )
  expect(ended).toHaveLength(SCHEDULES)
  expect(new Set(ended.map((run) => run.schedule_id)).size).toBe(SCHEDULES)
  const { body } = await tree.call<{ schedules: Record<'last_run_at' | 'next_run_at', string | null>[] }>(
    'GET',
    '/schedules',
  )
  expect(body.schedules).toHaveLength(SCHEDULES)
  for (const { last_run_at, next_run_at } of body.schedules) {
    expect(last_run_at).not.toBeNull()
    expect(next_run_at).toMatch(/-01-01T00:00:00/)
  }
}

const firings = async (holder = 'old') => (await sql`select 1 from firing where holder = ${holder}`).length
const databaseUrl = () => tree.databaseUrl()
const sleepUntil = (at: number) =>
  new Promise<void>((resolve) => setTimeout(resolve, Math.max(0, at - performance.now())))

const writer = async (holder: string, mode: 'steadily' | 'slowly') => {
  if (mode === 'slowly') await sql`truncate firing`
  return start(
    'workers/leadership/leadership.child.ts',
    await databaseUrl(),
    'firing',
    holder,
    String(LEASE_MS),
    mode,
  )
}

/** Starts a process of ours, which prints its pid first. */
async function start(path: string, ...args: string[]) {
  const child = spawn(process.execPath, ['.setup/bun.mjs', path, ...args], {
    cwd: root,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  children.push(child)
  let text = ''
  child.stdout?.on('data', (chunk: Buffer) => {
    text += chunk
  })
  // Only whole lines count: half a pid would be the pid of another process.
  const printedLines = () => text.split('\n').slice(0, -1)
  const heard = (word: string) =>
    until(
      async () => printedLines(),
      (lines) => lines.includes(word),
    )
  const lines = await until(
    async () => printedLines(),
    ([first]) => first?.startsWith('pid ') === true,
  )
  return {
    child,
    pid: Number(lines[0]?.slice(4)),
    heard,
    stop: () => end(child),
  }
}
