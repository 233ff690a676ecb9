// Specification: Runs, Server-sent events on run logs, Run status.
import { type APIRequestContext, expect, test } from '@playwright/test'
import { eventually } from '../kit/eventually.ts'
import { rawRequest } from '../kit/raw-request.ts'
import {
  addTest,
  ENDLESS,
  expectError,
  fresh,
  getJson,
  instant,
  pipelineWith,
  publish,
  publishedPipeline,
  rowsOf,
  uuid,
  writeFile,
} from '../kit/resources.ts'
import { cancel, ended, getRun, logOf, requestRun, runsOf, runToEnd, runToSuccess } from '../kit/runs.ts'

const NOWHERE = '00000000-0000-7000-8000-000000000000'

const phaseIs = (request: APIRequestContext, id: string, phase: string) =>
  eventually(async () => (await getRun(request, id)).phase).toBe(phase)

test.describe('run', () => {
  test('a run is accepted, executed and merged with complete fields @runtime @runs.create @runs.get @run.pending', async ({
    request,
  }) => {
    const { namespace, layer, name } = await publishedPipeline(request, 'select range as a from range(3)')
    const pipeline = { namespace, layer, pipeline: name }
    const requested = await request.post('/api/v1/runs', { data: pipeline })
    const accepted = await requested.json()
    expect([requested.status(), accepted]).toEqual([202, { run_id: uuid, status: 'pending' }])
    const run = await ended(request, accepted.run_id)
    expect(run).toMatchObject({
      id: accepted.run_id,
      pipeline_id: uuid,
      ...pipeline,
      status: 'success',
      trigger: 'manual',
      attempt: 1,
      version_number: 1,
      started_at: instant,
      finished_at: instant,
      created_at: instant,
      rows_written: 3,
      error: null,
    })
    expect(run.duration_ms).toBeGreaterThanOrEqual(0)
  })

  test('a run keeps the trigger that its request names @runs.create.trigger', async ({ request }) => {
    const pipeline = await publishedPipeline(request)
    const run = await ended(request, await requestRun(request, pipeline, { trigger: 'schedule:hourly' }))
    expect(run.trigger).toBe('schedule:hourly')
  })

  test('a run of an unpublished pipeline executes its draft and warns', async ({ request }) => {
    const run = await runToSuccess(request, await pipelineWith(request, 'select 1 as a'))
    expect(run.version_number).toBeNull()
    expect((await logOf(request, run.id)).filter(({ level }) => level === 'warn')).toHaveLength(1)
  })

  test('a run executes the published version although the draft has changed @draft.pinned', async ({
    request,
  }) => {
    const pipeline = await publishedPipeline(request)
    await writeFile(request, `${pipeline.prefix}pipeline.sql`, 'broken')
    expect((await runToSuccess(request, pipeline)).version_number).toBe(1)
  })

  test('a failed run names the phase, the file and the line', async ({ request }) => {
    const run = await runToEnd(
      request,
      await publishedPipeline(request, 'select 1 as a,\n  nothing_like_it as b'),
    )
    expect(run).toMatchObject({
      status: 'failed',
      rows_written: null,
      error: expect.stringMatching(/^executing: pipeline\.sql.*nothing_like_it/s),
    })
    expect(run.error).not.toMatch(/at .*\.ts|node_modules/)
    const errors = (await logOf(request, run.id)).filter(({ level }) => level === 'error')
    expect(errors.map(({ message }) => message)).toEqual([run.error])
  })

  test('a failed error test leaves the table unchanged; a warning merges @run.gate.warn', async ({
    request,
  }) => {
    const pipeline = await publishedPipeline(request)
    const republish = async (sql: string) => {
      await writeFile(request, `${pipeline.prefix}pipeline.sql`, sql)
      await publish(request, pipeline)
    }
    await runToSuccess(request, pipeline)
    const warns = 'select 1 as bad union all select 2'
    await addTest(request, pipeline, { name: 'warns', severity: 'warn', sql: warns })
    await republish('select 2 as a')
    await runToSuccess(request, pipeline)

    const gates = "select a, 'bad' as why from {{ this }} where a = 3"
    await addTest(request, pipeline, { name: 'gates', severity: 'error', sql: gates })
    await republish('select 3 as a')
    expect(await runToEnd(request, pipeline)).toMatchObject({
      status: 'failed',
      error: expect.stringMatching(/gates \(1/),
    })
    expect(await rowsOf(request, `select a from gold."${pipeline.name}"`)).toEqual([{ a: 2 }])
  })
})

test.describe('run cancellation', () => {
  test('cancel ends an executing run once and leaves no table @runs.cancel @runs.cancel.409 @run.cancel.running', async ({
    request,
  }) => {
    const pipeline = await publishedPipeline(request, ENDLESS)
    const id = await requestRun(request, pipeline)
    await phaseIs(request, id, 'executing')
    const cancelled = await request.post(`/api/v1/runs/${id}/cancel`)
    expect([cancelled.status(), await cancelled.json()]).toEqual([200, { run_id: id, status: 'cancelled' }])
    expect(await getRun(request, id)).toMatchObject({ status: 'cancelled', finished_at: instant })
    await expectError(await request.post(`/api/v1/runs/${id}/cancel`), 409)
    expect((await request.get(`/api/v1/tables/default/gold/${pipeline.name}`)).status()).toBe(404)
  })

  test('cancelling a pending run does not affect the run it waits for @run.cancel.pending', async ({
    request,
  }) => {
    const pipeline = await publishedPipeline(request, ENDLESS)
    const [first, second] = [await requestRun(request, pipeline), await requestRun(request, pipeline)]
    await phaseIs(request, first, 'executing')
    await cancel(request, second)
    expect(await getRun(request, second)).toMatchObject({ status: 'cancelled', started_at: null, attempt: 0 })
    expect(await getRun(request, first)).toMatchObject({ status: 'running', phase: 'executing' })
    await cancel(request, first)
  })

  test('cancelling an unknown run is 404 @runs.cancel.404', async ({ request }) => {
    for (const id of [NOWHERE, 'no-uuid'])
      await expectError(await request.post(`/api/v1/runs/${id}/cancel`), 404)
  })
})

test.describe('run requests with an Idempotency-Key', () => {
  const send = (request: APIRequestContext, key: string, data: object) =>
    request.post('/api/v1/runs', { data, headers: { 'Idempotency-Key': key } })

  test('concurrent and repeated requests with one key create one run', async ({ request }) => {
    const pipeline = await publishedPipeline(request)
    const { namespace, layer, name } = pipeline
    const body = { namespace, layer, pipeline: name }
    const key = fresh('key')
    const answers = await Promise.all(Array.from({ length: 20 }, () => send(request, key, body)))
    for (const answer of answers) expect(answer.status()).toBe(202)
    const accepted = await Promise.all(answers.map((answer) => answer.json()))
    expect(new Set(accepted.map(({ run_id }) => run_id)).size).toBe(1)
    await ended(request, accepted[0].run_id)
    // Field order and explicit defaults do not make another request. The end of the run does not change the answer.
    for (const same of [
      { pipeline: name, layer, namespace },
      { ...body, trigger: 'manual' },
    ]) {
      const again = await send(request, key, same)
      expect([again.status(), await again.json()]).toEqual([202, accepted[0]])
    }
    expect(await runsOf(request, pipeline)).toHaveLength(1)
  })

  test('an Idempotency-Key has 1 to 255 printable characters, otherwise 400', async ({
    request,
    baseURL,
  }) => {
    const { namespace, layer, name } = await publishedPipeline(request)
    const body = { namespace, layer, pipeline: name }
    expect((await send(request, `${fresh('key')} ~!"`.padEnd(255, 'x'), body)).status()).toBe(202)
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

test.describe('invalid run requests', () => {
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
    test(`a run request with ${what} is 400 naming the field @runs.create.400`, async ({ request }) => {
      await expectError(await request.post('/api/v1/runs', { data }), 400, message)
    })

  test('a run of an unknown pipeline is 404 @runs.create.404', async ({ request }) => {
    await expectError(await request.post('/api/v1/runs', { data: { ...body, pipeline: fresh('none') } }), 404)
  })

  test('an unknown run is 404, and so are its logs @runs.get.404 @runs.logs.404', async ({ request }) => {
    for (const path of [NOWHERE, 'no-uuid', `${NOWHERE}/logs`])
      await expectError(await request.get(`/api/v1/runs/${path}`), 404)
  })
})

test.describe('run list', () => {
  test('the run list filters, sorts and counts @runs.list', async ({ request }) => {
    const pipeline = await publishedPipeline(request)
    const before = new Date().toISOString()
    const ids: string[] = []
    for (let n = 0; n < 3; n++) ids.push(await requestRun(request, pipeline))
    for (const id of ids) await ended(request, id)
    const list = async (query: string) => {
      const response = await request.get(`/api/v1/runs?pipeline=${pipeline.name}&${query}`)
      expect(response.status(), await response.text()).toBe(200)
      const { runs, total } = await response.json()
      for (const run of runs) expect(run).not.toHaveProperty('error')
      return { ids: runs.map(({ id }: { id: string }) => id), total }
    }
    const all = { ids: ids.toReversed(), total: 3 }
    const [oldestFirst, none] = [
      { ids, total: 3 },
      { ids: [], total: 0 },
    ]
    for (const [query, expected] of [
      ['', all],
      ['order=asc', oldestFirst],
      ['sort=started_at&order=asc', oldestFirst],
      ['status=success', all],
      ['status=failed', none],
      ['layer=bronze', none],
      ['namespace=default&layer=gold', all],
      [`from=${before}`, all],
      [`to=${before}`, none],
    ] as const)
      expect([query, await list(query)]).toEqual([query, expected])
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
    test(`listing runs with ${query} is 400 naming the parameter @runs.list.400`, async ({ request }) => {
      await expectError(
        await request.get(`/api/v1/runs?${query}`),
        400,
        new RegExp(query.split('=')[0] ?? ''),
      )
    })
})

test.describe('run logs', () => {
  test('run logs are JSON with the status of the run @runs.logs', async ({ request }) => {
    const { id } = await runToSuccess(request, await publishedPipeline(request))
    const { logs, status } = await getJson(request, `/api/v1/runs/${id}/logs`)
    expect(status).toBe('success')
    expect(logs.length).toBeGreaterThan(1)
    for (const line of logs)
      expect(line).toEqual({
        timestamp: instant,
        level: expect.stringMatching(/^(debug|info|warn|error)$/),
        message: expect.any(String),
      })
  })

  test('a finished run streams its logs and resumes after Last-Event-ID @runtime @sse.log @sse.status', async ({
    request,
  }) => {
    const run = await runToSuccess(request, await publishedPipeline(request))
    const { id } = run
    const events = await stream(request, id)
    expect(events.at(-1)).toMatchObject({
      event: 'status',
      data: { status: 'success', rows_written: 1, duration_ms: run.duration_ms },
    })
    const lines = events.filter((event) => event.event === 'log')
    expect(lines.map((line) => line.data)).toEqual(await logOf(request, id))
    const rest = await stream(request, id, { 'last-event-id': String(lines[0]?.id) })
    expect(rest.filter((event) => event.event === 'log').map((line) => line.id)).toEqual(
      lines.slice(1).map((line) => line.id),
    )
  })

  test('logs of an active run arrive while the run executes @runtime @sse.active @limit.sse-poll', async ({
    request,
    baseURL,
  }) => {
    const id = await requestRun(request, await publishedPipeline(request, ENDLESS))
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
      statusAtFirstLine = (await getRun(request, id)).status
      // The test does not need the result of the run.
      await cancel(request, id)
    }
    expect(statusAtFirstLine).toMatch(/pending|running/)
    const events = eventsOf(text)
    // When the next run has ended, the runner has stopped this run.
    await runToSuccess(request, await publishedPipeline(request))
    const logs = await logOf(request, id)
    expect(logs.at(-1)?.message).toMatch(/^cancelled: /)
    const times = logs.map((line) => line.timestamp)
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

/** All events of the log stream of an ended run. */
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
