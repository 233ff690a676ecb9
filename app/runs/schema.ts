import { Type as t } from '@sinclair/typebox'
import { Instant, Layer, NamespaceName, nullable, PipelineName, Uuid } from '../http/names.ts'
import { PageQuery, SortQuery } from '../http/pagination.ts'

export const RunStatus = t.Union(
  [
    t.Literal('pending'),
    t.Literal('running'),
    t.Literal('success'),
    t.Literal('failed'),
    t.Literal('cancelled'),
  ],
  { description: 'pending and running runs are active; the others have ended' },
)

const Fields = {
  id: Uuid,
  pipeline_id: Uuid,
  namespace: t.String(),
  layer: t.String(),
  pipeline: t.String(),
  status: RunStatus,
  phase: nullable(
    t.String({ description: 'rendering, executing, testing, merging or waiting, while running' }),
  ),
  trigger: t.String({ examples: ['manual', 'schedule:hourly', 'webhook'] }),
  attempt: t.Integer({ description: 'Number of the latest attempt; 0 before the first' }),
  version_number: nullable(t.Integer({ description: 'The version executed; null for a draft' })),
  started_at: nullable(Instant),
  finished_at: nullable(Instant),
  duration_ms: nullable(t.Integer()),
  rows_written: nullable(t.Integer()),
  created_at: Instant,
}

export const RunListed = t.Object(Fields)
export type RunListed = typeof RunListed.static

export const Run = t.Object({
  ...Fields,
  error: nullable(t.String()),
  base_commit: nullable(
    t.Integer({ description: 'The commit of main the latest attempt was computed from' }),
  ),
  merged_commit: nullable(t.Integer({ description: 'The commit of main this run became' })),
  trace_id: nullable(
    t.String({
      description:
        'W3C Trace Context: the trace of the request that asked for it, of the upload or webhook call that fired its trigger, or of the run whose success did; else its own',
      examples: ['4bf92f3577b34da6a3ce929d0e0e4736'],
    }),
  ),
})
export type Run = typeof Run.static

export const RunList = t.Object({ runs: t.Array(RunListed), total: t.Integer() })

export const CreateRun = t.Object(
  {
    namespace: NamespaceName,
    layer: Layer,
    pipeline: PipelineName,
    trigger: t.String({
      default: 'manual',
      minLength: 1,
      maxLength: 200,
      description: 'Who or what asks for the run',
    }),
  },
  { examples: [{ namespace: 'default', layer: 'gold', pipeline: 'route_delays' }] },
)
export type CreateRun = typeof CreateRun.static

export const RunAccepted = t.Object({ run_id: Uuid, status: t.Literal('pending') })
export type RunAccepted = typeof RunAccepted.static
export const RunCancelled = t.Object({ run_id: Uuid, status: t.Literal('cancelled') })
export const RunPath = t.Object({ id: Uuid })

export const RunQuery = t.Object({
  namespace: t.Optional(t.String({ description: 'Name of a namespace', examples: ['default'] })),
  layer: t.Optional(Layer),
  pipeline: t.Optional(t.String({ description: 'Name of a pipeline', examples: ['flights'] })),
  status: t.Optional(RunStatus),
  from: t.Optional(t.String({ description: 'Created at or after, ISO 8601' })),
  to: t.Optional(t.String({ description: 'Created before, ISO 8601' })),
  ...SortQuery.properties,
  ...PageQuery.properties,
})
export type RunQuery = typeof RunQuery.static

/** What the names of a query must be. Not in its own schema: released clients may know these parameters as any text. */
export const RunQueryNames = t.Object({
  namespace: t.Optional(NamespaceName),
  pipeline: t.Optional(PipelineName),
})

export const LogEntry = t.Object({
  timestamp: Instant,
  level: t.Union([t.Literal('debug'), t.Literal('info'), t.Literal('warn'), t.Literal('error')]),
  message: t.String(),
})
export const RunLogs = t.Object({ logs: t.Array(LogEntry), status: RunStatus })
