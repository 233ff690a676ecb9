// The recorder of spans, and its settings.

export type Attributes = Record<string, string | number | boolean>

/** Settings of the export of one signal, from the standard variables of OpenTelemetry. */
export interface ExportSettings {
  /** The address of the collector, such as http://127.0.0.1:4318/v1/traces */
  url: string
  headers: Record<string, string>
  /** Attributes of everything that is sent, besides the name of the part. */
  resource: Record<string, string>
  /** The name of the service; null: `sluice-` and the part. */
  service: string | null
}

export interface TracingSettings extends ExportSettings {
  /** The share of traces that Sluice begins and records. Traces of clients keep the decision of the client. */
  ratio: number
}

/** A span that has begun. */
export interface Span {
  set(attributes: Attributes): void
  /** Marks the span as failed, with the kind of the error. */
  fail(error: unknown): void
}

/** Records the spans of this thread. */
export interface Recorder {
  begin(span: SpanStart): Span & { traceparent: string; end(at?: Date): void }
  /** Sends what was recorded; resolves after some seconds at most. */
  stop(): Promise<void>
}

export interface SpanStart {
  name: string
  /** `server`: the work answers a call of another process. */
  kind: 'internal' | 'server'
  attributes: Attributes
  /** Null: the span begins a trace. */
  parent: string | null
  startedAt?: Date
}
