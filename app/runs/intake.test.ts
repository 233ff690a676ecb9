import { expect, test } from 'bun:test'
import { newId, type RunId } from '../core/ids.ts'
import { limits } from '../core/limits.ts'
import { makeIntake, REQUEST_BATCH } from './service.ts'
import { useRuns } from './test-runs.ts'

const { opened, pipelineNamed } = useRuns(6)

const request = (pipeline: string, trigger = 'manual') => ({
  id: newId() as RunId,
  namespace: 'default',
  layer: 'gold',
  pipeline,
  trigger,
  traceparent: null,
  tracestate: null,
})

test('concurrent requests are stored together, once each and in order', async () => {
  const { id } = await pipelineNamed('together')
  let stored = 0
  const intake = makeIntake(opened.sql, () => {
    stored += 1
  })
  const requests = Array.from({ length: 600 }, () => request('together'))
  expect(new Set(await Promise.all(requests.map(intake)))).toEqual(new Set(['requested']))
  expect(stored).toBe(Math.ceil(600 / REQUEST_BATCH))
  const rows = await opened.sql<{ id: string }[]>`
    select id from run where pipeline_id = ${id} order by created_at, id`
  expect(rows.map((row) => row.id)).toEqual(requests.map((one) => one.id))
  expect(
    await opened.sql`select distinct version_number, chain_depth from run where pipeline_id = ${id}`,
  ).toEqual([{ version_number: 1, chain_depth: 0 }] as never)
  expect(
    await opened.sql`
      select event, "to", cause, count(*)::int from transition
      where entity_id in (select id from run where pipeline_id = ${id}) group by 1, 2, 3`,
  ).toEqual([{ event: 'requested', to: 'pending.waiting', cause: 'manual', count: 600 }] as never)
})

test('a failing request does not affect others of its batch', async () => {
  await pipelineNamed('good')
  const draft = await pipelineNamed('draft')
  await opened.sql`update pipeline set published_version = null where id = ${draft.id}`
  const intake = makeIntake(opened.sql, () => {})
  const answers = await Promise.allSettled(
    [
      request('good'),
      request('draft'),
      request('nowhere'),
      request('good', 'no \u0000 text'),
      request('good'),
    ].map(intake),
  )
  expect(answers.map((answer) => (answer.status === 'fulfilled' ? answer.value : 'failed'))).toEqual([
    'requested',
    'unpublished',
    'gone',
    'failed',
    'requested',
  ])
})

test('a full queue refuses requests until a run leaves the queue', async () => {
  const { id, runs, request: ask } = await pipelineNamed('full')
  const first = await ask()
  await opened.sql`
    insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones, snapshot,
      machine_version, status)
    select gen_random_uuid(), r.pipeline_id, r.namespace, r.layer, r.pipeline, r.pipeline_type, r.trigger, r.pins,
      r.landing_zones, r.snapshot, r.machine_version, r.status
    from run r, generate_series(2, ${limits.waitingRunsPerPipeline}) where r.id = ${first}`
  await expect(ask()).rejects.toMatchObject({
    status: 429,
    message: `pipeline default.gold.full has ${limits.waitingRunsPerPipeline} waiting runs, the limit: retry in 60 s`,
  })
  await runs.cancel(first)
  await ask()
  await expect(ask()).rejects.toMatchObject({ status: 429 })
  expect(await opened.sql`select count(*)::int from run where pipeline_id = ${id} and waiting`).toEqual([
    { count: limits.waitingRunsPerPipeline },
  ] as never)
})
