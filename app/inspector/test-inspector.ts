// An inspector with a database per test file, which contains only the runs, drafts and triggers of the current test.

import { afterEach, beforeEach, expect } from 'bun:test'
import assert from 'node:assert/strict'
import type { Sql } from '../../drizzle/client.ts'
import { store } from '../../machines/advance.ts'
import type { RunEvent } from '../../machines/run.ts'
import { newTrigger } from '../../machines/trigger.ts'
import { requestTo, testApp } from '../composition/test-app.ts'
import { systemClock } from '../core/clock.ts'
import { newId, type RunId } from '../core/ids.ts'
import { lockRuns, moveRun, saveRuns } from '../runs/store/moves.ts'
import { useRuns } from '../runs/test-runs.ts'
import { makeStreamSlots } from '../wire/stream-slots.ts'
import { type InspectorFeeds, makeInspectorFeeds } from './feed.ts'
import { inspectorRoutes } from './routes.ts'
import type { History, Instances, MachineName, Snapshot } from './schema.ts'
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

/** Created again for each test. */
interface Under {
  sql: Sql
  inspector: InspectorService
  feeds: InspectorFeeds
  app: ReturnType<typeof testApp>
  /** The health check of the runner; null: the check never answers. */
  runner: (() => Promise<void>) | null
}

/** Set-up of a whole test file: registers hooks before and after its tests. */
export function inspectorUnderTest() {
  const { opened, pipelineNamed: pipeline } = useRuns(6)
  const under = {} as Under

  beforeEach(async () => {
    under.sql = opened.sql
    await under.sql`truncate transition, run_log, run_attempt, run, trigger, pipeline, replica cascade`
    await under.sql`insert into replica (name, alive_until) values ('r', now() + interval '1 hour')`
    under.runner = async () => {}
    // Counts and runner checks are cached for a second, so each test needs its own service.
    under.inspector = makeInspectorService({
      sql: under.sql,
      clock: systemClock,
      runner: (signal) =>
        under.runner === null
          ? new Promise((_, reject) => signal.addEventListener('abort', reject))
          : under.runner(),
    })
    const places = makeStreamSlots({ streamsPerProcess: 100, streamsPerClient: 100 })
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

  /** Sends events to a run as its worker does. The moves of one call share one time. */
  const move = (id: RunId, ...events: RunEvent[]) =>
    under.sql.begin(async (tx) => {
      const { runs, now } = await lockRuns(tx, [id])
      const run = runs.get(id)
      assert(run)
      for (const event of events) expect(moveRun(run, event, 'test', now)).toBe(true)
      await saveRuns(tx, runs.values(), now)
    })

  /** A run of the pipeline `p` after these events. */
  async function run(...events: RunEvent[]) {
    const id = await (await pipeline('p')).request()
    if (events.length > 0) await move(id, ...events)
    return id
  }

  /** Inserts a history row without a move. */
  const step = (machine: MachineName, id: string, event: string, from: string, to: string) => under.sql`
    insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
    values (${machine}, ${id}, now(), ${event}, ${from}, ${to}, '[]', 'test')`

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
    await step('trigger', id, 'created', '', state)
    return id
  }

  return { under, get, body, list, instance, pipeline, run, move, step, trigger }
}
