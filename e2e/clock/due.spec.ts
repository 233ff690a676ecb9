// Specification: Triggers, Evaluation; Schedules, Scheduler. The clock starts these runs. The tests wait for minutes, so they
// are not part of the usual suite. They use a service of their own, so that nothing else is due.
import { type APIRequestContext, expect } from '@playwright/test'
import { eventually } from '../kit/eventually.ts'
import { test } from '../kit/own-service.ts'
import { ENDLESS, getJson, type MadePipeline, newPipeline, publishedPipeline } from '../kit/resources.ts'
import { requestRun, runsOf, runToSuccess } from '../kit/runs.ts'
import { addTrigger } from '../kit/triggers.ts'

/** Covers a minute until due, half a minute until the next tick, and the run on a busy machine. */
const DUE_MS = 240_000
const EVERY_MINUTE = '* * * * *'
const MINUTE_MS = 60_000

test.use({ serviceEnv: { QUERY_URLS: 'none' } })
test.setTimeout(720_000)

const firstRun = async (request: APIRequestContext, pipeline: MadePipeline) => {
  await expect
    .poll(async () => (await runsOf(request, pipeline)).length, { timeout: DUE_MS, intervals: [500] })
    .toBeGreaterThan(0)
  return (await runsOf(request, pipeline))[0]
}
async function newSchedule(request: APIRequestContext, { namespace, layer, name }: MadePipeline) {
  const data = { namespace, layer, pipeline: name, cron: EVERY_MINUTE }
  const created = await request.post('/api/v1/schedules', { data })
  expect(created.status()).toBe(201)
  const { id } = await created.json()
  return async () => (await request.get(`/api/v1/schedules/${id}`)).json()
}

test('cron triggers and schedules start runs when due, not before @triggers.type.cron @triggers.type.cron_dependency @schedules.due @limit.scheduler', async ({
  request,
}) => {
  const [byTrigger, bySchedule, busy, upstream, downstream] = await Promise.all([
    publishedPipeline(request),
    publishedPipeline(request),
    publishedPipeline(request, ENDLESS),
    publishedPipeline(request),
    publishedPipeline(request),
  ])
  const unpublished = await newPipeline(request)
  const nameOf = ({ namespace, layer, name }: MadePipeline) => `${namespace}.${layer}.${name}`

  const cron = await addTrigger(request, byTrigger, 'cron', { cron_expr: EVERY_MINUTE })
  const waiting = await addTrigger(request, downstream, 'cron_dependency', {
    cron_expr: EVERY_MINUTE,
    dependencies: [nameOf(upstream)],
  })
  const never = await addTrigger(request, unpublished, 'cron', { cron_expr: EVERY_MINUTE })
  const disabled = await addTrigger(
    request,
    upstream,
    'cron',
    { cron_expr: EVERY_MINUTE },
    { enabled: false },
  )
  const schedule = await newSchedule(request, bySchedule)
  const { namespace, layer, name } = busy
  const run_id = await requestRun(request, { namespace, layer, name })
  const passedOver = await newSchedule(request, busy)
  const dueOf = async (one: typeof schedule) => {
    await eventually(async () => (await one()).next_run_at).not.toBeNull()
    return Date.parse((await one()).next_run_at)
  }

  // The first tick after creation only computes when a schedule is due.
  const duePassedOver = await dueOf(passedOver)

  expect(await firstRun(request, byTrigger)).toMatchObject({
    trigger: expect.stringMatching(/^trigger:cron:/),
  })
  expect(await getJson(request, cron.url)).toMatchObject({ last_run_id: expect.any(String) })
  const scheduled = await firstRun(request, bySchedule)
  expect(scheduled).toMatchObject({ trigger: `schedule:${EVERY_MINUTE}` })
  const madeAt = Date.parse((await schedule()).created_at)
  expect(Date.parse(scheduled.created_at)).toBeGreaterThanOrEqual(Math.ceil(madeAt / MINUTE_MS) * MINUTE_MS)
  expect((await schedule()).last_run_at).not.toBeNull()

  // The cron is due, but `upstream` has not succeeded. After its success, the trigger waits for nothing else.
  expect(await runsOf(request, downstream)).toEqual([])
  expect(await getJson(request, waiting.url)).toMatchObject({ last_triggered_at: null })
  await runToSuccess(request, upstream)
  expect(await firstRun(request, downstream)).toMatchObject({
    trigger: expect.stringMatching(/^trigger:cron_dependency:/),
  })

  // The schedule of the busy pipeline came due and was skipped.
  await expect.poll(() => dueOf(passedOver), { timeout: DUE_MS }).toBeGreaterThan(duePassedOver)
  expect(await runsOf(request, busy)).toMatchObject([{ id: run_id, trigger: 'manual' }])
  expect((await passedOver()).last_run_at).toBeNull()
  expect((await request.post(`/api/v1/runs/${run_id}/cancel`)).status()).toBe(200)

  for (const silent of [never, disabled])
    expect(await getJson(request, silent.url)).toMatchObject({ last_run_id: null })
  expect(await runsOf(request, unpublished)).toEqual([])
})
