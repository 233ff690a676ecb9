import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { NO_TRACE } from '../../ground/telemetry/trace.ts'
import { useDatabase } from '../../tools/service/database.ts'
import { addPipeline } from '../../workers/testing.ts'
import { requestTo, testApp } from '../composition/test-app.ts'
import { newId } from '../core/ids.ts'
import { limits } from '../core/limits.ts'
import { makeTriggerService } from '../triggers/service.ts'
import { makeCalls, WEBHOOK_CALLS_WAITING } from './calls.ts'
import { webhookRoutes } from './routes.ts'
import { makeWebhookService } from './service.ts'

setDefaultTimeout(60_000)

const opened = useDatabase({ rawConnections: 6 })
let nudges = 0

/** A further replica. */
function replica(apiKey: string | null = null) {
  const webhooks = makeWebhookService({ sql: opened.sql, newId, nudge: () => nudges++ })
  return testApp({ ownCredential: [webhookRoutes(webhooks)], config: { apiKey } })
}

let made = 0
async function newWebhook({ cooldown = 0, isPublished = true, enabled = true } = {}) {
  const name = `p${made++}`
  const { id: pipelineId } = await addPipeline(opened.sql, name, { landingZones: [], nudge: () => {} })
  await opened.sql`
    insert into pipeline_version (id, pipeline_id, version_number, message, pipeline_type, published_versions, landing_zones)
    values (${newId()}, ${pipelineId}, 1, '', 'sql', '{}', '[]') on conflict do nothing`
  if (!isPublished) await opened.sql`update pipeline set published_version = null where id = ${pipelineId}`
  const triggers = makeTriggerService({ sql: opened.sql, newId })
  const ref = { namespace: 'default', layer: 'gold', name }
  const created = await triggers.create(ref, {
    type: 'webhook',
    config: {},
    cooldown_seconds: cooldown,
    enabled,
  })
  return { ref, pipelineId, id: created.id, token: created.webhook_token ?? '', triggers }
}

async function call(headers: Record<string, string>, app = replica(), body?: object) {
  const response = await requestTo(app, 'POST', '/api/v1/webhooks', body, headers)
  const answer = (await response.json()) as { run_id?: string; error?: { code: string; type: string } }
  return { status: response.status, retryAfter: response.headers.get('retry-after'), ...answer }
}
const runsOf = (pipelineId: string) => opened.sql`select * from run where pipeline_id = ${pipelineId}`

describe('a webhook call', () => {
  test.each([
    ['X-Webhook-Token', (token: string) => ({ 'x-webhook-token': token })],
    ['Authorization: Bearer', (token: string) => ({ authorization: `Bearer ${token}` })],
    [
      'both headers, of which X-Webhook-Token wins',
      (token: string) => ({ 'x-webhook-token': token, authorization: 'Bearer x' }),
    ],
  ])('a call with %s requests a run and updates its trigger', async (_, headers) => {
    const { token, pipelineId, id, ref, triggers } = await newWebhook()
    const before = nudges
    const answer = await call(headers(token))
    expect(answer).toEqual({ status: 201, retryAfter: null, run_id: expect.any(String) })
    expect(nudges).toBe(before + 1)
    const [run] = await runsOf(pipelineId)
    expect(run).toMatchObject({ id: answer.run_id, trigger: 'webhook', status: 'pending', version_number: 1 })
    expect(await triggers.get(ref, id)).toMatchObject({
      last_run_id: answer.run_id,
      last_triggered_at: expect.any(String),
      state: 'armed',
    })
    expect(
      await opened.sql`select event, effects, cause from transition where entity_id = ${id} order by id desc limit 1`,
    ).toEqual([{ event: 'fired', effects: ['requestRun'], cause: 'webhook' }] as never)
  })

  test('a call needs no API key even if one is configured', async () => {
    const { token } = await newWebhook()
    expect((await call({ 'x-webhook-token': token }, replica('secret'))).status).toBe(201)
  })
})

describe('a webhook call is refused', () => {
  test('a call for an unpublished pipeline is 400 and starts no cooldown', async () => {
    const { token, pipelineId, id } = await newWebhook({ isPublished: false, cooldown: 60 })
    for (let time = 0; time < 2; time++)
      expect(await call({ 'x-webhook-token': token })).toMatchObject({
        status: 400,
        error: {
          code: 'INVALID_ARGUMENT',
          message: expect.stringMatching(/never been published: publish it .*\/publish\)/),
        },
      })
    expect(await runsOf(pipelineId)).toHaveLength(0)
    await opened.sql`update pipeline set published_version = 1 where id = ${pipelineId}`
    expect((await call({ 'x-webhook-token': token })).status).toBe(201)
    expect((await opened.sql`select state from trigger where id = ${id}`)[0]?.state).toBe('cooling')
  })

  test('concurrent calls for an unpublished pipeline are all 400, none 429', async () => {
    const { token } = await newWebhook({ isPublished: false, cooldown: 60 })
    const app = replica()
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => call({ 'x-webhook-token': token }, app)),
    )
    expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(400))
  })

  test('a call is 429 while too many runs wait', async () => {
    const { token, pipelineId } = await newWebhook()
    await call({ 'x-webhook-token': token })
    await opened.sql`
      insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones, snapshot,
        machine_version, status)
      select gen_random_uuid(), pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones,
        snapshot, machine_version, status
      from run, generate_series(2, ${limits.waitingRunsPerPipeline}) where pipeline_id = ${pipelineId}`
    expect(await call({ 'x-webhook-token': token })).toMatchObject({
      status: 429,
      retryAfter: '60',
      error: { code: 'RATE_LIMITED', type: 'RATE_LIMIT' },
    })
  })

  test('refuses calls beyond the waiting limit and answers the others', async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const ask = makeCalls(async (calls) => {
      await promise
      return calls.map(() => ({ kind: 'unknown' }))
    })
    const answers = Array.from({ length: WEBHOOK_CALLS_WAITING + 1 }, () =>
      ask({ hash: 'x', trace: NO_TRACE }),
    )
    expect(answers.filter((answer) => answer === null).length).toBeGreaterThan(0)
    resolve()
    const accepted = answers.filter((answer) => answer !== null)
    expect(accepted.length).toBeGreaterThanOrEqual(WEBHOOK_CALLS_WAITING)
    expect(new Set((await Promise.all(accepted)).map(({ kind }) => kind))).toEqual(new Set(['unknown']))
  })
})

describe('a webhook cooldown', () => {
  test('one of 100 concurrent calls fires; the others get Retry-After', async () => {
    const { token, pipelineId, id } = await newWebhook({ cooldown: 60 })
    const replicas = [replica(), replica()]
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, index) => call({ 'x-webhook-token': token }, replicas[index % 2])),
    )
    const refused = answers.filter(({ status }) => status === 429)
    expect([answers.filter(({ status }) => status === 201).length, refused.length]).toEqual([1, 99])
    for (const { retryAfter, error } of refused) {
      expect(Number(retryAfter)).toBeWithin(1, 61)
      expect(error).toMatchObject({ code: 'RATE_LIMITED', type: 'RATE_LIMIT' })
    }
    expect(await runsOf(pipelineId)).toHaveLength(1)
    expect(await opened.sql`select event from transition where entity_id = ${id} order by id`).toEqual([
      { event: 'created' },
      { event: 'fired' },
    ] as never)
  })

  test('an expired cooldown accepts the next call before the evaluator ends it', async () => {
    const { token, id, pipelineId } = await newWebhook({ cooldown: 60 })
    await call({ 'x-webhook-token': token })
    await opened.sql`
      update trigger set snapshot = jsonb_set(snapshot, '{context,firedAt}',
        to_jsonb((snapshot #>> '{context,firedAt}')::bigint - 60000)) where id = ${id}`
    expect((await call({ 'x-webhook-token': token })).status).toBe(201)
    expect(await runsOf(pipelineId)).toHaveLength(2)
  })
})

test('a call racing with a disable yields 201 and a run, or 404', async () => {
  for (let round = 0; round < 10; round++) {
    const { token, pipelineId, ref, id, triggers } = await newWebhook()
    const [answer] = await Promise.all([
      call({ 'x-webhook-token': token }),
      triggers.update(ref, id, { enabled: false }),
    ])
    expect([201, 404]).toContain(answer.status)
    expect(await runsOf(pipelineId)).toHaveLength(answer.status === 201 ? 1 : 0)
    expect((await call({ 'x-webhook-token': token })).status).toBe(404)
  }
})

test('calls of many tokens share transactions; a damaged trigger fails alone', async () => {
  const good = await Promise.all(Array.from({ length: 10 }, () => newWebhook()))
  const bad = await newWebhook()
  await opened.sql`update trigger set snapshot = '{"value": "nowhere"}' where id = ${bad.id}`
  const app = replica()
  const answers = await Promise.all(
    [bad, ...good].map(({ token }) => call({ 'x-webhook-token': token }, app)),
  )
  expect(answers.map(({ status }) => status)).toEqual([500, ...good.map(() => 201)])
})

test('a call of a trigger from a newer program version is 503', async () => {
  const { token, id, pipelineId } = await newWebhook()
  await opened.sql`update trigger set machine_version = 99 where id = ${id}`
  expect((await call({ 'x-webhook-token': token })).status).toBe(503)
  expect(await runsOf(pipelineId)).toHaveLength(0)
})
