// The dashboard and the alert rules name metrics and labels that the service has.
import { expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Type as t } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { parse } from 'yaml'
import { makeMetrics } from '../../app/core/metrics.ts'

const FOLDER = join(import.meta.dirname, '..', 'observability')
const Dashboard = t.Object({
  panels: t.Array(
    t.Object({ title: t.String(), targets: t.Array(t.Object({ expr: t.String() }), { minItems: 1 }) }),
  ),
})
const Text = t.String({ minLength: 10 })
const Rules = t.Object({
  groups: t.Array(
    t.Object({
      name: t.String(),
      rules: t.Array(
        t.Object({
          alert: t.String({ pattern: '^Sluice[A-Z][A-Za-z]+$' }),
          expr: t.String(),
          for: t.Optional(t.String({ pattern: '^[0-9]+[smh]$' })),
          labels: t.Object({ severity: t.Union([t.Literal('warning'), t.Literal('critical')]) }),
          annotations: t.Object({ summary: Text, description: Text }),
        }),
        { minItems: 1 },
      ),
    }),
  ),
})

/** The names of all metrics, with those of the parts of histograms. */
async function metricNames(): Promise<Set<string>> {
  const types = [...(await makeMetrics().text()).matchAll(/^# TYPE (\w+) (\w+)$/gm)]
  return new Set(
    types.flatMap(([, name = '', type]) =>
      type === 'histogram' ? [`${name}_bucket`, `${name}_count`, `${name}_sum`] : [name],
    ),
  )
}

const namesIn = (expr: string) => expr.match(/sluice_\w+/g) ?? []

async function expressions(): Promise<string[]> {
  const dashboard = JSON.parse(await readFile(join(FOLDER, 'grafana-dashboard.json'), 'utf8'))
  const rules = parse(await readFile(join(FOLDER, 'alerts.yaml'), 'utf8'))
  const { panels } = Value.Decode(Dashboard, dashboard)
  const { groups } = Value.Decode(Rules, rules)
  return [
    ...panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
    ...groups.flatMap((group) => group.rules.map(({ expr }) => expr)),
  ]
}

test('dashboard and alerts name only metrics of the service', async () => {
  const known = await metricNames()
  const named = (await expressions()).map(namesIn)
  expect(named.filter((names) => names.length === 0)).toEqual([])
  expect(named.flat().filter((name) => !known.has(name))).toEqual([])
})

test('the dashboard or an alert shows each metric', async () => {
  const shown = (await expressions()).flatMap(namesIn)
  const parts = /_(bucket|count|sum)$/
  const bases = [...(await metricNames())].map((name) => name.replace(parts, ''))
  // Two names of one number: the second is an older one.
  const missing = new Set(bases.filter((name) => !shown.some((each) => each.replace(parts, '') === name)))
  expect([...missing]).toEqual(['sluice_pipeline_runs_total'])
})

const RuleTests = t.Object({
  tests: t.Array(
    t.Object({
      alert_rule_test: t.Array(t.Object({ alertname: t.String(), exp_alerts: t.Array(t.Unknown()) }), {
        minItems: 1,
      }),
    }),
  ),
})

test('each alert has a case that fires and a silent case', async () => {
  const { groups } = Value.Decode(Rules, parse(await readFile(join(FOLDER, 'alerts.yaml'), 'utf8')))
  const names = groups.flatMap(({ rules }) => rules.map(({ alert }) => alert)).toSorted()
  const { tests } = Value.Decode(RuleTests, parse(await readFile(join(FOLDER, 'alerts.test.yaml'), 'utf8')))
  const namesIn = (chosen: typeof tests) =>
    [...new Set(chosen.flatMap((each) => each.alert_rule_test.map(({ alertname }) => alertname)))].toSorted()
  const fires = (each: (typeof tests)[number]) =>
    each.alert_rule_test.some((one) => one.exp_alerts.length > 0)
  expect(namesIn(tests.filter(fires))).toEqual(names)
  expect(namesIn(tests.filter((each) => !fires(each)))).toEqual(names)
})

test('the page for operators lists each metric', async () => {
  const page = await readFile(join(import.meta.dirname, '..', '..', 'docs', 'operations.md'), 'utf8')
  const names = [...(await makeMetrics().text()).matchAll(/^# TYPE (\w+) /gm)].map(([, name = '']) => name)
  expect(names.filter((name) => !page.includes(`\`${name}\``))).toEqual([])
})
