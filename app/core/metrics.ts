import { Counter, Gauge, Histogram, Registry } from 'prom-client'

const PREFIX = 'sluice_'
/** Histogram buckets in seconds, from a point read to an upload. */
const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

type RunStatus = 'success' | 'failed' | 'cancelled'

interface AnswerLabels {
  method: string
  /** The pattern of the route. Text from a client must not become a time series. */
  path: string
  status: number
}

/** The metrics of the service. Each call creates a registry, so that two apps in one process do not share counters. */
export function makeMetrics() {
  const registry = new Registry()
  const registers = [registry]
  const counter = <Label extends string = never>(name: string, help: string, labelNames: Label[] = []) =>
    new Counter<Label>({ name: `${PREFIX}${name}`, help, labelNames, registers })
  const gauge = <Label extends string = never>(name: string, help: string, labelNames: Label[] = []) =>
    new Gauge<Label>({ name: `${PREFIX}${name}`, help, labelNames, registers })
  const histogram = <Label extends string>(name: string, help: string, labelNames: Label[]) =>
    new Histogram<Label>({ name: `${PREFIX}${name}`, help, labelNames, buckets: SECONDS, registers })

  const runs = counter('runs_total', 'Runs ended, by status', ['status'])
  const pipelineRuns = counter('pipeline_runs_total', 'Runs ended, by status', ['status'])
  const grpcRequests = counter('grpc_requests_total', 'Calls to sidecars, by method and gRPC status', [
    'method',
    'code',
  ])
  const grpcSeconds = histogram('grpc_request_duration_seconds', 'Duration of calls to sidecars in seconds', [
    'method',
  ])
  const answerLabels: (keyof AnswerLabels)[] = ['method', 'path', 'status']
  const httpRequests = counter(
    'http_requests_total',
    'HTTP requests, by method, route and status',
    answerLabels,
  )
  const httpSeconds = histogram(
    'http_request_duration_seconds',
    'Time to the response headers in seconds',
    answerLabels,
  )

  return {
    httpAnswered({ seconds, ...labels }: AnswerLabels & { seconds: number }) {
      httpRequests.inc(labels)
      httpSeconds.observe(labels, seconds)
    },
    /** The specification gives the number of ended runs two names. */
    runsEnded(status: RunStatus, count = 1) {
      runs.inc({ status }, count)
      pipelineRuns.inc({ status }, count)
    },
    activeRuns: gauge('active_runs', 'Runs that are pending or running'),
    runsInReview: gauge('runs_in_review', 'Active runs that wait for a reviewer'),
    unplacedRuns: gauge('unplaced_runs', 'Waiting runs that no runner can take'),
    queueAge: gauge('queue_age_seconds', 'Age of the oldest run that waits for its first attempt'),
    triggerLag: gauge('trigger_lag_seconds', 'Age of the oldest event that triggers have not consumed'),
    leads: gauge('leads', '1 while this replica leads the role', ['role']),
    leaseChanges: counter('lease_changes_total', 'Roles that this replica began or ceased to lead', ['role']),
    schedulerTicks: counter('scheduler_ticks_total', 'Scheduler passes that looked for due schedules'),
    schedulerRuns: counter('scheduler_runs_triggered_total', 'Runs requested by schedules'),
    /** `method` is `Service/Method`. */
    rpcEnded({ method, code, seconds }: { method: string; code: string; seconds: number }) {
      grpcRequests.inc({ method, code })
      grpcSeconds.observe({ method }, seconds)
    },
    queryFiles: counter('query_files_total', 'Data files of the tables in queries, by use', ['use']),
    maintainedTables: counter('maintained_tables_total', 'Tables that maintenance tried to rewrite', [
      'outcome',
    ]),
    maintainedBytes: counter('maintained_bytes_total', 'Bytes that maintenance has replaced by larger files'),
    workerRestarts: counter('worker_restarts_total', 'Worker threads that ended unexpectedly', [
      'worker',
      'reason',
    ]),
    contentType: registry.contentType,
    /** The metrics in the text exposition format. */
    text: () => registry.metrics(),
    /** The metrics as objects of prom-client. */
    objects: (): Promise<unknown[]> => registry.getMetricsAsJSON(),
  }
}

export type Metrics = ReturnType<typeof makeMetrics>
