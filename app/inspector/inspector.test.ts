import { describe, expect, test } from 'bun:test'
import { requestTo, testApp } from '../composition/test-app.ts'
import { systemClock } from '../core/clock.ts'
import { newId } from '../core/ids.ts'
import { inspectorRoutes } from './routes.ts'
import { makeInspectorService } from './service.ts'
import { inspectorUnderTest, TO_EXECUTING, TO_SUCCESS } from './test-inspector.ts'

const { under, get, body, list, pipeline, move, trigger } = inspectorUnderTest()

describe('machines', () => {
  test('are served as data', async () => {
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

  test('are drawn with the number of instances in each state', async () => {
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

  test('refuse drawings with unknown states, transitions or options', async () => {
    for (const query of ['active=success', 'taken=x', 'detail=all', 'style=other'])
      expect([query, (await get(`machines/draft.svg?${query}`)).status]).toEqual([query, 400])
    for (const path of ['machines/other.svg', 'machines/run.png', 'other/instances'])
      expect([path, (await get(path)).status]).toEqual([path, 404])
  })
})

describe('a list', () => {
  test('has live instances first, then the newest, and counts every state', async () => {
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

  test('has each live and ended instance once across its pages', async () => {
    const { request } = await pipeline('p')
    const ids = []
    for (let index = 0; index < 7; index++) ids.push(await request())
    for (const id of ids.slice(0, 4)) await move(id, ...TO_SUCCESS)
    const listedIds: string[] = []
    for (let offset = 0; offset < 8; offset += 2) {
      const { instances, total } = await list(`run/instances?limit=2&offset=${offset}`)
      expect(total).toBe(7)
      listedIds.push(...instances.map(({ id }) => id))
    }
    expect(listedIds).toEqual([...ids.slice(4).reverse(), ...ids.slice(0, 4).reverse()])
    expect((await get('run/instances?limit=2')).headers.get('link')).toContain('offset=6>; rel="last"')
  })

  test('is filtered by a state or by a compound state', async () => {
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

  test('is searched by names, parts of names and beginnings of ids', async () => {
    const [orders, stock] = [await pipeline('orders'), await pipeline('stock_levels')]
    const [first, second] = [await orders.request(), await stock.request()]
    const idsOf = async (machine: string, query: string) =>
      (await list(`${machine}/instances?${query}`)).instances.map(({ id }) => id)
    for (const query of ['pipeline=orders', 'q=order', 'q=GOLD.ord', `q=${first}`, 'namespace=default&q=ord'])
      expect([query, await idsOf('run', query)]).toEqual([query, [first]])
    // Ids of one millisecond share their beginning.
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

  test('reports when counting stops at its limit', async () => {
    const { id, request } = await pipeline('many')
    const first = await request()
    await move(first, ...TO_SUCCESS)
    await under.sql`
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
    // Only the newest 10,001 runs are read: one more than the limit.
    expect(found.counts).toMatchObject({
      failed: { count: 1_001, more: true },
      success: { count: 9_000, more: true },
    })
    expect([found.total, found.total_is_exact]).toEqual([1_001, false])
  })

  test('shows deleted drafts last', async () => {
    const [gone, kept] = [await pipeline('gone'), await pipeline('kept')]
    await under.sql`
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

test('all routes but the page require the API key', async () => {
  const inspector = makeInspectorService({ sql: under.sql, clock: systemClock, runner: null })
  const locked = testApp({ api: [inspectorRoutes(inspector, under.feeds)], config: { apiKey: 'secret-key' } })
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
})
