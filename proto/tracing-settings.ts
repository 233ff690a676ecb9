// The standard variables of OpenTelemetry that Sluice reads.
// Source: https://opentelemetry.io/docs/specs/otel/protocol/exporter/ and /configuration/sdk-environment-variables/
import type { TracingSettings } from './recorder.ts'

type Env = Record<string, string | undefined>

/** Settings of the export; null: no collector is named. `bad` receives each wrong variable with its rule. */
export function parseTracing(env: Env, bad: (name: string, rule: string) => void): TracingSettings | null {
  const text = (name: string) => env[name]?.trim() ?? ''
  const pairs = (name: string): Record<string, string> => {
    const list = text(name)
      .split(',')
      .filter((pair) => pair.trim() !== '')
      .map((pair) => pair.split('='))
    if (list.some(([key = '', ...value]) => key.trim() === '' || value.length === 0))
      bad(name, 'must be pairs name=value, separated by commas')
    return Object.fromEntries(
      list.map(([key = '', ...value]) => [key.trim(), decoded(value.join('=').trim())]),
    )
  }
  const common = text('OTEL_EXPORTER_OTLP_ENDPOINT')
  const own = text('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT')
  const url = own || (common && `${common.replace(/\/$/, '')}/v1/traces`)
  if (url === '' || text('OTEL_SDK_DISABLED').toLowerCase() === 'true') return null
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    bad(
      own ? 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT' : 'OTEL_EXPORTER_OTLP_ENDPOINT',
      'must be an http or https address',
    )
  const ratio = Number(text('OTEL_TRACES_SAMPLER_ARG') || '1')
  if (!(ratio >= 0 && ratio <= 1)) bad('OTEL_TRACES_SAMPLER_ARG', 'must be a number from 0 to 1')
  return {
    url,
    headers: { ...pairs('OTEL_EXPORTER_OTLP_HEADERS'), ...pairs('OTEL_EXPORTER_OTLP_TRACES_HEADERS') },
    resource: pairs('OTEL_RESOURCE_ATTRIBUTES'),
    service: text('OTEL_SERVICE_NAME') || null,
    ratio,
  }
}

/** Values are percent-encoded, like those of W3C Baggage. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
