// Spans of OpenTelemetry. The trace of the current work (trace.ts) is the parent of a span, and carries the span into calls. So
// spans need no context of their own. Without a collector, nothing is recorded and no package is loaded.
import type { Interceptor } from '@connectrpc/connect'
import type { Attributes, Recorder, Span, SpanStart, TracingSettings } from './recorder.ts'
import { begunAs, type ClientTrace, inTrace, type Trace, traceNow, traceOf } from './trace.ts'

const NO_SPAN: Span = { set() {}, fail() {} }
const NOTHING: Trace = { requestId: null, traceparent: null, tracestate: null }
let recorder: Recorder | null = null

/**
 * Records the spans of this thread from now on; null: records none. `part` is the process or thread, such as `runner`. Returns a
 * function that sends the last spans.
 */
export async function startTracing(
  settings: TracingSettings | null,
  part: string,
): Promise<() => Promise<void>> {
  if (settings === null) return async () => {}
  const { openRecorder } = await import('./otlp.ts')
  const opened = openRecorder(settings, part)
  recorder = opened
  sampleTraces(settings)
  return () => opened.stop()
}

/** Whether this thread records spans. */
export const isTracing = (): boolean => recorder !== null

/** Decides which of the traces that this thread begins are recorded, by this thread or by others. */
export function sampleTraces(settings: TracingSettings | null): void {
  if (settings !== null) begunAs((traceId) => isSampled(traceId, settings.ratio))
}

/** Runs work in a span. The span has failed if the work throws. */
export function span<T>(
  name: string,
  attributes: Attributes,
  work: (span: Span) => Promise<T>,
  kind: SpanStart['kind'] = 'internal',
): Promise<T> {
  if (recorder === null) return work(NO_SPAN)
  const outer = traceNow() ?? NOTHING
  const active = recorder.begin({ name, kind, attributes, parent: outer.traceparent })
  const inner = { ...outer, traceparent: active.traceparent }
  return inTrace(
    () => inner,
    async () => {
      try {
        return await work(active)
      } catch (error) {
        active.fail(error)
        throw error
      } finally {
        active.end()
      }
    },
  )
}

/** A span of work that other work follows, later or elsewhere, in `trace`. Without `end`, the span is not recorded. */
export interface OpenSpan {
  trace: ClientTrace
  end(): void
}

/** Begins a span in the trace of its cause; without a cause, the span begins a trace. */
export function beginSpan(name: string, attributes: Attributes, cause: ClientTrace): OpenSpan {
  if (recorder === null) return { trace: cause, end() {} }
  const active = recorder.begin({ name, kind: 'internal', attributes, parent: cause.traceparent })
  return { trace: { ...cause, traceparent: active.traceparent }, end: () => active.end() }
}

/** Records a span of work that has already ended. */
export function recordSpan({
  endedAt,
  ...start
}: Omit<SpanStart, 'kind'> & { startedAt: Date; endedAt: Date }) {
  recorder?.begin({ ...start, kind: 'internal' }).end(endedAt)
}

/** For servers: runs each handler in the trace of its call. A unary call of a trace has a span. */
export const continueTrace: Interceptor = (next) => (request) => {
  const trace = traceOf(request.header)
  const { service, method } = request
  const work = () => next(request)
  return inTrace(
    () => trace,
    request.stream || trace.traceparent === null
      ? work
      : () =>
          span(
            `${service.typeName}/${method.name}`,
            { 'rpc.system.name': 'connectrpc', 'rpc.method': `${service.typeName}/${method.name}` },
            work,
            'server',
          ),
  )
}

/** Whether a trace that Sluice begins is recorded. Every part decides alike. */
export const isSampled = (traceId: string, ratio: number): boolean =>
  Number.parseInt(traceId.slice(-8), 16) < ratio * 2 ** 32
