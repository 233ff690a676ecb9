// Postgres accepts connections and does not answer: the whole server is frozen, or single backends. Clients get 503 soon,
// nothing happens twice, and the service recovers by itself.
import { randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { expect, test } from '@playwright/test'
import { startTree, type Tree, until } from './tree.ts'

/** Limit of one Postgres statement of a request, in seconds. The request gives up a moment later. */
const STATEMENT_SECONDS = 4
/** Far longer than that limit, and far shorter than TCP needs to detect a dead connection. */
const TOLD_MS = 40_000

let tree: Tree
test.beforeAll(async () => {
  tree = await startTree({ DATABASE_TIMEOUT: String(STATEMENT_SECONDS) })
  await created('POST', '/landing-zones', { namespace: 'default', name: 'arrivals' })
  for (const name of ['asked', 'arrived', 'called']) await tree.publish(name, 'select 1 as a')
})

const paused = new Set<number>()
test.afterEach(thaw)
test.afterAll(async () => {
  thaw()
  await tree.stop()
})

function freeze(pids: readonly number[]) {
  for (const pid of pids) {
    paused.add(pid)
    process.kill(pid, 'SIGSTOP')
  }
}
function thaw() {
  for (const pid of paused) {
    try {
      process.kill(pid, 'SIGCONT')
    } catch {
      // The process has ended meanwhile.
    }
  }
  paused.clear()
}

test('requests during a frozen Postgres are 503 and can be repeated safely', async () => {
  const triggers = '/pipelines/default/gold/arrived/triggers'
  const config = { namespace: 'default', zone_name: 'arrivals' }
  await created('POST', triggers, { type: 'landing_zone_upload', config })
  const webhook = await created<{ webhook_token: string }>(
    'POST',
    '/pipelines/default/gold/called/triggers',
    {
      type: 'webhook',
      config: {},
      cooldown_seconds: 3_600,
    },
  )
  const keys = { run: randomUUID(), upload: randomUUID() }
  const askFor = {
    'a run': () => send('POST', '/runs', { pipeline: 'asked' }, keys.run),
    'an upload': () => upload(keys.upload),
    'a webhook call': () => send('POST', '/webhooks', undefined, undefined, webhook.webhook_token),
    runs: () => send('GET', '/runs'),
    pipelines: () => send('GET', '/pipelines'),
    lineage: () => send('GET', '/lineage'),
    'the audit log': () => send('GET', '/audit'),
  }

  const postmaster = await tree.pidOf('postgres')
  // The supervisor would replace a Postgres that is silent for 10 s. The postmaster would start other backends.
  freeze([await tree.pidOf('supervisor'), postmaster])
  freeze(await childrenOf(postmaster))
  // More requests of each kind than there are connections.
  const reports = Object.entries(askFor).flatMap(([what, ask]) =>
    Array.from({ length: 15 }, async () => ({ what, ...(await ask()) })),
  )
  for (const { what, status, retryAfter, body } of await Promise.all(reports))
    expect({ what, status, retryAfter, body }).toEqual({
      what,
      status: 503,
      retryAfter: '5',
      body: { error: { code: 'UNAVAILABLE', type: 'UNAVAILABLE', message: expect.any(String) } },
    })
  thaw()

  for (const [what, expected] of [
    ['a run', 202],
    ['an upload', 201],
  ] as const)
    await until(
      () => askFor[what](),
      ({ status }) => status === expected,
    )
  // If an earlier call took effect despite its 503, its cooldown of an hour causes a 429.
  await until(
    () => askFor['a webhook call'](),
    ({ status }) => status === 201 || status === 429,
  )
  const sql = await tree.connect()
  const ended = await until(
    () => sql<{ name: string; status: string }[]>`
      select p.name, r.status from run r join pipeline p on p.id = r.pipeline_id order by p.name`,
    (rows) => rows.length >= 3 && rows.every(({ status }) => status === 'success'),
    90_000,
  )
  expect(ended).toEqual(['arrived', 'asked', 'called'].map((name) => ({ name, status: 'success' })))
  expect(await sql`select 1 from landing_file`).toHaveLength(1)
  await sql.end({ timeout: 1 })
})

test('requests on a frozen backend are 503; retries use another backend', async () => {
  const sql = await tree.connect()
  const key = randomUUID()
  const ask = () => send('POST', '/runs', { pipeline: 'asked' }, key)
  const alone = () => send('POST', '/runs', { pipeline: 'asked' })
  // A first request opens the connection, so that there is a backend to freeze.
  expect((await alone()).status).toBe(202)
  const backends = await sql<{ pid: number }[]>`
    select pid from pg_stat_activity where datname = current_database() and application_name = 'sluice api requests'`
  expect(backends).toHaveLength(1)
  freeze(backends.map(({ pid }) => pid))
  expect(await alone()).toMatchObject({ status: 503, retryAfter: '5' })
  // The first backend is still frozen.
  expect((await ask()).status).toBe(202)
  expect((await alone()).status).toBe(202)
  await sql.end({ timeout: 1 })
})

test('runs start although the backend that starts runs is frozen', async () => {
  const sql = await tree.connect()
  // A session that was given up may still be closing, so there may be two.
  const backends = await until(
    () => sql<{ pid: number }[]>`
      select pid from pg_stat_activity
      where datname = current_database() and application_name = 'sluice dispatcher starts'`,
    (found) => found.length > 0,
  )
  // A backend frozen inside a transaction would keep its lock on an earlier run of the pipeline.
  await until(
    () => sql`select 1 from run where status in ('pending', 'running')`,
    (rows) => rows.length === 0,
  )
  freeze(backends.map(({ pid }) => pid))
  const run_id = await until(
    () => tree.requestRun('asked'),
    () => true,
  )
  expect(await tree.ended(run_id, 90_000), tree.log()).toMatchObject({ status: 'success', error: null })
  await sql.end({ timeout: 1 })
})

interface FaultReport {
  status: number
  retryAfter: string | null
  body: unknown
}

async function send(
  method: string,
  path: string,
  run?: { pipeline: string },
  key?: string,
  token?: string,
): Promise<FaultReport> {
  return reportOf(path, {
    method,
    headers: {
      ...(run === undefined ? {} : { 'content-type': 'application/json' }),
      ...(key === undefined ? {} : { 'idempotency-key': key }),
      ...(token === undefined ? {} : { 'x-webhook-token': token }),
    },
    body: run === undefined ? undefined : JSON.stringify({ namespace: 'default', layer: 'gold', ...run }),
  })
}

async function upload(key: string): Promise<FaultReport> {
  const form = new FormData()
  form.append('file', new Blob(['a\n1\n'], { type: 'text/csv' }), 'arrival.csv')
  return reportOf('/landing-zones/default/arrivals/files', {
    method: 'POST',
    headers: { 'idempotency-key': key },
    body: form,
  })
}

async function reportOf(path: string, init: RequestInit): Promise<FaultReport> {
  const response = await fetch(`${tree.url}/api/v1${path}`, { ...init, signal: AbortSignal.timeout(TOLD_MS) })
  return {
    status: response.status,
    retryAfter: response.headers.get('retry-after'),
    body: await response.json(),
  }
}

async function created<Answer>(method: string, path: string, body: object): Promise<Answer> {
  const answer = await tree.call<Answer>(method, path, body)
  expect(answer, JSON.stringify(answer.body)).toMatchObject({ status: 201 })
  return answer.body
}

async function childrenOf(pid: number): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number)
  const parents = await Promise.all(
    pids.map((of) =>
      readFile(`/proc/${of}/stat`, 'utf8').then(
        // The parent's pid follows the process name, which may contain any character, and the state.
        (stat) => Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]),
        () => 0,
      ),
    ),
  )
  return pids.filter((_, n) => parents[n] === pid)
}
