// An inspector on a database of its own, with no runs, drafts or triggers but those that a test makes.
import { afterAll, afterEach, beforeAll, beforeEach, expect, setDefaultTimeout } from 'bun:test'
import { type Database, openDatabase, type Sql } from '../../drizzle/client.ts'
import { store } from '../../machines/advance.ts'
import type { RunEvent } from '../../machines/run.ts'
import { newTrigger } from '../../machines/trigger.ts'
import { type TestDatabase, testDatabase } from '../../tools/test/database.ts'
import { addPipeline } from '../../workers/testing.ts'
import { systemClock } from '../core/clock.ts'
import { newId, type RunId } from '../core/ids.ts'
import { makeStreamPlaces } from '../core/stream-places.ts'
import { lockRuns, moveRun, saveRuns } from '../runs/store/moves.ts'
import { requestTo, testApp } from '../test-app.ts'
import { type InspectorFeeds, makeInspectorFeeds } from './feed.ts'
import { inspectorRoutes } from './routes.ts'
import type { History, Instances, Snapshot } from './schema.ts'
import { type InspectorService, makeInspectorService } from './service.ts'

const attempt = 1
export const TO_EXECUTING: RunEvent[] = [
  { type: 'start' },
  { type: 'accepted', attempt },
  { type: 'entered', attempt, phase: 'executing' },
]
export const TO_SUCCESS: RunEvent[] = [
  ...TO_EXECUTING,
  { type: 'executed', attempt, isBlocked: false, hasChanged: true },
  { type: 'merged', attempt },
]

/** What is made anew for each test. */
interface Under {
  sql: Sql
  inspector: InspectorService
  feeds: InspectorFeeds
  app: ReturnType<typeof testApp>
  /** Asked whether it serves; null says nothing. */
  runner: (() => Promise<void>) | null
}

/** For the whole of a test file: it registers what is done before and after its tests. */
export function inspectorUnderTest() {
  setDefaultTimeout(60_000)
  let database: TestDatabase
  let opened: Database
  const under = {} as Under

  beforeAll(async () => {
    database = await testDatabase()
    opened = openDatabase(database.url, { connections: 1, rawConnections: 6, application: 'test' })
    under.sql = opened.sql
  })
  afterAll(async () => {
    await opened.close()
    await database.drop()
  })
  beforeEach(async () => {
    await under.sql`truncate transition, run_log, run_attempt, run, trigger, pipeline, replica cascade`
    await under.sql`insert into replica (name, alive_until) values ('r', now() + interval '1 hour')`
    under.runner = async () => {}
    // Counts and what a runner said are kept for a second; each test has its own.
    under.inspector = makeInspectorService({
      sql: under.sql,
      clock: systemClock,
      runner: (signal) =>
        under.runner === null
          ? new Promise((_, reject) => signal.addEventListener('abort', reject))
          : under.runner(),
    })
    const places = makeStreamPlaces({ streamsPerProcess: 100, streamsPerClient: 100 })
    under.feeds = makeInspectorFeeds(under.inspector, places)
    under.app = testApp({ api: [inspectorRoutes(under.inspector, under.feeds)] })
  })
  afterEach(() => under.feeds.stop())

  const get = (path: string, headers: Record<string, string> = {}) =>
    requestTo(under.app, 'GET', `/api/v1/inspector/${path}`, undefined, headers)

  async function body<T>(path: string): Promise<T> {
    const response = await get(path)
    const answer = await response.json()
    expect([response.status, answer]).toEqual([200, expect.anything()])
    return answer as T
  }

  const list = (path: string) => body<typeof Instances.static>(path)
  const instance = (machine: string, id: string, query = '') =>
    body<Snapshot & { history: History }>(`${machine}/instances/${id}${query}`)

  const pipeline = (name: string) => addPipeline(under.sql, name, { landingZones: [], nudge: () => {} })

  /** Sends events to a run as its worker does, and gives each move a time of its own. */
  const move = (id: RunId, ...events: RunEvent[]) =>
    under.sql.begin(async (tx) => {
      const { runs, now } = await lockRuns(tx, [id])
      const run = runs.get(id)
      if (run === undefined) throw new Error('no run')
      for (const event of events) expect(moveRun(run, event, 'test', now)).toBe(true)
      await saveRuns(tx, runs.values(), now)
    })

  async function trigger(
    pipelineId: string,
    config: object,
    { type = 'webhook', state = 'armed' }: { type?: string; state?: 'armed' | 'disabled' } = {},
  ) {
    const id = newId()
    const snapshot = newTrigger({ enabled: state !== 'disabled', cooldownSeconds: 0 })
    await under.sql`
      insert into trigger (id, pipeline_id, type, config, snapshot, machine_version, state)
      values (${id}, ${pipelineId}, ${type}, ${under.sql.json({ ...config })},
        ${under.sql.json({ ...(store(snapshot) as object) })}, 1, ${state})`
    await under.sql`
      insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
      values ('trigger', ${id}, now(), 'created', '', ${state}, '[]', 'created')`
    return id
  }

  return { under, get, body, list, instance, pipeline, move, trigger }
}
