// Specification: Health, metrics, features. Counters are of one process, so this one has nobody else's requests.
import { type APIRequestContext, expect, test } from '@playwright/test'
import { type OwnService, startOwnService } from './own-service.ts'
import { ENDLESS } from './resources.ts'

let service: OwnService
test.beforeAll(async () => {
  service = await startOwnService({ QUERY_URLS: 'none' })
})
test.afterAll(() => service?.stop())

/** The samples whose line starts so, without `sluice_`, by what follows. */
async function samples(request: APIRequestContext, start: string): Promise<Record<string, number>> {
  const text = await (await request.get(`${service.url}/metrics`)).text()
  const lines = text.split('\n').filter((line) => line.startsWith(`sluice_${start}`))
  return Object.fromEntries(
    lines.map((line) => {
      const [name = '', value] = line.split(/ (?=\S+$)/)
      return [name.slice(`sluice_${start}`.length), Number(value)]
    }),
  )
}

test('every run is counted once by how it ended, whoever ended it @metrics.runs', async ({ request }) => {
  const api = `${service.url}/api/v1`
  const prepare = async (name: string, source: string) => {
    const made = await request.post(`${api}/pipelines`, {
      data: { namespace: 'default', layer: 'gold', name },
    })
    expect(made.status()).toBe(201)
    const path = `default/pipelines/gold/${name}/pipeline.sql`
    expect((await request.put(`${api}/files/${path}`, { data: { content: source } })).status()).toBe(200)
  }
  const start = async (pipeline: string): Promise<string> => {
    const data = { namespace: 'default', layer: 'gold', pipeline }
    return (await (await request.post(`${api}/runs`, { data })).json()).run_id
  }
  const become = (id: string, status: string) =>
    expect
      .poll(async () => (await (await request.get(`${api}/runs/${id}`)).json()).status, { intervals: [20] })
      .toBe(status)

  await prepare('fine', 'select 1 as a')
  await become(await start('fine'), 'success')
  await prepare('broken', 'select nothing as a')
  await become(await start('broken'), 'failed')
  await prepare('slow', ENDLESS)
  const [executing, pending, left] = [await start('slow'), await start('slow'), await start('slow')]
  await become(executing, 'running')
  await expect.poll(() => samples(request, 'active_runs'), { intervals: [100] }).toEqual({ '': 3 })
  for (const id of [pending, executing])
    expect((await request.post(`${api}/runs/${id}/cancel`)).status()).toBe(200)
  expect((await request.post(`${api}/runs/${pending}/cancel`)).status()).toBe(409)
  expect((await request.delete(`${api}/pipelines/default/gold/slow`)).status()).toBe(204)
  await become(left, 'cancelled')

  const expected = { '{status="success"}': 1, '{status="failed"}': 1, '{status="cancelled"}': 3 }
  await expect.poll(() => samples(request, 'runs_total')).toEqual(expected)
  expect(await samples(request, 'pipeline_runs_total')).toEqual(expected)
  await expect.poll(() => samples(request, 'active_runs'), { intervals: [100] }).toEqual({ '': 0 })
  const cancels = await samples(request, 'http_requests_total{method="POST",path="/api/v1/runs/:id/cancel",')
  expect(cancels).toEqual({ 'status="200"}': 2, 'status="409"}': 1 })
})
