// Postgres is there and says nothing: frozen as a whole, or single backends of it. Clients are told soon, nothing happens
// twice, and everything goes on by itself.
import { randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { expect, test } from '@playwright/test'
import { startTree, type Tree, until } from './tree.ts'

/** What a request may ask of Postgres in one statement, in seconds; given up a moment later. */
const STATEMENT_SECONDS = 4
/** Far beyond that, and far below what TCP takes to find out. */
const TOLD_MS = 40_000

test.setTimeout(240_000)

let tree: Tree
test.beforeAll(async () => {
  tree = await startTree({ DATABASE_TIMEOUT: String(STATEMENT_SECONDS) })
  await made('POST', '/landing-zones', { namespace: 'default', name: 'arrivals' })
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
      // It has ended meanwhile.
    }
  }
  paused.clear()
}

test('a frozen Postgres: everything asked is 503 soon, and done once when it is asked again after the thaw', async () => {
  const triggers = '/pipelines/default/gold/arrived/triggers'
  const config = { namespace: 'default', zone_name: 'arrivals' }
  await made('POST', triggers, { type: 'landing_zone_upload', config })
  const webhook = await made<{ webhook_token: string }>('POST', '/pipelines/default/gold/called/triggers', {
    type: 'webhook',
    config: {},
    cooldown_seconds: 3_600,
  })
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
  // The postmaster first: it would start other backends.
  freeze([postmaster])
  freeze(await childrenOf(postmaster))
  // More of each than there are connections.
  const asked = Object.entries(askFor).flatMap(([what, ask]) =>
    Array.from({ length: 15 }, async () => ({ what, ...(await ask()) })),
  )
  for (const { what, status, retryAfter, body } of await Promise.all(asked))
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
  // Where one was not heard of, its cooldown is over in an hour.
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

test('single backends frozen: what is asked there is 503 soon, and done by another one while they are', async () => {
  const sql = await tree.connect()
  const key = randomUUID()
  const ask = () => send('POST', '/runs', { pipeline: 'asked' }, key)
  const alone = () => send('POST', '/runs', { pipeline: 'asked' })
  // Each connection has been asked something, so that there is a backend to freeze.
  expect((await alone()).status).toBe(202)
  const backends = await sql<{ pid: number }[]>`
    select pid from pg_stat_activity where datname = current_database() and application_name = 'sluice api requests'`
  expect(backends).toHaveLength(1)
  freeze(backends.map(({ pid }) => pid))
  expect(await alone()).toMatchObject({ status: 503, retryAfter: '5' })
  // The one that is frozen still is.
  expect((await ask()).status).toBe(202)
  expect((await alone()).status).toBe(202)
  await sql.end({ timeout: 1 })
})

test('the backend that starts runs frozen: runs are started without it', async () => {
  const sql = await tree.connect()
  const backends = await sql<{ pid: number }[]>`
    select pid from pg_stat_activity
    where datname = current_database() and application_name = 'sluice dispatcher starts'`
  expect(backends).toHaveLength(1)
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

interface Told {
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
): Promise<Told> {
  return told(path, {
    method,
    headers: {
      ...(run === undefined ? {} : { 'content-type': 'application/json' }),
      ...(key === undefined ? {} : { 'idempotency-key': key }),
      ...(token === undefined ? {} : { 'x-webhook-token': token }),
    },
    body: run === undefined ? undefined : JSON.stringify({ namespace: 'default', layer: 'gold', ...run }),
  })
}

async function upload(key: string): Promise<Told> {
  const form = new FormData()
  form.append('file', new Blob(['a\n1\n'], { type: 'text/csv' }), 'arrival.csv')
  return told('/landing-zones/default/arrivals/files', {
    method: 'POST',
    headers: { 'idempotency-key': key },
    body: form,
  })
}

async function told(path: string, init: RequestInit): Promise<Told> {
  const response = await fetch(`${tree.url}/api/v1${path}`, { ...init, signal: AbortSignal.timeout(TOLD_MS) })
  return {
    status: response.status,
    retryAfter: response.headers.get('retry-after'),
    body: await response.json(),
  }
}

async function made<Answer>(method: string, path: string, body: object): Promise<Answer> {
  const answer = await tree.call<Answer>(method, path, body)
  expect(answer, JSON.stringify(answer.body)).toMatchObject({ status: 201 })
  return answer.body
}

async function childrenOf(pid: number): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number)
  const parents = await Promise.all(
    pids.map((of) =>
      readFile(`/proc/${of}/stat`, 'utf8').then(
        // After the name, which may hold anything, and the state.
        (stat) => Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]),
        () => 0,
      ),
    ),
  )
  return pids.filter((_, n) => parents[n] === pid)
}
