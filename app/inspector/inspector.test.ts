import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  setDefaultTimeout,
  test,
} from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestDatabase, testDatabase } from '../../.setup/database.ts'
import { type Database, openDatabase } from '../../drizzle/client.ts'
import { store } from '../../machines/advance.ts'
import type { RunEvent } from '../../machines/run.ts'
import { newTrigger } from '../../machines/trigger.ts'
import { addPipeline } from '../../workers/testing.ts'
import { makeEnforcement } from '../access/enforcement.ts'
import { makeResources } from '../access/resources.ts'
import { systemClock } from '../clock.ts'
import { makeStreamPlaces } from '../http/stream-places.ts'
import { newId, type RunId } from '../ids.ts'
import { openDiskStore } from '../objects/disk.ts'
import { lockRuns, moveRun, saveRuns } from '../runs/moves.ts'
import { requestTo, testApp } from '../test-app.ts'
import { type InspectorFeeds, makeInspectorFeeds } from './feed.ts'
import { inspectorRoutes } from './routes.ts'
import type { History, Instances, Snapshot } from './schema.ts'
import { makeInspectorService } from './service.ts'

setDefaultTimeout(30_000)

let database: TestDatabase
let opened: Database
let feeds: InspectorFeeds
let app: ReturnType<typeof testApp>
let limited: ReturnType<typeof makeInspectorService>
let runner: (() => Promise<void>) | null

beforeAll(async () => {
  database = await testDatabase()
  opened = openDatabase(database.url, { connections: 1, rawConnections: 6, application: 'test' })
})
afterAll(async () => {
  await opened.close()
  await database.drop()
})
beforeEach(async () => {
  await opened.sql`truncate transition, run_log, run_attempt, run, trigger, pipeline, replica cascade`
  await opened.sql`insert into replica (name, alive_until) values ('r', now() + interval '1 hour')`
  runner = async () => {}
  // Counts and what a runner said are kept for a second; each test has its own.
  const inspector = makeInspectorService({
    sql: opened.sql,
    clock: systemClock,
    runner: (signal) =>
      runner === null ? new Promise((_, reject) => signal.addEventListener('abort', reject)) : runner(),
  })
  feeds = makeInspectorFeeds(inspector, makeStreamPlaces({ streamsPerProcess: 100, streamsPerClient: 100 }))
  app = testApp({ api: [inspectorRoutes(inspector, feeds)] })
  limited = inspector
})
afterEach(() => feeds.stop())

const get = (path: string, headers: Record<string, string> = {}) =>
  requestTo(app, 'GET', `/api/v1/inspector/${path}`, undefined, headers)

async function body<T>(path: string): Promise<T> {
  const response = await get(path)
  const answer = await response.json()
  expect([response.status, answer]).toEqual([200, expect.anything()])
  return answer as T
}

const list = (path: string) => body<typeof Instances.static>(path)
type Instance = Snapshot & { history: History }
const instance = (machine: string, id: string, query = '') =>
  body<Instance>(`${machine}/instances/${id}${query}`)

const pipeline = (name: string) => addPipeline(opened.sql, name, { landingZones: [], nudge: () => {} })

/** Sends events to a run as its worker does, and gives each move a time of its own. */
const move = (id: RunId, ...events: RunEvent[]) =>
  opened.sql.begin(async (tx) => {
    const { runs, now } = await lockRuns(tx, [id])
    const run = runs.get(id)
    if (run === undefined) throw new Error('no run')
    for (const event of events) expect(moveRun(run, event, 'test', now)).toBe(true)
    await saveRuns(tx, runs.values(), now)
  })

const attempt = 1
const TO_EXECUTING: RunEvent[] = [
  { type: 'start' },
  { type: 'accepted', attempt },
  { type: 'entered', attempt, phase: 'executing' },
]
const TO_SUCCESS: RunEvent[] = [
  ...TO_EXECUTING,
  { type: 'executed', attempt, isBlocked: false, hasChanged: true },
  { type: 'merged', attempt },
]

const trigger = async (
  pipelineId: string,
  config: object,
  more: { type?: string; state?: 'disabled' } = {},
) => {
  const id = newId()
  const snapshot = newTrigger({ enabled: more.state !== 'disabled', cooldownSeconds: 0 })
  await opened.sql`
    insert into trigger (id, pipeline_id, type, config, snapshot, machine_version, state)
    values (${id}, ${pipelineId}, ${more.type ?? 'webhook'}, ${opened.sql.json({ ...config })},
      ${opened.sql.json({ ...(store(snapshot) as object) })}, 1, ${more.state ?? 'armed'})`
  await opened.sql`
    insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
    values ('trigger', ${id}, now(), 'created', '', ${more.state ?? 'armed'}, '[]', 'created')`
  return id
}

describe('machines', () => {
  test('are told as data', async () => {
    const { machines } = await body<{ machines: { machine: string; states: object[] }[] }>('machines')
    expect(machines.map(({ machine }) => machine)).toEqual(['run', 'draft', 'trigger'])
    expect(machines[0]?.states).toContainEqual(
      expect.objectContaining({
        path: 'running.executing',
        parent: 'running',
        kind: 'atomic',
        initial: false,
      }),
    )
  })

  test('are drawn, with what is in each state now', async () => {
    const { request } = await pipeline('p')
    await move(await request(), ...TO_EXECUTING)
    await request()
    const response = await get('machines/run.svg?counts=1&active=running.executing')
    expect(response.headers.get('content-type')).toStartWith('image/svg+xml')
    expect(response.headers.get('content-security-policy')).toBe(
      "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    )
    const svg = await response.text()
    expect(svg).toContain('<style>')
    expect(svg.match(/class="badge"/g)).toHaveLength(2)
    expect(await (await get('machines/run.svg?style=none')).text()).not.toContain('<style>')
  })

  test('are not drawn with states and transitions they do not have', async () => {
    for (const query of ['active=success', 'taken=x', 'detail=all', 'style=other'])
      expect([query, (await get(`machines/draft.svg?${query}`)).status]).toEqual([query, 400])
    for (const path of ['machines/other.svg', 'machines/run.png', 'other/instances'])
      expect([path, (await get(path)).status]).toEqual([path, 404])
  })
})

describe('a list', () => {
  test('has what is live first, then the newest, and counts every state', async () => {
    const [a, b] = [await pipeline('a'), await pipeline('b')]
    const [waiting, old, done] = [await a.request(), await b.request(), await b.request('webhook')]
    await move(done, ...TO_SUCCESS)
    await move(old, ...TO_EXECUTING)
    const { instances, total, total_is_exact, counts } = await list('run/instances')
    expect(instances.map(({ id, state }) => [id, state])).toEqual([
      [old, 'running.executing'],
      [waiting, 'pending.waiting'],
      [done, 'success'],
    ])
    expect(instances[2]).toMatchObject({ live: false, pipeline: 'b', note: 'webhook', attempt: 1 })
    expect([total, total_is_exact]).toEqual([3, true])
    expect(counts).toMatchObject({
      'pending.waiting': { count: 1, more: false },
      'running.executing': { count: 1, more: false },
      'running.testing': { count: 0, more: false },
      success: { count: 1, more: false },
    })
  })

  test('is paged across what is live and what has ended, each once', async () => {
    const { request } = await pipeline('p')
    const ids = []
    for (let index = 0; index < 7; index++) ids.push(await request())
    for (const id of ids.slice(0, 4)) await move(id, ...TO_SUCCESS)
    const seen: string[] = []
    for (let offset = 0; offset < 8; offset += 2) {
      const { instances, total } = await list(`run/instances?limit=2&offset=${offset}`)
      expect(total).toBe(7)
      seen.push(...instances.map(({ id }) => id))
    }
    expect(seen).toEqual([...ids.slice(4).reverse(), ...ids.slice(0, 4).reverse()])
    expect((await get('run/instances?limit=2')).headers.get('link')).toContain('offset=6>; rel="last"')
  })

  test('is narrowed by state, also by one with states in it', async () => {
    const [a, b] = [await pipeline('a'), await pipeline('b')]
    const [waiting, executing, done] = [await a.request(), await b.request(), await a.request()]
    await move(executing, ...TO_EXECUTING)
    await move(done, ...TO_SUCCESS)
    const idsOf = async (query: string) =>
      (await list(`run/instances?${query}`)).instances.map(({ id }) => id)
    expect(await idsOf('state=running')).toEqual([executing])
    expect(await idsOf('state=running.executing')).toEqual([executing])
    expect(await idsOf('state=running.testing')).toEqual([])
    expect(await idsOf('state=pending')).toEqual([waiting])
    expect(await idsOf('state=success')).toEqual([done])
    expect((await list('run/instances?state=pending')).total).toBe(1)
    const refused = await get('run/instances?state=dirty')
    expect([refused.status, await refused.text()]).toEqual([
      400,
      expect.stringContaining('state: must be one of'),
    ])
  })

  test('is searched by namespace, layer, pipeline, part of a name and the beginning of an id', async () => {
    const [orders, stock] = [await pipeline('orders'), await pipeline('stock_levels')]
    const [first, second] = [await orders.request(), await stock.request()]
    const idsOf = async (machine: string, query: string) =>
      (await list(`${machine}/instances?${query}`)).instances.map(({ id }) => id)
    for (const query of ['pipeline=orders', 'q=order', 'q=GOLD.ord', `q=${first}`, 'namespace=default&q=ord'])
      expect([query, await idsOf('run', query)]).toEqual([query, [first]])
    // The identifiers of one millisecond share their beginning.
    expect(await idsOf('run', `q=${second.slice(0, 8)}`)).toContain(second)
    for (const query of [
      'namespace=other',
      'layer=bronze',
      'q=o%25s',
      'q=k-l',
      'q=ffffffff',
      `q=${first}&pipeline=stock_levels`,
    ])
      expect([query, await idsOf('run', query)]).toEqual([query, []])
    expect(await idsOf('draft', 'q=stock')).toEqual([stock.id])
    expect(await idsOf('draft', `q=${orders.id}`)).toEqual([orders.id])
    const hook = await trigger(orders.id, {})
    for (const query of ['q=orders', `q=${hook}`, 'pipeline=orders', 'state=armed'])
      expect([query, await idsOf('trigger', query)]).toEqual([query, [hook]])
    for (const query of ['q=stock', 'state=disabled']) expect(await idsOf('trigger', query)).toEqual([])
    expect((await list('run/instances?q=order')).counts['pending.waiting']?.count).toBe(1)
  })

  test('stops counting at its limit, and says so', async () => {
    const { id, request } = await pipeline('many')
    const first = await request()
    await move(first, ...TO_SUCCESS)
    await opened.sql`
      insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones, snapshot,
        machine_version, status, attempt, waiting, created_at)
      select gen_random_uuid(), ${id}, namespace, layer, pipeline, pipeline_type, 'many', pins, landing_zones, snapshot,
        machine_version, case when n % 10 = 0 then 'failed' else status end, attempt, waiting, created_at + n * interval '1 ms'
      from run, generate_series(1, 12000) n where run.id = ${first}`
    const all = await list('run/instances?limit=1')
    expect(all.counts).toMatchObject({
      success: { count: 10_000, more: true },
      failed: { count: 1_200, more: false },
      cancelled: { count: 0, more: false },
    })
    expect([all.total, all.total_is_exact]).toEqual([11_200, false])
    const found = await list('run/instances?pipeline=many&state=failed&limit=1')
    // Of the newest 10,000, one more than which is looked at.
    expect(found.counts).toMatchObject({
      failed: { count: 1_001, more: true },
      success: { count: 9_000, more: true },
    })
    expect([found.total, found.total_is_exact]).toEqual([1_001, false])
  })

  test('of drafts shows deleted ones last', async () => {
    const [gone, kept] = [await pipeline('gone'), await pipeline('kept')]
    await opened.sql`
      update pipeline set deleted_at = now(), draft_snapshot = '{"value": "deleted", "context": {"revision": 0}, "status": "done"}'
      where id = ${gone.id}`
    const { instances, counts } = await list('draft/instances')
    expect(instances.map(({ id, state, live }) => [id, state, live])).toEqual([
      [kept.id, 'unpublished', true],
      [gone.id, 'deleted', false],
    ])
    expect(counts).toMatchObject({ unpublished: { count: 1 }, deleted: { count: 1 }, clean: { count: 0 } })
  })
})

describe('an instance', () => {
  test('has its state, its context and its history with the time in each state', async () => {
    const { request } = await pipeline('p')
    const id = await request()
    await move(id, { type: 'start' })
    await move(id, ...TO_SUCCESS.slice(1))
    await opened.sql`
      update transition t set at = r.created_at + o.n * interval '250 ms'
      from (select id, row_number() over (order by id) - 1 as n from transition) o, run r
      where t.id = o.id and r.id = t.entity_id`
    const run = await instance('run', id)
    expect(run).toMatchObject({
      state: 'success',
      live: false,
      snapshot: {
        value: 'success',
        context: { attempt: 1, lostRunners: 0, conflicts: 0, retries: 0 },
        status: 'done',
      },
      machine_version: 2,
      is_newer: false,
      waits_for: [],
      facts: { trigger: 'manual', error: null },
    })
    expect(run.history).toMatchObject({ total: 6, is_whole: true })
    const steps = run.history.steps.map(({ step, event, to, transition, duration_ms }) => [
      step,
      event,
      to,
      transition,
      duration_ms,
    ])
    expect(steps).toEqual([
      [1, 'requested', 'pending.waiting', 'created', 250],
      [2, 'start', 'pending.starting', 'pending.waiting:start:0', 250],
      [3, 'accepted', 'running.rendering', 'pending.starting:accepted:0', 250],
      [4, 'entered', 'running.executing', 'running.rendering:entered:0', 250],
      [5, 'executed', 'running.merging', 'running.executing:executed:2', 250],
      [6, 'merged', 'success', 'running.merging:merged:0', null],
    ])
    expect(run.history.steps[1]).toMatchObject({ effects: ['openAttempt', 'submitAttempt'], cause: 'test' })
  })

  test('has its history in pages, the newest first, each step with its place and its time', async () => {
    const { request } = await pipeline('p')
    const id = await request()
    await move(id, ...TO_SUCCESS)
    const newest = await instance('run', id, '?limit=2')
    expect(newest.history.steps.map(({ step }) => step)).toEqual([5, 6])
    const before = newest.history.steps[0]?.id
    const earlier = await instance('run', id, `?limit=3&before=${before}`)
    expect(earlier.history.steps.map(({ step }) => step)).toEqual([2, 3, 4])
    expect(earlier.history.steps.at(-1)?.duration_ms).toBe(0)
    expect((await instance('run', id, `?before=${before}`)).history.steps.map(({ step }) => step)).toEqual([
      1, 2, 3, 4,
    ])
  })

  test('of a draft begins with its creation, which leaves no row', async () => {
    const { id } = await pipeline('p')
    expect((await instance('draft', id)).history).toMatchObject({
      total: 1,
      is_whole: true,
      steps: [
        { id: 0, step: 1, event: 'created', to: 'unpublished', transition: 'created', duration_ms: null },
      ],
    })
    await opened.sql`
      insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
      values ('draft', ${id}, now(), 'published', 'unpublished', 'clean', '[]', 'publish')`
    expect((await instance('draft', id)).history.steps).toMatchObject([
      { id: 0, step: 1, event: 'created', to: 'unpublished' },
      { step: 2, event: 'published', to: 'clean', transition: 'unpublished:published:0' },
    ])
  })

  test('says that its history is not kept any more', async () => {
    const { id, request } = await pipeline('p')
    const run = await request()
    await move(run, ...TO_EXECUTING)
    await opened.sql`delete from transition where event = 'requested'`
    expect((await instance('run', run)).history).toMatchObject({ total: 3, is_whole: false })
    await opened.sql`delete from transition`
    expect((await instance('run', run)).history).toEqual({ steps: [], total: 0, is_whole: false })
    await opened.sql`
      insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
      values ('draft', ${id}, now(), 'fileWritten', 'clean', 'dirty', '[]', 'files')`
    expect((await instance('draft', id)).history).toMatchObject({ total: 1, is_whole: false })
  })

  test('that is gone is 404 and says why it may be', async () => {
    for (const path of [
      `run/instances/${newId()}`,
      `draft/instances/${newId()}`,
      `trigger/instances/${newId()}/events`,
    ]) {
      const response = await get(path)
      expect([response.status, await response.text()]).toEqual([404, expect.stringContaining('retention')])
    }
    expect((await get('run/instances/x')).status).toBe(404)
  })

  test('that a newer program wrote is shown as it is stored', async () => {
    const { request } = await pipeline('p')
    const id = await request()
    await opened.sql`update run set machine_version = 99 where id = ${id}`
    expect(await instance('run', id)).toMatchObject({
      is_newer: true,
      machine_version: 99,
      state: 'pending.waiting',
      waits_for: [{ code: 'newer_program' }],
    })
  })

  test('of a webhook says nothing of its token', async () => {
    const { id } = await pipeline('p')
    const hook = await trigger(id, { token_hash: 'f'.repeat(64) })
    expect(JSON.stringify(await instance('trigger', hook))).not.toContain('ffff')
  })
})

describe('what a run waits for', () => {
  const reasons = async (id: string) =>
    (await instance('run', id)).waits_for.map(({ code, run_id }) => [code, run_id])

  test('a runner with a free place, when nothing else holds it up', async () => {
    const [a, b] = [await pipeline('a'), await pipeline('b')]
    await a.request()
    const run = await instance('run', await b.request())
    expect(run.waits_for).toMatchObject([
      { code: 'free_place', text: expect.stringContaining('One older run of other pipelines has') },
    ])
  })

  test('the older runs of its pipeline, and the one that is running', async () => {
    const { request } = await pipeline('p')
    const [running, next, last] = [await request(), await request(), await request()]
    await move(running, ...TO_EXECUTING)
    expect(await reasons(next)).toEqual([['pipeline_busy', running]])
    expect(await reasons(last)).toEqual([
      ['pipeline_busy', running],
      ['older_runs', next],
    ])
  })

  test('the end of its back-off', async () => {
    const id = await (await pipeline('p')).request()
    await opened.sql`update run set not_before = clock_timestamp() + interval '1 minute' where id = ${id}`
    const [first] = (await instance('run', id)).waits_for
    expect(first).toMatchObject({ code: 'not_before', until: expect.stringMatching(/Z$/) })
  })

  test('a runner, when none answers or answers in time', async () => {
    const id = await (await pipeline('p')).request()
    runner = () => Promise.reject(new Error('refused'))
    expect(await reasons(id)).toEqual([['no_runner', null]])
  })

  test('a runner that is silent counts as none', async () => {
    const id = await (await pipeline('p')).request()
    runner = null
    expect(await reasons(id)).toEqual([['no_runner', null]])
  })

  test('a replica, when none is alive, and a follower that is gone', async () => {
    const { request } = await pipeline('p')
    const [running, waiting] = [await request(), await request()]
    await move(running, ...TO_EXECUTING)
    expect(await reasons(running)).toEqual([['not_followed', null]])
    await opened.sql`update run set follower = 'r' where id = ${running}`
    expect(await reasons(running)).toEqual([])
    await opened.sql`delete from replica`
    expect((await reasons(waiting))[0]).toEqual(['no_dispatcher', null])
  })
})

describe('what a trigger waits for', () => {
  const reasons = async (id: string) => (await instance('trigger', id)).waits_for

  test('what it hears, by its type', async () => {
    const { id } = await pipeline('p')
    const zone = { namespace: 'ns', zone_name: 'drop' }
    const of = async (type: string, config: object) => (await reasons(await trigger(id, config, { type })))[0]
    expect(await of('webhook', {})).toMatchObject({ code: 'webhook' })
    expect(await of('landing_zone_upload', zone)).toMatchObject({
      text: 'An upload to landing zone ns.drop.',
    })
    expect(await of('file_pattern', { ...zone, pattern: '*.csv' })).toMatchObject({
      text: expect.stringContaining('*.csv'),
    })
    expect(await of('pipeline_success', { namespace: 'a', layer: 'gold', pipeline: 'b' })).toMatchObject({
      text: 'A success of a.gold.b.',
    })
    expect(await of('cron', { cron_expr: '0 3 * * *' })).toMatchObject({
      code: 'due',
      text: expect.stringContaining('0 3 * * *'),
    })
  })

  test('somebody to enable it, its cooldown, a publish', async () => {
    const { id } = await pipeline('p')
    expect(await reasons(await trigger(id, {}, { state: 'disabled' }))).toMatchObject([{ code: 'disabled' }])
    const cooling = await trigger(id, {})
    await opened.sql`
      update trigger set state = 'cooling', cooling_until = '2040-01-01T00:00:00Z',
        snapshot = '{"value": "cooling", "context": {"cooldownSeconds": 60, "firedAt": 0}, "status": "active"}' where id = ${cooling}`
    await opened.sql`update pipeline set published_version = null where id = ${id}`
    expect(await reasons(cooling)).toMatchObject([
      { code: 'never_published' },
      { code: 'cooldown', until: '2040-01-01T00:00:00.000Z' },
      { code: 'webhook' },
    ])
  })

  test('the dependencies that have nothing new', async () => {
    const [p, up, down] = [await pipeline('p'), await pipeline('up'), await pipeline('down')]
    const [used, fresh] = [await up.request(), await down.request()]
    await move(used, ...TO_SUCCESS)
    await move(fresh, ...TO_SUCCESS)
    const id = await trigger(p.id, { cron_expr: '* * * * *', dependencies: [] }, { type: 'cron_dependency' })
    await opened.sql`
      insert into trigger_dependency (trigger_id, source, used_run)
      values (${id}, 'pipeline:default.gold.up', ${used}), (${id}, 'pipeline:default.gold.down', null),
        (${id}, 'pipeline:default.gold.absent', null)`
    const news = ['A new success of default.gold.absent.', 'A new success of default.gold.up.']
    await opened.sql`update trigger set due_at = '2040-01-01T00:00:00Z' where id = ${id}`
    expect((await reasons(id)).map(({ text }) => text)).toEqual(['The next due time of * * * * *.', ...news])
    await opened.sql`update trigger set due_at = '2020-01-01T00:00:00Z' where id = ${id}`
    expect((await reasons(id)).map(({ text }) => text)).toEqual(news)
  })
})

describe('an export', () => {
  test('has the statechart, the instance and its history', async () => {
    const { request } = await pipeline('p')
    const id = await request()
    await move(id, ...TO_SUCCESS)
    const response = await get(`run/instances/${id}/export.json`)
    expect(response.headers.get('content-disposition')).toBe(`attachment; filename="run-${id}.json"`)
    expect(await response.json()).toMatchObject({
      definition: { machine: 'run' },
      instance: { id, state: 'success' },
      history: { total: 6 },
    })
  })

  test('is drawn as it was after a step', async () => {
    const { request } = await pipeline('p')
    const id = await request()
    await move(id, ...TO_SUCCESS)
    const activeIn = async (query: string) =>
      [
        ...(await (await get(`run/instances/${id}/export.svg${query}`)).text()).matchAll(
          /class="(?:state \w+|compound) active" data-state="([^"]+)"/g,
        ),
      ].map(([, path]) => path)
    expect(await activeIn('')).toEqual(['success'])
    const { steps } = (await instance('run', id)).history
    expect(await activeIn(`?step=${steps[3]?.id}`)).toEqual(['running', 'running.executing'])
    expect((await get(`run/instances/${id}/export.svg?step=999999999`)).status).toBe(404)
  })
})

/** Reads events of a stream until as many as wanted have come. */
async function events(response: Response, wanted: number) {
  expect(response.headers.get('content-type')).toStartWith('text/event-stream')
  const reader = (response.body as ReadableStream<Uint8Array>).getReader()
  const decoder = new TextDecoder()
  let text = ''
  const found = () =>
    [...text.matchAll(/(?:id: (\d+)\n)?event: (\w+)\ndata: (.*)\n\n/g)].map(([, id, name, data]) => ({
      id: id === undefined ? null : Number(id),
      name,
      data: JSON.parse(data ?? ''),
    }))
  while (found().length < wanted) {
    const { done, value } = await reader.read()
    if (done) break
    text += decoder.decode(value)
  }
  return {
    found: found(),
    more: async () => {
      for (;;) {
        const { done, value } = await reader.read()
        if (done) return found()
        text += decoder.decode(value)
      }
    },
    cancel: () => reader.cancel(),
  }
}

describe('a stream', () => {
  test('of a run tells each step as it is made, and ends with the run', async () => {
    const { request } = await pipeline('p')
    const id = await request()
    const stream = await events(await get(`run/instances/${id}/events`), 2)
    expect(stream.found).toMatchObject([
      { name: 'transition', data: { event: 'requested', step: 1 } },
      { name: 'snapshot', data: { state: 'pending.waiting', live: true } },
    ])
    await move(id, ...TO_EXECUTING)
    feeds.wakeRun(id)
    await move(id, { type: 'cancelRequested' })
    feeds.wakeRun(id)
    const all = await stream.more()
    const steps = all.filter(({ name }) => name === 'transition')
    expect(steps.map(({ data }) => data.event)).toEqual([
      'requested',
      'start',
      'accepted',
      'entered',
      'cancelRequested',
    ])
    expect(steps.every(({ id: eventId, data }) => eventId === data.id)).toBe(true)
    expect(all.at(-1)).toMatchObject({ name: 'snapshot', data: { state: 'cancelled', live: false } })
  })

  test('of a run that has ended tells it all and ends', async () => {
    const { request } = await pipeline('p')
    const id = await request()
    await move(id, ...TO_SUCCESS)
    const { found, more } = await events(await get(`run/instances/${id.toUpperCase()}/events`), 7)
    expect(await more()).toHaveLength(7)
    expect(found.map(({ name }) => name)).toEqual([...Array(6).fill('transition'), 'snapshot'])
    const after = found[4]?.id
    const resumed = await events(
      await get(`run/instances/${id}/events`, { 'last-event-id': String(after) }),
      2,
    )
    expect(resumed.found.map(({ name, data }) => [name, data.step ?? data.state])).toEqual([
      ['transition', 6],
      ['snapshot', 'success'],
    ])
  })

  test('of a draft or a trigger finds out by itself', async () => {
    const { id } = await pipeline('p')
    const stream = await events(await get(`draft/instances/${id}/events`), 1)
    await opened.sql`
      insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
      values ('draft', ${id}, now(), 'published', 'unpublished', 'clean', '[]', 'publish')`
    await opened.sql`update pipeline set draft_snapshot = '{"value": "deleted", "context": {}, "status": "done"}'`
    expect((await stream.more()).slice(1)).toMatchObject([
      { name: 'transition', data: { event: 'published', step: 2 } },
      { name: 'snapshot', data: { state: 'deleted', live: false } },
    ])
  })

  test('says when its instance is removed, and ends', async () => {
    const { request } = await pipeline('p')
    const id = await request()
    const stream = await events(await get(`run/instances/${id}/events`), 2)
    await opened.sql`delete from run`
    feeds.wakeRun(id)
    expect((await stream.more()).at(-1)).toMatchObject({ name: 'gone' })
  })

  test('of a list tells that it has changed, also what nobody said', async () => {
    const { request } = await pipeline('p')
    const [runs, drafts] = [await get('run/events'), await get('draft/events')]
    const changed = events(runs, 1)
    feeds.wakeRun(await request())
    expect((await changed).found).toEqual([{ id: null, name: 'changed', data: { machine: 'run' } }])
    await (await changed).cancel()
    const { id } = await pipeline('other')
    const told = events(drafts, 1)
    const write = setInterval(
      () =>
        void opened.sql`
          insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
          values ('draft', ${id}, now(), 'fileWritten', 'unpublished', 'unpublished', '[]', 'files')`.execute(),
      300,
    )
    try {
      expect((await told).found).toMatchObject([{ data: { machine: 'draft' } }])
    } finally {
      clearInterval(write)
      await (await told).cancel()
    }
  })
})

test('all of it takes the key, where there is one', async () => {
  const inspector = makeInspectorService({ sql: opened.sql, clock: systemClock, runner: null })
  const locked = testApp({ api: [inspectorRoutes(inspector, feeds)], config: { apiKey: 'secret-key' } })
  for (const path of [
    'machines',
    'machines/run.svg',
    'run/instances',
    'run/events',
    `run/instances/${newId()}/export.json`,
  ]) {
    const address = `/api/v1/inspector/${path}`
    expect([path, (await requestTo(locked, 'GET', address)).status]).toEqual([path, 401])
  }
  const allowed = await requestTo(locked, 'GET', '/api/v1/inspector/machines', undefined, {
    'x-api-key': 'secret-key',
  })
  expect(allowed.status).toBe(200)
  for (const path of ['/inspector', '/inspector/main.js'])
    expect([path, (await requestTo(locked, 'GET', path)).status]).toEqual([path, 200])
})

test('the stream of an instance ends for who may not see it any more, and goes on for others', async () => {
  const { sql } = opened
  const root = await mkdtemp(join(tmpdir(), 'sluice-inspector-'))
  const objects = await openDiskStore(root, systemClock)
  const inspector = makeInspectorService({ sql, clock: systemClock, runner: null })
  const places = makeStreamPlaces({ streamsPerProcess: 10, streamsPerClient: 10 })
  const often = makeInspectorFeeds(inspector, places, { heartbeatMs: 10 })
  const verify = (userId: string) => ({ kind: 'user' as const, userId, name: userId, roles: [] })
  const pro = testApp({
    config: { edition: 'pro', apiKey: 'a-key' },
    plugins: { auth: { tokens: { verify }, authorize: () => true }, describe: async () => ({}) },
    ownership: { resources: makeResources({ sql, objects }), enforcement: makeEnforcement({ sql }) },
    api: [inspectorRoutes(inspector, often)],
  })
  try {
    const { id: pipelineId } = await pipeline('lent')
    await sql`update pipeline set owner = 'ann' where id = ${pipelineId}`
    await sql`
      insert into access_grant (id, grantor_id, grantee_id, resource_type, resource_id, permission)
      values (${newId()}, 'ann', 'bob', 'pipeline', ${pipelineId}, 'read')`
    const path = `/api/v1/inspector/trigger/instances/${await trigger(pipelineId, {})}/events`
    const follow = async (user: string) => {
      const response = await requestTo(pro, 'GET', path, undefined, { authorization: `Bearer ${user}` })
      if (response.body === null) throw new Error('no stream')
      return response.body.pipeThrough(new TextDecoderStream()).getReader()
    }
    /** Until a heartbeat, or the end. */
    const next = async (stream: Awaited<ReturnType<typeof follow>>) => {
      for (;;) {
        const { done, value } = await stream.read()
        if (done) return 'ended'
        if (value.includes(': still here')) return 'goes on'
      }
    }
    const [anns, bobs] = [await follow('ann'), await follow('bob')]
    expect([await next(anns), await next(bobs)]).toEqual(['goes on', 'goes on'])
    await sql`delete from access_grant where resource_id = ${pipelineId}`
    // What was asked before that may still be answered; twenty heartbeats later nothing is.
    const heard: string[] = []
    while (heard.at(-1) !== 'ended' && heard.length < 20) heard.push(await next(bobs))
    expect([heard.at(-1), await next(anns)]).toEqual(['ended', 'goes on'])
    await anns.cancel()
  } finally {
    often.stop()
    await objects.close()
    await rm(root, { recursive: true, force: true })
  }
})

describe('to who sees only some pipelines', () => {
  const MACHINES = ['run', 'draft', 'trigger'] as const
  const sees = (pipelines: string[]) => ({ pipelines, zones: [], namespaces: [] })

  test('lists, totals, counts and drawings tell nothing of the others', async () => {
    const [own, other] = [await pipeline('own'), await pipeline('other-canary')]
    for (const { request } of [own, other, other]) await request()
    for (const { id } of [own, other]) await trigger(id, {})
    for (const seen of [[own.id], []])
      for (const machine of MACHINES)
        for (const query of [{}, { q: 'canary' }, { q: other.id }, { pipeline: 'other-canary' }]) {
          const expected = Object.keys(query).length === 0 ? seen.length : 0
          const told = await limited.list(machine, query, sees(seen))
          const counted = Object.values(told.counts).reduce((sum, { count }) => sum + count, 0)
          const figures = [told.total, told.instances.length, counted]
          expect([machine, query, ...figures]).toEqual([machine, query, expected, expected, expected])
          expect(JSON.stringify(told)).not.toContain('canary')
        }
    const badges = async (seen?: string[]) => {
      const drawn = await limited.draw('run', { counts: '1' }, seen && sees(seen))
      return [...drawn.matchAll(/class="badge"[\s\S]*?>(\d+)</g)].map(([, count]) => count)
    }
    expect([await badges([own.id]), await badges()]).toEqual([['1'], ['3']])
  })

  test('who sees everything finds what they do not', async () => {
    await pipeline('other-canary')
    for (const query of [{}, { q: 'canary' }, { pipeline: 'other-canary' }])
      expect(JSON.stringify(await limited.list('draft', query))).toContain('other-canary')
  })

  test('a list is told at its own pace, whatever moves', async () => {
    const blind = firstEvent(feeds.followList('draft', 'a', true)).then((told) => ['blind', told])
    const seeing = firstEvent(feeds.followList('draft', 'b')).then((told) => ['seeing', told])
    const changed = 'event: changed\ndata: {"machine":"draft"}\n\n'
    expect(await Promise.race([blind, seeing])).toEqual(['seeing', expect.stringContaining(changed)])
    expect(await blind).toEqual(['blind', expect.stringContaining(changed)])
  })

  async function firstEvent(stream: ReadableStream<Uint8Array> | null) {
    let told = ''
    if (stream !== null)
      for await (const chunk of stream) {
        told += new TextDecoder().decode(chunk)
        if (told.includes('event:')) break
      }
    return told
  }

  test('what waits does not say how many others wait', async () => {
    const [own, other] = [await pipeline('own'), await pipeline('other')]
    await other.request()
    const id = await own.request()
    const discreet = makeInspectorService({
      sql: opened.sql,
      clock: systemClock,
      tellsOfOthers: false,
      runner: async () => {},
    })
    const waits = async (from: typeof discreet) => (await from.snapshot('run', id))?.waits_for[0]?.text
    expect([await waits(discreet), await waits(limited)]).toEqual([
      'A runner with a free place.',
      'A runner with a free place; One older run of other pipelines has waited longer.',
    ])
  })
})
