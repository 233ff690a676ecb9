import { expect, test } from 'bun:test'
import { DataPointType } from '@opentelemetry/sdk-metrics'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { converted } from './otlp-metrics.ts'

const TIMES: Parameters<typeof converted>[1] = [
  [1, 0],
  [2, 0],
]
const [startTime, endTime] = TIMES

test('counters, gauges and histograms keep their values and labels', async () => {
  const registry = new Registry()
  const registers = [registry]
  const help = 'A help text'
  new Counter({ name: 'runs_total', help, labelNames: ['status'], registers }).inc({ status: 'failed' }, 3)
  new Gauge({ name: 'active', help, registers }).set(2)
  const seconds = new Histogram({ name: 'seconds', help, labelNames: ['path'], buckets: [1, 5], registers })
  for (const value of [0.5, 0.5, 3, 9]) seconds.observe({ path: '/a' }, value)
  const metrics = (await registry.getMetricsAsJSON()).map((each) => converted(each as never, TIMES))
  expect(metrics).toMatchObject([
    {
      descriptor: { name: 'runs_total', description: help },
      dataPointType: DataPointType.SUM,
      isMonotonic: true,
      dataPoints: [{ attributes: { status: 'failed' }, value: 3, startTime, endTime }],
    },
    { dataPointType: DataPointType.GAUGE, dataPoints: [{ attributes: {}, value: 2 }] },
    {
      dataPointType: DataPointType.HISTOGRAM,
      dataPoints: [
        {
          attributes: { path: '/a' },
          value: { sum: 13, count: 4, buckets: { boundaries: [1, 5], counts: [2, 1, 1] } },
        },
      ],
    },
  ])
})
