// The standard variables of OpenTelemetry that Sluice reads.
// Source: https://opentelemetry.io/docs/specs/otel/protocol/exporter/ and /configuration/sdk-environment-variables/
import type { ExportSettings, TracingSettings } from './recorder.ts'

type Env = Record<string, string | undefined>
/** Receives each wrong variable with its rule. */
type Bad = (name: string, rule: string) => void

/** Settings of the export of metrics. */
export interface MetricsSettings extends ExportSettings {
  intervalMs: number
}

const INTERVAL_MS = 60_000
const DAY_MS = 86_400_000

/** Settings of the export of spans; null: no collector is named. */
export function parseTracing(env: Env, bad: Bad): TracingSettings | null {
  const common = exportOf(env, 'TRACES', bad)
  if (common === null) return null
  const ratio = Number(textOf(env, 'OTEL_TRACES_SAMPLER_ARG') || '1')
  if (!(ratio >= 0 && ratio <= 1)) bad('OTEL_TRACES_SAMPLER_ARG', 'must be a number from 0 to 1')
  return { ...common, ratio }
}

/** Settings of the export of metrics; null: no collector is named. */
export function parseMetricsExport(env: Env, bad: Bad): MetricsSettings | null {
  const common = exportOf(env, 'METRICS', bad)
  if (common === null) return null
  const intervalMs = Number(textOf(env, 'OTEL_METRIC_EXPORT_INTERVAL') || INTERVAL_MS)
  if (!Number.isInteger(intervalMs) || intervalMs < 1_000 || intervalMs > DAY_MS)
    bad('OTEL_METRIC_EXPORT_INTERVAL', `must be a whole number of milliseconds from 1000 to ${DAY_MS}`)
  return { ...common, intervalMs }
}

/** The address, headers and resource for one signal. `none` as the exporter of a signal switches it off. */
function exportOf(env: Env, signal: 'TRACES' | 'METRICS', bad: Bad): ExportSettings | null {
  const common = textOf(env, 'OTEL_EXPORTER_OTLP_ENDPOINT')
  const own = textOf(env, `OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`)
  const url = own || (common && `${common.replace(/\/$/, '')}/v1/${signal.toLowerCase()}`)
  const isOff =
    textOf(env, 'OTEL_SDK_DISABLED').toLowerCase() === 'true' ||
    textOf(env, `OTEL_${signal}_EXPORTER`) === 'none'
  if (url === '' || isOff) return null
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    bad(
      own ? `OTEL_EXPORTER_OTLP_${signal}_ENDPOINT` : 'OTEL_EXPORTER_OTLP_ENDPOINT',
      'must be an http or https address',
    )
  const pairs = (name: string) => pairsOf(env, name, bad)
  return {
    url,
    headers: { ...pairs('OTEL_EXPORTER_OTLP_HEADERS'), ...pairs(`OTEL_EXPORTER_OTLP_${signal}_HEADERS`) },
    resource: pairs('OTEL_RESOURCE_ATTRIBUTES'),
    service: textOf(env, 'OTEL_SERVICE_NAME') || null,
  }
}

const textOf = (env: Env, name: string) => env[name]?.trim() ?? ''

function pairsOf(env: Env, name: string, bad: Bad): Record<string, string> {
  const list = textOf(env, name)
    .split(',')
    .filter((pair) => pair.trim() !== '')
    .map((pair) => pair.split('='))
  if (list.some(([key = '', ...value]) => key.trim() === '' || value.length === 0))
    bad(name, 'must be pairs name=value, separated by commas')
  return Object.fromEntries(list.map(([key = '', ...value]) => [key.trim(), decoded(value.join('=').trim())]))
}

/** Values are percent-encoded, like those of W3C Baggage. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
