// Specification: Health, metrics, features. Counters belong to one process, so this service gets no other requests.
import { type APIRequestContext, expect } from '@playwright/test'
import { eventually } from '../kit/eventually.ts'
import { test } from '../kit/own-service.ts'
import { ENDLESS, pipelineWith } from '../kit/resources.ts'
import { cancel, getRun, logOf, requestRun, runToEnd, runToSuccess } from '../kit/runs.ts'

test.use({ serviceEnv: { QUERY_URLS: 'none' } })

/** Samples whose name starts with `sluice_` and `start`, keyed by the rest of their name and labels. */
async function samples(request: APIRequestContext, start: string): Promise<Record<string, number>> {
  const text = await (await request.get('/metrics')).text()
  const lines = text.split('\n').filter((line) => line.startsWith(`sluice_${start}`))
  return Object.fromEntries(
    lines.map((line) => {
      const [name = '', value] = line.split(/ (?=\S+$)/)
      return [name.slice(`sluice_${start}`.length), Number(value)]
    }),
  )
}

test('every run is counted once by its final status, whoever ends it @metrics.runs', async ({ request }) => {
  const become = (id: string, status: string) =>
    eventually(async () => (await getRun(request, id)).status).toBe(status)

  await runToSuccess(request, await pipelineWith(request, 'select 1 as a'))
  const broken = await pipelineWith(request, 'select nothing as a')
  expect((await runToEnd(request, broken)).status).toBe('failed')
  const slow = await pipelineWith(request, ENDLESS)
  const start = () => requestRun(request, slow)
  const [executing, pending, abandoned] = [await start(), await start(), await start()]
  await become(executing, 'running')
  await eventually(() => samples(request, 'active_runs')).toEqual({ '': 3 })
  for (const id of [pending, executing]) await cancel(request, id)
  expect((await request.post(`/api/v1/runs/${pending}/cancel`)).status()).toBe(409)
  expect((await request.delete(slow.url)).status()).toBe(204)
  await become(abandoned, 'cancelled')

  const expected = { '{status="success"}': 1, '{status="failed"}': 1, '{status="cancelled"}': 3 }
  await eventually(() => samples(request, 'runs_total')).toEqual(expected)
  expect(await samples(request, 'pipeline_runs_total')).toEqual(expected)
  await eventually(() => samples(request, 'active_runs')).toEqual({ '': 0 })
  const cancels = await samples(request, 'http_requests_total{method="POST",path="/api/v1/runs/:id/cancel",')
  expect(cancels).toEqual({ 'status="200"}': 2, 'status="409"}': 1 })
})

test('memory and costs of engines are metrics @metrics.engines', async ({ request }) => {
  const counted = () => samples(request, 'engine_written_bytes')
  const before = await counted()
  const sql = 'select range as id, hash(range) as h from range(500000)'
  const { id } = await runToSuccess(request, await pipelineWith(request, sql))
  const [line] = (await logOf(request, id)).filter(({ message }) => message.startsWith('cost: '))
  expect(line?.message).toMatch(/^cost: [\d.]+ CPU s, [\d.]+ [kM]?B read, [4-9]\.\d MB written, /)
  const added = async (key: string) => ((await counted())[key] ?? 0) - (before[key] ?? 0)
  // A run of an earlier test may report its cost late, so the number of costs says nothing. Only this run writes megabytes.
  await eventually(() => added('_sum{work="run"}')).toBeGreaterThan(4_000_000)
  expect(await added('_count{work="run"}')).toBeGreaterThan(0)

  const memory = async (name: string) => (await samples(request, name))['{part="runner-1"}'] ?? 0
  await eventually(() => memory('engine_memory_bytes')).toBeGreaterThan(10_000_000)
  expect(await memory('engine_memory_limit_bytes')).toBeGreaterThan(await memory('engine_memory_bytes'))
  const fullest = await memory('engine_memory_fullest_ratio')
  expect(fullest > 0 && fullest < 1).toBe(true)
})

test('the age of the queue and the leadership are gauges @metrics.operators', async ({ request }) => {
  const gauge = async (name: string) => (await samples(request, name))['']
  const both = { '{role="scheduler"}': 1, '{role="triggers"}': 1 }
  await eventually(() => samples(request, 'leads')).toMatchObject(both)
  expect(await samples(request, 'lease_changes_total')).toMatchObject(both)
  expect(await gauge('trigger_lag_seconds')).toBe(0)
  await eventually(() => gauge('queue_age_seconds')).toBe(0)
  const pipeline = await pipelineWith(request, ENDLESS)
  const [executing, waiting] = [await requestRun(request, pipeline), await requestRun(request, pipeline)]
  await eventually(() => gauge('queue_age_seconds')).toBeGreaterThan(1)
  expect(await gauge('unplaced_runs')).toBe(0)
  for (const id of [waiting, executing]) await cancel(request, id)
  await eventually(() => gauge('queue_age_seconds')).toBe(0)
})
