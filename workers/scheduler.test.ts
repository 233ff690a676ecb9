import { beforeEach, expect, setDefaultTimeout, test } from 'bun:test'
import postgresJs from 'postgres'
import { newId, type PipelineId } from '../app/core/ids.ts'
import type { Log } from '../app/core/log.ts'
import type { Fenced } from '../drizzle/client.ts'
import { useDatabase } from '../tools/service/database.ts'
import { tickSchedules } from './scheduler.ts'
import { addPipeline } from './testing.ts'

setDefaultTimeout(60_000)

const database = useDatabase({ rawConnections: 8 })
beforeEach(async () => {
  logged.length = 0
  await database.sql`truncate schedule, run, transition`
})

const logged: string[] = []
const note = (line: string, fields?: object) => logged.push(`${line} ${JSON.stringify(fields)}`)
const log: Log = { info: note, warn: note, error: note, named: () => log }

const leading: Fenced = async (work) =>
  (await database.sql.begin(async (tx) => ({ done: await work(tx) }))).done
const tick = (options: { write?: Fenced; batch?: number } = {}) =>
  tickSchedules({ write: leading, newId, log, ...options })

let pipelines = 0
/** Creates a pipeline with a published version. */
async function published(): Promise<PipelineId> {
  const { id } = await addPipeline(database.sql, `p${++pipelines}`, { landingZones: [], nudge: () => {} })
  return id
}

/**
 * `due`: how long ago the schedule became due, as an SQL interval; absent: the scheduler has not seen it. By default, the next
 * time is far away, so none passes between a tick and its checks.
 */
async function schedule(
  pipelineId: PipelineId,
  { cron = '0 0 1 1 *', due }: { cron?: string; due?: string } = {},
) {
  const id = newId()
  await database.sql`
    insert into schedule (id, pipeline_id, cron, next_run_at)
    values (${id}, ${pipelineId}, ${cron},
      date_trunc('minute', clock_timestamp()) - ${due ?? null}::interval)`
  return id
}

interface Row {
  enabled: boolean
  next_run_at: Date | null
  last_run_at: Date | null
  last_run_id: string | null
  is_ahead: boolean | null
}
async function rowOf(id: string): Promise<Row> {
  const [row] = await database.sql<Row[]>`
    select enabled, next_run_at, last_run_at, last_run_id, next_run_at > clock_timestamp() as is_ahead
    from schedule where id = ${id}`
  if (row === undefined) throw new Error('no such schedule')
  return row
}
const runsOf = (pipelineId: PipelineId) =>
  database.sql<{ id: string; trigger: string; status: string; schedule_due: Date; schedule_id: string }[]>`
    select id, trigger, status, schedule_due, schedule_id from run where pipeline_id = ${pipelineId} order by id`

test('the first tick after a creation only computes the due time', async () => {
  const pipeline = await published()
  const id = await schedule(pipeline)
  expect(await tick()).toEqual({ requested: 0 })
  expect(await rowOf(id)).toMatchObject({ enabled: true, is_ahead: true, last_run_at: null })
  expect(await runsOf(pipeline)).toHaveLength(0)
})

test('a due schedule requests one run and gets its next time', async () => {
  const pipeline = await published()
  const id = await schedule(pipeline, { cron: '*/7 5 1 1 *', due: '3 minutes' })
  const { next_run_at: due } = await rowOf(id)
  expect(await tick()).toEqual({ requested: 1 })
  const [run, ...others] = await runsOf(pipeline)
  expect(others).toEqual([])
  expect(run).toMatchObject({
    trigger: 'schedule:*/7 5 1 1 *',
    status: 'pending',
    schedule_id: id,
    schedule_due: due,
  })
  const row = await rowOf(id)
  expect(row).toMatchObject({ is_ahead: true, last_run_id: run?.id, last_run_at: expect.any(Date) })
  expect(row.next_run_at?.toISOString()).toEndWith('-01-01T05:00:00.000Z')
  expect(await tick()).toEqual({ requested: 0 })
})

test('one run catches up for all times missed during downtime', async () => {
  const pipeline = await published()
  const id = await schedule(pipeline, { due: '3 years' })
  expect(await tick()).toEqual({ requested: 1 })
  await database.sql`update run set status = 'success', waiting = false`
  expect(await tick()).toEqual({ requested: 0 })
  expect(await runsOf(pipeline)).toHaveLength(1)
  expect((await rowOf(id)).is_ahead).toBe(true)
})

for (const status of ['pending', 'running'])
  test(`a due time passes without a run while a run is ${status}`, async () => {
    const pipeline = await published()
    const id = await schedule(pipeline, { due: '1 minute' })
    await tick()
    await database.sql`update run set status = ${status}`
    await database.sql`update schedule set next_run_at = clock_timestamp() - interval '1 hour'`
    logged.length = 0
    expect(await tick()).toEqual({ requested: 0 })
    expect(await runsOf(pipeline)).toHaveLength(1)
    expect((await rowOf(id)).is_ahead).toBe(true)
    expect(logged.join()).toContain('pending or running')
  })

test('the longer due of two schedules of one pipeline runs', async () => {
  const pipeline = await published()
  await schedule(pipeline, { due: '1 minute' })
  const first = await schedule(pipeline, { due: '2 minutes' })
  expect(await tick()).toEqual({ requested: 1 })
  expect(await runsOf(pipeline)).toMatchObject([{ schedule_id: first }])
})

test('a schedule of an unpublished pipeline is skipped and logged', async () => {
  const pipeline = await published()
  await database.sql`update pipeline set published_version = null where id = ${pipeline}`
  const id = await schedule(pipeline, { due: '1 minute' })
  expect(await tick()).toEqual({ requested: 0 })
  expect((await rowOf(id)).is_ahead).toBe(true)
  expect(logged.join()).toContain(
    'the pipeline has no published version {"count":1,"pipelines":"default.gold.p',
  )
})

test('a schedule without pipeline or future time is disabled', async () => {
  const gone = await published()
  await database.sql`update pipeline set deleted_at = clock_timestamp() where id = ${gone}`
  const live = await published()
  const ids = [
    await schedule(gone, { due: '1 minute' }),
    await schedule(gone),
    await schedule(live, { cron: '0 0 31 2 *', due: '1 minute' }),
    await schedule(live, { cron: 'not a cron' }),
  ]
  const good = await schedule(live, { due: '1 minute' })
  expect(await tick()).toEqual({ requested: 1 })
  for (const id of ids) expect(await rowOf(id)).toMatchObject({ enabled: false, next_run_at: null })
  expect(await rowOf(good)).toMatchObject({ enabled: true, is_ahead: true })
  expect(logged.join()).toContain('deleted')
  expect(logged.join()).toContain('matches no future time')
})

test('a disabled schedule is ignored', async () => {
  const pipeline = await published()
  const id = await schedule(pipeline, { due: '1 minute' })
  await database.sql`update schedule set enabled = false`
  const before = await rowOf(id)
  expect(await tick()).toEqual({ requested: 0 })
  expect(await rowOf(id)).toEqual(before)
})

test('a tick stops when its replica does not lead or loses leadership', async () => {
  const pipeline = await published()
  await schedule(pipeline, { due: '1 minute' })
  expect(await tick({ write: async () => null })).toBeNull()
  expect(await runsOf(pipeline)).toHaveLength(0)

  const others = [await published(), await published()]
  for (const other of others) await schedule(other, { due: '2 minutes' })
  let batches = 0
  const losing: Fenced = (work) => (++batches > 2 ? Promise.resolve(null) : leading(work))
  expect(await tick({ write: losing, batch: 1 })).toEqual({ requested: 2 })
  expect(await tick()).toEqual({ requested: 1 })
})

test('a tick handles any number of due schedules in batches, each once', async () => {
  const due = await Promise.all(Array.from({ length: 23 }, published))
  for (const pipeline of due) await schedule(pipeline, { due: '1 hour' })
  const fresh = await Promise.all(Array.from({ length: 17 }, async () => schedule(await published())))
  let transactions = 0
  const counting: Fenced = (work) => {
    transactions += 1
    return leading(work)
  }
  expect(await tick({ write: counting, batch: 5 })).toEqual({ requested: 23 })
  expect(transactions).toBeLessThanOrEqual(6)
  expect(await database.sql`select 1 from run`).toHaveLength(23)
  for (const id of fresh) expect((await rowOf(id)).is_ahead).toBe(true)
})

test('a tick uses two statements for any number of due schedules', async () => {
  for (let n = 0; n < 20; n++) await schedule(await published(), { due: '1 hour' })
  const statements: string[] = []
  const counted = postgresJs(database.url, {
    max: 1,
    fetch_types: false,
    debug: (_, text) => statements.push(text),
  })
  await tickSchedules({
    write: async (work) => (await counted.begin(async (tx) => ({ done: await work(tx) }))).done,
    newId,
    log,
  })
  await counted.end()
  expect(statements.filter((text) => !/^(begin|commit)/.test(text))).toHaveLength(2)
  expect(await database.sql`select 1 from run`).toHaveLength(20)
})

test('concurrent ticks request one run per due time', async () => {
  const all = await Promise.all(Array.from({ length: 30 }, published))
  for (const pipeline of all) await schedule(pipeline, { due: '1 hour' })
  const ticked = await Promise.all(Array.from({ length: 4 }, () => tick({ batch: 7 })))
  expect(ticked.reduce((sum, one) => sum + (one?.requested ?? 0), 0)).toBe(30)
  for (const pipeline of all) expect(await runsOf(pipeline)).toHaveLength(1)
})

test('a due time that had its run never gets another', async () => {
  const pipeline = await published()
  const id = await schedule(pipeline, { due: '1 hour' })
  const { next_run_at: due } = await rowOf(id)
  await tick()
  await database.sql`update run set status = 'success', waiting = false`
  await database.sql`update schedule set next_run_at = ${due}`
  expect(await tick()).toEqual({ requested: 0 })
  expect(await runsOf(pipeline)).toHaveLength(1)
  expect((await rowOf(id)).is_ahead).toBe(true)
})

test('a schedule that is being changed is left to the next tick', async () => {
  const pipeline = await published()
  const id = await schedule(pipeline, { due: '1 minute' })
  const changed = Promise.withResolvers<void>()
  const inside = Promise.withResolvers<void>()
  const changing = database.sql.begin(async (tx) => {
    await tx`update schedule set cron = '0 0 1 1 *', next_run_at = null where id = ${id}`
    inside.resolve()
    await changed.promise
  })
  await inside.promise
  expect(await tick()).toEqual({ requested: 0 })
  changed.resolve()
  await changing
  expect(await tick()).toEqual({ requested: 0 })
  expect((await rowOf(id)).next_run_at?.getUTCMonth()).toBe(0)
  expect(await runsOf(pipeline)).toHaveLength(0)
})
