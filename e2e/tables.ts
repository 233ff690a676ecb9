// A table as only the service makes one: by a run that succeeds.
import { type APIRequestContext, expect } from '@playwright/test'
import { fresh, type MadePipeline, newPipeline, writeFile } from './resources.ts'
import { runToEnd } from './runs.ts'

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
  pipeline: Pick<MadePipeline, 'namespace' | 'layer' | 'name'>,
): Promise<void> {
  expect(await runToEnd(request, pipeline)).toMatchObject({ status: 'success', error: null })
}
