// Sends the metrics of the Prometheus registry to a collector of OpenTelemetry, too. So there is one source of each number.
// Source: https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/
import { type HrTime, ValueType } from '@opentelemetry/api'
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-http'
import {
  AggregationTemporality,
  DataPointType,
  MeterProvider,
  type MetricData,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import type { MetricObjectWithValues, MetricValue } from 'prom-client'
import { resourceOf } from '../../ground/telemetry/otlp.ts'
import type { MetricsSettings } from '../../ground/telemetry/settings.ts'
import type { Clock } from './clock.ts'

type Registered = MetricObjectWithValues<MetricValue<string> & { metricName?: string }>

const SEND_MS = 5_000

/** Returns a function that sends the last values. */
export function exportMetrics(
  { url, headers, intervalMs, ...of }: MetricsSettings,
  registered: () => Promise<unknown[]>,
  clock: Clock,
): () => Promise<void> {
  const resource = resourceOf(of, 'api')
  // The reader refuses a timeout that is longer than its interval.
  const sendMs = Math.min(SEND_MS, intervalMs)
  const since = timeOf(clock.now())
  const provider = new MeterProvider({
    resource,
    readers: [
      new PeriodicExportingMetricReader({
        exporter: new OTLPMetricExporter({ url, headers, timeoutMillis: sendMs }),
        exportIntervalMillis: intervalMs,
        exportTimeoutMillis: sendMs,
        metricProducers: [
          {
            async collect() {
              const until = timeOf(clock.now())
              const metrics = (await registered()).map((each) =>
                converted(each as Registered, [since, until]),
              )
              return {
                resourceMetrics: { resource, scopeMetrics: [{ scope: { name: 'sluice' }, metrics }] },
                errors: [],
              }
            },
          },
        ],
      }),
    ],
  })
  return () => provider.shutdown().catch(() => {})
}

/** One metric of prom-client as OpenTelemetry describes it. */
export function converted(metric: Registered, [startTime, endTime]: [HrTime, HrTime]): MetricData {
  const { name, help, values } = metric
  const common = {
    descriptor: { name, description: help, unit: '', valueType: ValueType.DOUBLE },
    aggregationTemporality: AggregationTemporality.CUMULATIVE,
  }
  const point = <T>(labels: Labels, value: T) => ({ startTime, endTime, attributes: labels, value })
  const points = () => values.map(({ labels, value }) => point(labels as Labels, value))
  // The enum of prom-client is a type only; the values are texts.
  switch (String(metric.type)) {
    case 'counter':
      return { ...common, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints: points() }
    case 'histogram':
      return {
        ...common,
        dataPointType: DataPointType.HISTOGRAM,
        dataPoints: histograms(metric).map(({ labels, ...value }) => point(labels, value)),
      }
    default:
      return { ...common, dataPointType: DataPointType.GAUGE, dataPoints: points() }
  }
}

type Labels = Record<string, string>

/** Series of a histogram: prom-client counts cumulatively, OpenTelemetry counts each bucket alone. */
function histograms({ name, values }: Registered) {
  const series = new Map<
    string,
    { labels: Labels; sum: number; count: number; buckets: [number, number][] }
  >()
  for (const { labels, value, metricName } of values) {
    const { le, ...rest } = labels as Labels
    const key = JSON.stringify(rest)
    const found = series.get(key) ?? { labels: rest, sum: 0, count: 0, buckets: [] }
    series.set(key, found)
    if (metricName === `${name}_sum`) found.sum = value
    else if (metricName === `${name}_count`) found.count = value
    else if (le !== '+Inf') found.buckets.push([Number(le), value])
  }
  return [...series.values()].map(({ labels, sum, count, buckets }) => {
    const cumulative = [...buckets.map(([, n]) => n), count]
    const counts = cumulative.map((n, i) => n - (cumulative[i - 1] ?? 0))
    return { labels, sum, count, buckets: { boundaries: buckets.map(([boundary]) => boundary), counts } }
  })
}

/** Seconds and nanoseconds since 1970. */
const timeOf = (at: Date): HrTime => [Math.floor(at.getTime() / 1_000), (at.getTime() % 1_000) * 1_000_000]
