import { Counter, Gauge, Histogram, Registry } from 'prom-client'

const PREFIX = 'sluice_'
/** Histogram buckets in seconds, from a point read to an upload. */
const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

/** Histogram buckets of one attempt or query: CPU seconds, and bytes. */
const CPU_SECONDS = [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1_000, 3_000]
const BYTES = [1e4, 1e5, 1e6, 1e7, 1e8, 3e8, 1e9, 3e9, 1e10, 1e11, 1e12]

type RunStatus = 'success' | 'failed' | 'cancelled'

interface AnswerLabels {
  method: string
  /** The pattern of the route. Text from a client must not become a time series. */
  path: string
  status: number
}

/** The resources that engines have used for one piece of work. */
export interface EngineCost {
  cpuSeconds: number
  bytesRead: number
  bytesWritten: number
  /** 0: not measured. */
  peakMemoryBytes: number
}

/** The metrics of the service. Each call creates a registry, so that two apps in one process do not share counters. */
export function makeMetrics() {
  const registry = new Registry()
  const registers = [registry]
  const counter = <Label extends string = never>(name: string, help: string, labelNames: Label[] = []) =>
    new Counter<Label>({ name: `${PREFIX}${name}`, help, labelNames, registers })
  const gauge = <Label extends string = never>(name: string, help: string, labelNames: Label[] = []) =>
    new Gauge<Label>({ name: `${PREFIX}${name}`, help, labelNames, registers })
  const histogram = <Label extends string>(
    name: string,
    help: string,
    labelNames: Label[],
    buckets: number[] = SECONDS,
  ) => new Histogram<Label>({ name: `${PREFIX}${name}`, help, labelNames, buckets, registers })

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
  const perWork = (name: string, what: string, buckets: number[]) =>
    histogram(name, `${what} per attempt of a run, or per query`, ['work'], buckets)
  const engineCpu = perWork('engine_cpu_seconds', 'CPU seconds of engines and Python', CPU_SECONDS)
  const engineRead = perWork('engine_read_bytes', 'Bytes that engines and Python read from files', BYTES)
  const engineWritten = perWork('engine_written_bytes', 'Bytes that engines and Python wrote to files', BYTES)
  const enginePeak = perWork('engine_peak_memory_bytes', 'Peak memory of the largest engine process', BYTES)

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
    engineCost(work: 'run' | 'query', cost: EngineCost) {
      engineCpu.observe({ work }, cost.cpuSeconds)
      engineRead.observe({ work }, cost.bytesRead)
      engineWritten.observe({ work }, cost.bytesWritten)
      if (cost.peakMemoryBytes > 0) enginePeak.observe({ work }, cost.peakMemoryBytes)
    },
    engineMemory: gauge('engine_memory_bytes', 'Memory of the engine processes of a sidecar', ['part']),
    engineMemoryLimit: gauge(
      'engine_memory_limit_bytes',
      'Memory that the engine processes of a sidecar may hold',
      ['part'],
    ),
    engineMemoryFullest: gauge(
      'engine_memory_fullest_ratio',
      'Largest share of its memory limit that an engine process of a sidecar holds',
      ['part'],
    ),
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
