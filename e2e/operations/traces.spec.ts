// OpenTelemetry: a collector of this file receives the spans and the metrics of a service of this file.
import { type APIRequestContext, expect, request as requests, test } from '@playwright/test'
import { type Collector, numberOf, spansOfRun, startCollector } from '../kit/collector.ts'
import { eventually } from '../kit/eventually.ts'
import { type OwnService, startOwnService } from '../kit/own-service.ts'
import { type MadePipeline, newZone, pipelineWith, publish, publishedPipeline } from '../kit/resources.ts'
import { ended, endedRuns, requestRun } from '../kit/runs.ts'
import { addTrigger } from '../kit/triggers.ts'

let collector: Collector
let service: OwnService
let request: APIRequestContext

test.beforeAll(async () => {
  collector = await startCollector()
  service = await startOwnService({
    ...collector.env,
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
    LOG_FORMAT: 'json',
  })
  request = await requests.newContext({ baseURL: service.url })
})
test.afterAll(async () => {
  await request?.dispose()
  await service?.stop()
  await collector?.stop()
})

const spansOf = (id: string, names: readonly (string | RegExp)[]) =>
  spansOfRun(collector, { request, id, names })

async function run(sql: string) {
  const pipeline = await pipelineWith(request, sql, { layer: 'gold' })
  await publish(request, pipeline)
  return ended(request, await requestRun(request, pipeline))
}

const REQUEST = 'POST /api/v1/runs'
const COMMIT = /^POST \/catalog\/.*tables/

test('the spans of a run form one tree @runtime @traces.run', async () => {
  const { id, status } = await run('select 1 as a')
  expect(status).toBe('success')
  const { spans, parentOf, parentsOf } = await spansOf(id, [
    REQUEST,
    'queue',
    'attempt',
    'render',
    'execute',
    'test',
    'commit',
    'merge',
    COMMIT,
  ])
  expect(parentsOf(REQUEST)).toEqual([null])
  for (const name of ['queue', 'attempt', 'merge']) expect(parentsOf(name)).toEqual([REQUEST])
  for (const name of ['render', 'execute', 'test', 'commit']) expect(parentsOf(name)).toEqual(['attempt'])
  expect(parentsOf('duckdb copy')).toEqual(['execute'])
  const commit = spans.find(({ name }) => COMMIT.test(name))
  expect(commit && parentOf(commit)).toBe('commit')
  // Only the first span has no parent, and no span ends before its start.
  expect(spans.filter((span) => parentOf(span) === null).map(({ name }) => name)).toEqual([REQUEST])
  for (const { startTimeUnixNano, endTimeUnixNano } of spans)
    expect(BigInt(endTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(startTimeUnixNano))
})

test('the span of a failed run has an error without data of users @traces.failed', async () => {
  const { id, status } = await run("select error('secret-text') as a")
  expect(status).toBe('failed')
  const { spans } = await spansOf(id, ['attempt'])
  const attempt = spans.find(({ name }) => name === 'attempt')
  expect(attempt?.status.code).toBe(2)
  expect(JSON.stringify(collector.spans)).not.toContain('secret-text')
})

test('spans name the cost of an attempt and of its statements @traces.cost', async () => {
  const { id } = await run('select range as id, hash(range) as h from range(500000)')
  const { spans } = await spansOf(id, ['attempt', 'duckdb copy'])
  for (const name of ['attempt', 'duckdb copy']) {
    const one = spans.find((span) => span.name === name)
    expect([name, one && numberOf(one, 'sluice.bytes_written') > 4_000_000]).toEqual([name, true])
    expect([name, one && numberOf(one, 'sluice.cpu_seconds') > 0]).toEqual([name, true])
  }
  const attempt = spans.find(({ name }) => name === 'attempt')
  expect(attempt && numberOf(attempt, 'sluice.peak_memory_bytes')).toBeGreaterThan(50_000_000)
})

/** Checks the spans of a run that a trigger has started, and returns the name of the cause. */
async function causeOf(pipeline: MadePipeline): Promise<string | null> {
  const [started] = await endedRuns(request, pipeline, 1)
  const spans = () => spansOf(started?.id ?? '', ['trigger', 'queue', 'attempt', 'merge'])
  // The run before has spans of these names in the same trace, so the spans of this run may arrive later.
  const parents = async () => {
    const { parentsOf } = await spans()
    return ['queue', 'attempt', 'merge'].filter((name) => parentsOf(name).includes('trigger'))
  }
  await eventually(parents).toEqual(['queue', 'attempt', 'merge'])
  return (await spans()).parentsOf('trigger')[0] ?? null
}

test('the firing of a trigger is between its cause and the queue @traces.triggers', async () => {
  const zone = await newZone(request)
  const [byFile, byWebhook, upstream, downstream] = await Promise.all([
    publishedPipeline(request),
    publishedPipeline(request),
    publishedPipeline(request),
    publishedPipeline(request),
  ])
  await addTrigger(request, byFile, 'landing_zone_upload', zone.config)
  const { webhook_token: token } = await addTrigger(request, byWebhook, 'webhook', {})
  const { namespace, layer, name } = upstream
  await addTrigger(request, downstream, 'pipeline_success', { namespace, layer, pipeline: name })
  await zone.upload('a.csv')
  const called = await request.post('/api/v1/webhooks', { headers: { 'x-webhook-token': String(token) } })
  expect(called.status()).toBe(201)
  await ended(request, await requestRun(request, upstream))
  expect(await causeOf(byFile)).toMatch(/^POST .*\/files$/)
  expect(await causeOf(byWebhook)).toBe('POST /api/v1/webhooks')
  // The success of a run continues the trace of that run.
  expect(await causeOf(downstream)).toBe(REQUEST)
})

test("a client's trace continues, and log lines name trace and span @traces.client", async () => {
  const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
  const headers = { traceparent: `00-${traceId}-00f067aa0ba902b7-01` }
  const data = { sql: 'select 1 as a' }
  expect((await request.post('/api/v1/query', { headers, data })).status()).toBe(200)
  const own = () => collector.spans.filter((span) => span.traceId === traceId)
  await eventually(() => own().map(({ name }) => name)).toContain('sluice.query.v1.QueryService/ExecuteQuery')
  const first = own().find(({ name }) => name === 'POST /api/v1/query')
  expect(first?.parentSpanId).toBe('00f067aa0ba902b7')
  const line = service.log().match(/\{[^\n]*POST \/api\/v1\/query 200[^\n]*\}/)?.[0] ?? '{}'
  expect(line).toContain(`"trace_id":"${traceId}"`)
  expect(line).toContain(`"span_id":"${first?.spanId}"`)
})

test('the collector receives the metrics of /metrics @traces.metrics', async () => {
  expect((await run('select 1 as a')).status).toBe('success')
  const ended = () => collector.metrics.get('sluice_runs_total')?.sum?.dataPoints ?? []
  const label = { key: 'status', value: { stringValue: 'success' } }
  await eventually(ended).toContainEqual(expect.objectContaining({ attributes: [label] }))
  expect(collector.metrics.get('sluice_active_runs')?.gauge?.dataPoints).toHaveLength(1)
  const data = { sql: 'select 1 as a' }
  expect((await request.post('/api/v1/query', { data })).status()).toBe(200)
  const text = await (await request.get('/metrics')).text()
  for (const work of ['run', 'query'])
    expect(text).toMatch(new RegExp(`^sluice_engine_cpu_seconds_count\\{work="${work}"\\} [1-9]`, 'm'))
  const names = [...text.matchAll(/^# TYPE (\w+) /gm)].map(([, name = '']) => name)
  expect(names.filter((name) => !collector.metrics.has(name))).toEqual([])
})

test('a collector that is down delays no run @traces.down', async () => {
  await collector.stop()
  expect((await run('select 1 as a')).status).toBe('success')
})
