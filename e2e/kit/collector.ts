// A collector of OpenTelemetry for tests: it receives the spans and metrics of a service by OTLP over HTTP.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { APIRequestContext } from '@playwright/test'
import { eventually } from './eventually.ts'
import { getRun } from './runs.ts'

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

interface DataPoint {
  attributes: ReceivedSpan['attributes']
  asDouble: number
}
interface ReceivedMetric {
  name: string
  sum?: { dataPoints: DataPoint[] }
  gauge?: { dataPoints: DataPoint[] }
}

export type Collector = Awaited<ReturnType<typeof startCollector>>

export async function startCollector() {
  const spans: ReceivedSpan[] = []
  const metrics = new Map<string, ReceivedMetric>()
  const server = createServer((incoming, answer) => {
    const chunks: Buffer[] = []
    incoming.on('data', (chunk) => chunks.push(chunk))
    incoming.on('end', () => {
      const { resourceSpans = [], resourceMetrics = [] } = JSON.parse(Buffer.concat(chunks).toString())
      for (const { scopeSpans } of resourceSpans) for (const { spans: own } of scopeSpans) spans.push(...own)
      for (const { scopeMetrics } of resourceMetrics)
        for (const { metrics: own } of scopeMetrics) for (const one of own) metrics.set(one.name, one)
      answer.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    /** Settings of a service that sends to this collector. */
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`, OTEL_METRIC_EXPORT_INTERVAL: '1000' },
    spans,
    /** The last state of each metric. */
    metrics,
    stop: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** Waits until the collector has spans of these names in the trace of the run. Each part sends its spans at another time. */
export async function spansOfRun(
  { spans }: Collector,
  { request, id, names }: { request: APIRequestContext; id: string; names: readonly (string | RegExp)[] },
) {
  const { trace_id: traceId } = await getRun(request, id)
  const own = () => spans.filter((span) => span.traceId === traceId)
  const isNamed = (name: string | RegExp) =>
    own().some((span) => (typeof name === 'string' ? span.name === name : name.test(span.name)))
  await eventually(() => names.filter((name) => !isNamed(name)).map(String)).toEqual([])
  const found = own()
  const byId = new Map(found.map((span) => [span.spanId, span]))
  /** The name of the span's parent; null: the parent is not among the spans. */
  const parentOf = ({ parentSpanId = '' }: ReceivedSpan) => byId.get(parentSpanId)?.name ?? null
  return {
    spans: found,
    parentOf,
    /** The names of the parents of all spans of this name. */
    parentsOf: (name: string) => [
      ...new Set(found.filter((span) => span.name === name).map((span) => parentOf(span))),
    ],
  }
}

/** The number that an attribute of the span has. */
export function numberOf({ attributes }: ReceivedSpan, key: string): number {
  const { doubleValue, intValue } = attributes.find((one) => one.key === key)?.value ?? {}
  return Number(doubleValue ?? intValue)
}
