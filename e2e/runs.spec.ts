// Specification: Runs, Server-sent events on run logs, Run status.
import { type APIRequestContext, expect, test } from '@playwright/test'
import { rawRequest } from './raw-request.ts'
import { ENDLESS } from './resources.ts'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const ISO = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/
const unique = () => `r${Date.now().toString(36)}${Math.random().toString(36).slice(2, 8)}`
const NOWHERE = '00000000-0000-7000-8000-000000000000'

interface Run {
  id: string
  status: string
  [field: string]: unknown
}

async function pipeline(request: APIRequestContext, source: string, { isPublished = true } = {}) {
  const name = unique()
  const created = await request.post('/api/v1/pipelines', {
    data: { namespace: 'default', layer: 'gold', name },
  })
  expect(created.status()).toBe(201)
  const put = await request.put(`/api/v1/files/default/pipelines/gold/${name}/pipeline.sql`, {
    data: { content: source },
  })
  expect(put.status()).toBe(200)
  if (isPublished) {
    const published = await request.post(`/api/v1/pipelines/default/gold/${name}/publish`)
    expect(published.status(), await published.text()).toBe(200)
  }
  return name
}

async function start(request: APIRequestContext, name: string, more: object = {}): Promise<string> {
  const response = await request.post('/api/v1/runs', {
    data: { namespace: 'default', layer: 'gold', pipeline: name, ...more },
  })
  expect(response.status()).toBe(202)
  const body = await response.json()
  expect(body).toEqual({ run_id: expect.stringMatching(UUID), status: 'pending' })
  return body.run_id
}

const get = async (request: APIRequestContext, id: string): Promise<Run> =>
  (await request.get(`/api/v1/runs/${id}`)).json()

async function ended(request: APIRequestContext, id: string): Promise<Run> {
  await expect
    .poll(async () => (await get(request, id)).status, { intervals: [20] })
    .toMatch(/success|failed|cancelled/)
  return get(request, id)
}

const phaseIs = (request: APIRequestContext, id: string, phase: string) =>
  expect.poll(async () => (await get(request, id)).phase, { intervals: [10] }).toBe(phase)

const envelope = (code: string, type: string, message: RegExp | string = /./) => ({
  error: { code, type, message: expect.stringMatching(message) },
})

test.describe('a run', () => {
  test('is accepted, executed and merged, and says so in every field @runs.create @runs.get @run.pending', async ({
    request,
  }) => {
    const name = await pipeline(request, 'select range as a from range(3)')
    const run = await ended(request, await start(request, name))
    expect(run).toMatchObject({
      id: expect.stringMatching(UUID),
      pipeline_id: expect.stringMatching(UUID),
      namespace: 'default',
      layer: 'gold',
      pipeline: name,
      status: 'success',
      trigger: 'manual',
      attempt: 1,
      version_number: 1,
      started_at: expect.stringMatching(ISO),
      finished_at: expect.stringMatching(ISO),
      created_at: expect.stringMatching(ISO),
      rows_written: 3,
      error: null,
    })
    expect(run.duration_ms).toBeGreaterThanOrEqual(0)
  })

  test('keeps the trigger it was given @runs.create.trigger', async ({ request }) => {
    const name = await pipeline(request, 'select 1 as a')
    const id = await start(request, name, { trigger: 'schedule:hourly' })
    expect((await ended(request, id)).trigger).toBe('schedule:hourly')
  })

  test('of a pipeline that was never published executes its draft, pinned, with a warning', async ({
    request,
  }) => {
    const name = await pipeline(request, 'select 1 as a', { isPublished: false })
    const id = await start(request, name)
    expect(await ended(request, id)).toMatchObject({ status: 'success', version_number: null })
    const { logs } = await (await request.get(`/api/v1/runs/${id}/logs`)).json()
    expect(logs.filter((line: { level: string }) => line.level === 'warn')).toHaveLength(1)
  })

  test('executes the published version although the draft has changed since @draft.pinned', async ({
    request,
  }) => {
    const name = await pipeline(request, 'select 1 as a')
    await request.put(`/api/v1/files/default/pipelines/gold/${name}/pipeline.sql`, {
      data: { content: 'broken' },
    })
    expect(await ended(request, await start(request, name))).toMatchObject({
      status: 'success',
      version_number: 1,
    })
  })

  test('that fails names the phase, the file and the line', async ({ request }) => {
    const name = await pipeline(request, 'select 1 as a,\n  nothing_like_it as b')
    const run = await ended(request, await start(request, name))
    expect(run).toMatchObject({
      status: 'failed',
      rows_written: null,
      error: expect.stringMatching(/nothing_like_it/),
    })
    expect(run.error).toMatch(/^executing: pipeline\.sql/)
    expect(run.error).not.toMatch(/at .*\.ts|node_modules/)
    const { logs } = await (await request.get(`/api/v1/runs/${run.id}/logs`)).json()
    const errors = logs.filter((line: { level: string }) => line.level === 'error')
    expect(errors.map((line: { message: string }) => line.message)).toEqual([run.error])
  })

  test('whose error test fails leaves the table as it was; a warning does not @run.gate.warn', async ({
    request,
  }) => {
    const name = await pipeline(request, 'select 1 as a')
    await ended(request, await start(request, name))
    const tests = `/api/v1/pipelines/default/gold/${name}/tests`
    await request.post(tests, {
      data: { name: 'warns', severity: 'warn', sql: 'select 1 as bad union all select 2' },
    })
    await request.put(`/api/v1/files/default/pipelines/gold/${name}/pipeline.sql`, {
      data: { content: 'select 2 as a' },
    })
    await request.post(`/api/v1/pipelines/default/gold/${name}/publish`)
    expect((await ended(request, await start(request, name))).status).toBe('success')

    await request.post(tests, {
      data: { name: 'gates', severity: 'error', sql: "select a, 'bad' as why from {{ this }} where a = 3" },
    })
    await request.put(`/api/v1/files/default/pipelines/gold/${name}/pipeline.sql`, {
      data: { content: 'select 3 as a' },
    })
    await request.post(`/api/v1/pipelines/default/gold/${name}/publish`)
    const blocked = await ended(request, await start(request, name))
    expect(blocked).toMatchObject({ status: 'failed', error: expect.stringMatching(/gates \(1/) })
    const table = await request.post('/api/v1/query', { data: { sql: `select a from gold.${name}` } })
    expect((await table.json()).rows).toEqual([{ a: 2 }])
  })
})

test.describe('cancel', () => {
  test('ends an executing run, leaves no table and answers once @runs.cancel @runs.cancel.409 @run.cancel.running', async ({
    request,
  }) => {
    const name = await pipeline(request, ENDLESS)
    const id = await start(request, name)
    await phaseIs(request, id, 'executing')
    const cancelled = await request.post(`/api/v1/runs/${id}/cancel`)
    expect(cancelled.status()).toBe(200)
    expect(await cancelled.json()).toEqual({ run_id: id, status: 'cancelled' })
    expect(await get(request, id)).toMatchObject({
      status: 'cancelled',
      finished_at: expect.stringMatching(ISO),
    })
    const again = await request.post(`/api/v1/runs/${id}/cancel`)
    expect(again.status()).toBe(409)
    expect(await again.json()).toEqual(envelope('ALREADY_EXISTS', 'CONFLICT'))
    expect((await request.get(`/api/v1/tables/default/gold/${name}`)).status()).toBe(404)
  })

  test('ends a pending run before it starts, and the one it waited for goes on @run.cancel.pending', async ({
    request,
  }) => {
    const name = await pipeline(request, ENDLESS)
    const [first, second] = [await start(request, name), await start(request, name)]
    await phaseIs(request, first, 'executing')
    expect((await request.post(`/api/v1/runs/${second}/cancel`)).status()).toBe(200)
    expect(await get(request, second)).toMatchObject({ status: 'cancelled', started_at: null, attempt: 0 })
    expect(await get(request, first)).toMatchObject({ status: 'running', phase: 'executing' })
    expect((await request.post(`/api/v1/runs/${first}/cancel`)).status()).toBe(200)
  })

  test('of what is not there is 404 @runs.cancel.404', async ({ request }) => {
    for (const id of [NOWHERE, 'no-uuid']) {
      const response = await request.post(`/api/v1/runs/${id}/cancel`)
      expect(response.status()).toBe(404)
      expect(await response.json()).toEqual(envelope('NOT_FOUND', 'NOT_FOUND'))
    }
  })
})

test.describe('a request with an Idempotency-Key', () => {
  const send = (request: APIRequestContext, key: string, data: object) =>
    request.post('/api/v1/runs', { data, headers: { 'Idempotency-Key': key } })

  test('sent again, and by many at once, is one run with one answer', async ({ request }) => {
    const name = await pipeline(request, 'select 1 as a')
    const body = { namespace: 'default', layer: 'gold', pipeline: name }
    const key = unique()
    const answers = await Promise.all(Array.from({ length: 20 }, () => send(request, key, body)))
    for (const answer of answers) expect(answer.status()).toBe(202)
    const accepted = await Promise.all(answers.map((answer) => answer.json()))
    expect(new Set(accepted.map(({ run_id }) => run_id)).size).toBe(1)
    await ended(request, accepted[0].run_id)
    // The order of fields and what is given by default make no other request, and that the run has ended no other answer.
    for (const same of [
      { pipeline: name, layer: 'gold', namespace: 'default' },
      { ...body, trigger: 'manual' },
    ]) {
      const again = await send(request, key, same)
      expect([again.status(), await again.json()]).toEqual([202, accepted[0]])
    }
    const list = await request.get('/api/v1/runs', { params: { pipeline: name } })
    expect((await list.json()).total).toBe(1)
  })

  test('of 255 printable characters is taken; none, more or others are 400', async ({ request, baseURL }) => {
    const name = await pipeline(request, 'select 1 as a')
    const body = { namespace: 'default', layer: 'gold', pipeline: name }
    expect((await send(request, `${unique()} ~!"`.padEnd(255, 'x'), body)).status()).toBe(202)
    expect((await send(request, 'x'.repeat(256), body)).status()).toBe(400)
    const text = JSON.stringify(body)
    for (const key of ['', 'tab\there', 'caf\u00e9']) {
      const { status, body: answer } = await rawRequest(
        baseURL ?? '',
        [
          'POST /api/v1/runs HTTP/1.1',
          'Host: sluice.test',
          'Content-Type: application/json',
          `Content-Length: ${text.length}`,
          `Idempotency-Key: ${key}`,
        ],
        text,
      )
      expect([key, status, answer]).toEqual([key, 400, expect.stringContaining('idempotency-key')])
    }
  })
})

test.describe('requests that cannot be', () => {
  const body = { namespace: 'default', layer: 'gold', pipeline: 'some' }
  const cases: [string, object, RegExp][] = [
    ['no namespace', { ...body, namespace: undefined }, /namespace/],
    ['no layer', { ...body, layer: undefined }, /layer/],
    ['no pipeline', { ...body, pipeline: undefined }, /pipeline/],
    ['an unknown layer', { ...body, layer: 'platinum' }, /layer/],
    ['a bad name', { ...body, pipeline: 'Not A Name' }, /pipeline/],
    ['a number for a name', { ...body, pipeline: 7 }, /pipeline/],
    ['an empty trigger', { ...body, trigger: '' }, /trigger/],
    ['a NUL byte', { ...body, trigger: 'a\u0000b' }, /trigger/],
    ['a trigger without end', { ...body, trigger: 'x'.repeat(10_000) }, /trigger/],
  ]
  for (const [what, data, message] of cases)
    test(`${what}: 400 naming the field @runs.create.400`, async ({ request }) => {
      const response = await request.post('/api/v1/runs', { data })
      expect(response.status()).toBe(400)
      expect(await response.json()).toEqual(envelope('INVALID_ARGUMENT', 'VALIDATION', message))
    })

  test('an unknown pipeline: 404 @runs.create.404', async ({ request }) => {
    const response = await request.post('/api/v1/runs', { data: { ...body, pipeline: unique() } })
    expect(response.status()).toBe(404)
    expect(await response.json()).toEqual(envelope('NOT_FOUND', 'NOT_FOUND'))
  })

  test('a run that is not there: 404 @runs.get.404 @runs.logs.404', async ({ request }) => {
    for (const path of [NOWHERE, 'no-uuid', `${NOWHERE}/logs`])
      expect((await request.get(`/api/v1/runs/${path}`)).status()).toBe(404)
  })
})

test.describe('the list', () => {
  test('filters, sorts, counts and links @runs.list', async ({ request }) => {
    const name = await pipeline(request, 'select 1 as a')
    const before = new Date().toISOString()
    const ids: string[] = []
    for (let n = 0; n < 3; n++) ids.push(await start(request, name))
    for (const id of ids) await ended(request, id)
    const list = async (query: string) => {
      const response = await request.get(`/api/v1/runs?pipeline=${name}&${query}`)
      expect(response.status(), await response.text()).toBe(200)
      return { body: await response.json(), link: response.headers().link ?? '' }
    }
    const idsOf = ({ body }: { body: { runs: Run[] } }) => body.runs.map((run) => run.id)

    const all = await list('')
    expect(all.body.total).toBe(3)
    expect(idsOf(all)).toEqual(ids.toReversed())
    for (const run of all.body.runs) expect(run).not.toHaveProperty('error')
    expect(idsOf(await list('order=asc'))).toEqual(ids)
    expect(idsOf(await list('sort=started_at&order=asc'))).toEqual(ids)
    expect((await list('status=success')).body.total).toBe(3)
    expect((await list('status=failed')).body).toEqual({ runs: [], total: 0 })
    expect((await list('layer=bronze')).body.total).toBe(0)
    expect((await list('namespace=default&layer=gold')).body.total).toBe(3)
    expect((await list(`from=${before}`)).body.total).toBe(3)
    expect((await list(`to=${before}`)).body.total).toBe(0)

    const page = await list('order=asc&limit=1&offset=1')
    expect(page.body.total).toBe(3)
    expect(idsOf(page)).toEqual([ids[1]])
    for (const rel of ['first', 'prev', 'next', 'last']) expect(page.link).toContain(`rel="${rel}"`)
    expect((await list('limit=0')).body.runs).toHaveLength(3)
    expect((await list('limit=many&offset=-5')).body.runs).toHaveLength(3)
  })

  for (const query of [
    'namespace=No Name',
    'namespace=',
    'pipeline=../x',
    'sort=error',
    'order=sideways',
    'status=done',
    'layer=platinum',
    'from=yesterday',
    'to=2026-13-45',
  ])
    test(`${query} is 400 naming the parameter @runs.list.400`, async ({ request }) => {
      const response = await request.get(`/api/v1/runs?${query}`)
      expect(response.status()).toBe(400)
      expect(await response.json()).toEqual(
        envelope('INVALID_ARGUMENT', 'VALIDATION', query.split('=')[0] ?? ''),
      )
    })
})

test.describe('logs', () => {
  test('are JSON with the status of the run @runs.logs', async ({ request }) => {
    const id = await start(request, await pipeline(request, 'select 1 as a'))
    await ended(request, id)
    const { logs, status } = await (await request.get(`/api/v1/runs/${id}/logs`)).json()
    expect(status).toBe('success')
    expect(logs.length).toBeGreaterThan(1)
    for (const line of logs)
      expect(line).toEqual({
        timestamp: expect.stringMatching(ISO),
        level: expect.stringMatching(/^(debug|info|warn|error)$/),
        message: expect.any(String),
      })
  })

  test('of a finished run come as events at once, the status last, and resume after Last-Event-ID @sse.log @sse.status', async ({
    request,
  }) => {
    const id = await start(request, await pipeline(request, 'select 1 as a'))
    const run = await ended(request, id)
    const events = await stream(request, id)
    expect(events.at(-1)).toMatchObject({
      event: 'status',
      data: { status: 'success', rows_written: 1, duration_ms: run.duration_ms },
    })
    const lines = events.filter((event) => event.event === 'log')
    const { logs } = await (await request.get(`/api/v1/runs/${id}/logs`)).json()
    expect(lines.map((line) => line.data)).toEqual(logs)
    const rest = await stream(request, id, { 'last-event-id': String(lines[0]?.id) })
    expect(rest.filter((event) => event.event === 'log').map((line) => line.id)).toEqual(
      lines.slice(1).map((line) => line.id),
    )
  })

  test('of an active run arrive while it runs @sse.active @limit.sse-poll', async ({ request, baseURL }) => {
    const id = await start(request, await pipeline(request, ENDLESS))
    const response = await fetch(`${baseURL}/api/v1/runs/${id}/logs`, {
      headers: { accept: 'text/event-stream' },
    })
    expect(response.headers.get('content-type')).toContain('text/event-stream')
    let text = ''
    let statusAtFirstLine = ''
    const decoder = new TextDecoder()
    for await (const chunk of response.body ?? []) {
      text += decoder.decode(chunk, { stream: true })
      if (statusAtFirstLine !== '' || !text.includes('event: log')) continue
      statusAtFirstLine = (await get(request, id)).status
      // What it would have come to is not waited for.
      expect((await request.post(`/api/v1/runs/${id}/cancel`)).status()).toBe(200)
    }
    expect(statusAtFirstLine).toMatch(/pending|running/)
    const events = eventsOf(text)
    // Its runner has stopped it when the next run has ended.
    await ended(request, await start(request, await pipeline(request, 'select 1 as a')))
    const { logs } = await (await request.get(`/api/v1/runs/${id}/logs`)).json()
    expect(logs.at(-1).message).toMatch(/^cancelled: /)
    const times = logs.map((line: { timestamp: string }) => line.timestamp)
    expect(times).toEqual([...times].sort())
    expect(events.filter(({ event }) => event === 'log').map(({ data }) => data)).toEqual(logs)
    expect(text.trimEnd().split('\n\n').at(-1)).toMatch(/^event: status\ndata: {"status":"cancelled"/)
  })
})

interface Event {
  id?: string
  event?: string
  data?: unknown
}

/** The whole stream of a run that has ended. */
async function stream(
  request: APIRequestContext,
  id: string,
  headers: Record<string, string> = {},
): Promise<Event[]> {
  const response = await request.get(`/api/v1/runs/${id}/logs`, {
    headers: { accept: 'text/event-stream', ...headers },
  })
  expect(response.status()).toBe(200)
  return eventsOf(await response.text())
}

function eventsOf(text: string): Event[] {
  const blocks = text.split('\n\n').filter((block) => block.includes('event:'))
  return blocks.map((block) => {
    const fields = Object.fromEntries(
      block
        .split('\n')
        .map((line) => [line.slice(0, line.indexOf(': ')), line.slice(line.indexOf(': ') + 2)]),
    )
    return { ...fields, data: JSON.parse(fields.data ?? 'null') }
  })
}
