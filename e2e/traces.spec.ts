// OpenTelemetry: a collector of this file receives the spans and the metrics of a service of this file.
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type APIRequestContext, expect, request as requests, test } from '@playwright/test'
import { type OwnService, startOwnService } from './own-service.ts'
import { pipelineWith, publish } from './resources.ts'
import { ended, getRun, requestRun } from './runs.ts'

interface ReceivedSpan {
  traceId: string
  spanId: string
  parentSpanId?: string
  name: string
  startTimeUnixNano: string
  endTimeUnixNano: string
  attributes: { key: string; value: Record<string, unknown> }[]
  status: { code?: number }
}

const received: ReceivedSpan[] = []
/** The last state of each metric. */
const latest = new Map<string, { sum?: { dataPoints: DataPoint[] }; gauge?: { dataPoints: DataPoint[] } }>()
interface DataPoint {
  attributes: ReceivedSpan['attributes']
  asDouble: number
}
let collector: Server
let service: OwnService
let request: APIRequestContext

test.beforeAll(async () => {
  collector = createServer((incoming, answer) => {
    const chunks: Buffer[] = []
    incoming.on('data', (chunk) => chunks.push(chunk))
    incoming.on('end', () => {
      const { resourceSpans = [], resourceMetrics = [] } = JSON.parse(Buffer.concat(chunks).toString())
      for (const { scopeSpans } of resourceSpans) for (const { spans } of scopeSpans) received.push(...spans)
      for (const { scopeMetrics } of resourceMetrics)
        for (const { metrics } of scopeMetrics) for (const metric of metrics) latest.set(metric.name, metric)
      answer.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    })
  })
  await new Promise<void>((resolve) => collector.listen(0, '127.0.0.1', resolve))
  const { port } = collector.address() as AddressInfo
  service = await startOwnService({
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
    OTEL_METRIC_EXPORT_INTERVAL: '1000',
    LOG_FORMAT: 'json',
  })
  request = await requests.newContext({ baseURL: service.url })
})
test.afterAll(async () => {
  await request?.dispose()
  await service?.stop()
  collector?.close()
})

/** Waits until the collector has spans of these names in the trace of the run. */
async function spansOf(id: string, names: readonly string[]) {
  const { trace_id: traceId } = await getRun(request, id)
  const own = () => received.filter((span) => span.traceId === traceId)
  await expect.poll(() => names.filter((name) => !own().some((span) => span.name === name))).toEqual([])
  return own()
}

async function run(sql: string) {
  const pipeline = await pipelineWith(request, sql, { layer: 'gold' })
  await publish(request, pipeline)
  return ended(request, await requestRun(request, pipeline))
}

const REQUEST = 'POST /api/v1/runs'

test('the spans of a run form one tree @traces.run', async () => {
  const { id, status } = await run('select 1 as a')
  expect(status).toBe('success')
  const spans = await spansOf(id, [
    REQUEST,
    'queue',
    'attempt',
    'render',
    'execute',
    'test',
    'commit',
    'merge',
  ])
  const byId = new Map(spans.map((span) => [span.spanId, span]))
  const parentOf = ({ parentSpanId = '' }: ReceivedSpan) => byId.get(parentSpanId)?.name ?? null
  const parentsOf = (name: string) => [...new Set(spans.filter((span) => span.name === name).map(parentOf))]
  expect(parentsOf(REQUEST)).toEqual([null])
  for (const name of ['queue', 'attempt', 'merge']) expect(parentsOf(name)).toEqual([REQUEST])
  for (const name of ['render', 'execute', 'test', 'commit']) expect(parentsOf(name)).toEqual(['attempt'])
  expect(parentsOf('duckdb copy')).toEqual(['execute'])
  const commit = spans.find(({ name }) => /^POST \/catalog\/.*tables/.test(name))
  expect(commit && parentOf(commit)).toBe('commit')
  // Only the first span has no parent, and no span ends before its start.
  expect(spans.filter((span) => parentOf(span) === null).map(({ name }) => name)).toEqual([REQUEST])
  for (const { startTimeUnixNano, endTimeUnixNano } of spans)
    expect(BigInt(endTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(startTimeUnixNano))
})

test('the span of a failed run has an error without data of users @traces.failed', async () => {
  const { id, status } = await run("select error('secret-text') as a")
  expect(status).toBe('failed')
  const attempt = (await spansOf(id, ['attempt'])).find(({ name }) => name === 'attempt')
  expect(attempt?.status.code).toBe(2)
  expect(JSON.stringify(received)).not.toContain('secret-text')
})

test("a client's trace continues, and log lines name trace and span @traces.client", async () => {
  const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
  const headers = { traceparent: `00-${traceId}-00f067aa0ba902b7-01` }
  const data = { sql: 'select 1 as a' }
  expect((await request.post('/api/v1/query', { headers, data })).status()).toBe(200)
  const own = () => received.filter((span) => span.traceId === traceId)
  await expect
    .poll(() => own().map(({ name }) => name))
    .toContain('sluice.query.v1.QueryService/ExecuteQuery')
  const first = own().find(({ name }) => name === 'POST /api/v1/query')
  expect(first?.parentSpanId).toBe('00f067aa0ba902b7')
  const line = service.log().match(/\{[^\n]*POST \/api\/v1\/query 200[^\n]*\}/)?.[0] ?? '{}'
  expect(line).toContain(`"trace_id":"${traceId}"`)
  expect(line).toContain(`"span_id":"${first?.spanId}"`)
})

test('the collector receives the metrics of /metrics @traces.metrics', async () => {
  expect((await run('select 1 as a')).status).toBe('success')
  const ended = () => latest.get('sluice_runs_total')?.sum?.dataPoints ?? []
  const label = { key: 'status', value: { stringValue: 'success' } }
  await expect.poll(ended).toContainEqual(expect.objectContaining({ attributes: [label] }))
  expect(latest.get('sluice_active_runs')?.gauge?.dataPoints).toHaveLength(1)
  const text = await (await request.get('/metrics')).text()
  const names = [...text.matchAll(/^# TYPE (\w+) /gm)].map(([, name = '']) => name)
  expect(names.filter((name) => !latest.has(name))).toEqual([])
})

test('a collector that is down delays no run @traces.down', async () => {
  await new Promise((resolve) => {
    collector.close(resolve)
    collector.closeAllConnections()
  })
  expect((await run('select 1 as a')).status).toBe('success')
})
