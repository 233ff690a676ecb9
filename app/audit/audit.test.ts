import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { Type as t } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { type Database, openDatabase } from '../../drizzle/client.ts'
import { until } from '../../tools/kit/until.ts'
import { useDatabase } from '../../tools/service/database.ts'
import { recordingLog, requestTo, testApp } from '../composition/test-app.ts'
import { systemClock } from '../core/clock.ts'
import type { Identity } from '../core/identity.ts'
import { newId } from '../core/ids.ts'
import { JSON_BODY_BYTES } from '../http/body.ts'
import { networksOf } from '../wire/client-address.ts'
import { AUDIT_QUEUE_MAX } from './queue-slots.ts'
import { auditRoutes } from './routes.ts'
import type { AuditEntry } from './schema.ts'
import { type AuditService, makeAuditService, noAudit } from './service.ts'

setDefaultTimeout(60_000)

const opened = useDatabase({ rawConnections: 3 })
/** Cancels a statement after 50 ms, like a database that is unreachable. */
let hasty: Database
beforeAll(() => {
  const settings = { statement_timeout: 50 }
  hasty = openDatabase(opened.url, { connections: 1, rawConnections: 3, application: 'test', settings })
})
afterAll(() => hasty.close())

const { log, entries: logged, messages } = recordingLog()
beforeEach(async () => {
  logged.length = 0
  await opened.sql`truncate audit_entry`
})

const serviceOn = ({ sql }: Database, lists = sql, slotWaitMs?: number) =>
  makeAuditService({ sql, lists, clock: systemClock, newId, log, slotWaitMs })

/** A write by an API key, reserved and recorded as in the exchange. */
async function recordWrite(audit: AuditService, method: string, path: string) {
  const hasSlot = await audit.reserve(method, path)
  audit.record({ method, path, identity: MACHINE, status: 200, ip: '', peer: '', hasSlot })
}
const MACHINE: Identity = { kind: 'api-key', userId: '', name: 'ci', roles: [] }
const things = new Elysia({ prefix: '/things' })
  .get('', () => ({}))
  .post('', ({ body }) => body, { body: t.Object({ name: t.String() }) })
  .put('/:id', () => ({}))
  .delete('/:id', ({ status }) => status(204, undefined), { response: { 204: t.Void() } })
  .post('/broken', () => {
    throw new Error('broken')
  })
const appOn = (audit: AuditService, config: { apiKey?: string } = {}) =>
  testApp({
    audit,
    api: [things, auditRoutes(audit)],
    config: { ...config, trustedProxies: networksOf(['127.0.0.1']) ?? expect.unreachable('no networks') },
  })
type App = ReturnType<typeof appOn>

async function logOf(app: App, query = '', headers: Record<string, string> = {}) {
  const response = await requestTo(app, 'GET', `/api/v1/audit${query}`, undefined, headers)
  expect(response.status).toBe(200)
  return { entries: (await response.json()) as AuditEntry[], link: response.headers.get('link') ?? '' }
}
const calls = (entries: AuditEntry[]) => entries.map(({ action, resource }) => `${action} ${resource}`)

/** Blocks the log for all others until the returned function is called. */
async function lockLog() {
  const locked = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  const transaction = opened.sql.begin(async (tx) => {
    await tx`lock table audit_entry in access exclusive mode`
    locked.resolve()
    await release.promise
  })
  await locked.promise
  return async () => {
    release.resolve()
    await transaction
  }
}

describe('audit entries', () => {
  test('records every write with its status, and no read', async () => {
    const app = appOn(serviceOn(opened))
    const requests = [
      ['POST', '/api/v1/things', { name: 'a' }, 200],
      ['PUT', '/api/v1/things/1?_secret=x', {}, 200],
      ['DELETE', '/api/v1/things/1', undefined, 204],
      ['POST', '/api/v1/things', {}, 400],
      ['POST', '/api/v1/nowhere', undefined, 404],
      ['DELETE', '/api/v1/things', undefined, 405],
      ['PUT', '/api/v1/things/%ff', {}, 400],
      ['POST', '/api/v1/things', { name: 'x'.repeat(JSON_BODY_BYTES) }, 413],
      ['POST', '/api/v1/things/broken', undefined, 500],
    ] as const
    for (const [method, path, body, status] of requests)
      expect([path, (await requestTo(app, method, path, body)).status]).toEqual([path, status])
    for (const [method, path] of [
      ['GET', '/api/v1/things'],
      ['HEAD', '/api/v1/things'],
      ['OPTIONS', '/api/v1/things'],
      ['PATCH', '/api/v1/things'],
      ['POST', '/health'],
      ['POST', '/api/v10/things'],
    ] as const)
      await requestTo(app, method, path)
    const { entries } = await logOf(app)
    expect(calls(entries)).toEqual(
      requests.map(([method, path]) => `${method.toLowerCase()} ${path.split('?')[0]}`).reverse(),
    )
    expect(entries.map(({ status }) => status)).toEqual(requests.map(([, , , status]) => status).reverse())
    for (const entry of entries)
      expect(entry).toMatchObject({ user_id: '', detail: '', ip: '', peer: '', key: '', count: 1 })
  })

  test('records a caller without a valid key, but never the key', async () => {
    const app = appOn(serviceOn(opened), { apiKey: 'secret-key' })
    expect((await requestTo(app, 'POST', '/api/v1/things', { name: 'a' })).status).toBe(401)
    const wrong = { 'x-api-key': 'secret-guess', 'x-webhook-token': 'secret-token' }
    expect((await requestTo(app, 'DELETE', '/api/v1/none', undefined, wrong)).status).toBe(401)
    const { entries } = await logOf(app, '', { 'x-api-key': 'secret-key' })
    expect(calls(entries)).toEqual(['post /api/v1/things'])
    expect(entries).toMatchObject([{ status: 401, key: '', count: 2 }])
    expect(JSON.stringify(entries)).not.toContain('secret')
  })

  test("records the name of the caller's key", async () => {
    const app = appOn(serviceOn(opened), { apiKey: 'secret-key' })
    const headers = { 'x-api-key': 'secret-key' }
    expect((await requestTo(app, 'PUT', '/api/v1/things/1', {}, headers)).status).toBe(200)
    expect((await requestTo(app, 'PUT', '/api/v1/none', {}, headers)).status).toBe(404)
    const { entries } = await logOf(app, '', headers)
    expect(entries.map(({ key, status }) => [key, status])).toEqual([
      ['default', 404],
      ['default', 200],
    ])
  })

  test('hides a token that was sent in a webhook address', async () => {
    const app = appOn(serviceOn(opened))
    for (const path of ['/secret-token', '/secret-token/secret-more', ''])
      expect((await requestTo(app, 'POST', `/api/v1/webhooks${path}`)).status).toBe(404)
    const { entries } = await logOf(app)
    expect(entries.map(({ resource }) => resource)).toEqual([
      '/api/v1/webhooks',
      '/api/v1/webhooks/...',
      '/api/v1/webhooks/...',
    ])
  })

  test("records the client's address, which only a trusted proxy may forward", async () => {
    const app = appOn(serviceOn(opened))
    const forwarded = { 'x-forwarded-for': '198.51.100.1' }
    for (const address of ['127.0.0.1', '203.0.113.9', null])
      await app.fetch(
        new Request('http://x.test/api/v1/things/1', { method: 'DELETE', headers: forwarded }),
        {
          address,
        },
      )
    const { entries } = await logOf(app)
    expect(entries.map(({ ip, peer }) => [ip, peer])).toEqual([
      ['', ''],
      ['203.0.113.9', '203.0.113.9'],
      ['198.51.100.1', '127.0.0.1'],
    ])
  })

  test('truncates long addresses and replaces text that cannot be stored', async () => {
    const audit = serviceOn(opened)
    const path = `/api/v1/${'x'.repeat(100_000)}`
    for (const odd of [path, '/api/v1/\ud800', '/api/v1/\0']) await recordWrite(audit, 'PUT', odd)
    const { entries } = await audit.list({ limit: 10, offset: 0 })
    expect(entries.map(({ resource }) => resource)).toEqual([
      '/api/v1/\ufffd',
      '/api/v1/\ufffd',
      path.slice(0, 2_048),
    ])
  })
})

describe('refusals without a credential', () => {
  const key = { 'x-api-key': 'secret-key' }
  const refuse = (app: App, address = '203.0.113.9') =>
    app.fetch(new Request('http://x.test/api/v1/flood', { method: 'POST' }), { address })

  test('later refusals increase the count of an existing entry', async () => {
    const audit = serviceOn(opened)
    const app = appOn(audit, { apiKey: 'secret-key' })
    const most = async () => Math.max(...(await logOf(app, '', key)).entries.map(({ count }) => count))
    await refuse(app)
    await refuse(app, '198.51.100.1')
    expect(await most()).toBe(2)
    await refuse(app)
    expect(await most()).toBe(3)
    await refuse(app)
    await audit.stop()
    expect(await most()).toBe(4)
    expect(await opened.sql`select ip from audit_entry`).toEqual([{ ip: '203.0.113.9' }] as never)
  })
})

describe('the list', () => {
  test('the list is newest first and paged, without a total', async () => {
    const app = appOn(serviceOn(opened))
    for (let id = 0; id < 60; id++) await requestTo(app, 'DELETE', `/api/v1/things/${id}`)
    const first = await logOf(app)
    expect(first.entries).toHaveLength(50)
    expect(first.entries[0]?.resource).toBe('/api/v1/things/59')
    expect(first.link).toContain('rel="next"')
    const rest = await logOf(app, '?limit=50&offset=50')
    expect(calls(rest.entries)).toEqual(
      Array.from({ length: 10 }, (_, index) => `delete /api/v1/things/${9 - index}`),
    )
    expect(rest.link).not.toContain('rel="next"')
    expect((await logOf(app, '?limit=1000')).entries).toHaveLength(60)
  })

  test('an audit log that is off answers 404 and records nothing', async () => {
    const app = appOn(noAudit)
    await requestTo(app, 'DELETE', '/api/v1/things/1')
    const response = await requestTo(app, 'GET', '/api/v1/audit')
    expect(response.status).toBe(404)
    expect(await response.json()).toMatchObject({ error: { code: 'NOT_FOUND', type: 'NOT_FOUND' } })
    expect(await opened.sql`select 1 from audit_entry`).toHaveLength(0)
  })
})

describe('recording', () => {
  const insertsOf = async () => {
    const [row] = await opened.sql<{ entries: string; inserts: string }[]>`
      select count(*) as entries, count(distinct xmin::text) as inserts from audit_entry`
    return { entries: Number(row?.entries), inserts: Number(row?.inserts) }
  }

  test('requests do not wait for inserts, and later entries share one', async () => {
    const audit = serviceOn(opened)
    const app = appOn(audit)
    const unlock = await lockLog()
    for (let id = 0; id < 300; id++) await requestTo(app, 'DELETE', `/api/v1/things/${id}`)
    await unlock()
    await audit.stop()
    const { entries, inserts } = await insertsOf()
    expect(entries).toBe(300)
    expect(inserts).toBeLessThanOrEqual(2)
  })

  test('entries do not wait for the connections of slow lists', async () => {
    const other = openDatabase(opened.url, { connections: 1, rawConnections: 1, application: 'test' })
    const audit = serviceOn(opened, other.sql)
    const listing = Promise.withResolvers<void>()
    const list = other.sql.begin(async (tx) => {
      await tx`select 1`
      await listing.promise
    })
    await recordWrite(audit, 'POST', '/api/v1/runs')
    await until(insertsOf, ({ entries }) => entries === 1)
    let isListed = false
    const listed = audit.list({ limit: 10, offset: 0 }).finally(() => {
      isListed = true
    })
    await opened.sql`select 1`
    expect(isListed).toBe(false)
    listing.resolve()
    expect((await listed).entries).toHaveLength(1)
    await list
    await Promise.all([audit.stop(), other.close()])
  })

  test('entries survive a database outage with their original times', async () => {
    const audit = serviceOn(hasty)
    const unlock = await lockLog()
    await recordWrite(audit, 'POST', '/api/v1/runs')
    await until(() => logged.length > 0)
    const [back] = await opened.sql<{ at: Date }[]>`select clock_timestamp() as at`
    await unlock()
    const { entries } = await until(
      // This reader has no short timeout.
      () => serviceOn(opened).list({ limit: 10, offset: 0 }),
      (found) => found.entries.length > 0,
    )
    expect(entries).toHaveLength(1)
    expect(new Date(entries[0]?.created_at ?? '').getTime()).toBeLessThan(back?.at.getTime() ?? 0)
    expect(messages()).toEqual(['storing audit entries failed: retrying'])
  })

  test('writes wait while the queue is full, and no entry is dropped', async () => {
    const audit = serviceOn(opened)
    const unlock = await lockLog()
    for (let id = 0; id < AUDIT_QUEUE_MAX; id++) await recordWrite(audit, 'PUT', `/api/v1/things/${id}`)
    let isPlaced = false
    const late = recordWrite(audit, 'PUT', '/api/v1/things/late').then(() => {
      isPlaced = true
    })
    await opened.sql`select 1`
    expect(isPlaced).toBe(false)
    expect(messages()).toEqual(['audit queue full: write requests wait for the database'])
    await unlock()
    await late
    await audit.stop()
    await until(insertsOf, ({ entries }) => entries > AUDIT_QUEUE_MAX)
    expect((await insertsOf()).entries).toBe(AUDIT_QUEUE_MAX + 1)
  })

  test('a write that gets no slot in time is refused and not performed', async () => {
    const audit = serviceOn(opened, opened.sql, 50)
    let performed = 0
    const app = testApp({
      audit,
      api: [
        new Elysia().post('/counted', () => {
          performed++
          return {}
        }),
      ],
    })
    const unlock = await lockLog()
    for (let id = 0; id < AUDIT_QUEUE_MAX; id++) await recordWrite(audit, 'PUT', `/api/v1/things/${id}`)
    const response = await requestTo(app, 'POST', '/api/v1/counted', {})
    expect(response.status).toBe(503)
    expect(response.headers.get('retry-after')).toBe('5')
    expect(performed).toBe(0)
    await unlock()
    await until(
      () => requestTo(app, 'POST', '/api/v1/counted', {}),
      ({ status }) => status === 200,
    )
    expect(performed).toBe(1)
    await audit.stop()
  })

  test('logs an entry that cannot be stored and continues with the next', async () => {
    const audit = serviceOn(opened)
    await opened.sql`alter table audit_entry add constraint refuses check (resource <> '/api/v1/bad')`
    await recordWrite(audit, 'PUT', '/api/v1/bad')
    await until(() => messages().includes('unstored audit entry'))
    await recordWrite(audit, 'PUT', '/api/v1/good')
    await audit.stop()
    await opened.sql`alter table audit_entry drop constraint refuses`
    expect(await opened.sql`select resource from audit_entry`).toEqual([
      { resource: '/api/v1/good' },
    ] as never)
  })
})
