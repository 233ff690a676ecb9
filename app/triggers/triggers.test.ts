import { beforeAll, describe, expect, test } from 'bun:test'
import { requestTo, testApp } from '../composition/test-app.ts'
import { systemClock } from '../core/clock.ts'
import type { PipelineId } from '../core/ids.ts'
import { makeLandingZoneService } from '../landing-zones/service.ts'
import { useParts } from '../pipelines/test-parts.ts'
import { webhookRoutes } from '../webhooks/routes.ts'
import { makeWebhookService } from '../webhooks/service.ts'
import { triggerRoutes } from './routes.ts'
import { COOLDOWN_SECONDS_MAX } from './schema.ts'
import { makeTriggerService, TRIGGERS_PER_PIPELINE, type TriggerService } from './service.ts'

const parts = useParts()
let triggers: TriggerService
let app: ReturnType<typeof testApp>
beforeAll(async () => {
  triggers = makeTriggerService(parts.deps)
  const webhooks = makeWebhookService({ ...parts.deps, nudge: () => {} })
  app = testApp({
    api: [triggerRoutes(triggers, { shownUrl: null, mayWrite: async () => true })],
    ownCredential: [webhookRoutes(webhooks)],
  })
})

let made = 0
async function newPipeline() {
  const ref = { namespace: 'default', layer: 'bronze' as const, name: `p${made++}` }
  await parts.pipelines().create(ref)
  return {
    ref,
    name: `default.bronze.${ref.name}`,
    url: `/api/v1/pipelines/default/bronze/${ref.name}/triggers`,
  }
}
async function newZone() {
  const name = `z${made++}`
  await parts.sql`insert into landing_zone (id, namespace, name) values (${parts.deps.newId()}, 'default', ${name})`
  return { namespace: 'default', zone_name: name }
}

type Body = Record<string, unknown>
async function send(method: string, url: string, body?: object) {
  const response = await requestTo(app, method, url, body)
  const text = await response.text()
  return {
    status: response.status,
    headers: response.headers,
    body: (text === '' ? {} : JSON.parse(text)) as Body,
  }
}
const create = (url: string, type: string, config: unknown, more: object = {}) =>
  send('POST', url, { type, config, ...more })
const refusal = ({ status, body }: { status: number; body: Body }) => {
  const { error } = body as { error?: { code: string; message: string } }
  return [status, error?.code, fieldIn(error?.message ?? '')]
}
/** Messages are `field: reason` or name an unknown field. */
const fieldIn = (message: string) => /^unknown field `([^`]+)`/.exec(message)?.[1] ?? message.split(':')[0]
const history = (id: unknown) =>
  parts.sql<{ event: string; from: string; to: string }[]>`
    select event, "from", "to" from transition where machine = 'trigger' and entity_id = ${String(id)} order by id`
const rowOf = async (id: unknown) => (await parts.sql`select * from trigger where id = ${String(id)}`)[0]

describe('refuses an invalid trigger and names the field', () => {
  test.each<[string, unknown, string]>([
    ['landing_zone_upload', undefined, 'config'],
    ['webhook', undefined, 'config'],
    ['webhook', null, 'config'],
    ['webhook', 3, 'config'],
    ['webhook', [], 'config'],
    ['webhook', { token_hash: 'x' }, 'config.token_hash'],
    ['landing_zone_upload', {}, 'config.namespace'],
    ['landing_zone_upload', { namespace: 'default' }, 'config.zone_name'],
    ['landing_zone_upload', { namespace: 'Default', zone_name: 'z' }, 'config.namespace'],
    ['landing_zone_upload', { namespace: 'default', zone_name: '../z' }, 'config.zone_name'],
    ['landing_zone_upload', { namespace: 'default', zone_name: 'z', pattern: '*' }, 'config.pattern'],
    ['cron', {}, 'config.cron_expr'],
    ['cron', { cron_expr: 5 }, 'config.cron_expr'],
    ['cron', { cron_expr: '' }, 'config.cron_expr'],
    ['cron', { cron_expr: '* * * *' }, 'config.cron_expr'],
    ['cron', { cron_expr: '* * * * * *' }, 'config.cron_expr'],
    ['cron', { cron_expr: '@hourly' }, 'config.cron_expr'],
    ['cron', { cron_expr: '60 * * * *' }, 'config.cron_expr'],
    ['cron', { cron_expr: '0 0 30 2 *' }, 'config.cron_expr'],
    ['cron', { cron_expr: '* * * * *', dependencies: [] }, 'config.dependencies'],
    ['pipeline_success', { namespace: 'default', layer: 'iron', pipeline: 'p' }, 'config.layer'],
    ['pipeline_success', { namespace: 'default', layer: 'gold', pipeline: 'P' }, 'config.pipeline'],
    ['pipeline_success', { namespace: 'default', layer: 'gold' }, 'config.pipeline'],
    ['file_pattern', { namespace: 'default', zone_name: 'z' }, 'config.pattern'],
    ['file_pattern', { namespace: 'default', zone_name: 'z', pattern: '' }, 'config.pattern'],
    ['file_pattern', { namespace: 'default', zone_name: 'z', pattern: '[a' }, 'config.pattern'],
    ['file_pattern', { namespace: 'default', zone_name: 'z', pattern: '[z-a]' }, 'config.pattern'],
    ['file_pattern', { namespace: 'default', zone_name: 'z', pattern: '[[:alpha:]]*' }, 'config.pattern'],
    ['cron_dependency', { cron_expr: '* * * * *' }, 'config.dependencies'],
    ['cron_dependency', { cron_expr: '* * * * *', dependencies: [] }, 'config.dependencies'],
    ['cron_dependency', { cron_expr: '* * * * *', dependencies: 'a' }, 'config.dependencies'],
    [
      'cron_dependency',
      { cron_expr: '* * * * *', dependencies: ['silver.flights'] },
      'config.dependencies.0',
    ],
    [
      'cron_dependency',
      { cron_expr: '* * * * *', dependencies: ['default.iron.a'] },
      'config.dependencies.0',
    ],
    ['cron_dependency', { cron_expr: 'x * * * *', dependencies: ['default.gold.a'] }, 'config.cron_expr'],
    [
      'cron_dependency',
      { cron_expr: '* * * * *', dependencies: ['default.gold.a', 'default.gold.a'] },
      'config.dependencies',
    ],
    [
      'cron_dependency',
      { cron_expr: '* * * * *', dependencies: Array.from({ length: 51 }, (_, n) => `default.gold.p${n}`) },
      'config.dependencies',
    ],
    ['upload', {}, 'type'],
  ])('%s with %j', async (type, config, field) => {
    const { url } = await newPipeline()
    expect(refusal(await create(url, type, config))).toEqual([400, 'INVALID_ARGUMENT', field])
    expect((await send('GET', url)).body).toEqual({ triggers: [], total: 0 })
  })

  test.each<[object, string]>([
    [{ cooldown_seconds: -1 }, 'cooldown_seconds'],
    [{ cooldown_seconds: 1.5 }, 'cooldown_seconds'],
    [{ cooldown_seconds: COOLDOWN_SECONDS_MAX + 1 }, 'cooldown_seconds'],
    [{ enabled: 'perhaps' }, 'enabled'],
    [{ type: undefined }, 'type'],
  ])('refuses a trigger with %j', async (more, field) => {
    const { url } = await newPipeline()
    expect(refusal(await create(url, 'webhook', {}, more))).toEqual([400, 'INVALID_ARGUMENT', field])
  })

  test('refuses one trigger more than the limit per pipeline', async () => {
    const { url, ref } = await newPipeline()
    const { body } = await create(url, 'cron', { cron_expr: '* * * * *' })
    await parts.sql`
      insert into trigger (id, pipeline_id, type, config, snapshot, machine_version, state)
      select gen_random_uuid(), pipeline_id, type, config, snapshot, machine_version, 'disabled'
      from trigger, generate_series(2, ${TRIGGERS_PER_PIPELINE - 1}) where id = ${String(body.id)}`
    const two = await Promise.all([1, 2].map(() => create(url, 'cron', { cron_expr: '* * * * *' })))
    expect(two.map(({ status }) => status).sort()).toEqual([201, 400])
    expect((await triggers.list(ref, { limit: 1, offset: 0 })).total).toBe(TRIGGERS_PER_PIPELINE)
  })
})

describe('missing resources are 404', () => {
  test('a missing source is 404 naming the field, on create and update', async () => {
    const { url, name, ref } = await newPipeline()
    const zone = await newZone()
    const nowhere = { namespace: 'default', zone_name: 'nowhere' }
    const cases: [string, object, object, string][] = [
      ['landing_zone_upload', zone, nowhere, 'config.zone_name'],
      ['file_pattern', { ...zone, pattern: '*' }, { ...nowhere, pattern: '*' }, 'config.zone_name'],
      [
        'pipeline_success',
        { namespace: 'default', layer: 'bronze', pipeline: ref.name },
        { namespace: 'default', layer: 'gold', pipeline: ref.name },
        'config.pipeline',
      ],
      [
        'cron_dependency',
        { cron_expr: '* * * * *', dependencies: [name] },
        { cron_expr: '* * * * *', dependencies: [name, 'default.gold.nobody'] },
        'config.dependencies.1',
      ],
    ]
    for (const [type, good, bad, field] of cases) {
      expect(refusal(await create(url, type, bad))).toEqual([404, 'NOT_FOUND', field])
      const { body } = await create(url, type, good)
      expect(refusal(await send('PUT', `${url}/${body.id}`, { config: bad }))).toEqual([
        404,
        'NOT_FOUND',
        field,
      ])
      expect((await send('GET', `${url}/${body.id}`)).body).toEqual(body)
    }
  })

  test('an unknown pipeline, trigger or id is 404', async () => {
    const [one, other] = [await newPipeline(), await newPipeline()]
    const { body } = await create(one.url, 'webhook', {})
    const nobody = '/api/v1/pipelines/default/gold/nobody/triggers'
    expect((await create(nobody, 'webhook', {})).status).toBe(404)
    expect((await send('GET', nobody)).status).toBe(404)
    for (const url of [
      `${other.url}/${body.id}`,
      `${one.url}/${parts.deps.newId()}`,
      `${one.url}/1`,
      `${nobody}/${body.id}`,
    ])
      for (const method of ['GET', 'PUT', 'DELETE'])
        expect([method, url, (await send(method, url, method === 'PUT' ? {} : undefined)).status]).toEqual([
          method,
          url,
          404,
        ])
  })

  test("a lookup bound to an old pipeline never reaches its successor's triggers", async () => {
    const { url, ref } = await newPipeline()
    const { body } = await create(url, 'webhook', {})
    const id = String(body.id)
    const bound = { ...ref, boundTo: parts.deps.newId() }
    for (const ask of [
      () => triggers.get(bound, id),
      () => triggers.update(bound, id, { enabled: false }),
      () => triggers.remove(bound, id),
    ])
      expect(await ask().catch((error) => error.status)).toBe(404)
    const [pipeline] = await parts.sql`select id from pipeline where name = ${ref.name}`
    expect(await triggers.get({ ...ref, boundTo: pipeline?.id }, id)).toMatchObject({ id, enabled: true })
  })
})

describe('an update', () => {
  test('an update changes only the given fields', async () => {
    const { url } = await newPipeline()
    const zone = await newZone()
    const { body } = await create(url, 'file_pattern', { ...zone, pattern: '*.csv' })
    const at = `${url}/${body.id}`
    expect((await send('PUT', at, { cooldown_seconds: 9 })).body).toMatchObject({
      cooldown_seconds: 9,
      enabled: true,
      config: { ...zone, pattern: '*.csv' },
    })
    expect((await send('PUT', at, { config: { ...zone, pattern: '*.json' } })).body).toMatchObject({
      cooldown_seconds: 9,
      config: { ...zone, pattern: '*.json' },
    })
    expect((await send('PUT', at, { enabled: false })).body).toMatchObject({
      enabled: false,
      state: 'disabled',
    })
    expect((await send('PUT', at, { enabled: false })).body).toMatchObject({ enabled: false })
    expect((await send('PUT', at, {})).body).toMatchObject({ enabled: false, cooldown_seconds: 9 })
    expect((await send('PUT', at, { enabled: true })).body).toMatchObject({ enabled: true, state: 'armed' })
    expect((await history(body.id)).map(({ event, to }) => `${event} ${to}`)).toEqual([
      'created armed',
      'cooldownChanged armed',
      'disabled disabled',
      'enabled armed',
    ])
  })

  test('an update accepts a trigger as it was answered', async () => {
    const { url } = await newPipeline()
    for (const [type, config] of [
      ['webhook', {}],
      ['cron', { cron_expr: '* * * * *' }],
    ] as const) {
      const { webhook_token: _, ...body } = (await create(url, type, config)).body
      const { status, body: answered } = await send('PUT', `${url}/${body.id}`, body)
      expect([status, answered]).toEqual([200, { ...body, updated_at: expect.any(String) }])
    }
  })

  test.each<[string, object, string]>([
    ['type', { type: 'webhook' }, 'type'],
    ['config', { config: { cron_expr: '61 * * * *' } }, 'config.cron_expr'],
    ['config', { config: {} }, 'config.cron_expr'],
    ['config', { config: 'x' }, 'config'],
    ['config', { config: null }, 'config'],
    ['config', { config: { cron_expr: '* * * * *', more: 1 } }, 'config.more'],
    ['cooldown', { cooldown_seconds: -1 }, 'cooldown_seconds'],
    ['enabled', { enabled: null }, 'enabled'],
  ])('an update with a bad %s is refused and changes nothing', async (_, change, field) => {
    const { url } = await newPipeline()
    const { body } = await create(url, 'cron', { cron_expr: '0 6 * * *' })
    expect(refusal(await send('PUT', `${url}/${body.id}`, { enabled: false, ...change }))).toEqual([
      400,
      'INVALID_ARGUMENT',
      field,
    ])
    expect((await send('GET', `${url}/${body.id}`)).body).toEqual(body)
  })

  test('only a new cron text changes the due time', async () => {
    const { url } = await newPipeline()
    const { body } = await create(url, 'cron', { cron_expr: '0 0 1 1 *' })
    const at = `${url}/${body.id}`
    expect((await send('PUT', at, { cooldown_seconds: 3 })).body.next_due_at).toBe(body.next_due_at as string)
    const { body: changed } = await send('PUT', at, { config: { cron_expr: '* * * * *' } })
    const wait = Date.parse(String(changed.next_due_at)) - Date.parse(String(changed.updated_at))
    expect(wait).toBeGreaterThan(0)
    expect(wait).toBeLessThanOrEqual(60_000)
  })

  test('enabling a trigger does not catch up on times during the pause', async () => {
    const { url } = await newPipeline()
    const { body } = await create(url, 'cron', { cron_expr: '* * * * *' }, { enabled: false })
    const at = `${url}/${body.id}`
    expect(body.next_due_at).toBeNull()
    await parts.sql`update trigger set due_at = '2020-01-01' where id = ${String(body.id)}`
    expect((await send('PUT', at, { cooldown_seconds: 1 })).body.next_due_at).toBeNull()
    const { body: enabled } = await send('PUT', at, { enabled: true })
    expect(Date.parse(String(enabled.next_due_at))).toBeGreaterThan(Date.parse(String(enabled.updated_at)))
  })

  test('new dependencies keep the used successes of retained ones', async () => {
    const [{ url }, one, two, three] = [
      await newPipeline(),
      await newPipeline(),
      await newPipeline(),
      await newPipeline(),
    ]
    const config = (...of: { name: string }[]) => ({
      cron_expr: '0 6 * * *',
      dependencies: of.map(({ name }) => name),
    })
    const { body } = await create(url, 'cron_dependency', config(one, two))
    const used = parts.deps.newId()
    await parts.sql`update trigger_dependency set used_run = ${used} where trigger_id = ${String(body.id)}`
    await send('PUT', `${url}/${body.id}`, { config: config(two, three) })
    expect(
      await parts.sql`select source, used_run from trigger_dependency where trigger_id = ${String(body.id)} order by source`,
    ).toEqual([
      { source: `pipeline:${two.name}`, used_run: used },
      { source: `pipeline:${three.name}`, used_run: null },
    ] as never)
    expect((await send('GET', `${url}/${body.id}`)).body.next_due_at).toBe(body.next_due_at as string)
  })

  test('concurrent updates lose no change', async () => {
    const { url } = await newPipeline()
    const { body } = await create(url, 'cron', { cron_expr: '0 6 * * *' })
    const at = `${url}/${body.id}`
    await Promise.all([
      send('PUT', at, { enabled: false }),
      send('PUT', at, { cooldown_seconds: 7 }),
      send('PUT', at, { config: { cron_expr: '0 7 * * *' } }),
    ])
    expect((await send('GET', at)).body).toMatchObject({
      enabled: false,
      cooldown_seconds: 7,
      config: { cron_expr: '0 7 * * *' },
    })
  })
})

describe('a source name that another owner has taken', () => {
  const ownedPipeline = async (owner: string | null) => {
    const ref = { namespace: 'default', layer: 'bronze' as const, name: `p${made++}` }
    await parts.pipelines().create(ref, owner)
    return ref
  }
  const dependenciesOf = async (id: string) =>
    (await parts.sql`select source from trigger_dependency where trigger_id = ${id} order by source`).map(
      (row) => row.source,
    )

  test("a trigger ignores another owner's new resource until it is reconfigured", async () => {
    const { sql, deps } = parts
    const zones = makeLandingZoneService({ ...deps, clock: systemClock })
    const [mallorys, anns, other] = [
      await ownedPipeline('mallory'),
      await ownedPipeline('ann'),
      await ownedPipeline('ann'),
    ]
    const upstream = await ownedPipeline('mallory')
    const zone = { namespace: 'default', name: `z${made++}` }
    await zones.create(zone, { owner: 'mallory', isAdmin: false })
    const upload = {
      type: 'landing_zone_upload' as const,
      config: { namespace: 'default', zone_name: zone.name },
    }
    const upstreamName = `default.bronze.${upstream.name}`
    const otherName = `default.bronze.${other.name}`
    const success = {
      type: 'pipeline_success' as const,
      config: { namespace: 'default', layer: 'bronze', pipeline: upstream.name },
    }
    const waits = {
      type: 'cron_dependency' as const,
      config: { cron_expr: '0 6 * * *', dependencies: [upstreamName, otherName] },
    }
    const add = async (ref: typeof mallorys) => ({
      zone: (await triggers.create(ref, { ...upload, enabled: false })).id,
      success: (await triggers.create(ref, success)).id,
      waits: (await triggers.create(ref, waits)).id,
    })
    const [hers, annsOwn] = [await add(mallorys), await add(anns)]
    const heard = async ({ zone, success, waits }: typeof hers) => [
      (await rowOf(zone))?.source,
      (await rowOf(success))?.source,
      ...(await dependenciesOf(waits)),
    ]
    const sources = [`zone:default.${zone.name}`, `pipeline:${upstreamName}`]
    const whole = [...sources, ...[upstreamName, otherName].map((name) => `pipeline:${name}`).sort()]
    const recreate = async (owner: string | null) => {
      await sql`delete from landing_zone where name = ${zone.name}`
      await sql`update pipeline set deleted_at = clock_timestamp() where name = ${upstream.name}`
      await zones.create(zone, { owner, isAdmin: false })
      await parts.pipelines().create(upstream, owner)
    }

    await recreate(null)
    expect([await heard(hers), await heard(annsOwn)]).toEqual([whole, whole])
    await recreate('ann')
    const deaf = [null, null, `gone:pipeline:${upstreamName}`, `pipeline:${otherName}`]
    expect([await heard(hers), await heard(annsOwn)]).toEqual([deaf, whole])
    for (const id of Object.values(hers))
      await triggers.update(mallorys, id, { enabled: true, cooldown_seconds: 1 })
    expect(await heard(hers)).toEqual(deaf)
    await triggers.update(mallorys, hers.zone, { config: upload.config })
    await triggers.update(mallorys, hers.success, { config: success.config })
    await triggers.update(mallorys, hers.waits, { config: waits.config })
    expect(await heard(hers)).toEqual(whole)
  })
})

describe('a webhook', () => {
  test('a webhook shows its token once, stores its hash, and shows its address', async () => {
    const { url } = await newPipeline()
    const { body } = await create(url, 'webhook', {})
    const token = String(body.webhook_token)
    expect(token).toMatch(/^[0-9a-f]{64}$/)
    const hash = new Bun.CryptoHasher('sha256').update(token).digest('hex')
    expect(body).toMatchObject({
      config: { token_hash: hash },
      webhook_url: 'http://sluice.test/api/v1/webhooks',
    })
    const { webhook_token: _, ...shown } = body
    expect((await send('GET', `${url}/${body.id}`)).body).toEqual(shown)
    expect((await send('GET', url)).body).toEqual({ triggers: [shown], total: 1 })
    const everything = JSON.stringify([
      await parts.sql`select * from trigger`,
      await parts.sql`select * from transition`,
      await parts.sql`select * from run`,
    ])
    expect(everything).toContain(hash)
    expect(everything).not.toContain(token)
  })

  test('a webhook keeps its token through every update', async () => {
    const { url } = await newPipeline()
    const { body } = await create(url, 'webhook', {})
    const at = `${url}/${body.id}`
    for (const config of [{}, body.config]) {
      const { status, body: changed } = await send('PUT', at, { config, cooldown_seconds: 3 })
      expect([status, changed.config, changed.webhook_token]).toEqual([200, body.config, undefined])
    }
    const other = { config: { token_hash: '0'.repeat(64) } }
    expect(refusal(await send('PUT', at, other))).toEqual([400, 'INVALID_ARGUMENT', 'config.token_hash'])
    expect((await rowOf(body.id))?.token_hash).toBe((body.config as { token_hash: string }).token_hash)
  })

  test('a webhook is shown at the public address if one is configured', async () => {
    const { url } = await newPipeline()
    const proxied = testApp({
      api: [triggerRoutes(triggers, { shownUrl: 'https://sluice.example', mayWrite: async () => true })],
    })
    const response = await requestTo(proxied, 'POST', url, { type: 'webhook', config: {} })
    expect(await response.json()).toMatchObject({ webhook_url: 'https://sluice.example/api/v1/webhooks' })
  })
})

test('deleting a pipeline retires its triggers; its successor has none', async () => {
  const { url, ref } = await newPipeline()
  const { body } = await create(url, 'cron', { cron_expr: '* * * * *' })
  const { body: paused } = await create(url, 'webhook', {}, { enabled: false })
  await parts.pipelines({ triggers }).remove(ref)
  expect((await send('GET', `${url}/${body.id}`)).status).toBe(404)
  expect((await history(body.id)).map(({ event }) => event)).toEqual(['created', 'disabled'])
  expect((await history(paused.id)).map(({ event }) => event)).toEqual(['created'])
  await triggers.retireAllOf((await rowOf(body.id))?.pipeline_id as PipelineId)
  expect(await history(body.id)).toHaveLength(2)
  await parts.pipelines().create(ref)
  expect((await send('GET', url)).body).toEqual({ triggers: [], total: 0 })
})
