// Specification: Schedules (legacy). Tests in faults/ show that schedules start runs, because those tests may turn the clock.
import { type APIRequestContext, expect, test } from '@playwright/test'
import { eventually } from '../kit/eventually.ts'
import { expectError, getJson, type MadePipeline, newPipeline } from '../kit/resources.ts'

const SCHEDULES = '/api/v1/schedules'
const INSTANT = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/)

const ask = (pipeline: MadePipeline, more: object = {}) => ({
  namespace: pipeline.namespace,
  layer: pipeline.layer,
  pipeline: pipeline.name,
  cron: '0 6 * * mon-fri',
  ...more,
})

async function newSchedule(request: APIRequestContext, more: object = {}) {
  const pipeline = await newPipeline(request)
  const response = await request.post(SCHEDULES, { data: ask(pipeline, more) })
  expect(response.status()).toBe(201)
  const { id } = await response.json()
  return { pipeline, url: `${SCHEDULES}/${id}`, id: id as string }
}

test('a schedule is created, shown, changed and deleted', {
  tag: [
    '@schedules.create',
    '@schedules.get',
    '@schedules.update',
    '@schedules.update.404',
    '@schedules.delete',
  ],
}, async ({ request }) => {
  const pipeline = await newPipeline(request)
  const response = await request.post(SCHEDULES, { data: ask(pipeline) })
  expect(response.status()).toBe(201)
  const created = await response.json()
  expect(created).toEqual({
    id: expect.any(String),
    ...ask(pipeline),
    enabled: true,
    created_at: INSTANT,
    updated_at: INSTANT,
  })

  const url = `${SCHEDULES}/${created.id}`
  const shown = await request.get(url)
  const { next_run_at, ...others } = await shown.json()
  expect(others).toEqual({ ...created, last_run_at: null })
  // The scheduler may have ticked already.
  expect([next_run_at, null]).toContainEqual(next_run_at === null ? null : INSTANT)

  const changed = await request.put(url, { data: { cron: '*/5 * * * *', enabled: false } })
  expect(changed.status()).toBe(200)
  expect(await changed.json()).toMatchObject({ id: created.id, cron: '*/5 * * * *', enabled: false })
  expect(await (await request.put(url, { data: { enabled: true } })).json()).toMatchObject({
    cron: '*/5 * * * *',
    enabled: true,
    next_run_at: null,
  })

  expect((await request.delete(url)).status()).toBe(204)
  for (const answer of [request.get(url), request.delete(url), request.put(url, { data: {} })])
    await expectError(await answer, 404, /schedule/)
})

test('the scheduler counts its ticks and triggered runs in metrics', async ({ request }) => {
  await eventually(async () => {
    const metrics = await (await request.get('/metrics')).text()
    return /^sluice_scheduler_ticks_total (\d+)$[\s\S]*^sluice_scheduler_runs_triggered_total \d+$/m.exec(
      metrics,
    )?.[1]
  }).toMatch(/^[1-9]/)
})

const REFUSED: [field: string, value: unknown, message?: RegExp][] = [
  ['namespace', undefined],
  ['namespace', 'Not A Name'],
  ['layer', undefined],
  ['layer', 'platinum'],
  ['pipeline', undefined],
  ['pipeline', '../x'],
  ['cron', undefined],
  ['cron', 5],
  ['cron', 'every day'],
  ['cron', '0 0 6 * * *', /^cron: .*five/],
  ['cron', '@hourly'],
  ['cron', '0 24 * * *', /^cron: hour 24/],
  ['cron', '0 0 31 2 *', /^cron: .*matches no future time/],
  ['cron', '0 0 L * *'],
  ['enabled', 'yes'],
]

test('a bad field is 400 naming it on create and update @schedules.create.400 @schedules.update.400 @schedules.cron', async ({
  request,
}) => {
  const { pipeline, url } = await newSchedule(request)
  for (const [field, value, message = new RegExp(`^${field}: `)] of REFUSED) {
    const data = { [field]: value }
    await expectError(await request.post(SCHEDULES, { data: ask(pipeline, data) }), 400, message)
    if ((field === 'cron' || field === 'enabled') && value !== undefined)
      await expectError(await request.put(url, { data }), 400, message)
  }
  expect(await getJson(request, url)).toMatchObject({ cron: '0 6 * * mon-fri', enabled: true })
})

test('an unknown pipeline or schedule is 404 @schedules.create.404 @schedules.get.404', async ({
  request,
}) => {
  const pipeline = await newPipeline(request)
  await expectError(
    await request.post(SCHEDULES, { data: ask(pipeline, { pipeline: 'absent' }) }),
    404,
    /absent/,
  )
  for (const id of ['00000000-0000-7000-8000-000000000000', 'not-a-uuid'])
    await expectError(await request.get(`${SCHEDULES}/${id}`), 404)
})
