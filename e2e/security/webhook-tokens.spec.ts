// Attack class: webhook tokens. Specification: Authentication, rules 2 and 6.
import { createHash } from 'node:crypto'
import { expect, test } from '@playwright/test'
import { addTrigger, publishedPipeline } from '../triggers.ts'

const path = '/api/v1/webhooks'

test('a token is taken from its two headers and from nowhere else', async ({ request }) => {
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

test('its hash, its parts and its other spellings open nothing', async ({ request }) => {
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

test('a token is in no answer, metric or audit entry', async ({ request }) => {
  const pipeline = await publishedPipeline(request)
  const webhook = await addTrigger(request, pipeline, 'webhook', {})
  const token = String(webhook.webhook_token)
  expect((await request.post(path, { headers: { 'X-Webhook-Token': token } })).status()).toBe(201)
  const audit = async () => (await request.get('/api/v1/audit?limit=200')).text()
  await expect.poll(audit).toContain(`"resource":"${path}"`)
  const shown = [
    await audit(),
    await (await request.get('/metrics')).text(),
    await (await request.get(webhook.url)).text(),
    await (await request.get('/api/v1/runs?limit=50')).text(),
  ]
  for (const text of shown) expect(text.includes(token)).toBe(false)
})

test('who guesses tokens is told to wait; known tokens are called on, from there too', async ({
  request,
}) => {
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
