import { expect, test } from 'bun:test'
import { parseTracing } from './settings.ts'
import { isSampled } from './spans.ts'

const NOTHING = { headers: {}, resource: {}, service: null, ratio: 1 }
const COLLECTOR = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318/' }

function parsed(env: Record<string, string>) {
  const problems: string[] = []
  const settings = parseTracing(env, (name, rule) => problems.push(`${name} ${rule}`))
  return { settings, problems }
}

test.each([
  [{}, null],
  [{ ...COLLECTOR, OTEL_SDK_DISABLED: 'true' }, null],
  [COLLECTOR, { ...NOTHING, url: 'http://collector:4318/v1/traces' }],
  [
    { ...COLLECTOR, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://traces/own' },
    { ...NOTHING, url: 'https://traces/own' },
  ],
  [
    {
      ...COLLECTOR,
      OTEL_EXPORTER_OTLP_HEADERS: 'x-key=a%20b, x-team = c=d',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=prod',
      OTEL_SERVICE_NAME: 'lake',
      OTEL_TRACES_SAMPLER_ARG: '0.25',
    },
    {
      url: 'http://collector:4318/v1/traces',
      headers: { 'x-key': 'a b', 'x-team': 'c=d' },
      resource: { 'deployment.environment.name': 'prod' },
      service: 'lake',
      ratio: 0.25,
    },
  ],
] as const)('the variables %j give these settings', (env, settings) => {
  expect(parsed(env)).toEqual({ settings, problems: [] } as never)
})

test.each([
  [
    { OTEL_EXPORTER_OTLP_ENDPOINT: 'collector' },
    'OTEL_EXPORTER_OTLP_ENDPOINT must be an http or https address',
  ],
  [{ ...COLLECTOR, OTEL_TRACES_SAMPLER_ARG: '2' }, 'OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1'],
  [
    { ...COLLECTOR, OTEL_RESOURCE_ATTRIBUTES: 'prod' },
    'OTEL_RESOURCE_ATTRIBUTES must be pairs name=value, separated by commas',
  ],
] as const)('the wrong variables %j are refused', (env, problem) => {
  expect(parsed(env).problems).toEqual([problem])
})

test('the share of sampled traces follows the ratio', () => {
  const ids = Array.from(
    { length: 4_096 },
    (_, n) => `${'0'.repeat(24)}${((n << 20) >>> 0).toString(16).padStart(8, '0')}`,
  )
  const share = (ratio: number) => ids.filter((id) => isSampled(id, ratio)).length / ids.length
  expect([share(0), share(0.25), share(1)]).toEqual([0, 0.25, 1])
})
