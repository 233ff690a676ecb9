// Specification: Triggers, Trigger-driving events, Trigger and schedule (states).
import { expect, test } from '@playwright/test'
import { eventually } from '../kit/eventually.ts'
import {
  expectError,
  getJson,
  instant,
  newPipeline,
  newZone,
  publish,
  publishedPipeline,
  uuid,
  writeFile,
} from '../kit/resources.ts'
import { endedRuns, runsOf } from '../kit/runs.ts'
import { addTrigger } from '../kit/triggers.ts'

const nowhere = '00000000-0000-7000-8000-000000000000'

test('a trigger is created, found, listed, changed and deleted @triggers.create @triggers.get @triggers.update @triggers.delete', async ({
  request,
}) => {
  const pipeline = await publishedPipeline(request)
  const { id: pipelineId } = await getJson(request, pipeline.url)
  const zone = await newZone(request)
  const config = { ...zone.config, pattern: '*.csv' }
  const created = await request.post(`${pipeline.url}/triggers`, { data: { type: 'file_pattern', config } })
  const trigger = await created.json()
  expect([created.status(), trigger]).toEqual([
    201,
    {
      id: uuid,
      pipeline_id: pipelineId,
      type: 'file_pattern',
      config,
      enabled: true,
      cooldown_seconds: 0,
      state: 'armed',
      cooling_until: null,
      next_due_at: null,
      last_triggered_at: null,
      last_run_id: null,
      created_at: instant,
      updated_at: instant,
    },
  ])
  const url = `${pipeline.url}/triggers/${trigger.id}`
  expect(await getJson(request, url)).toEqual(trigger)
  expect(await getJson(request, `${pipeline.url}/triggers`)).toEqual({
    triggers: [trigger],
    total: 1,
  })
  const change = { enabled: false, cooldown_seconds: 30, config: { ...config, pattern: '*.json' } }
  const changed = await request.put(url, { data: change })
  expect([changed.status(), await changed.json()]).toEqual([
    200,
    { ...trigger, ...change, state: 'disabled', updated_at: instant },
  ])
  const deleted = await request.delete(url)
  expect([deleted.status(), await deleted.text()]).toEqual([204, ''])
  await expectError(await request.get(url), 404)
  await expectError(await request.put(url, { data: {} }), 404)
  await expectError(await request.delete(url), 404)
})

test('every trigger type is listed with its configuration @triggers.list', async ({ request }) => {
  const [pipeline, upstream, zone] = [
    await publishedPipeline(request),
    await newPipeline(request),
    await newZone(request),
  ]
  const { namespace, layer, name } = upstream
  await addTrigger(request, pipeline, 'landing_zone_upload', zone.config)
  await addTrigger(request, pipeline, 'cron', { cron_expr: '0 6 * * mon-fri' }, { cooldown_seconds: 5 })
  await addTrigger(request, pipeline, 'pipeline_success', { namespace, layer, pipeline: name })
  await addTrigger(request, pipeline, 'webhook', {}, { enabled: false })
  await addTrigger(request, pipeline, 'file_pattern', { ...zone.config, pattern: '[a-z]?*' })
  const dependencies = [`${namespace}.${layer}.${name}`]
  await addTrigger(request, pipeline, 'cron_dependency', { cron_expr: '0 6 * * *', dependencies })
  const { triggers, total } = await getJson(request, `${pipeline.url}/triggers`)
  expect([total, triggers.map(({ type }: { type: string }) => type)]).toEqual([
    6,
    ['landing_zone_upload', 'cron', 'pipeline_success', 'webhook', 'file_pattern', 'cron_dependency'],
  ])
  expect(triggers[1]).toMatchObject({ config: { cron_expr: '0 6 * * mon-fri' }, next_due_at: instant })
  expect(triggers[5]).toMatchObject({ config: { dependencies }, next_due_at: instant })
})

test('an invalid trigger is refused naming the field, on create and update', {
  tag: [
    '@triggers.list.404',
    '@triggers.create.400',
    '@triggers.create.404',
    '@triggers.get.404',
    '@triggers.update.400',
    '@triggers.update.404',
  ],
}, async ({ request }) => {
  const [pipeline, zone] = [await publishedPipeline(request), await newZone(request)]
  const { url } = await addTrigger(request, pipeline, 'landing_zone_upload', zone.config)
  const before = await getJson(request, url)
  for (const [config, status, message] of [
    [{ ...zone.config, zone_name: 'nobody-here' }, 404, /^config\.zone_name: /],
    [{ namespace: 'default' }, 400, /^config\.zone_name: is required/],
    [{ ...zone.config, zone: 'x' }, 400, /^unknown field `config\.zone`\. Known: `namespace`, `zone_name`$/],
  ] as const) {
    const created = await request.post(`${pipeline.url}/triggers`, {
      data: { type: 'landing_zone_upload', config },
    })
    await expectError(created, status, message)
    await expectError(await request.put(url, { data: { config } }), status, message)
  }
  await expectError(await request.put(url, { data: { cooldown_seconds: -1 } }), 400, /^cooldown_seconds: /)
  expect(await getJson(request, url)).toEqual(before)
  await expectError(
    await request.post(`${pipeline.url}/triggers`, { data: { type: 'file', config: {} } }),
    400,
    /^type: must be one of/,
  )
  const nobody = '/api/v1/pipelines/default/gold/nobody-here/triggers'
  await expectError(await request.get(nobody), 404)
  await expectError(await request.post(nobody, { data: { type: 'webhook', config: {} } }), 404)
  await expectError(await request.get(`${pipeline.url}/triggers/${nowhere}`), 404)
  await expectError(await request.get(`${pipeline.url}/triggers/7`), 404)
})

test('an upload starts a run that reads the file @triggers.type.upload', async ({ request }) => {
  const zone = await newZone(request)
  const pipeline = await publishedPipeline(
    request,
    `select * from read_csv_auto('{{ landing_zone("${zone.name}") }}')`,
  )
  const trigger = await addTrigger(request, pipeline, 'landing_zone_upload', zone.config)
  await zone.upload('flights.csv', 'a,b\n1,2\n3,4\n')
  const [run] = await endedRuns(request, pipeline, 1)
  expect(run).toMatchObject({
    status: 'success',
    rows_written: 2,
    version_number: 1,
    trigger: `trigger:landing_zone_upload:default.${zone.name}/flights.csv`,
  })
  expect(await getJson(request, trigger.url)).toMatchObject({
    last_run_id: run.id,
    last_triggered_at: instant,
  })
})

test('a file pattern matches the original names of concurrent uploads @triggers.type.pattern', async ({
  request,
}) => {
  const zone = await newZone(request)
  const [csv, every] = [await publishedPipeline(request), await publishedPipeline(request)]
  await addTrigger(request, csv, 'file_pattern', { ...zone.config, pattern: 'part-[0-4].csv' })
  await addTrigger(request, every, 'landing_zone_upload', zone.config)
  await Promise.all(Array.from({ length: 8 }, (_, part) => zone.upload(`part-${part}.csv`)))
  const triggeringFiles = (await endedRuns(request, csv, 5)).map(
    ({ trigger }: { trigger: string }) => trigger.split('/')[1],
  )
  expect(triggeringFiles.sort()).toEqual([0, 1, 2, 3, 4].map((part) => `part-${part}.csv`))
  await endedRuns(request, every, 8)
})

test('a success triggers a chain of pipelines; a failure triggers nothing @triggers.type.success', async ({
  request,
}) => {
  const first = await publishedPipeline(request)
  const ref = ({ namespace, layer, name }: typeof first) => ({ namespace, layer, pipeline: name })
  const [second, third, onFailure] = [
    await publishedPipeline(request, `select a + 1 as a from {{ ref('gold.${first.name}') }}`),
    await publishedPipeline(request),
    await publishedPipeline(request, `select cast('x' as integer) as a`),
  ]
  const afterFailure = await publishedPipeline(request)
  await addTrigger(request, second, 'pipeline_success', ref(first))
  await addTrigger(request, third, 'pipeline_success', ref(second))
  await addTrigger(request, onFailure, 'pipeline_success', ref(third))
  await addTrigger(request, afterFailure, 'pipeline_success', ref(onFailure))
  await request.post('/api/v1/runs', { data: ref(first) })
  const [end] = await endedRuns(request, onFailure, 1)
  expect(end).toMatchObject({
    status: 'failed',
    trigger: `trigger:pipeline_success:default.gold.${third.name}`,
  })
  for (const pipeline of [first, second, third])
    expect(await endedRuns(request, pipeline, 1)).toMatchObject([{ status: 'success' }])
  // A run after the failure would be requested together with the end of the failed run. A later event has fired since, so the
  // evaluator has passed the failure.
  const zone = await newZone(request)
  await addTrigger(request, first, 'landing_zone_upload', zone.config)
  await zone.upload('a.csv')
  await endedRuns(request, onFailure, 2)
  expect(await runsOf(request, afterFailure)).toEqual([])
})

test('a trigger ignores events within its cooldown and fires again afterwards @triggers.cooldown', async ({
  request,
}) => {
  const [pipeline, zone] = [await publishedPipeline(request), await newZone(request)]
  const trigger = await addTrigger(request, pipeline, 'landing_zone_upload', zone.config, {
    cooldown_seconds: 600,
  })
  const state = async () => (await request.get(trigger.url)).json()
  await Promise.all(Array.from({ length: 6 }, (_, part) => zone.upload(`part-${part}.csv`)))
  await endedRuns(request, pipeline, 1)
  expect(await state()).toMatchObject({ state: 'cooling', cooling_until: instant, enabled: true })
  await request.put(trigger.url, { data: { cooldown_seconds: 1 } })
  await eventually(async () => (await state()).state).toBe('armed')
  await zone.upload('late.csv')
  await endedRuns(request, pipeline, 2)
})

test('a disabled trigger or an unpublished pipeline starts no run @draft.never-published @triggers.disabled', async ({
  request,
}) => {
  const [disabled, witness, zone] = [
    await publishedPipeline(request),
    await publishedPipeline(request),
    await newZone(request),
  ]
  const draft = await newPipeline(request)
  const paused = await addTrigger(request, disabled, 'landing_zone_upload', zone.config, { enabled: false })
  const skipped = await addTrigger(request, draft, 'landing_zone_upload', zone.config)
  await addTrigger(request, witness, 'landing_zone_upload', zone.config)
  await zone.upload('a.csv')
  await endedRuns(request, witness, 1)
  for (const pipeline of [disabled, draft]) expect(await runsOf(request, pipeline)).toEqual([])
  expect(await getJson(request, skipped.url)).toMatchObject({ last_triggered_at: null })

  await writeFile(request, `${draft.prefix}pipeline.sql`, 'select 1 as a')
  await publish(request, draft)
  await request.put(paused.url, { data: { enabled: true } })
  await zone.upload('b.csv')
  for (const pipeline of [disabled, draft]) await endedRuns(request, pipeline, 1)
})
