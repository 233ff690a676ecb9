// Counts of threads for the metrics, which another process may serve.
import { type Static, Type as t } from '@sinclair/typebox'
import type { Metrics } from '../../app/core/metrics.ts'

const count = t.Integer({ minimum: 0 })

/** `replaced`: main has the new files. `abandoned`: a run or another change came first. `failed`: see the log. */
export const MaintenanceOutcome = t.Union([
  t.Literal('replaced'),
  t.Literal('abandoned'),
  t.Literal('failed'),
])
export type MaintenanceOutcome = Static<typeof MaintenanceOutcome>

const amount = t.Number({ minimum: 0 })
export const EngineCost = t.Object({
  cpuSeconds: amount,
  bytesRead: amount,
  bytesWritten: amount,
  peakMemoryBytes: amount,
})

export const Counted = t.Union([
  t.Object({
    what: t.Literal('runsEnded'),
    status: t.Union([t.Literal('success'), t.Literal('failed'), t.Literal('cancelled')]),
    count,
  }),
  t.Object({ what: t.Literal('rpcEnded'), method: t.String(), code: t.String(), seconds: t.Number() }),
  /** The cost of an attempt that has ended. */
  t.Object({ what: t.Literal('attemptCost'), cost: EngineCost }),
  /** The scheduler has checked for due schedules. */
  t.Object({ what: t.Literal('ticked'), runsRequested: count }),
  t.Object({ what: t.Literal('maintained'), outcome: MaintenanceOutcome, bytes: count }),
  /** This replica began or ceased to lead a role. */
  t.Object({ what: t.Literal('led'), role: t.String(), isLeading: t.Boolean() }),
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
      case 'attemptCost':
        return metrics.engineCost('run', counted.cost)
      case 'ticked':
        metrics.schedulerTicks.inc()
        return metrics.schedulerRuns.inc(counted.runsRequested)
      case 'maintained':
        metrics.maintainedTables.inc({ outcome: counted.outcome })
        return metrics.maintainedBytes.inc(counted.bytes)
      case 'led':
        metrics.leads.set({ role: counted.role }, Number(counted.isLeading))
        return metrics.leaseChanges.inc({ role: counted.role })
      case 'restarted':
        return metrics.workerRestarts.inc({ worker: counted.worker, reason: counted.reason })
      default:
        return counted satisfies never
    }
  }
