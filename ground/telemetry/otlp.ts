// Sends spans to a collector by OTLP over HTTP, in batches. A collector that is down costs spans, never work: the queue is
// bounded. Source: https://opentelemetry.io/docs/specs/otlp/
import { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import type { ExportSettings, Recorder, TracingSettings } from './recorder.ts'

/** Spans that wait for the collector. A run has about thirty. */
const QUEUED_SPANS = 4_096
const BATCH_SPANS = 512
const BATCH_MS = 1_000
/** Time limit of one request to the collector, and of the last one at the end of the process. */
const SEND_MS = 3_000

export function openRecorder(
  { url, headers, resource, service, ratio }: TracingSettings,
  part: string,
): Recorder {
  const exporter = new OTLPTraceExporter({ url, headers, timeoutMillis: SEND_MS })
  const provider = new TracerProvider({
    resource: resourceOf({ resource, service }, part),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) }),
    spanProcessors: [
      new BatchSpanProcessor({
        exporter,
        maxQueueSize: QUEUED_SPANS,
        maxExportBatchSize: BATCH_SPANS,
        scheduledDelayMillis: BATCH_MS,
        exportTimeoutMillis: SEND_MS,
      }),
    ],
  })
  const tracer = provider.getTracer('sluice')
  return {
    begin({ name, kind, attributes, parent, startedAt }) {
      const span = tracer.startSpan(
        name,
        { kind: kind === 'server' ? SpanKind.SERVER : SpanKind.INTERNAL, attributes, startTime: startedAt },
        parent === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, contextOf(parent)),
      )
      const { traceId, spanId, traceFlags } = span.spanContext()
      return {
        traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`,
        set: (more) => void span.setAttributes(more),
        // The message may contain data of users, so only the kind of the error is sent.
        fail(error) {
          span.setAttribute('error.type', error instanceof Error ? error.constructor.name : typeof error)
          span.setStatus({ code: SpanStatusCode.ERROR })
        },
        end: (at) => span.end(at),
      }
    },
    stop: () => provider.shutdown().catch(() => {}),
  }
}

/** The resource of a part of Sluice. */
export const resourceOf = (
  { resource, service }: Pick<ExportSettings, 'resource' | 'service'>,
  part: string,
) =>
  resourceFromAttributes({
    'service.name': service ?? `sluice-${part}`,
    'service.namespace': 'sluice',
    'sluice.part': part,
    ...resource,
  })

function contextOf(traceparent: string) {
  const [, traceId = '', spanId = '', flags = ''] = traceparent.split('-')
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true }
}
