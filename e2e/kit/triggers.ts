// Helpers that the tests of triggers and webhooks share.
import { type APIRequestContext, expect } from '@playwright/test'
import type { MadePipeline } from './resources.ts'

interface Trigger {
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
