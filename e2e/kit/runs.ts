// Helpers that request runs, follow them to their end, and make tables.
import { type APIRequestContext, expect } from '@playwright/test'
import { eventually } from './eventually.ts'
import { fresh, type MadePipeline, pipelineWith } from './resources.ts'

type Named = Pick<MadePipeline, 'namespace' | 'layer' | 'name'>

export interface EndedRun {
  id: string
  status: string
  error: string | null
  rows_written: number | null
  merged_commit: number
  started_at: string
  finished_at: string
  [field: string]: unknown
}

/** Requests a run; resolves with the id of the run. */
export async function requestRun(
  request: APIRequestContext,
  { namespace, layer, name }: Named,
  more: { trigger?: string; branch?: string; draft?: boolean } = {},
) {
  const data = { namespace, layer, pipeline: name, ...more }
  const response = await request.post('/api/v1/runs', { data })
  expect(response.status(), await response.text()).toBe(202)
  return String((await response.json()).run_id)
}

export const getRun = async (request: APIRequestContext, id: string) =>
  (await request.get(`/api/v1/runs/${id}`)).json()

/** The log lines of the run so far. */
export async function logOf(
  request: APIRequestContext,
  id: string,
): Promise<{ timestamp: string; level: string; message: string }[]> {
  return (await (await request.get(`/api/v1/runs/${id}/logs`)).json()).logs
}

/** Waits for the end of the run. */
export async function ended(request: APIRequestContext, id: string): Promise<EndedRun> {
  const finishedAt = async () => (await getRun(request, id)).finished_at
  await eventually(finishedAt).not.toBeNull()
  return getRun(request, id)
}

/** Requests a run and waits for its end. */
export const runToEnd = async (
  request: APIRequestContext,
  pipeline: Named,
  more: Parameters<typeof requestRun>[2] = {},
) => ended(request, await requestRun(request, pipeline, more))

/** The runs of the pipeline, oldest first. */
export async function runsOf(request: APIRequestContext, { namespace, layer, name }: Named) {
  const params = { namespace, layer, pipeline: name, order: 'asc', limit: 200 }
  return (await (await request.get('/api/v1/runs', { params })).json()).runs
}

/** Waits until this many runs of the pipeline have ended and returns them. Fails if the pipeline has more runs. */
export async function endedRuns(request: APIRequestContext, pipeline: Named, count: number) {
  const ended = async () =>
    (await runsOf(request, pipeline)).filter(
      (run: { finished_at: string | null }) => run.finished_at !== null,
    )
  await eventually(async () => (await ended()).length).toBeGreaterThanOrEqual(count)
  const runs = await runsOf(request, pipeline)
  expect(runs).toHaveLength(count)
  return runs
}

/** Requests a run, waits for its end and expects success. */
export async function runToSuccess(request: APIRequestContext, pipeline: Named) {
  const run = await runToEnd(request, pipeline)
  expect(run).toMatchObject({ status: 'success', error: null })
  return run
}

export async function cancel(request: APIRequestContext, id: string) {
  expect((await request.post(`/api/v1/runs/${id}/cancel`)).status()).toBe(200)
}

/** Makes a pipeline with this query and runs it, so that its table has the query's rows. */
export async function newTable(
  request: APIRequestContext,
  at: { namespace: string; layer: string; name?: string },
  sql: string,
): Promise<MadePipeline> {
  const pipeline = await pipelineWith(request, sql, { name: fresh('t'), ...at })
  await runToSuccess(request, pipeline)
  return pipeline
}
