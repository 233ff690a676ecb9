import { beforeAll, beforeEach, expect, setDefaultTimeout, test } from 'bun:test'
import { until } from '../../tools/kit/until.ts'
import { useDatabase } from '../../tools/service/database.ts'
import { addPipeline } from '../../workers/testing.ts'
import type { App } from '../composition/server.ts'
import { requestTo, testApp } from '../composition/test-app.ts'
import { systemClock } from '../core/clock.ts'
import { newId } from '../core/ids.ts'
import { scheduleRoutes } from './routes.ts'
import { makeScheduleService } from './service.ts'

setDefaultTimeout(60_000)

const database = useDatabase({ rawConnections: 4 })
let app: App
beforeAll(async () => {
  app = testApp({
    api: [scheduleRoutes(makeScheduleService({ db: database.db, clock: systemClock, newId }))],
  })
  await addPipeline(database.sql, 'flights', { landingZones: [], nudge: () => {} })
})
beforeEach(async () => void (await database.sql`truncate schedule`))

type Body = Record<string, unknown> & { error: { code: string; type: string; message: string } }
async function call(method: string, path: string, body?: object) {
  const response = await requestTo(app, method, `/api/v1${path}`, body)
  const text = await response.text()
  return {
    status: response.status,
    link: response.headers.get('link'),
    body: (text === '' ? undefined : JSON.parse(text)) as Body,
  }
}

const FLIGHTS = { namespace: 'default', layer: 'gold', pipeline: 'flights' }
const create = (more: object = {}) => call('POST', '/schedules', { ...FLIGHTS, cron: '0 6 * * *', ...more })
const created = async (more: object = {}) => (await create(more)).body.id as string
const INSTANT = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
const SHAPE = {
  id: expect.any(String),
  ...FLIGHTS,
  cron: '0 6 * * *',
  enabled: true,
  created_at: INSTANT,
  updated_at: INSTANT,
}
/** Sets the times as the scheduler would. */
const seen = (id: string) =>
  database.sql`update schedule set next_run_at = '2030-01-01', last_run_at = '2020-01-01' where id = ${id}`

test('a schedule shows its last run and its next time', async () => {
  const id = await created()
  const shown = await call('GET', `/schedules/${id}`)
  expect(shown.status).toBe(200)
  expect(shown.body).toEqual({ ...SHAPE, id, last_run_at: null, next_run_at: null } as never)
  await seen(id)
  expect((await call('GET', `/schedules/${id}`)).body).toMatchObject({
    last_run_at: '2020-01-01T00:00:00.000Z',
    next_run_at: '2030-01-01T00:00:00.000Z',
  })
})

test('schedules are listed oldest first, in pages, with their total', async () => {
  expect((await call('GET', '/schedules')).body).toEqual({ schedules: [], total: 0 } as never)
  const ids = [await created(), await created(), await created()]
  const all = await call('GET', '/schedules')
  expect((all.body.schedules as { id: string }[]).map(({ id }) => id)).toEqual(ids)
  const page = await call('GET', '/schedules?limit=1&offset=1')
  expect(page.body).toMatchObject({ schedules: [{ id: ids[1], last_run_at: null }], total: 3 })
  expect(page.link).toContain('offset=2>; rel="next"')
})

test('a new cron text or a resumed schedule resets the next time', async () => {
  const id = await created()
  const nextAfter = async (change: object) => {
    await seen(id)
    return (await call('PUT', `/schedules/${id}`, change)).body.next_run_at
  }
  const KEPT = '2030-01-01T00:00:00.000Z'
  expect(await nextAfter({})).toBe(KEPT)
  expect(await nextAfter({ cron: '0 6 * * *' })).toBe(KEPT)
  expect(await nextAfter({ enabled: true })).toBe(KEPT)
  expect(await nextAfter({ cron: '0 7 * * *' })).toBeNull()
  expect(await nextAfter({ enabled: false })).toBeNull()
  expect(await nextAfter({ enabled: true })).toBeNull()
  expect((await call('GET', `/schedules/${id}`)).body.last_run_at).toBe('2020-01-01T00:00:00.000Z')
})

test('schedules of a deleted pipeline are gone, even after its name is reused', async () => {
  const { id: pipelineId } = await addPipeline(database.sql, 'gone', { landingZones: [], nudge: () => {} })
  const id = await created({ pipeline: 'gone' })
  await database.sql`update pipeline set deleted_at = clock_timestamp() where id = ${pipelineId}`
  await addPipeline(database.sql, 'gone', { landingZones: [], nudge: () => {} })
  expect((await call('GET', '/schedules')).body).toEqual({ schedules: [], total: 0 } as never)
  for (const [method, body] of [['GET'], ['PUT', { enabled: true }], ['DELETE']] as const)
    expect((await call(method, `/schedules/${id}`, body)).status).toBe(404)
})

test('refuses to create a schedule while its pipeline is being deleted', async () => {
  const { id } = await addPipeline(database.sql, 'leaving', { landingZones: [], nudge: () => {} })
  const marked = Promise.withResolvers<void>()
  const deleting = Promise.withResolvers<void>()
  const deleted = database.sql.begin(async (tx) => {
    await tx`update pipeline set deleted_at = clock_timestamp() where id = ${id}`
    marked.resolve()
    await deleting.promise
  })
  await marked.promise
  const answer = create({ pipeline: 'leaving' })
  await until(
    () => database.sql`
      select 1 from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' and query like '%for share%'`,
    (waiting) => waiting.length > 0,
  )
  deleting.resolve()
  await deleted
  expect((await answer).status).toBe(404)
})
