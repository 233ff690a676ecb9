// Metrics and access log: one count per response, and one line for most routes.
import { type Trace, traceFields } from '../../ground/telemetry/trace.ts'
import type { AppError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { Metrics } from '../core/metrics.ts'
import type { Route } from '../wire/route-table.ts'

export interface Reporting {
  log: Log
  metrics: Metrics
}

/** Metric labels and log lines contain patterns, because text from a client must not become a time series. */
const UNMATCHED = 'unmatched'
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
/** Monitors request these routes every few seconds. The health check itself logs the findings of `/health/ready`. */
const MONITORING = /^\/(health|metrics)(\/|$)/
export const isMonitoring = (pattern: string): boolean => MONITORING.test(pattern)
/** A run requests dozens of tables and files, and the log of the run shows the outcome. So these requests are not logged. */
const INTERNAL = /^\/(catalog|lake\/objects)\//
/** A slower internal response delays a run, so it is logged. */
const SLOW_INTERNAL_MS = 1_000

interface Outcome {
  request: Request
  trace: Trace | undefined
  route: Route | null
  response: Response
  failure?: AppError
  /** From arrival to the headers of the response. */
  ms: number
}

/** Counts a response, and logs it unless its route is monitoring or internal. */
export function report(
  { log, metrics }: Reporting,
  { request, trace, route, response, failure, ms }: Outcome,
): void {
  const method = METHODS.has(request.method) ? request.method : 'OTHER'
  const path = route?.pattern ?? UNMATCHED
  metrics.httpAnswered({ method, path, status: response.status, seconds: ms / 1000 })
  const isFault = failure?.status === 500
  if (!isFault && !isWorthALine(path, response.status, ms)) return
  const line = `${method} ${path} ${response.status}`
  const fields = { ms: Math.round(ms * 10) / 10, ...traceFields(trace) }
  if (isFault) log.error(line, { ...fields, error: failure.cause ?? failure })
  else if (response.status < 500) log.info(line, fields)
  else log.warn(line, failure === undefined ? fields : { ...fields, error: failure.message })
}

function isWorthALine(path: string, status: number, ms: number) {
  if (isMonitoring(path)) return false
  return !INTERNAL.test(path) || status >= 500 || ms > SLOW_INTERNAL_MS
}
