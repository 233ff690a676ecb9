import { describe, expect, test } from 'bun:test'
import { inspectorUnderTest, TO_EXECUTING, TO_SUCCESS } from './test-inspector.ts'

const { under, instance, pipeline, run, move, trigger } = inspectorUnderTest()

describe('the reasons of a waiting run', () => {
  const reasons = async (id: string) =>
    (await instance('run', id)).waits_for.map(({ code, run_id }) => [code, run_id])

  test('name a free slot if nothing else delays the run', async () => {
    const [a, b] = [await pipeline('a'), await pipeline('b')]
    await a.request()
    const run = await instance('run', await b.request())
    expect(run.waits_for).toMatchObject([
      { code: 'free_place', text: expect.stringContaining('One older run of other pipelines has') },
    ])
  })

  test('name the older runs and the running run of its pipeline', async () => {
    const { request } = await pipeline('p')
    const [running, next, last] = [await request(), await request(), await request()]
    await move(running, ...TO_EXECUTING)
    expect(await reasons(next)).toEqual([['pipeline_busy', running]])
    expect(await reasons(last)).toEqual([
      ['pipeline_busy', running],
      ['older_runs', next],
    ])
  })

  test('name the end of its back-off', async () => {
    const id = await run()
    await under.sql`update run set not_before = clock_timestamp() + interval '1 minute' where id = ${id}`
    const [first] = (await instance('run', id)).waits_for
    expect(first).toMatchObject({ code: 'not_before', until: expect.stringMatching(/Z$/) })
  })

  test.each([
    ['refuses', () => Promise.reject(new Error('refused'))],
    ['is silent', null],
  ])('a runner, when the only one %s', async (_, runner) => {
    under.runner = runner
    expect(await reasons(await run())).toEqual([['no_runner', null]])
  })

  test('name missing replicas, and a follower that is gone', async () => {
    const { request } = await pipeline('p')
    const [running, waiting] = [await request(), await request()]
    await move(running, ...TO_EXECUTING)
    expect(await reasons(running)).toEqual([['not_followed', null]])
    await under.sql`update run set follower = 'r' where id = ${running}`
    expect(await reasons(running)).toEqual([])
    await under.sql`delete from replica`
    expect((await reasons(waiting))[0]).toEqual(['no_dispatcher', null])
  })
})

describe('the reasons of a waiting trigger', () => {
  const reasons = async (id: string) => (await instance('trigger', id)).waits_for

  test('name the awaited event for each trigger type', async () => {
    const { id } = await pipeline('p')
    const zone = { namespace: 'ns', zone_name: 'drop' }
    const of = async (type: string, config: object) => (await reasons(await trigger(id, config, { type })))[0]
    expect(await of('webhook', {})).toMatchObject({ code: 'webhook' })
    expect(await of('landing_zone_upload', zone)).toMatchObject({
      text: 'The trigger waits for an upload to landing zone ns.drop.',
    })
    expect(await of('file_pattern', { ...zone, pattern: '*.csv' })).toMatchObject({
      text: expect.stringContaining('*.csv'),
    })
    expect(await of('pipeline_success', { namespace: 'a', layer: 'gold', pipeline: 'b' })).toMatchObject({
      text: 'The trigger waits for a success of a.gold.b.',
    })
    expect(await of('cron', { cron_expr: '0 3 * * *' })).toMatchObject({
      code: 'due',
      text: expect.stringContaining('0 3 * * *'),
    })
  })

  test('name enabling, the cooldown and a missing publish', async () => {
    const { id } = await pipeline('p')
    expect(await reasons(await trigger(id, {}, { state: 'disabled' }))).toMatchObject([{ code: 'disabled' }])
    const cooling = await trigger(id, {})
    await under.sql`
      update trigger set state = 'cooling', cooling_until = '2040-01-01T00:00:00Z',
        snapshot = '{"value": "cooling", "context": {"cooldownSeconds": 60, "firedAt": 0}, "status": "active"}' where id = ${cooling}`
    await under.sql`update pipeline set published_version = null where id = ${id}`
    expect(await reasons(cooling)).toMatchObject([
      { code: 'never_published' },
      { code: 'cooldown', until: '2040-01-01T00:00:00.000Z' },
      { code: 'webhook' },
    ])
  })

  test('name the dependencies without a new success', async () => {
    const [p, up, down] = [await pipeline('p'), await pipeline('up'), await pipeline('down')]
    const [used, fresh] = [await up.request(), await down.request()]
    await move(used, ...TO_SUCCESS)
    await move(fresh, ...TO_SUCCESS)
    const id = await trigger(p.id, { cron_expr: '* * * * *', dependencies: [] }, { type: 'cron_dependency' })
    await under.sql`
      insert into trigger_dependency (trigger_id, source, used_run)
      values (${id}, 'pipeline:default.gold.up', ${used}), (${id}, 'pipeline:default.gold.down', null),
        (${id}, 'pipeline:default.gold.absent', null)`
    const news = ['default.gold.absent', 'default.gold.up'].map(
      (pipeline) => `The trigger waits for a new success of ${pipeline}.`,
    )
    await under.sql`update trigger set due_at = '2040-01-01T00:00:00Z' where id = ${id}`
    expect((await reasons(id)).map(({ text }) => text)).toEqual([
      'The trigger waits for the next due time of * * * * *.',
      ...news,
    ])
    await under.sql`update trigger set due_at = '2020-01-01T00:00:00Z' where id = ${id}`
    expect((await reasons(id)).map(({ text }) => text)).toEqual(news)
  })
})
