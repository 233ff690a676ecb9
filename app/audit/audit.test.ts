import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { Type as t } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { type Database, openDatabase } from '../../drizzle/client.ts'
import { useDatabase } from '../../tools/test/database.ts'
import { until } from '../../tools/test/until.ts'
import { networksOf } from '../core/client-address.ts'
import { systemClock } from '../core/clock.ts'
import type { Identity } from '../core/identity.ts'
import { newId } from '../core/ids.ts'
import { JSON_BODY_BYTES } from '../http/body.ts'
import { keptLog, requestTo, testApp } from '../test-app.ts'
import { AUDIT_QUEUE_MAX } from './places.ts'
import { FULL_ROWS_PER_ADDRESS } from './refusals.ts'
import { auditRoutes } from './routes.ts'
import type { AuditEntry } from './schema.ts'
import { type AuditService, makeAuditService, noAudit } from './service.ts'

setDefaultTimeout(60_000)

const opened = useDatabase({ rawConnections: 3 })
/** Gives a statement up soon, as a database that is away does. */
let hasty: Database
beforeAll(() => {
  const settings = { statement_timeout: 50 }
  hasty = openDatabase(opened.url, { connections: 1, rawConnections: 3, application: 'test', settings })
})
afterAll(() => hasty.close())

const { log, entries: logged, messages } = keptLog()
beforeEach(async () => {
  logged.length = 0
  await opened.sql`truncate audit_entry`
})

const serviceOn = ({ sql }: Database, lists = sql, placeWaitMs?: number) =>
  makeAuditService({ sql, lists, clock: systemClock, newId, log, placeWaitMs })

/** A write of an API key, as the exchange reserves and records it. */
async function recordWrite(audit: AuditService, method: string, path: string) {
  const hasPlace = await audit.reserve(method, path)
  audit.record({ method, path, identity: MACHINE, status: 200, ip: '', peer: '', hasPlace })
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

/** Keeps everybody from the log until it is let go. */
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

describe('what is recorded', () => {
  test('is every write, whatever came of it, and no read', async () => {
    const app = appOn(serviceOn(opened))
    const asked = [
      ['POST', '/api/v1/things', { name: 'a' }, 200],
      ['PUT', '/api/v1/things/1?secret=x', {}, 200],
      ['DELETE', '/api/v1/things/1', undefined, 204],
      ['POST', '/api/v1/things', {}, 400],
      ['POST', '/api/v1/nowhere', undefined, 404],
      ['DELETE', '/api/v1/things', undefined, 405],
      ['PUT', '/api/v1/things/%ff', {}, 400],
      ['POST', '/api/v1/things', { name: 'x'.repeat(JSON_BODY_BYTES) }, 413],
      ['POST', '/api/v1/things/broken', undefined, 500],
    ] as const
    for (const [method, path, body, status] of asked)
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
      asked.map(([method, path]) => `${method.toLowerCase()} ${path.split('?')[0]}`).reverse(),
    )
    expect(entries.map(({ status }) => status)).toEqual(asked.map(([, , , status]) => status).reverse())
    for (const entry of entries)
      expect(entry).toMatchObject({ user_id: '', detail: '', ip: '', peer: '', key: '', count: 1 })
  })

  test('has who was refused for want of a key, and never the key', async () => {
    const app = appOn(serviceOn(opened), { apiKey: 'secret-key' })
    expect((await requestTo(app, 'POST', '/api/v1/things', { name: 'a' })).status).toBe(401)
    const wrong = { 'x-api-key': 'secret-guess', 'x-webhook-token': 'secret-token' }
    expect((await requestTo(app, 'DELETE', '/api/v1/none', undefined, wrong)).status).toBe(401)
    const { entries } = await logOf(app, '', { 'x-api-key': 'secret-key' })
    expect(calls(entries)).toEqual(['delete /api/v1/none', 'post /api/v1/things'])
    for (const entry of entries) expect(entry).toMatchObject({ status: 401, key: '', count: 1 })
    expect(JSON.stringify(entries)).not.toContain('secret')
  })

  test('names the key of the caller', async () => {
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

  test('has no token that was sent in the address of a webhook', async () => {
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

  test('has the address of the client, which only a trusted proxy may tell', async () => {
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

  test('can always be stored: addresses are cut, and what is no text is replaced', async () => {
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

  test('that come later are added to the entry that is there', async () => {
    const audit = serviceOn(opened)
    const app = appOn(audit, { apiKey: 'secret-key' })
    const most = async () => Math.max(...(await logOf(app, '', key)).entries.map(({ count }) => count))
    for (let n = 0; n < FULL_ROWS_PER_ADDRESS + 2; n++) await refuse(app)
    expect(await most()).toBe(2)
    await refuse(app)
    expect(await most()).toBe(3)
    await refuse(app)
    await audit.stop()
    expect(await most()).toBe(4)
    expect(await opened.sql`select 1 from audit_entry`).toHaveLength(FULL_ROWS_PER_ADDRESS + 1)
  })
})

describe('the list', () => {
  test('is newest first and paged, without a total', async () => {
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

  test('of a log that is switched off is 404, and nothing is recorded', async () => {
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

  test('keeps no request waiting, and what comes during one insert is the next', async () => {
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

  test('waits for none of the connections on which lists take their time', async () => {
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

  test('outlasts a database that is away, with the time of each request', async () => {
    const audit = serviceOn(hasty)
    const unlock = await lockLog()
    await recordWrite(audit, 'POST', '/api/v1/runs')
    await until(() => logged.length > 0)
    const [back] = await opened.sql<{ at: Date }[]>`select clock_timestamp() as at`
    await unlock()
    const { entries } = await until(
      // Whoever reads is not in such haste.
      () => serviceOn(opened).list({ limit: 10, offset: 0 }),
      (found) => found.entries.length > 0,
    )
    expect(entries).toHaveLength(1)
    expect(new Date(entries[0]?.created_at ?? '').getTime()).toBeLessThan(back?.at.getTime() ?? 0)
    expect(messages()).toEqual(['audit entries wait for the database'])
  })

  test('lets a write wait for its place while the queue is full, and drops no entry', async () => {
    const audit = serviceOn(opened)
    const unlock = await lockLog()
    for (let id = 0; id < AUDIT_QUEUE_MAX; id++) await recordWrite(audit, 'PUT', `/api/v1/things/${id}`)
    let isPlaced = false
    const late = recordWrite(audit, 'PUT', '/api/v1/things/late').then(() => {
      isPlaced = true
    })
    await opened.sql`select 1`
    expect(isPlaced).toBe(false)
    expect(messages()).toEqual([`more than ${AUDIT_QUEUE_MAX} audit entries wait: writes wait for a place`])
    await unlock()
    await late
    await audit.stop()
    await until(insertsOf, ({ entries }) => entries > AUDIT_QUEUE_MAX)
    expect((await insertsOf()).entries).toBe(AUDIT_QUEUE_MAX + 1)
  })

  test('refuses a write that gets no place in time before anything is done', async () => {
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

  test('logs an entry that can never be stored, and goes on with the next', async () => {
    const audit = serviceOn(opened)
    await opened.sql`alter table audit_entry add constraint refuses check (resource <> '/api/v1/bad')`
    await recordWrite(audit, 'PUT', '/api/v1/bad')
    await until(() => messages().includes('audit entry'))
    await recordWrite(audit, 'PUT', '/api/v1/good')
    await audit.stop()
    await opened.sql`alter table audit_entry drop constraint refuses`
    expect(await opened.sql`select resource from audit_entry`).toEqual([
      { resource: '/api/v1/good' },
    ] as never)
  })
})
