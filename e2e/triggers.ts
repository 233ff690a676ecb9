// What the specifications of triggers and webhooks share.
import { type APIRequestContext, expect } from '@playwright/test'
import { fresh, type MadePipeline, newPipeline, writeFile } from './resources.ts'

export async function publishedPipeline(
  request: APIRequestContext,
  sql = 'select 1 as a',
): Promise<MadePipeline> {
  const pipeline = await newPipeline(request, { layer: 'gold' })
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, sql)
  await publish(request, pipeline)
  return pipeline
}

export async function publish(request: APIRequestContext, { url }: MadePipeline) {
  const published = await request.post(`${url}/publish`)
  expect([published.status(), await published.text()]).toEqual([200, expect.anything()])
}

export async function newZone(request: APIRequestContext) {
  const name = fresh('zone')
  expect(
    (await request.post('/api/v1/landing-zones', { data: { namespace: 'default', name } })).status(),
  ).toBe(201)
  const url = `/api/v1/landing-zones/default/${name}`
  const upload = async (file: string, text = 'a,b\n1,2\n') => {
    const multipart = { file: { name: file, mimeType: 'text/csv', buffer: Buffer.from(text) } }
    const uploaded = await request.post(`${url}/files`, { multipart })
    expect(uploaded.status()).toBe(201)
    return uploaded.json()
  }
  return { name, url, config: { namespace: 'default', zone_name: name }, upload }
}

export interface Trigger {
  id: string
  url: string
  [field: string]: unknown
}

export async function addTrigger(
  request: APIRequestContext,
  pipeline: MadePipeline,
  type: string,
  config: object,
  more: object = {},
): Promise<Trigger> {
  const created = await request.post(`${pipeline.url}/triggers`, { data: { type, config, ...more } })
  const body = await created.json()
  expect([created.status(), body]).toEqual([201, expect.anything()])
  return { ...body, url: `${pipeline.url}/triggers/${body.id}` }
}

/** Oldest first. */
export async function runsOf(request: APIRequestContext, { namespace, layer, name }: MadePipeline) {
  const params = { namespace, layer, pipeline: name, order: 'asc', limit: 200 }
  return (await (await request.get('/api/v1/runs', { params })).json()).runs
}

/** Waits until this many runs of the pipeline have ended, and answers them; more than that fails. */
export async function endedRuns(request: APIRequestContext, pipeline: MadePipeline, count: number) {
  const ended = async () =>
    (await runsOf(request, pipeline)).filter(
      (run: { finished_at: string | null }) => run.finished_at !== null,
    )
  await expect
    .poll(async () => (await ended()).length, { intervals: [20, 50, 100] })
    .toBeGreaterThanOrEqual(count)
  const runs = await runsOf(request, pipeline)
  expect(runs).toHaveLength(count)
  return runs
}
