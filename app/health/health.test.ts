import { expect, test } from 'bun:test'
import { recordingLog, requestTo, testApp, testLog } from '../composition/test-app.ts'
import { SidecarRefusal } from '../rpc/clients.ts'
import { makeHealthService, type PythonHealth, type ReadinessChecks, weakest } from './service.ts'

const answers = async () => {}
const refuses = async () => {
  throw new Error('connect ECONNREFUSED postgres://sluice:secret@db')
}
const readyWith = async (checks: Partial<ReadinessChecks>) => {
  const readiness = { postgres: answers, s3: answers, runner: answers, query: answers, ...checks }
  const response = await requestTo(testApp({ readiness }), 'GET', '/health/ready')
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}
const allHealthy = { postgres: 'healthy', s3: 'healthy', runner: 'healthy', query: 'healthy' }

test('reports that the process runs and which build it is', async () => {
  const app = testApp({ readiness: { postgres: refuses, s3: refuses, runner: refuses, query: refuses } })
  expect(await (await requestTo(app, 'GET', '/health')).json()).toEqual({ status: 'healthy' })
  expect(await (await requestTo(app, 'GET', '/health/live')).json()).toEqual({
    status: 'healthy',
    version: '0.0.0-test',
    go_version: `bun${process.versions.bun}`,
    build_time: 'test',
    git_commit: 'test',
  })
})

test('reports a shortage of disk space without failing', async () => {
  const readiness = { postgres: answers, s3: answers, runner: answers, query: answers }
  const shortages = async () => ({ runner: 'runs wait: 1 MB of disk space are free' })
  const response = await requestTo(testApp({ readiness, shortages }), 'GET', '/health/ready')
  expect([response.status, await response.json()]).toEqual([
    200,
    { status: 'ok', services: allHealthy, details: await shortages(), engines: {} },
  ])
})

test('one failing part degrades readiness, and its error text stays hidden', async () => {
  for (const part of ['postgres', 's3', 'runner', 'query'] as const) {
    const { status, body } = await readyWith({ [part]: refuses })
    expect(status).toBe(503)
    expect(body).toEqual({
      status: 'degraded',
      services: { ...allHealthy, [part]: 'unhealthy' },
      details: { [part]: 'does not answer' },
      engines: {},
    })
  }
})

/** A health service whose runner fails on request, and its log lines. */
function watched() {
  const { log, entries } = recordingLog()
  let failure: Error | undefined
  const runner = async () => {
    if (failure) throw failure
  }
  const readiness = { postgres: answers, s3: answers, runner, query: answers }
  const health = makeHealthService({ readiness, log })
  const ask = async (now?: Error) => {
    failure = now
    await health.readiness()
  }
  const lines = () => entries.map(({ message, fields }) => [message, fields])
  return { lines, ask }
}

test('logs the reason once per change, however often readiness is checked', async () => {
  const { lines, ask } = watched()
  await ask()
  await ask(new Error('connect ECONNREFUSED'))
  await ask(new Error('connect ECONNREFUSED'))
  await ask()
  await ask()
  await ask(new Error('gone again'))
  expect(lines()).toEqual([
    ['runner is not ready', { error: 'connect ECONNREFUSED' }],
    ['runner is ready again', undefined],
    ['runner is not ready', { error: 'gone again' }],
  ])
})

test('logs the first reason of an aggregate error', async () => {
  const { lines, ask } = watched()
  await ask(new AggregateError([new AggregateError([new Error('connect ECONNREFUSED ::1:80')])]))
  expect(lines()).toEqual([['runner is not ready', { error: 'connect ECONNREFUSED ::1:80' }]])
})

test('shows the remedy for a rejected token, even beside unreachable sidecars', async () => {
  const refusal = new SidecarRefusal(
    'rejects the token: set the same SIDECAR_TOKEN for the API and the sidecar',
  )
  for (const error of [refusal, new AggregateError([new Error('connect ECONNREFUSED 10.0.0.1'), refusal])])
    expect(await readyWith({ runner: () => Promise.reject(error) })).toMatchObject({
      status: 503,
      body: { details: { runner: refusal.message } },
    })
})

test('a replica that is about to stop is not ready', async () => {
  let isLeaving = false
  const readiness = { postgres: answers, s3: answers, runner: answers, query: answers }
  const app = testApp({ readiness, isLeaving: () => isLeaving })
  expect((await requestTo(app, 'GET', '/health/ready')).status).toBe(200)
  isLeaving = true
  const response = await requestTo(app, 'GET', '/health/ready')
  expect([response.status, await response.json()]).toEqual([
    503,
    {
      status: 'degraded',
      services: allHealthy,
      details: { api: 'stops: use another replica' },
      engines: {},
    },
  ])
})

test('checks all parts concurrently and times them out together', async () => {
  let checks = 0
  const silent = (signal: AbortSignal) =>
    new Promise<void>(() => {
      checks++
      signal.addEventListener('abort', () => expect(checks).toBe(4))
    })
  const readiness = { postgres: silent, s3: silent, runner: silent, query: silent }
  const { ready, details } = await makeHealthService({ readiness, log: testLog, timeoutMs: 20 }).readiness()
  expect(ready).toBe(false)
  expect(details).toMatchObject({ postgres: 'no answer within 20 ms', query: 'no answer within 20 ms' })
})

test('a part that is off is shown but not required', async () => {
  const { status, body } = await readyWith({ runner: null, query: null })
  expect(status).toBe(200)
  expect(body).toEqual({
    status: 'ok',
    services: { ...allHealthy, runner: 'unhealthy', query: 'unhealthy' },
    details: { runner: 'switched off', query: 'switched off' },
    engines: {},
  })
})

test('reports the weakest Python sandbox, and null without Python', async () => {
  const saidWith = async (describePython: () => Promise<PythonHealth | null>) => {
    const response = await requestTo(testApp({ describePython }), 'GET', '/health/ready')
    return ((await response.json()) as { python?: unknown }).python
  }
  const runner = (sandbox: string) => ({ sandbox, version: '3.11.7' })
  const runners = [runner('bubblewrap'), runner(''), runner('landlock')]
  expect(await saidWith(async () => weakest(runners))).toEqual(runner('landlock'))
  expect(await saidWith(async () => weakest([runner('')]))).toBeNull()
  expect(await saidWith(() => Promise.reject(new Error('no answer')))).toBeNull()
})

test('reports the engine sandboxes that sidecars name', async () => {
  const { body } = await readyWith({ runner: async () => 'landlock', query: async () => 'none' })
  expect(body).toMatchObject({ services: allHealthy, engines: { runner: 'landlock', query: 'none' } })
  expect((await readyWith({ query: refuses, runner: async () => null })).body.engines).toEqual({})
  // A plugin reports its version instead.
  expect((await readyWith({ auth_plugin: async () => '1.2.3' })).body.engines).toEqual({})
})
