import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { type Database, openDatabase } from '../../drizzle/client.ts'
import { type TestDatabase, testDatabase } from '../../tools/test/database.ts'
import { addPipeline } from '../../workers/testing.ts'
import type { RunId } from '../core/ids.ts'
import type { Outcome } from './outcome.ts'
import { applyOutcomes } from './outcomes.ts'
import { startWaiting } from './start.ts'

setDefaultTimeout(60_000)

let database: TestDatabase
let opened: Database
beforeAll(async () => {
  database = await testDatabase()
  opened = openDatabase(database.url, { connections: 1, rawConnections: 4, application: 'test' })
})
afterAll(async () => {
  await opened.close()
  await database.drop()
})

const start = () => startWaiting(opened.sql, Array(10).fill('http://127.0.0.1:1'), 'tester')
async function started(name: string) {
  const pipeline = await addPipeline(opened.sql, name, { landingZones: [], nudge: () => {} })
  const id = await pipeline.request()
  await start()
  return { id, runs: pipeline.runs }
}
const acceptance = (runId: RunId, attempt = 1): Outcome => ({
  runId,
  attempt,
  kind: 'accepted',
  runnerBoot: 'boot',
})

/** What the database holds of a run, without what differs between any two. */
async function recordOf(id: RunId) {
  const [run] = await opened.sql`
    select snapshot, machine_version, status, phase, attempt, waiting, follower, finished_at, error, base_commit,
      started_at is not null as has_started, started_at >= created_at as is_after from run where id = ${id}`
  const attempts =
    await opened.sql`select attempt, state, runner_boot from run_attempt where run_id = ${id} order by attempt`
  const history = await opened.sql`
    select t.event, t."from", t."to", t.effects, t.cause, t.event <> 'accepted' or t.at = r.started_at as is_at_start
    from transition t join run r on r.id = t.entity_id where r.id = ${id} order by t.id`
  return { run, attempts: [...attempts], history: [...history] }
}

test('the acceptance of a first attempt leaves the same however it is applied', async () => {
  const [alone, together] = [await started('alone'), await started('together')]
  const applied = await applyOutcomes(opened.sql, [acceptance(alone.id)], [])
  expect(applied).toEqual({
    changed: [alone.id],
    completed: [],
    unwanted: [],
    freed: [],
    isAwaited: false,
    events: 0,
    nextStartMs: null,
  })
  // With a line of its log it goes the way of all other outcomes.
  const line = { runId: together.id, seq: 1_001_001, at: new Date(0), level: 'info' as const, message: 'a' }
  await applyOutcomes(opened.sql, [acceptance(together.id)], [line])
  expect(await recordOf(alone.id)).toEqual(await recordOf(together.id))
  expect((await recordOf(alone.id)).run).toMatchObject({ status: 'running', phase: 'rendering' })
})

test('acceptances that come together are each judged by the state of their run', async () => {
  const [plain, again, cancelled] = [await started('plain'), await started('again'), await started('ended')]
  await applyOutcomes(
    opened.sql,
    [{ runId: again.id, attempt: 1, kind: 'lost', why: 'gone', hasBegun: true }],
    [],
  )
  await start()
  await cancelled.runs.cancel(cancelled.id)
  const late = await applyOutcomes(
    opened.sql,
    [plain, again, cancelled].map(({ id }) => acceptance(id)),
    [],
  )
  expect(late.changed).toEqual([plain.id])
  expect(late.unwanted.map(({ runId }) => runId).sort()).toEqual([again.id, cancelled.id].sort())
  const { changed, unwanted } = await applyOutcomes(
    opened.sql,
    [acceptance(again.id, 2), acceptance(cancelled.id)],
    [],
  )
  expect({ changed, unwanted: unwanted.length }).toEqual({ changed: [again.id], unwanted: 1 })
  const events = async (id: RunId) => (await recordOf(id)).history.map(({ event }) => event)
  expect(await events(plain.id)).toEqual(['requested', 'start', 'accepted'])
  expect(await events(again.id)).toEqual(['requested', 'start', 'runnerLost', 'start', 'accepted'])
  expect(await events(cancelled.id)).toEqual(['requested', 'start', 'cancelRequested'])
})
