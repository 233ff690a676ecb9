import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import postgres from 'postgres'
import type { SqlTx } from '../../../drizzle/client.ts'
import { NO_TRACE } from '../../../ground/telemetry/trace.ts'
import { type TestDatabase, testDatabase } from '../../../tools/service/database.ts'
import { addPipeline } from '../../../workers/testing.ts'
import { newId, type PipelineId, type TriggerId } from '../../core/ids.ts'
import { consumeEvents } from '../events.ts'
import { makeTriggerService } from '../service.ts'
import { fireAll } from './firing.ts'
import { endCooldowns, lockTriggers } from './moves.ts'

const TRIGGERS = 5_000

let database: TestDatabase
let sql: postgres.Sql
let queries: string[] = []
beforeAll(async () => {
  database = await testDatabase()
  sql = postgres(database.url, {
    max: 2,
    onnotice: () => {},
    debug: (_, query) => void queries.push(query),
  })
})
beforeEach(async () => {
  await sql`delete from trigger_event`
  await sql`delete from trigger`
})
afterAll(async () => {
  await sql.end()
  await database.drop()
})

let made = 0
async function newListener(cooldownSeconds = 0) {
  const name = `p${made++}`
  const { id: pipelineId } = await addPipeline(sql, name, { landingZones: [], nudge: () => {} })
  const triggers = makeTriggerService({ sql, newId })
  const ref = { namespace: 'default', layer: 'gold', name }
  const { id } = await triggers.create(ref, {
    type: 'pipeline_success',
    config: { namespace: 'default', layer: 'gold', pipeline: name },
    cooldown_seconds: cooldownSeconds,
  })
  return { pipelineId, id: id as TriggerId, source: `pipeline:default.gold.${name}` }
}

/** Runs the same two statements as the product: lock, then fire. */
const fire = (id: TriggerId, events: readonly string[]) =>
  sql.begin(async (tx) => {
    const locked = await lockTriggers(tx, [id])
    const trigger = locked?.triggers.get(id)
    if (locked === null || trigger === undefined) throw new Error('no such trigger')
    const firings = events.map((event) => ({
      trigger,
      event,
      text: event,
      chainDepth: 0,
      landingFileId: null,
      trace: NO_TRACE,
    }))
    return fireAll(tx, firings, { now: locked.now, newId })
  })
const outcomesOf = (fired: Awaited<ReturnType<typeof fire>>) => fired.map(({ outcome }) => outcome)
const rowOf = async (id: TriggerId) => (await sql`select * from trigger where id = ${id}`)[0]
const causesOf = async (id: TriggerId) =>
  (await sql<{ cause: string }[]>`select cause from transition where entity_id = ${id} order by id`).map(
    ({ cause }) => cause,
  )

test('fires many listeners of events in two statements that use indexes', async () => {
  const listener = await newListener()
  await sql`
    insert into trigger (id, pipeline_id, type, config, snapshot, machine_version, state, source)
    select gen_random_uuid(), pipeline_id, type, config, snapshot, machine_version, state,
      case when n <= 20 then source else 'pipeline:default.gold.other' || n end
    from trigger, generate_series(1, ${TRIGGERS}) n`
  await sql`analyze trigger`
  await sql`
    insert into trigger_event (kind, source, subject)
    select 'runSucceeded', ${listener.source}, gen_random_uuid() from generate_series(1, 3)`
  queries = []
  expect(await sql.begin((tx) => consumeEvents(tx, { newId }))).toMatchObject({ events: 3, runs: 63 })
  const statements = queries.filter((query) => !/^\s*(begin|commit)/i.test(query))
  expect(statements).toHaveLength(2)
  expect(await sql`select 1 from run where pipeline_id = ${listener.pipelineId}`).toHaveLength(63)
  for (const statement of statements) {
    const plan = await sql.unsafe(`explain (generic_plan) ${statement}`).simple()
    const text = plan.map((line) => line['QUERY PLAN']).join('\n')
    expect(text).not.toMatch(/Seq Scan on trigger\b/)
    expect(text).toMatch(/(using|Index Scan on) trigger_(pkey|source)\b/)
  }
})

test('a repeated firing changes neither its trigger nor its history', async () => {
  const { id } = await newListener(60)
  await fire(id, ['one'])
  await sql`update trigger set state = 'armed', snapshot = jsonb_set(snapshot, '{value}', '"armed"'), cooling_until = null`
  const before = await rowOf(id)
  expect(outcomesOf(await fire(id, ['one']))).toEqual(['repeated'])
  expect(await rowOf(id)).toEqual(before)
  expect(await causesOf(id)).toEqual(['created', 'one'])
})

test('the trigger remembers the new run when another firing is repeated', async () => {
  const { id } = await newListener()
  const [{ runId: before } = {}] = await fire(id, ['one'])
  const fired = await fire(id, ['two', 'one'])
  expect(outcomesOf(fired)).toEqual(['requested', 'repeated'])
  expect((await rowOf(id))?.last_run_id).toBe(fired[0]?.runId)
  expect(fired[0]?.runId).not.toBe(before)
  expect(await causesOf(id)).toEqual(['created', 'one', 'two'])
})

test('a cooldown accepts the first of several firings and ignores the rest', async () => {
  const { id } = await newListener(60)
  expect(outcomesOf(await fire(id, ['one', 'two', 'three']))).toEqual(['requested', 'ignored', 'ignored'])
  expect(outcomesOf(await fire(id, ['four']))).toEqual(['ignored'])
  expect(await rowOf(id)).toMatchObject({ state: 'cooling', cooling_until: expect.any(Date) })
})

test.each<[string, (tx: SqlTx, id: PipelineId) => Promise<unknown>, string, string[]]>([
  [
    'deleted',
    (tx, id) => tx`update pipeline set deleted_at = clock_timestamp() where id = ${id}`,
    'gone',
    ['created'],
  ],
  [
    'no longer published',
    (tx, id) => tx`update pipeline set published_version = null where id = ${id}`,
    'unpublished',
    ['created', 'one: the pipeline has never been published', 'two: the pipeline has never been published'],
  ],
])('a firing for a pipeline that is %s leaves its trigger armed', async (_, change, outcome, causes) => {
  const { id, pipelineId } = await newListener()
  await sql`update trigger set cooldown_seconds = 0`
  const before = await rowOf(id)
  await change(sql as never, pipelineId)
  expect(outcomesOf(await fire(id, ['one', 'two']))).toEqual([outcome, outcome] as never)
  expect(await rowOf(id)).toEqual(before)
  expect(await causesOf(id)).toEqual(causes)
})

test('a locked cooling trigger does not delay other cooldowns', async () => {
  const [locked, free] = [await newListener(60), await newListener(60)]
  await sql`
    update trigger set state = 'cooling', cooling_until = clock_timestamp() - interval '1 s',
      snapshot = jsonb_set(snapshot, '{value}', '"cooling"')`
  const states = async () => [(await rowOf(locked.id))?.state, (await rowOf(free.id))?.state]
  await sql.begin(async (holder) => {
    await holder`select from trigger where id = ${locked.id} for update`
    const cooled = await sql.begin(async (tx) => {
      await tx`set local lock_timeout = '1s'`
      return endCooldowns(tx, 10)
    })
    expect(cooled).toEqual({ cooled: 1, hasMore: false })
  })
  expect(await states()).toEqual(['cooling', 'armed'])
  expect(await sql.begin((tx) => endCooldowns(tx, 10))).toEqual({ cooled: 1, hasMore: false })
  expect(await states()).toEqual(['armed', 'armed'])
})
