import { Type as t } from '@sinclair/typebox'
import { documentedAs } from '../core/documented.ts'
import { REF_NAME } from '../core/lake-version.ts'
import { Instant, Layer, literals, NamespaceName, nullable, PipelineName, Uuid } from '../core/names.ts'
import { PageQuery, sortQuery } from '../core/pagination.ts'
import { TestResults } from '../core/test-results.ts'
import { eventsOf, StreamError } from '../wire/event-schema.ts'

export const RUN_SORT_KEYS = [
  'created_at',
  'started_at',
  'finished_at',
  'duration_ms',
  'status',
  'trigger',
] as const
export type RunSortKey = (typeof RUN_SORT_KEYS)[number]

export const RunStatus = literals(['pending', 'running', 'success', 'failed', 'cancelled'], {
  title: 'RunStatus',
  description: 'pending and running runs are active; the others have ended',
})
const RunPhase = literals(['rendering', 'executing', 'testing', 'review', 'merging', 'waiting'], {
  title: 'RunPhase',
  description: 'Step of a running run',
})

const Fields = {
  id: Uuid,
  pipeline_id: Uuid,
  namespace: t.String(),
  layer: documentedAs(t.String(), Layer),
  pipeline: t.String(),
  status: RunStatus,
  phase: documentedAs(
    nullable(t.String()),
    nullable(RunPhase, { description: 'Null unless the run is running' }),
  ),
  trigger: t.String({ examples: ['manual', 'schedule:hourly', 'webhook'] }),
  branch: t.String({ description: 'The branch that the run reads and changes', examples: ['main'] }),
  draft: t.Boolean({ description: 'True when the request asked for the draft files' }),
  build_id: nullable(Uuid),
  attempt: t.Integer({ description: 'Number of the latest attempt; 0 before the first' }),
  version_number: nullable(t.Integer({ description: 'Number of the executed version; null for a draft' })),
  started_at: nullable(Instant),
  finished_at: nullable(Instant),
  duration_ms: nullable(t.Integer()),
  rows_written: nullable(t.Integer()),
  created_at: Instant,
}

export const RunListed = t.Object(Fields, { title: 'ListedRun' })
export type RunListed = typeof RunListed.static

const StaleInput = t.Object(
  {
    table: t.String({ examples: ['default.silver.flights'] }),
    read_commit: t.Integer({ description: 'Commit of main that made the state that the run read' }),
    latest_commit: t.Integer({ description: 'Commit of main that changed the table last before the merge' }),
  },
  { title: 'StaleInput' },
)

export const Run = t.Object(
  {
    ...Fields,
    error: nullable(t.String()),
    waiting_reason: nullable(
      t.String({
        description: 'Why no runner can take the waiting run, by its runs_on and memory; otherwise null',
      }),
    ),
    base_commit: nullable(t.Integer({ description: 'Commit of main on which the latest attempt stands' })),
    merged_commit: nullable(
      t.Integer({
        description:
          'Commit of main that the run created; null if it changed no table or ran on another branch',
      }),
    ),
    stale_inputs: nullable(
      t.Array(StaleInput, {
        description:
          'Input tables that main changed between the attempt and the merge of its approved change; null without such a merge',
      }),
    ),
    trace_id: nullable(
      t.String({
        description:
          'Trace id (W3C Trace Context) of the request, upload, webhook call or earlier run that caused this run; otherwise a new id',
        examples: ['4bf92f3577b34da6a3ce929d0e0e4736'],
      }),
    ),
  },
  { title: 'Run' },
)
export type Run = typeof Run.static

export const RunList = t.Object({ runs: t.Array(RunListed), total: t.Integer() }, { title: 'RunList' })

export const CreateRun = t.Object(
  {
    namespace: NamespaceName,
    layer: Layer,
    pipeline: PipelineName,
    trigger: t.String({
      default: 'manual',
      minLength: 1,
      maxLength: 200,
      description: 'Cause of the run, as the caller names it',
    }),
    branch: t.Optional(
      t.String({
        pattern: REF_NAME,
        description: 'main or an open branch; default main',
        examples: ['main'],
      }),
    ),
    draft: t.Optional(
      t.Boolean({
        description: 'Execute the draft files; only with a branch other than main; default false',
      }),
    ),
  },
  { title: 'CreateRun', examples: [{ namespace: 'default', layer: 'gold', pipeline: 'route_delays' }] },
)
export type CreateRun = typeof CreateRun.static

export const RunAccepted = t.Object({ run_id: Uuid, status: t.Literal('pending') }, { title: 'RunAccepted' })
export type RunAccepted = typeof RunAccepted.static
export const RunCancelled = t.Object(
  { run_id: Uuid, status: t.Literal('cancelled') },
  { title: 'RunCancelled' },
)
/** Characters of a reviewer's message. */
const MESSAGE_CHARACTERS = 2_000

export const Approve = t.Object(
  { message: t.Optional(t.String({ maxLength: MESSAGE_CHARACTERS, description: 'For the log of the run' })) },
  { title: 'ApproveRun', examples: [{ message: 'numbers match the invoice' }] },
)
export type Approve = typeof Approve.static
export const Reject = t.Object(
  {
    message: t.String({
      minLength: 1,
      maxLength: MESSAGE_CHARACTERS,
      description: 'Becomes the error of the run',
    }),
  },
  { title: 'RejectRun', examples: [{ message: 'the prices of May are missing' }] },
)
export type Reject = typeof Reject.static
export const RunApproved = t.Object(
  {
    run_id: Uuid,
    status: RunStatus,
    stale_inputs: t.Array(StaleInput, {
      description:
        'Input tables that are newer than the merged change; empty when the run executes again, and its own answer then names them',
    }),
  },
  { title: 'RunApproved' },
)
export const RunRejected = t.Object({ run_id: Uuid, status: t.Literal('failed') }, { title: 'RunRejected' })
export const RunPath = t.Object({ id: Uuid })

export const RunTests = t.Composite([TestResults], { title: 'RunTests' })
export type RunTests = typeof RunTests.static

export const RunInputs = t.Object(
  {
    code: t.Array(
      t.Object(
        {
          path: t.String({ examples: ['default/pipelines/silver/flights/pipeline.sql'] }),
          version_id: t.String({ description: 'For `version_id` of `GET /files/{path}`' }),
        },
        { title: 'PinnedFile' },
      ),
      { description: 'The versions of the files that the run executes' },
    ),
    landing_files: t.Array(
      t.Object(
        {
          id: Uuid,
          namespace: t.String(),
          zone: t.String(),
          filename: t.String(),
          size_bytes: t.Integer(),
          archived: t.Boolean({ description: 'Whether a successful run has archived the file' }),
        },
        { title: 'RunLandingFile' },
      ),
      { description: 'Landing files of the latest attempt that still exist, oldest first; at most 1000' },
    ),
    landing_file_count: t.Integer({ description: 'Number of landing files that the latest attempt reads' }),
  },
  { title: 'RunInputs' },
)
export type RunInputs = typeof RunInputs.static

export const RunQuery = t.Object({
  namespace: t.Optional(t.String({ description: 'Name of a namespace', examples: ['default'] })),
  layer: t.Optional(Layer),
  pipeline: t.Optional(t.String({ description: 'Name of a pipeline', examples: ['flights'] })),
  status: t.Optional(RunStatus),
  branch: t.Optional(
    t.String({
      description: 'Only runs on this branch; without it, runs on all branches',
      examples: ['main'],
    }),
  ),
  from: t.Optional(
    t.String({ description: 'Only runs created at or after this time; ISO 8601, UTC by default' }),
  ),
  to: t.Optional(t.String({ description: 'Only runs created before this time; ISO 8601, UTC by default' })),
  ...sortQuery(RUN_SORT_KEYS, { title: 'RunSortKey', fallback: 'created_at' }).properties,
  ...PageQuery.properties,
})
export type RunQuery = typeof RunQuery.static

/**
 * Rules for the names in a query. `RunQuery` accepts any text, because clients of a release may send it.
 */
export const RunQueryNames = t.Object({
  namespace: t.Optional(NamespaceName),
  branch: t.Optional(t.String({ pattern: REF_NAME })),
  pipeline: t.Optional(PipelineName),
})

export const LogEntry = t.Object(
  {
    timestamp: Instant,
    level: literals(['debug', 'info', 'warn', 'error'], { title: 'LogLevel' }),
    message: t.String(),
  },
  { title: 'LogEntry' },
)
export const RunLogs = t.Object({ logs: t.Array(LogEntry), status: RunStatus }, { title: 'RunLogs' })

/** Events in the stream of a run's log. */
export const RunLogEvents = eventsOf({
  log: LogEntry,
  status: t.Object(
    { status: RunStatus, rows_written: nullable(t.Integer()), duration_ms: nullable(t.Integer()) },
    { title: 'RunEnd' },
  ),
  error: StreamError,
})
