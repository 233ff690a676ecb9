// Specification: Webhooks; Authentication, rules 2 and 6.
import { type APIRequestContext, expect, test } from '@playwright/test'
import { expectError, getJson, publishedPipeline } from '../kit/resources.ts'
import { endedRuns } from '../kit/runs.ts'
import { addTrigger } from '../kit/triggers.ts'

const path = '/api/v1/webhooks'
const call = (request: APIRequestContext, token: unknown, more: object = {}) =>
  request.post(path, { headers: { 'X-Webhook-Token': String(token) }, ...more })

test('a webhook accepts its token in either header @runtime @triggers.type.webhook @webhooks @limit.token', async ({
  request,
  baseURL,
}) => {
  const pipeline = await publishedPipeline(request)
  const webhook = await addTrigger(request, pipeline, 'webhook', {})
  expect(webhook).toMatchObject({
    webhook_token: expect.stringMatching(/^[0-9a-f]{64}$/),
    webhook_url: `${baseURL}${path}`,
    config: { token_hash: expect.stringMatching(/^[0-9a-f]{64}$/) },
  })
  const token = webhook.webhook_token
  const answers = [
    await call(request, token),
    await request.post(path, { headers: { Authorization: `Bearer ${token}` } }),
    await call(request, token, { data: { any: 'thing' } }),
    await call(request, token, {
      data: Buffer.from('{"'),
      headers: { 'X-Webhook-Token': String(token), 'Content-Type': 'application/json' },
    }),
  ]
  for (const answer of answers)
    expect([answer.status(), await answer.json()]).toEqual([201, { run_id: expect.any(String) }])
  const runs = await endedRuns(request, pipeline, 4)
  const ids = await Promise.all(answers.map(async (answer) => (await answer.json()).run_id))
  expect(runs.map(({ id }: { id: string }) => id)).toEqual(ids)
  expect(runs).toMatchObject(ids.map(() => ({ trigger: 'webhook', status: 'success', version_number: 1 })))
  expect(await getJson(request, webhook.url)).toMatchObject({ last_run_id: ids.at(-1) })
})

test('a webhook token is shown once, and its hash is no credential @auth.token.shown-once', async ({
  request,
}) => {
  const pipeline = await publishedPipeline(request)
  const webhook = await addTrigger(request, pipeline, 'webhook', {})
  const updated = await request.put(webhook.url, { data: { config: {}, cooldown_seconds: 0 } })
  const shown = [
    await (await request.get(webhook.url)).text(),
    await (await request.get(`${pipeline.url}/triggers`)).text(),
    await updated.text(),
  ]
  for (const text of shown) {
    expect(text).not.toContain(String(webhook.webhook_token))
    expect(text).toContain(`"webhook_url":"${webhook.webhook_url}"`)
  }
  await expectError(await call(request, (webhook.config as { token_hash: string }).token_hash), 404)
  expect((await call(request, webhook.webhook_token)).status()).toBe(201)
})

test('a call without a token is 400, with an unknown token 404 @webhooks.400 @webhooks.404', async ({
  request,
}) => {
  const pipeline = await publishedPipeline(request)
  const webhook = await addTrigger(request, pipeline, 'webhook', {})
  const token = String(webhook.webhook_token)
  const without: Record<string, string>[] = [
    {},
    { 'X-Webhook-Token': '' },
    { Authorization: 'Basic YTpi' },
    { Authorization: 'Bearer ' },
  ]
  for (const headers of without)
    await expectError(await request.post(path, { headers }), 400, /X-Webhook-Token/)
  for (const wrong of ['x', '0'.repeat(64), token.slice(1), token.toUpperCase()])
    await expectError(await call(request, wrong), 404)
  expect((await request.get(path)).status()).toBe(405)

  await request.put(webhook.url, { data: { enabled: false } })
  await expectError(await call(request, token), 404)
  await request.put(webhook.url, { data: { enabled: true } })
  expect((await call(request, token)).status()).toBe(201)
  await request.delete(webhook.url)
  await expectError(await call(request, token), 404)

  const other = await addTrigger(request, pipeline, 'webhook', {})
  await request.delete(pipeline.url)
  await expectError(await call(request, other.webhook_token), 404)
})

test('in a cooldown, one of 100 concurrent calls runs; 99 get 429 @webhooks.429 @limit.cooldown', async ({
  request,
}) => {
  const pipeline = await publishedPipeline(request)
  const webhook = await addTrigger(request, pipeline, 'webhook', {}, { cooldown_seconds: 600 })
  const answers = await Promise.all(Array.from({ length: 100 }, () => call(request, webhook.webhook_token)))
  const refused = answers.filter((answer) => answer.status() === 429)
  expect([answers.filter((answer) => answer.status() === 201).length, refused.length]).toEqual([1, 99])
  for (const answer of refused) {
    const seconds = Number(answer.headers()['retry-after'])
    expect(seconds).toBeGreaterThanOrEqual(1)
    expect(seconds).toBeLessThanOrEqual(600)
    expect(await answer.json()).toEqual({
      error: { code: 'RATE_LIMITED', type: 'RATE_LIMIT', message: expect.any(String) },
    })
  }
  await endedRuns(request, pipeline, 1)
})
