// Counts of threads for the metrics, which another process may serve.
import { type Static, Type as t } from '@sinclair/typebox'
import type { Metrics } from '../../app/core/metrics.ts'

const count = t.Integer({ minimum: 0 })

export const Counted = t.Union([
  t.Object({
    what: t.Literal('runsEnded'),
    status: t.Union([t.Literal('success'), t.Literal('failed'), t.Literal('cancelled')]),
    count,
  }),
  t.Object({ what: t.Literal('rpcEnded'), method: t.String(), code: t.String(), seconds: t.Number() }),
  /** The scheduler has checked for due schedules. */
  t.Object({ what: t.Literal('ticked'), runsRequested: count }),
  t.Object({ what: t.Literal('restarted'), worker: t.String(), reason: t.String() }),
])
export type Counted = Static<typeof Counted>

export type Count = (counted: Counted) => void

/** Adds the counts of threads to these metrics. */
export const countInto =
  (metrics: Metrics): Count =>
  (counted) => {
    switch (counted.what) {
      case 'runsEnded':
        return metrics.runsEnded(counted.status, counted.count)
      case 'rpcEnded':
        return metrics.rpcEnded(counted)
      case 'ticked':
        metrics.schedulerTicks.inc()
        return metrics.schedulerRuns.inc(counted.runsRequested)
      case 'restarted':
        return metrics.workerRestarts.inc({ worker: counted.worker, reason: counted.reason })
      default:
        return counted satisfies never
    }
  }
