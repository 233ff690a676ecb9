// Runs as the specifications need them: requested, and followed to their end.
import { type APIRequestContext, expect } from '@playwright/test'
import type { MadePipeline } from './resources.ts'

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

/** Resolves with the id of the run. */
export async function requestRun(request: APIRequestContext, { namespace, layer, name }: Named) {
  const response = await request.post('/api/v1/runs', { data: { namespace, layer, pipeline: name } })
  expect(response.status(), await response.text()).toBe(202)
  return String((await response.json()).run_id)
}

export const getRun = async (request: APIRequestContext, id: string) =>
  (await request.get(`/api/v1/runs/${id}`)).json()

/** The lines of its log until now. */
export async function logOf(
  request: APIRequestContext,
  id: string,
): Promise<{ level: string; message: string }[]> {
  return (await (await request.get(`/api/v1/runs/${id}/logs`)).json()).logs
}

/** Waits for the end of the run. */
export async function ended(request: APIRequestContext, id: string): Promise<EndedRun> {
  const finishedAt = async () => (await getRun(request, id)).finished_at
  await expect.poll(finishedAt, { intervals: [20, 50, 100, 200] }).not.toBeNull()
  return getRun(request, id)
}

/** Requests a run and waits for its end. */
export const runToEnd = async (request: APIRequestContext, pipeline: Named) =>
  ended(request, await requestRun(request, pipeline))
