import { beforeEach, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { eq } from 'drizzle-orm'
import { systemClock } from '../app/core/clock.ts'
import { newId, type PipelineId, type RunId, type TriggerId } from '../app/core/ids.ts'
import { limits } from '../app/core/limits.ts'
import { formWith } from '../app/http/test-form.ts'
import { makeLandingZoneService } from '../app/landing-zones/service.ts'
import type { ObjectStore } from '../app/objects/port.ts'
import { announcedPart } from '../app/runs/store/announcements.ts'
import { lockRuns, moveRun, savedParts } from '../app/runs/store/moves.ts'
import type { CreateTrigger } from '../app/triggers/schema.ts'
import { makeTriggerService } from '../app/triggers/service.ts'
import type { Fenced } from '../drizzle/client.ts'
import { cteStatement } from '../drizzle/cte-statement.ts'
import { triggers as triggerTable } from '../drizzle/schema/trigger.ts'
import { begunTrace, inTrace, NO_TRACE } from '../ground/telemetry/trace.ts'
import { until } from '../tools/kit/until.ts'
import { useDatabase } from '../tools/service/database.ts'
import { addPipeline } from './testing.ts'
import { Evaluator, type EvaluatorDeps, startTriggers } from './triggers.ts'

setDefaultTimeout(60_000)

const opened = useDatabase({ connections: 4, rawConnections: 8 })
let lines: { level: string; message: string; trigger_id?: unknown }[] = []
beforeEach(async () => {
  lines = []
  await opened.sql`delete from trigger_event`
  await opened.sql`delete from trigger`
})

const write: Fenced = (work) => opened.sql.begin(work) as never
const record = (level: string) => (message: string, fields?: Record<string, unknown>) =>
  void lines.push({ level, message, trigger_id: fields?.trigger_id })
const log = { info: record('info'), warn: record('warn'), error: record('error'), named: () => log }
function evaluatorWith(replaced: Partial<EvaluatorDeps> = {}) {
  let requested = 0
  const evaluator = new Evaluator({
    sql: opened.sql,
    write,
    newId,
    log,
    post: (message) => {
      if (message.type === 'runsRequested') requested += message.count
    },
    ...replaced,
  })
  return Object.assign(evaluator, { requested: () => requested })
}

/** Not due while a test runs, unless the test makes it due. */
const YEARLY = { cron_expr: '0 0 1 1 *' }
let nameCount = 0
async function newPipeline({ isPublished = true } = {}) {
  const name = `p${nameCount++}`
  const { id } = await addPipeline(opened.sql, name, { landingZones: [], nudge: () => {} })
  await opened.sql`
    insert into pipeline_version (id, pipeline_id, version_number, message, pipeline_type, published_versions, landing_zones)
    values (${newId()}, ${id}, 1, '', 'sql', '{}', '[]') on conflict do nothing`
  if (!isPublished) await opened.sql`update pipeline set published_version = null where id = ${id}`
  const ref = { namespace: 'default', layer: 'gold', name }
  const service = makeTriggerService({ sql: opened.sql, newId })
  const add = async (type: CreateTrigger['type'], config: object, more: Partial<CreateTrigger> = {}) =>
    (await service.create(ref, { type, config, ...more })).id as TriggerId
  return { id, name, full: `default.gold.${name}`, ref, service, add }
}
type Pipeline = Awaited<ReturnType<typeof newPipeline>>
const onSuccessOf = ({ name }: Pipeline) => ({ namespace: 'default', layer: 'gold', pipeline: name })

const noObjects = {
  async stage(body: AsyncIterable<Uint8Array>) {
    await Array.fromAsync(body)
    return {
      size: 1,
      commit: async () => ({ versionId: '1' }),
      discard: async () => {},
    }
  },
} as unknown as ObjectStore
async function newZone() {
  const name = `z${nameCount++}`
  let hints = 0
  const zones = makeLandingZoneService({
    db: opened.db,
    sql: opened.sql,
    objects: noObjects,
    clock: systemClock,
    newId,
    eventRecorded: () => hints++,
    requireNamespace: async () => {},
  })
  await zones.create({ namespace: 'default', name })
  const ref = { namespace: 'default', name }
  const upload = (file: string) => zones.upload(ref, formWith(new File(['x'], file)))
  return { name, config: { namespace: 'default', zone_name: name }, upload, hints: () => hints, zones, ref }
}

/** Creates a pipeline that uploads of a new zone start. */
async function hearingZone(more: Partial<CreateTrigger> = {}) {
  const [pipeline, zone] = [await newPipeline(), await newZone()]
  const id = await pipeline.add('landing_zone_upload', zone.config, more)
  return { pipeline, zone, id }
}

/** Ends a new run of the pipeline and announces it as the dispatcher does. */
async function endRun(
  pipeline: Pipeline,
  { chainDepth = 0, status = 'success' as 'success' | 'failed', trace = NO_TRACE } = {},
) {
  const id = newId() as RunId
  await opened.sql`
    insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones, snapshot,
      machine_version, status, chain_depth, traceparent, tracestate)
    values (${id}, ${pipeline.id}, 'default', 'gold', ${pipeline.name}, 'sql', 'manual', '{}', '[]',
      '{"value": {"pending": "waiting"}, "context": {"attempt": 0, "lostRunners": 0, "conflicts": 0}, "status": "active"}',
      1, 'pending', ${chainDepth}, ${trace.traceparent}, ${trace.tracestate})`
  await opened.sql.begin(async (tx) => {
    const { runs, now } = await lockRuns(tx, [id])
    for (const run of runs.values()) {
      moveRun(run, { type: 'start' }, 'test', now)
      moveRun(run, { type: 'accepted', attempt: 1 }, 'test', now)
      moveRun(
        run,
        status === 'success'
          ? { type: 'executed', attempt: 1, isBlocked: false, hasChanged: false }
          : { type: 'executionFailed', attempt: 1 },
        'test',
        now,
      )
    }
    const parts = [...savedParts(tx, runs.values(), now), ...announcedPart(tx, runs.values())]
    await cteStatement(tx, parts, tx`select 1`)
  })
  return id
}

interface Requested {
  trigger: string
  trigger_event: string
  chain_depth: number
  landing_file_id: string | null
}
const requestedBy = (trigger: string, trigger_event: string, more: Partial<Requested> = {}) =>
  [{ trigger: `trigger:${trigger}`, trigger_event, chain_depth: 0, landing_file_id: null, ...more }] as never
const runsOf = (pipeline: { id: PipelineId }) =>
  opened.sql<Requested[]>`
    select trigger, trigger_event, chain_depth, landing_file_id from run
    where pipeline_id = ${pipeline.id} and trigger_id is not null order by created_at, id`
async function rowOf(id: TriggerId) {
  const [row] = await opened.db.select().from(triggerTable).where(eq(triggerTable.id, id))
  if (row === undefined) throw new Error('no such trigger')
  return row
}
const dueAtOf = async (id: TriggerId) => (await rowOf(id)).dueAt?.getTime() ?? Number.NaN
const historyOf = async (id: TriggerId) =>
  (
    await opened.sql<{ event: string }[]>`select event from transition where entity_id = ${id} order by id`
  ).map(({ event }) => event)
const eventCount = async () => Number((await opened.sql`select count(*) from trigger_event`)[0]?.count)
/** Moves the due time of a trigger into the past. */
const makeDue = (id: TriggerId, secondsAgo = 1) =>
  opened.sql`update trigger set due_at = clock_timestamp() - ${secondsAgo} * interval '1 s' where id = ${id}`

describe('an upload', () => {
  test('an upload fires the triggers of its zone once, removing the event', async () => {
    const [one, other, zone] = [await newPipeline(), await newPipeline(), await newZone()]
    const id = await one.add('landing_zone_upload', zone.config)
    await other.add('landing_zone_upload', (await newZone()).config)
    const file = await zone.upload('flights.csv')
    expect([zone.hints(), await eventCount()]).toEqual([1, 1])
    const evaluator = evaluatorWith()
    expect(await evaluator.consumeEvents()).toMatchObject({ runs: 1, hasMore: false })
    expect(await evaluator.consumeEvents()).toMatchObject({ runs: 0 })
    expect([await eventCount(), evaluator.requested()]).toEqual([0, 1])
    expect(await runsOf(one)).toEqual(
      requestedBy(`landing_zone_upload:default.${zone.name}/flights.csv`, file.id, {
        landing_file_id: file.id,
      }),
    )
    expect(await runsOf(other)).toHaveLength(0)
    expect(await historyOf(id)).toEqual(['created', 'fired'])
    expect(await one.service.get(one.ref, id)).toMatchObject({
      last_run_id: (await opened.sql`select id from run where pipeline_id = ${one.id}`)[0]?.id,
      last_triggered_at: expect.any(String),
    })
  })

  test('an upload fires a pattern only if its original name matches', async () => {
    const [csv, json, zone] = [await newPipeline(), await newPipeline(), await newZone()]
    await csv.add('file_pattern', { ...zone.config, pattern: 'flights-[0-9]*.csv' })
    await json.add('file_pattern', { ...zone.config, pattern: '*.json' })
    // The stored names start with 20..., but patterns match the original names.
    for (const name of ['flights-1.csv', 'flights.csv', '2.json']) await zone.upload(name)
    await evaluatorWith().consumeEvents()
    expect((await runsOf(csv)).map(({ trigger }) => trigger)).toEqual([
      `trigger:file_pattern:default.${zone.name}/flights-1.csv`,
    ])
    expect((await runsOf(json)).map(({ trigger }) => trigger)).toEqual([
      `trigger:file_pattern:default.${zone.name}/2.json`,
    ])
    expect(await eventCount()).toBe(0)
  })

  test('an upload without listening triggers records no event', async () => {
    const [pipeline, zone] = [await newPipeline(), await newZone()]
    await zone.upload('a.csv')
    await pipeline.add('landing_zone_upload', zone.config, { enabled: false })
    await zone.upload('b.csv')
    expect([await eventCount(), zone.hints()]).toEqual([0, 0])
  })

  test("triggers listen for a zone's name, even if it was recreated", async () => {
    const { zone } = await hearingZone()
    await opened.sql`delete from landing_zone where name = ${zone.name}`
    await zone.zones.create({ namespace: 'default', name: zone.name })
    await zone.upload('a.csv')
    expect(await evaluatorWith().consumeEvents()).toMatchObject({ runs: 1 })
  })
})

describe('the trace of a run', () => {
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
  const traced = { requestId: null, traceparent, tracestate: 'a=1' }
  const tracesOf = async ({ id }: Pipeline) => [
    ...(await opened.sql<{ id: RunId; traceparent: string; tracestate: string | null }[]>`
      select id, traceparent, tracestate from run where pipeline_id = ${id} and trigger_id is not null order by created_at, id`),
  ]

  test('a run continues the trace of the upload that fired it', async () => {
    const { pipeline, zone } = await hearingZone()
    await inTrace(
      () => traced,
      () => zone.upload('a.csv'),
    )
    await evaluatorWith().consumeEvents()
    expect(await tracesOf(pipeline)).toMatchObject([{ traceparent, tracestate: 'a=1' }])
  })

  test('a run continues the trace of the success that fired it', async () => {
    const [first, second, third] = [await newPipeline(), await newPipeline(), await newPipeline()]
    await second.add('pipeline_success', onSuccessOf(first))
    await third.add('cron_dependency', { ...YEARLY, dependencies: [first.full] })
    await opened.sql`update trigger set due_at = clock_timestamp() - interval '1 s' where pipeline_id = ${third.id}`
    await endRun(first, { trace: traced })
    await evaluatorWith().consumeEvents()
    for (const pipeline of [second, third])
      expect(await tracesOf(pipeline)).toMatchObject([{ traceparent, tracestate: 'a=1' }])
  })

  test('a run without an earlier trace begins its own', async () => {
    const [upstream, heard, due] = [await newPipeline(), await newPipeline(), await newPipeline()]
    await heard.add('pipeline_success', onSuccessOf(upstream))
    await makeDue(await due.add('cron', YEARLY))
    await endRun(upstream)
    await evaluatorWith().consumeEvents()
    await evaluatorWith().sweepDue()
    const runs = [...(await tracesOf(heard)), ...(await tracesOf(due))]
    expect(runs).toHaveLength(2)
    for (const { id, ...trace } of runs) expect(trace).toEqual(begunTrace(id, NO_TRACE) as never)
  })
})

describe('a success', () => {
  test('a success fires its listeners one link deeper; a failure fires none', async () => {
    const [upstream, downstream] = [await newPipeline(), await newPipeline()]
    await downstream.add('pipeline_success', onSuccessOf(upstream))
    await endRun(upstream, { status: 'failed' })
    expect(await eventCount()).toBe(0)
    const run = await endRun(upstream, { chainDepth: 3 })
    expect(await evaluatorWith().consumeEvents()).toMatchObject({ runs: 1 })
    expect(await runsOf(downstream)).toEqual(
      requestedBy(`pipeline_success:${upstream.full}`, run, { chain_depth: 4 }),
    )
  })

  test('a success at the chain limit fires nothing and logs twice', async () => {
    const pipeline = await newPipeline()
    const id = await pipeline.add('pipeline_success', onSuccessOf(pipeline))
    await endRun(pipeline, { chainDepth: limits.chainDepth - 1 })
    expect(await evaluatorWith().consumeEvents()).toMatchObject({ runs: 1 })
    expect(lines).toEqual([])
    const last = await endRun(pipeline, { chainDepth: limits.chainDepth })
    expect(await evaluatorWith().consumeEvents()).toMatchObject({ runs: 0 })
    expect(await eventCount()).toBe(0)
    expect(lines).toEqual([
      { level: 'warn', message: expect.stringMatching(/^chain limit: .*number 65 in a chain/) },
    ])
    expect(await opened.sql`select level, message from run_log where run_id = ${last}`).toEqual([
      { level: 'warn', message: expect.stringMatching(/^chain limit/) },
    ] as never)
    expect(await historyOf(id)).toEqual(['created', 'fired'])
  })

  test('a success fires each of 1,000 listeners once, in several transactions', async () => {
    const upstream = await newPipeline()
    const id = await upstream.add('pipeline_success', onSuccessOf(upstream))
    await opened.sql`
      with made as (
        insert into pipeline (id, namespace, layer, name, type, draft_snapshot, draft_machine_version, draft_dirty, published_version)
        select gen_random_uuid(), 'default', 'silver', 'many-' || n, 'sql', p.draft_snapshot, p.draft_machine_version, false, 1
        from pipeline p, generate_series(1, 999) n where p.id = ${upstream.id} returning id),
      published as (
        insert into pipeline_version (id, pipeline_id, version_number, message, pipeline_type, published_versions, landing_zones)
        select gen_random_uuid(), id, 1, '', 'sql', '{}', '[]' from made)
      insert into trigger (id, pipeline_id, type, config, snapshot, machine_version, state, source)
      select gen_random_uuid(), made.id, t.type, t.config, t.snapshot, t.machine_version, t.state, t.source
      from made, trigger t where t.id = ${id}`
    const run = await endRun(upstream)
    const [one, other] = [evaluatorWith(), evaluatorWith()]
    let ticks = 0
    for (let more = true; more; ticks++) {
      const both = await Promise.all([one.consumeEvents(), other.consumeEvents()])
      more = (await eventCount()) > 0 || both.some(({ hasMore }) => hasMore)
    }
    expect(2 * ticks).toBeGreaterThanOrEqual(1_000 / limits.firingBatch)
    expect(one.requested() + other.requested()).toBe(1_000)
    const [counted] = await opened.sql`
      select count(*)::int as runs, count(distinct trigger_id)::int as triggers from run where trigger_event = ${run}`
    expect(counted).toEqual({ runs: 1_000, triggers: 1_000 })
  })
})

describe('a firing that is skipped or ignored', () => {
  test('a firing for an unpublished pipeline is skipped and starts no cooldown', async () => {
    const [pipeline, zone] = [await newPipeline({ isPublished: false }), await newZone()]
    const id = await pipeline.add('landing_zone_upload', zone.config, { cooldown_seconds: 60 })
    await zone.upload('a.csv')
    await evaluatorWith().consumeEvents()
    expect([await runsOf(pipeline), await eventCount()]).toEqual([[] as never, 0])
    expect(await historyOf(id)).toEqual(['created', 'skipped'])
    const message = 'firing skipped: the pipeline has never been published'
    expect(lines).toEqual([{ level: 'info', message, trigger_id: id }])
    await opened.sql`update pipeline set published_version = 1 where id = ${pipeline.id}`
    await zone.upload('b.csv')
    await evaluatorWith().consumeEvents()
    expect(await runsOf(pipeline)).toHaveLength(1)
  })

  test('a firing for a pipeline with too many waiting runs is skipped', async () => {
    const { pipeline, zone, id } = await hearingZone()
    await zone.upload('a.csv')
    await evaluatorWith().consumeEvents()
    await opened.sql`
      insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones, snapshot,
        machine_version, status)
      select gen_random_uuid(), pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones,
        snapshot, machine_version, status
      from run, generate_series(2, ${limits.waitingRunsPerPipeline}) where pipeline_id = ${pipeline.id}`
    await zone.upload('b.csv')
    await evaluatorWith().consumeEvents()
    expect(await historyOf(id)).toEqual(['created', 'fired', 'skipped'])
    const message = 'firing skipped: too many runs of the pipeline are waiting'
    expect(lines).toEqual([{ level: 'warn', message, trigger_id: id }])
  })

  test('an event within the cooldown is ignored and removed', async () => {
    const { pipeline, zone, id } = await hearingZone({ cooldown_seconds: 60 })
    for (const name of ['a.csv', 'b.csv', 'c.csv']) await zone.upload(name)
    await evaluatorWith().consumeEvents()
    await zone.upload('d.csv')
    await evaluatorWith().consumeEvents()
    expect((await runsOf(pipeline)).map(({ trigger }) => trigger.split('/')[1])).toEqual(['a.csv'])
    expect([await eventCount(), (await rowOf(id)).state]).toEqual([0, 'cooling'])
    expect(await historyOf(id)).toEqual(['created', 'fired'])
  })

  test('an event for a deleted pipeline is removed without a run', async () => {
    const { pipeline, zone } = await hearingZone()
    await zone.upload('a.csv')
    await opened.sql`update pipeline set deleted_at = clock_timestamp() where id = ${pipeline.id}`
    await evaluatorWith().consumeEvents()
    expect([await runsOf(pipeline), await eventCount()]).toEqual([[] as never, 0])
  })
})

describe('races', () => {
  test('concurrent evaluators make one run of one event', async () => {
    const { pipeline, zone, id } = await hearingZone()
    const evaluators = [evaluatorWith(), evaluatorWith(), evaluatorWith()]
    for (let round = 1; round <= 10; round++) {
      await zone.upload(`${round}.csv`)
      await Promise.all(evaluators.map((evaluator) => evaluator.consumeEvents()))
      expect(await runsOf(pipeline)).toHaveLength(round)
    }
    const timed = await newPipeline()
    await makeDue(await timed.add('cron', YEARLY))
    await Promise.all(evaluators.map((evaluator) => evaluator.evaluateTime()))
    expect(await runsOf(timed)).toHaveLength(1)
    expect((await historyOf(id)).filter((event) => event === 'fired')).toHaveLength(10)
  })

  test('an event racing with a disable yields run and firing, or neither', async () => {
    for (let round = 0; round < 10; round++) {
      const { pipeline, zone, id } = await hearingZone()
      await zone.upload('a.csv')
      await Promise.all([
        evaluatorWith().consumeEvents(),
        pipeline.service.update(pipeline.ref, id, { enabled: false }),
      ])
      const runs = await runsOf(pipeline)
      expect((await historyOf(id)).filter((event) => event === 'fired')).toHaveLength(runs.length)
      expect([(await rowOf(id)).state, await eventCount()]).toEqual(['disabled', 0])
    }
  })

  test('deleting a trigger during evaluation does not affect other triggers', async () => {
    for (let round = 0; round < 5; round++) {
      const [pipeline, gone, zone] = [await newPipeline(), await newPipeline(), await newZone()]
      const id = await gone.add('landing_zone_upload', zone.config)
      await pipeline.add('landing_zone_upload', zone.config)
      await zone.upload('a.csv')
      await Promise.all([evaluatorWith().consumeEvents(), gone.service.remove(gone.ref, id)])
      expect([(await runsOf(pipeline)).length, await eventCount()]).toEqual([1, 0])
    }
  })

  test('an event survives the rollback of its transaction', async () => {
    const { pipeline, zone } = await hearingZone()
    await zone.upload('a.csv')
    const lost: Fenced = (work) =>
      opened.sql.begin(async (tx) => {
        await work(tx)
        throw Object.assign(new Error('undone'), { code: '40001' })
      })
    await expect(evaluatorWith({ write: lost }).consumeEvents()).rejects.toThrow('undone')
    expect(await eventCount()).toBe(1)
    expect(await runsOf(pipeline)).toHaveLength(0)
    expect(await evaluatorWith().consumeEvents()).toMatchObject({ runs: 1 })
  })

  test('an evaluator that does not lead does nothing', async () => {
    const { pipeline, zone } = await hearingZone()
    await makeDue(await pipeline.add('cron', YEARLY))
    await zone.upload('a.csv')
    const evaluator = evaluatorWith({ write: async () => null })
    expect([await evaluator.consumeEvents(), await evaluator.evaluateTime()]).toMatchObject([
      { runs: 0 },
      { runs: 0 },
    ])
    expect([await runsOf(pipeline), await eventCount()]).toEqual([[] as never, 1])
  })
})

describe('one failing trigger', () => {
  async function storingNoRunOf({ id }: Pipeline, work: () => Promise<void>) {
    await opened.sql.unsafe(`alter table run add constraint no_bad check (pipeline_id <> '${id}') not valid`)
    try {
      await work()
    } finally {
      await opened.sql`alter table run drop constraint no_bad`
    }
  }

  const DAMAGED = 'trigger skipped: its stored state is damaged'
  const NO_PATTERN = 'trigger skipped: its file pattern is missing or invalid'
  test.each<[string, 'snapshot' | 'config', unknown, string]>([
    ['an empty snapshot', 'snapshot', {}, DAMAGED],
    ['a snapshot that is a text', 'snapshot', 'armed', DAMAGED],
    ['an unknown state', 'snapshot', { value: 'nowhere', context: {}, status: 'active' }, DAMAGED],
    ['a configuration that is a text', 'config', 'any', NO_PATTERN],
    ['a broken pattern', 'config', { pattern: '[' }, NO_PATTERN],
    ['a number as pattern', 'config', { pattern: 7 }, NO_PATTERN],
  ])('a trigger with %s is logged, and the others fire', async (_, column, value, message) => {
    const [pipeline, bad, zone] = [await newPipeline(), await newPipeline(), await newZone()]
    await pipeline.add('landing_zone_upload', zone.config)
    const id = await bad.add('file_pattern', { ...zone.config, pattern: '*.csv' })
    const { sql } = opened
    await sql`update trigger set ${sql(column)} = ${sql.json(value as never)} where id = ${id}`
    await zone.upload('a.csv')
    await evaluatorWith().consumeEvents()
    expect([(await runsOf(pipeline)).length, await eventCount()]).toEqual([1, 0])
    expect(lines).toEqual([{ level: 'error', message, trigger_id: id }])
  })

  test('an event skips a trigger whose run cannot be stored', async () => {
    const zone = await newZone()
    const pipelines = [await newPipeline(), await newPipeline(), await newPipeline()] as const
    const bad = pipelines[1]
    const ids: TriggerId[] = []
    for (const pipeline of pipelines) ids.push(await pipeline.add('landing_zone_upload', zone.config))
    await storingNoRunOf(bad, async () => {
      for (const name of ['a.csv', 'b.csv']) await zone.upload(name)
      expect(await evaluatorWith().consumeEvents()).toMatchObject({ runs: 4 })
      expect(await eventCount()).toBe(0)
      for (const pipeline of pipelines) expect(await runsOf(pipeline)).toHaveLength(pipeline === bad ? 0 : 2)
      expect(lines.filter(({ level }) => level === 'error').map(({ message }) => message)).toEqual(
        [0, 1].map(() => expect.stringContaining(`trigger ${ids[1]}`)),
      )
    })
  })

  test('a due trigger whose run cannot be stored is skipped', async () => {
    const pipelines = [await newPipeline(), await newPipeline(), await newPipeline()] as const
    for (const pipeline of pipelines) await makeDue(await pipeline.add('cron', YEARLY))
    await storingNoRunOf(pipelines[1], async () => {
      const evaluator = evaluatorWith()
      expect(await evaluator.evaluateTime()).toMatchObject({ runs: 2 })
      expect(await evaluator.evaluateTime()).toMatchObject({ runs: 0 })
      expect(lines.filter(({ level }) => level === 'error')).toHaveLength(1)
    })
  })

  test("an event for a newer program's trigger waits without delaying others", async () => {
    const [pipeline, newer, zone] = [await newPipeline(), await newPipeline(), await newZone()]
    const id = await newer.add('landing_zone_upload', zone.config)
    await opened.sql`update trigger set machine_version = 99 where id = ${id}`
    await zone.upload('a.csv')
    const other = await newZone()
    await pipeline.add('landing_zone_upload', other.config)
    await other.upload('b.csv')
    const evaluator = evaluatorWith()
    expect(await evaluator.consumeEvents()).toMatchObject({ runs: 1 })
    expect(await evaluator.consumeEvents()).toMatchObject({ runs: 0 })
    expect([await eventCount(), (await runsOf(newer)).length]).toEqual([1, 0])
    await opened.sql`update trigger set machine_version = 1 where id = ${id}`
    expect(await evaluator.retryHeld()).toMatchObject({ runs: 1 })
    expect([await eventCount(), (await runsOf(newer)).length]).toEqual([0, 1])
  })
})

describe('cron', () => {
  test('a due cron fires once for all missed times', async () => {
    const pipeline = await newPipeline()
    const id = await pipeline.add('cron', YEARLY)
    expect(await evaluatorWith().evaluateTime()).toMatchObject({ runs: 0, nextDueMs: expect.any(Number) })
    await makeDue(id, 3 * 366 * 86_400)
    const due = new Date(await dueAtOf(id))
    // An evaluator that starts after a downtime.
    const evaluator = evaluatorWith()
    expect(await evaluator.evaluateTime()).toMatchObject({ runs: 1 })
    expect(await evaluator.evaluateTime()).toMatchObject({ runs: 0 })
    expect(await runsOf(pipeline)).toEqual(requestedBy('cron:0 0 1 1 *', due.toISOString()))
    expect(await dueAtOf(id)).toBeGreaterThan((await rowOf(id)).lastTriggeredAt?.getTime() ?? Number.NaN)
  })

  test('a cron counts from its creation', async () => {
    const pipeline = await newPipeline()
    const id = await pipeline.add('cron', { cron_expr: '* * * * *' })
    expect((await dueAtOf(id)) - (await rowOf(id)).createdAt.getTime()).toBeWithin(1, 60_001)
  })

  test.each<
    [string, Partial<CreateTrigger>, (id: TriggerId, pipeline: Pipeline) => Promise<unknown>, string]
  >([
    [
      'is disabled stays due and fires nothing',
      {},
      (id, { service, ref }) => service.update(ref, id, { enabled: false }),
      'due',
    ],
    [
      'is cooling skips its due time',
      { cooldown_seconds: 600 },
      (id) =>
        opened.sql`update trigger set state = 'cooling', last_triggered_at = clock_timestamp(), snapshot = jsonb_build_object(
          'value', 'cooling', 'status', 'active', 'context', jsonb_build_object('cooldownSeconds', 600, 'firedAt',
          (extract(epoch from clock_timestamp()) * 1000)::bigint)) where id = ${id}`,
      'later',
    ],
    [
      'has an unpublished pipeline skips its due time',
      {},
      (_, { id }) => opened.sql`update pipeline set published_version = null where id = ${id}`,
      'later',
    ],
    [
      'has a deleted pipeline fires nothing',
      {},
      (_, { id }) => opened.sql`update pipeline set deleted_at = clock_timestamp() where id = ${id}`,
      'due',
    ],
  ])('a due trigger that %s', async (_, more, prepare, then) => {
    const pipeline = await newPipeline()
    const id = await pipeline.add('cron', YEARLY, more)
    await prepare(id, pipeline)
    await makeDue(id)
    expect(await evaluatorWith().evaluateTime()).toMatchObject({ runs: 0 })
    expect(await runsOf(pipeline)).toHaveLength(0)
    expect((await dueAtOf(id)) > systemClock.now().getTime()).toBe(then === 'later')
  })

  test('due crons fire in batches until none is left', async () => {
    const pipeline = await newPipeline()
    const id = await pipeline.add('cron', YEARLY)
    await opened.sql`
      insert into trigger (id, pipeline_id, type, config, snapshot, machine_version, state, due_at)
      select gen_random_uuid(), pipeline_id, type, config, snapshot, machine_version, state, clock_timestamp() - interval '1 s'
      from trigger, generate_series(1, ${limits.dueBatch + 1}) where id = ${id}`
    const evaluator = evaluatorWith()
    // All triggers are of one pipeline, whose first run is not finished.
    expect(await evaluator.evaluateTime()).toMatchObject({ runs: 1 })
    const [{ due } = {}] = await opened.sql<{ due: number }[]>`
      select count(*)::int as due from trigger where pipeline_id = ${pipeline.id} and due_at <= clock_timestamp()`
    expect([due, await runsOf(pipeline)]).toMatchObject([0, { length: 1 }])
  })

  test('a cron whose pipeline has an unfinished run skips its due time', async () => {
    const pipeline = await newPipeline()
    const id = await pipeline.add('cron', YEARLY)
    const evaluator = evaluatorWith()
    const fire = async () => {
      await makeDue(id)
      return (await evaluator.evaluateTime()).runs
    }
    expect([await fire(), await fire(), await fire()]).toEqual([1, 0, 0])
    expect(await dueAtOf(id)).toBeGreaterThan(systemClock.now().getTime())
    await opened.sql`update run set phase = 'review' where pipeline_id = ${pipeline.id}`
    expect(await fire()).toBe(1)
    await opened.sql`update run set status = 'success' where pipeline_id = ${pipeline.id}`
    expect(await fire()).toBe(1)
  })
})

describe('cron_dependency', () => {
  async function waiting(more: Partial<CreateTrigger> = {}) {
    const [pipeline, one, two] = [await newPipeline(), await newPipeline(), await newPipeline()]
    const config = { ...YEARLY, dependencies: [one.full, two.full] }
    const id = await pipeline.add('cron_dependency', config, more)
    return { pipeline, one, two, id, evaluator: evaluatorWith() }
  }

  test('a cron_dependency fires only when due and all dependencies have succeeded', async () => {
    const { pipeline, one, two, id, evaluator } = await waiting()
    await endRun(one)
    await endRun(two)
    expect(await evaluator.consumeEvents()).toMatchObject({ runs: 0 })
    expect(await eventCount()).toBe(0)
    expect(await evaluator.evaluateTime()).toMatchObject({ runs: 0 })
    await makeDue(id)
    expect(await evaluator.evaluateTime()).toMatchObject({ runs: 1 })
    expect((await runsOf(pipeline)).map(({ trigger, chain_depth }) => [trigger, chain_depth])).toEqual([
      ['trigger:cron_dependency:0 0 1 1 *', 0],
    ])
  })

  test('a due cron_dependency fires at the last awaited success', async () => {
    const { pipeline, one, two, id, evaluator } = await waiting()
    await makeDue(id)
    expect(await evaluator.sweepDue()).toMatchObject({ runs: 0 })
    await endRun(one)
    expect(await evaluator.consumeEvents()).toMatchObject({ runs: 0 })
    expect((await rowOf(id)).lastTriggeredAt).toBeNull()
    await endRun(two)
    expect(await evaluator.consumeEvents()).toMatchObject({ runs: 1 })
    expect(await runsOf(pipeline)).toHaveLength(1)
  })

  test('a cron_dependency needs a new success of every dependency each time', async () => {
    const { pipeline, one, two, id, evaluator } = await waiting()
    await endRun(one)
    await endRun(two)
    for (let round = 1; round <= 3; round++) {
      await makeDue(id)
      expect(await evaluator.sweepDue()).toMatchObject({ runs: 1 })
      expect(await runsOf(pipeline)).toHaveLength(round)
      await makeDue(id, 2)
      expect(await evaluator.sweepDue()).toMatchObject({ runs: 0 })
      await endRun(one)
      await endRun(one)
      await endRun(one, { status: 'failed' })
      await evaluator.consumeEvents()
      expect(await runsOf(pipeline)).toHaveLength(round)
      await endRun(two)
      await opened.sql`update trigger set due_at = clock_timestamp() + interval '1 h' where id = ${id}`
      await evaluator.consumeEvents()
      expect(await runsOf(pipeline)).toHaveLength(round)
    }
  })

  test('the sweep fires a cron_dependency whose event was lost', async () => {
    const { one, two, id, evaluator } = await waiting()
    await evaluator.evaluateTime()
    await makeDue(id, 60)
    await endRun(one)
    await endRun(two)
    await opened.sql`delete from trigger_event`
    expect(await evaluator.evaluateTime()).toMatchObject({ runs: 0 })
    expect(await evaluator.sweepDue()).toMatchObject({ runs: 1 })
  })

  test('a cooling cron_dependency uses its due time but keeps its successes', async () => {
    const { pipeline, one, two, id, evaluator } = await waiting({ cooldown_seconds: 600 })
    await endRun(one)
    await endRun(two)
    await makeDue(id)
    await evaluator.sweepDue()
    await endRun(one)
    await endRun(two)
    await makeDue(id)
    await evaluator.consumeEvents()
    expect(await runsOf(pipeline)).toHaveLength(1)
    expect(await dueAtOf(id)).toBeGreaterThan(systemClock.now().getTime())
    await pipeline.service.update(pipeline.ref, id, { cooldown_seconds: 0 })
    await makeDue(id)
    expect(await evaluator.sweepDue()).toMatchObject({ runs: 1 })
  })

  test('concurrent evaluators fire a cron_dependency once', async () => {
    const { pipeline, one, two, id } = await waiting()
    await endRun(one)
    await endRun(two)
    await makeDue(id)
    const evaluators = [evaluatorWith(), evaluatorWith()]
    await Promise.all(evaluators.flatMap((one) => [one.consumeEvents(), one.sweepDue()]))
    expect(await runsOf(pipeline)).toHaveLength(1)
  })

  test('a cron_dependency waits for a deleted dependency until its successor succeeds', async () => {
    const { one, two, id, evaluator } = await waiting()
    await endRun(one)
    await endRun(two)
    await opened.sql`update pipeline set deleted_at = clock_timestamp() where id = ${two.id}`
    await makeDue(id)
    expect(await evaluator.sweepDue()).toMatchObject({ runs: 0 })
    const { id: anew } = await addPipeline(opened.sql, two.name, { landingZones: [], nudge: () => {} })
    expect(await evaluator.sweepDue()).toMatchObject({ runs: 0 })
    await endRun({ ...two, id: anew })
    expect(await evaluator.consumeEvents()).toMatchObject({ runs: 1 })
  })

  test('a dependency added after a firing needs a newer success', async () => {
    const { pipeline, one, two, id, evaluator } = await waiting()
    const third = await newPipeline()
    await endRun(third)
    await endRun(one)
    await endRun(two)
    await makeDue(id)
    expect(await evaluator.sweepDue()).toMatchObject({ runs: 1 })
    const config = { ...YEARLY, dependencies: [one.full, third.full] }
    await pipeline.service.update(pipeline.ref, id, { config })
    await endRun(one)
    await makeDue(id)
    expect(await evaluator.consumeEvents()).toMatchObject({ runs: 0 })
    await endRun(third)
    expect(await evaluator.consumeEvents()).toMatchObject({ runs: 1 })
  })
})

test('a cooldown ends by the clock', async () => {
  const { zone, id } = await hearingZone({ cooldown_seconds: 60 })
  await zone.upload('a.csv')
  const evaluator = evaluatorWith()
  await evaluator.consumeEvents()
  await evaluator.evaluateTime()
  expect((await rowOf(id)).state).toBe('cooling')
  await opened.sql`
    update trigger set cooling_until = clock_timestamp() - interval '1 s', snapshot = jsonb_set(snapshot, '{context,firedAt}',
      to_jsonb((snapshot #>> '{context,firedAt}')::bigint - 60000)) where id = ${id}`
  await evaluator.evaluateTime()
  expect(await rowOf(id)).toMatchObject({ state: 'armed', coolingUntil: null })
  expect(await historyOf(id)).toEqual(['created', 'fired', 'cooled'])
})

describe('with timers', () => {
  async function withTimers(isLeading: () => boolean, work: (triggers: Triggers) => Promise<void>) {
    const triggers = startTriggers({ sql: opened.sql, write, newId, log, post: () => {}, isLeading })
    await work(triggers).finally(triggers.stop)
  }
  type Triggers = ReturnType<typeof startTriggers>
  const hasRuns = (pipeline: Pipeline, count: number) =>
    until(
      () => runsOf(pipeline),
      (runs) => runs.length === count,
    )

  test('an event is processed after a hint, and without one', async () => {
    const { pipeline, zone } = await hearingZone()
    await withTimers(
      () => true,
      async (triggers) => {
        await zone.upload('a.csv')
        triggers.nudge()
        await hasRuns(pipeline, 1)
        await zone.upload('b.csv')
        await hasRuns(pipeline, 2)
        const timed = await newPipeline()
        const id = await timed.add('cron', YEARLY)
        await opened.sql`update trigger set due_at = clock_timestamp() + interval '0.3 s' where id = ${id}`
        await hasRuns(timed, 1)
      },
    )
  })

  test('a replica begins to evaluate when it leads', async () => {
    const { pipeline, zone } = await hearingZone()
    await zone.upload('a.csv')
    let isLeading = false
    let looks = 0
    const looked = () => {
      looks++
      return isLeading
    }
    await withTimers(looked, async (triggers) => {
      await until(() => looks >= 4)
      expect(await runsOf(pipeline)).toHaveLength(0)
      isLeading = true
      triggers.led()
      await hasRuns(pipeline, 1)
    })
  })
})
