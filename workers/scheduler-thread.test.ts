import { afterEach, expect, setDefaultTimeout, test } from 'bun:test'
import type { Log } from '../app/core/log.ts'
import { until } from '../tools/kit/until.ts'
import { useDatabase } from '../tools/service/database.ts'
import type { FromWorker, ToScheduler } from './messages/channel.ts'
import { addPipeline } from './testing.ts'
import { type RestartReason, type SupervisedWorker, superviseWorker } from './threads/supervise.ts'

setDefaultTimeout(60_000)

const database = useDatabase({ rawConnections: 2 })
const started: SupervisedWorker<ToScheduler>[] = []
afterEach(async () => {
  for (const worker of started.splice(0)) await worker.stop()
})

/** The scheduler's real thread, as the API process runs it. */
function scheduler(processId: string) {
  const messages: FromWorker[] = []
  const restarts: RestartReason[] = []
  const log: Log = { info: () => {}, warn: () => {}, error: () => {}, named: () => log }
  const worker = superviseWorker<ToScheduler>({
    name: 'scheduler',
    path: new URL('./scheduler.worker.ts', import.meta.url),
    startMessage: {
      type: 'start',
      settings: { processId, databaseUrl: database.url, logFormat: 'text', tracing: null },
    },
    log,
    onMessage: (message) => messages.push(message),
    onRestart: (reason) => restarts.push(reason),
  })
  started.push(worker)
  worker.start()
  const count = (type: FromWorker['type']) => messages.filter((message) => message.type === type).length
  return { worker, messages, restarts, count }
}

const leader = async () =>
  (
    await database.sql<{ holder: string; epoch: number; is_over: boolean }[]>`
      select holder, epoch::float8 as epoch, until <= clock_timestamp() as is_over from leader where role = 'scheduler'`
  )[0]

test('the thread leads, ticks at once, and reports its requests', async () => {
  const { id } = await addPipeline(database.sql, 'due', { landingZones: [], nudge: () => {} })
  await database.sql`
    insert into schedule (id, pipeline_id, cron, next_run_at)
    values (gen_random_uuid(), ${id}, '0 0 1 1 *', clock_timestamp() - interval '1 hour')`
  const one = scheduler('one')
  await until(() => one.messages.some(({ type }) => type === 'runsRequested'))
  expect(one.messages.filter(({ type }) => type !== 'alive')).toEqual(
    expect.arrayContaining([
      { type: 'ready' },
      { type: 'led', isLeading: true },
      { type: 'ticked', runsRequested: 1 },
      { type: 'runsRequested', count: 1 },
    ]),
  )
  expect(await database.sql`select 1 from run where pipeline_id = ${id}`).toHaveLength(1)
})

test('a terminated thread is replaced by one that leads and ticks', async () => {
  const one = scheduler('one')
  await until(() => one.count('ticked') > 0)
  const before = await leader()
  one.worker.restart()
  await until(() => one.count('ticked') > 1)
  expect(await leader()).toMatchObject({ holder: 'one', epoch: (before?.epoch ?? 0) + 1, is_over: false })
  expect(one.restarts).toEqual(['terminated'])
})

test('one of two processes ticks; the other takes over after a stop', async () => {
  const one = scheduler('one')
  await until(() => one.count('ticked') > 0)
  const two = scheduler('two')
  await until(() => two.count('ready') > 0)
  expect(two.count('ticked')).toBe(0)
  await one.worker.stop()
  expect(one.messages.at(-1)).toEqual({ type: 'stopped' })
  await until(() => two.count('ticked') > 0)
  expect(await leader()).toMatchObject({ holder: 'two', is_over: false })
})

test('a lost database connection is replaced without a restart of the thread', async () => {
  const one = scheduler('one')
  await until(() => one.count('ticked') > 0)
  const before = await leader()
  await database.sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'sluice scheduler one'`
  await until(leader, (row) => (row?.epoch ?? 0) > (before?.epoch ?? 0))
  await until(() => one.count('ticked') > 1)
  expect(one.restarts).toEqual([])
})
