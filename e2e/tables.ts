// A table as only the service makes one: by a run that succeeds.
import { type APIRequestContext, expect } from '@playwright/test'
import { fresh, type MadePipeline, newPipeline, writeFile } from './resources.ts'

/** Makes a pipeline with this query and runs it; its table then has the query's rows. */
export async function newTable(
  request: APIRequestContext,
  at: { namespace: string; layer: string; name?: string },
  sql: string,
): Promise<MadePipeline> {
  const pipeline = await newPipeline(request, { name: fresh('t'), ...at })
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, sql)
  await runToSuccess(request, pipeline)
  return pipeline
}

export async function runToSuccess(
  request: APIRequestContext,
  { namespace, layer, name }: Pick<MadePipeline, 'namespace' | 'layer' | 'name'>,
): Promise<void> {
  const asked = await request.post('/api/v1/runs', { data: { namespace, layer, pipeline: name } })
  expect(asked.status()).toBe(202)
  const { run_id } = await asked.json()
  const run = async () => (await request.get(`/api/v1/runs/${run_id}`)).json()
  await expect.poll(async () => (await run()).finished_at, { intervals: [50, 100, 200] }).not.toBeNull()
  expect(await run()).toMatchObject({ status: 'success', error: null })
}
