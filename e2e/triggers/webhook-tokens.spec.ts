// Attack class: webhook tokens. Specification: Authentication, rules 2 and 6.
import { createHash } from 'node:crypto'
import { expect, test } from '@playwright/test'
import { eventually } from '../kit/eventually.ts'
import { auditOf, publishedPipeline } from '../kit/resources.ts'
import { addTrigger } from '../kit/triggers.ts'

const path = '/api/v1/webhooks'

test('a webhook token is read only from its two headers', async ({ request }) => {
  const pipeline = await publishedPipeline(request)
  const token = String((await addTrigger(request, pipeline, 'webhook', {})).webhook_token)
  const elsewhere: Parameters<typeof request.post>[1][] = [
    { params: { token, 'X-Webhook-Token': token, access_token: token } },
    { data: { token, webhook_token: token } },
    { headers: { cookie: `X-Webhook-Token=${token}` } },
    { headers: { authorization: `Basic ${token}` } },
    { headers: { 'x-api-key': token } },
  ]
  for (const options of elsewhere) expect((await request.post(path, options)).status()).toBe(400)
  expect((await request.post(`${path}/${token}`)).status()).toBe(404)
  const rightly: Record<string, string>[] = [
    { 'X-Webhook-Token': token },
    { Authorization: `Bearer ${token}` },
  ]
  for (const headers of rightly) expect((await request.post(path, { headers })).status()).toBe(201)
})

test('the hash, parts and other spellings of a token open nothing', async ({ request }) => {
  const pipeline = await publishedPipeline(request)
  const token = String((await addTrigger(request, pipeline, 'webhook', {})).webhook_token)
  const hash = createHash('sha256').update(token).digest('hex')
  for (const wrong of [
    hash,
    token.slice(0, 63),
    `${token}0`,
    token.toUpperCase(),
    `${token},${token}`,
    `0x${token}`,
    '%',
    "' or '1'='1",
  ]) {
    if (wrong === token) continue
    const response = await request.post(path, { headers: { 'X-Webhook-Token': wrong } })
    expect([wrong, response.status()]).toEqual([wrong, 404])
    expect(await response.text()).not.toContain(wrong.length > 8 ? wrong : token)
  }
})

test('a webhook token is in no answer, metric or audit entry', async ({ request }) => {
  const pipeline = await publishedPipeline(request)
  const webhook = await addTrigger(request, pipeline, 'webhook', {})
  const token = String(webhook.webhook_token)
  expect((await request.post(path, { headers: { 'X-Webhook-Token': token } })).status()).toBe(201)
  const audit = async () => JSON.stringify(await auditOf(request))
  await eventually(audit).toContain(`"resource":"${path}"`)
  const shown = [
    await audit(),
    await (await request.get('/metrics')).text(),
    await (await request.get(webhook.url)).text(),
    await (await request.get('/api/v1/runs?limit=50')).text(),
  ]
  for (const text of shown) expect(text.includes(token)).toBe(false)
})

test('guessing tokens is rate limited, while known tokens still work', async ({ request }) => {
  const pipeline = await publishedPipeline(request)
  const token = String((await addTrigger(request, pipeline, 'webhook', {})).webhook_token)
  const headers = { 'X-Forwarded-For': '198.51.100.77' }
  const call = async (value: string) =>
    (await request.post(path, { headers: { ...headers, 'X-Webhook-Token': value } })).status()
  expect(await call(token)).toBe(201)
  const answers = new Set<number>()
  for (let n = 0; n < 80; n++)
    answers.add(await call(createHash('sha256').update(`guess ${n}`).digest('hex')))
  expect([...answers]).toEqual([404, 429])
  expect(await call(token)).toBe(201)
})

test('refusing a nearly correct token takes as long as any other', async ({ request }) => {
  const pipeline = await publishedPipeline(request)
  const token = String((await addTrigger(request, pipeline, 'webhook', {})).webhook_token)
  const near = token.slice(0, 63) + (token.endsWith('0') ? '1' : '0')
  const far = createHash('sha256').update(token).digest('hex')
  const times: Record<string, number[]> = { [near]: [], [far]: [] }
  // Alternating requests, so that a slow machine affects both. Each pair has a new address, whose failures are not counted yet.
  for (let round = 0; round < 60; round++)
    for (const wrong of [near, far]) {
      const headers = { 'X-Webhook-Token': wrong, 'X-Forwarded-For': `198.51.100.${round + 1}` }
      const began = performance.now()
      expect((await request.post(path, { headers })).status()).toBe(404)
      times[wrong]?.push(performance.now() - began)
    }
  const median = (wrong: string) => times[wrong]?.sort((a, b) => a - b)[30] ?? 0
  console.log(`nearly right ${median(near).toFixed(2)} ms, wrong ${median(far).toFixed(2)} ms`)
  expect(Math.abs(median(near) - median(far))).toBeLessThan(Math.max(median(far), 3))
})

test('a repeated call is a new call, which a cooldown refuses', async ({ request }) => {
  const pipeline = await publishedPipeline(request)
  const cooling = await addTrigger(request, pipeline, 'webhook', {}, { cooldown_seconds: 600 })
  const headers = { 'X-Webhook-Token': String(cooling.webhook_token) }
  expect((await request.post(path, { headers })).status()).toBe(201)
  for (const again of [headers, { ...headers, Date: 'Thu, 01 Jan 1970 00:00:00 GMT' }]) {
    const refused = await request.post(path, { headers: again })
    expect(refused.status()).toBe(429)
    expect(Number(refused.headers()['retry-after'])).toBeGreaterThan(500)
  }
})

test('a token stops working when its trigger is disabled or deleted', async ({ request }) => {
  const pipeline = await publishedPipeline(request)
  const trigger = await addTrigger(request, pipeline, 'webhook', {})
  const other = await addTrigger(request, pipeline, 'webhook', {})
  expect(other.webhook_token).not.toBe(trigger.webhook_token)
  const headers = { 'X-Webhook-Token': String(trigger.webhook_token) }
  const call = async () => (await request.post(path, { headers })).status()
  expect(await call()).toBe(201)
  expect((await request.put(trigger.url, { data: { enabled: false } })).status()).toBe(200)
  expect(await call()).toBe(404)
  expect((await request.put(trigger.url, { data: { enabled: true } })).status()).toBe(200)
  expect(await call()).toBe(201)
  expect((await request.delete(trigger.url)).status()).toBe(204)
  expect(await call()).toBe(404)
  const others = { 'X-Webhook-Token': String(other.webhook_token) }
  expect((await request.post(path, { headers: others })).status()).toBe(201)
  expect((await request.delete(pipeline.url)).status()).toBe(204)
  expect((await request.post(path, { headers: others })).status()).toBe(404)
})
