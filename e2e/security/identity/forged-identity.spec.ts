// Attack class: forged identity and audit. Headers do not decide the identity or the address of a caller. Requests cannot
// change or forge the audit log. The token of an attempt opens only its own resources.
import { createHmac } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type APIRequestContext, expect, test } from '@playwright/test'
import { eventually } from '../../kit/eventually.ts'
import { type OwnService, startOwnService } from '../../kit/own-service.ts'
import { rawRequest } from '../../kit/raw-request.ts'
import { auditOf, fresh, newPipeline, newZone, writeFile } from '../../kit/resources.ts'

const entryOf = async (request: APIRequestContext, resource: string) => {
  const found = () => auditOf(request, (one) => one === resource)
  await eventually(async () => (await found()).length).toBeGreaterThan(0)
  return found()
}

test('headers that name a user do not authenticate a user', async ({ request }) => {
  const name = fresh('user')
  const headers = {
    'X-User': 'admin',
    'X-User-Id': 'admin',
    'X-Forwarded-User': 'admin',
    'X-Remote-User': 'admin',
    'X-Auth-Request-User': 'admin',
    'X-WebAuth-User': 'admin',
    'X-Amzn-Oidc-Identity': 'admin',
    'X-Goog-Authenticated-User-Email': 'admin',
    'X-Forwarded-Roles': 'admin',
    'X-Sluice-User': 'admin',
    From: 'admin@example.test',
    Cookie: 'user=admin',
  }
  await request.put(`/api/v1/namespaces/${name}`, { data: { description: 'a' }, headers })
  for (const entry of await entryOf(request, `/api/v1/namespaces/${name}`)) expect(entry.user_id).toBe('')
})

test('only proxies may forward addresses; the last foreign address counts', async ({ request }) => {
  // The suite calls from loopback, which is the trusted proxy by default.
  const cases: [headers: Record<string, string>, ip: string][] = [
    [{ 'X-Forwarded-For': '203.0.113.9' }, '203.0.113.9'],
    [{ 'X-Forwarded-For': '10.0.0.1, 203.0.113.9' }, '203.0.113.9'],
    [{ 'X-Forwarded-For': '203.0.113.9, 127.0.0.1' }, '203.0.113.9'],
    [{ 'X-Forwarded-For': 'not an address' }, '127.0.0.1'],
    [{ 'X-Forwarded-For': '203.0.113.9, <script>alert(1)</script>' }, '127.0.0.1'],
    [{ 'X-Forwarded-For': "'; drop table audit_entry; --" }, '127.0.0.1'],
    [{ 'X-Forwarded-For': `${'203.0.113.1, '.repeat(500)}203.0.113.9` }, '203.0.113.9'],
    [
      { 'X-Real-IP': '203.0.113.9', 'True-Client-IP': '203.0.113.9', Forwarded: 'for=203.0.113.9' },
      '127.0.0.1',
    ],
    [{ 'CF-Connecting-IP': '203.0.113.9', 'X-Client-IP': '203.0.113.9' }, '127.0.0.1'],
  ]
  for (const [headers, ip] of cases) {
    const path = `/api/v1/namespaces/${fresh('from')}`
    await request.delete(path, { headers })
    const [entry] = await entryOf(request, path)
    expect([headers, entry?.ip]).toEqual([headers, ip])
  }
})

test('an audited path is one line of text, whatever the request sends', async ({ request, baseURL }) => {
  const mark = fresh('mark')
  const targets = [
    `/api/v1/namespaces/${mark}%0d%0a2026-01-01%20admin%20delete`,
    `/api/v1/namespaces/${mark}%E2%80%A8forged`,
    `/api/v1/namespaces/${mark}%1b%5B2J`,
    `/api/v1/namespaces/${mark}%00`,
    `/api/v1/namespaces/${mark}%ff%fe`,
    `/api/v1/namespaces/${mark}","user_id":"admin`,
    `/api/v1/namespaces/${mark}<script>`,
    `/api/v1/namespaces/${mark}${'x'.repeat(5_000)}`,
    `/api/v1/namespaces/${mark}?user_id=admin&token=told`,
  ]
  for (const target of targets)
    await rawRequest(baseURL ?? '', [
      `DELETE ${target} HTTP/1.1`,
      'Host: sluice.test',
      `X-Api-Key: ${process.env.SLUICE_KEY}`,
    ])
  const ours = () => auditOf(request, (resource) => resource.includes(mark))
  await eventually(async () => (await ours()).length).toBeGreaterThanOrEqual(targets.length - 1)
  for (const { resource, user_id, action, detail } of await ours()) {
    expect(resource).not.toMatch(/[\p{Cc}\u2028\u2029]/u)
    expect(resource).not.toContain('told')
    expect(resource.length).toBeLessThanOrEqual(2_048)
    expect([user_id, action, detail]).toEqual(['', 'delete', ''])
  }
})

test('the audit log cannot be changed over HTTP or SQL', async ({ request }) => {
  const path = `/api/v1/namespaces/${fresh('kept')}`
  await request.delete(path)
  const [entry] = await entryOf(request, path)
  expect(entry).toBeDefined()
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'])
    for (const url of ['/api/v1/audit', `/api/v1/audit/${entry?.id}`, '/api/v1/audit?all=true']) {
      const response = await request.fetch(url, { method, data: { user_id: 'admin', resource: '/forged' } })
      expect([method, url, [404, 405].includes(response.status())]).toEqual([method, url, true])
    }
  // SQL queries do not reach the audit log either.
  for (const sql of ['select * from audit_entry', 'delete from audit_entry', 'select * from audit_log'])
    expect((await request.post('/api/v1/query', { data: { sql } })).status()).toBe(400)
  expect(await entryOf(request, path)).toEqual([entry])
  // The log contains the refused requests too.
  const all = await auditOf(request)
  expect(all.filter(({ resource }) => resource.startsWith('/api/v1/audit')).length).toBeGreaterThanOrEqual(6)
  expect(JSON.stringify(all)).not.toContain('/forged')
})

/** One length-delimited field of Protocol Buffers, of at most 127 bytes. */
const field = (number: number, bytes: Buffer) =>
  Buffer.concat([Buffer.from([(number << 3) | 2, bytes.length]), bytes])

/** The length-delimited fields of a Protocol Buffers message, up to the first field of another kind. */
function fieldsOf(message: Buffer): { number: number; bytes: Buffer }[] {
  const found: { number: number; bytes: Buffer }[] = []
  for (let at = 0; at < message.length && ((message[at] ?? 0) & 7) === 2; ) {
    const number = (message[at] ?? 0) >> 3
    let length = 0
    for (let shift = 0, isLast = false; !isLast; shift += 7) {
      at += 1
      const byte = message[at] ?? 0
      length |= (byte & 0x7f) << shift
      isLast = byte < 0x80
    }
    found.push({ number, bytes: message.subarray(at + 1, at + 1 + length) })
    at += 1 + length
  }
  return found
}

test.describe('attempt tokens', () => {
  let runner: Server
  let service: OwnService
  let zone: string
  const key = { 'x-api-key': 'key-of-forged-identity' }
  /** Tokens by the pipeline of their run. */
  const tokens = new Map<string, string>()
  let pipelines: string[]

  // The test's own runner accepts every attempt and records its token.
  test.beforeAll(async ({ playwright }) => {
    runner = createServer((asked, response) => {
      const chunks: Buffer[] = []
      asked.on('data', (chunk: Buffer) => chunks.push(chunk))
      asked.on('end', () => {
        const proto = (...fields: Buffer[]) => {
          response.setHeader('content-type', 'application/proto')
          return response.end(Buffer.concat(fields))
        }
        if (asked.url?.endsWith('/SubmitPipelines')) {
          const results = fieldsOf(Buffer.concat(chunks)).map(({ number, bytes }) => {
            const body = bytes.toString('latin1')
            const [token] = /eyJ[\w-]+\.[\w-]{43}/.exec(body) ?? []
            const [pipeline] = /taken-[a-z0-9-]+/.exec(body) ?? []
            if (token !== undefined && pipeline !== undefined) tokens.set(pipeline, token)
            // Field 5 of a request is the id of its run; field 1 of a result is the handle.
            const id =
              fieldsOf(bytes)
                .find((field) => field.number === 5)
                ?.bytes.toString() ?? ''
            return number === 1 ? [field(1, field(1, Buffer.from(`${id}:1`)))] : []
          })
          return proto(...results.flat(), field(2, Buffer.from('boot')))
        }
        // Answers that the stream is open.
        if (asked.url?.endsWith('/UpdateFollowing')) return proto(Buffer.from([8, 1]))
        if (asked.url?.endsWith('/FollowRuns')) {
          // The stream carries only messages with the boot id, so the attempts stay active.
          response.setHeader('content-type', 'application/connect+proto')
          const message = field(1, Buffer.from('boot'))
          const heartbeat = Buffer.concat([Buffer.from([0, 0, 0, 0, message.length]), message])
          const beat = setInterval(() => response.write(heartbeat), 500)
          response.write(heartbeat)
          return response.on('close', () => clearInterval(beat))
        }
        if (asked.url?.endsWith('/grpc.health.v1.Health/Check')) {
          // SERVING. A slow start leads to a health check; a runner that answers otherwise then gets no attempt.
          return proto(Buffer.from([8, 1]))
        }
        response.statusCode = 404
        response.setHeader('content-type', 'application/json')
        response.end(JSON.stringify({ code: 'unimplemented', message: 'not here' }))
      })
    })
    await new Promise<void>((resolve) => runner.listen(0, '127.0.0.1', resolve))
    service = await startOwnService(
      {
        PLATFORM_API_KEY: key['x-api-key'],
        RUNNER_URLS: `http://127.0.0.1:${(runner.address() as AddressInfo).port}`,
        QUERY_URLS: 'none',
      },
      'listening on http',
    )
    const request = await playwright.request.newContext({ baseURL: service.url, extraHTTPHeaders: key })
    pipelines = []
    zone = (await newZone(request)).name
    for (let index = 0; index < 2; index++) {
      const name = fresh('taken')
      const pipeline = await newPipeline(request, { layer: 'silver', name })
      await writeFile(request, `${pipeline.prefix}pipeline.sql`, 'select 1 as a')
      const data = { namespace: 'default', layer: 'silver', pipeline: name }
      expect((await request.post('/api/v1/runs', { data })).status()).toBe(202)
      pipelines.push(name)
    }
    await eventually(() => tokens.size).toBe(2)
    await request.dispose()
  })
  test.afterAll(async () => {
    await service?.stop()
    runner?.closeAllConnections()
    runner?.close()
  })

  const claimsOf = (token: string) =>
    JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString())
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

  test('an attempt token opens only its own branch and inputs', async ({ playwright }) => {
    const anybody = await playwright.request.newContext({ baseURL: service.url, extraHTTPHeaders: {} })
    const [one = '', other = ''] = pipelines.map((name) => tokens.get(name))
    const [mine = '', theirs = ''] = pipelines
    const branch = String(claimsOf(one).branch)
    const otherBranch = String(claimsOf(other).branch)
    expect(branch).not.toBe(otherBranch)
    const status = async (url: string, token: string, options: object = {}) =>
      (await anybody.fetch(url, { headers: bearer(token), ...options })).status()
    const config = (warehouse: string) => `/catalog/v1/config?warehouse=${encodeURIComponent(warehouse)}`
    // Control: the token opens its own resources.
    expect(await status(config(`sluice@${branch}`), one)).toBe(200)
    const source = (name: string) => `/lake/objects/default/pipelines/silver/${name}/pipeline.sql`
    expect(await status(source(mine), one)).toBe(200)

    for (const warehouse of [
      `sluice@${otherBranch}`,
      'sluice',
      'sluice@main',
      '',
      `sluice@${branch}/../main`,
    ])
      expect([warehouse, await status(config(warehouse), one)]).toEqual([
        warehouse,
        expect.not.stringMatching('200'),
      ])
    for (const warehouse of [`sluice@${otherBranch}`, 'sluice', 'sluice@main'])
      expect([warehouse, await status(config(warehouse), one)]).toEqual([warehouse, 403])
    expect(await status(source(theirs), one)).toBe(403)
    expect(await status('/lake/objects/default/landing/x/a.csv', one)).toBe(403)
    const prefix = (of: string) => `/catalog/v1/${encodeURIComponent(`sluice@${of}`)}/namespaces`
    expect(await status(prefix(branch), one)).toBe(200)
    expect(await status(prefix(otherBranch), one)).toBe(403)
    for (const [target, wanted] of [
      [`_lake/default/silver/${mine}-12345678/data/a.parquet`, 201],
      [`_lake/default/silver/${theirs}-12345678/data/a.parquet`, 403],
      [`_lake/default/gold/${mine}-12345678/data/a.parquet`, 403],
      [`_lake/other/silver/${mine}-12345678/data/a.parquet`, 403],
      [`default/pipelines/silver/${mine}/pipeline.sql`, 403],
      [`_lake/default/silver/${mine}-12345678/../${theirs}-12345678/data/a.parquet`, 403],
    ] as const) {
      const url = `/lake/objects/${target.replaceAll('..', '%2e%2e')}`
      expect([target, await status(url, one, { method: 'PUT', data: Buffer.from('x') })]).toEqual([
        target,
        wanted,
      ])
    }
    const table = { name: theirs, schema: { type: 'struct', fields: [] } }
    const created = await status(`${prefix(branch)}/default%1Fsilver/tables`, one, {
      method: 'POST',
      data: table,
    })
    expect([400, 403]).toContain(created)

    // The token is no credential of the API, in any header.
    const elsewhere: Record<string, string>[] = [
      bearer(one),
      { 'x-api-key': one },
      { 'x-webhook-token': one },
      { cookie: `token=${one}` },
    ]
    for (const headers of elsewhere)
      for (const url of ['/api/v1/namespaces', '/api/v1/runs', '/api/v1/features', '/api/v1/audit'])
        expect([url, (await anybody.get(url, { headers })).status()]).toEqual([url, 401])
    expect((await anybody.post('/api/v1/webhooks', { headers: bearer(one) })).status()).toBe(404)
    // A key of the API is no credential of an attempt.
    for (const headers of [key, bearer(key['x-api-key'])])
      for (const url of [config('sluice'), source(mine), `/catalog/sluice/v1/landing/default/${zone}`])
        expect([url, (await anybody.get(url, { headers })).status()]).toEqual([url, 401])
    await anybody.dispose()
  })

  test('changed, invented or malformed attempt tokens open nothing', async ({ playwright }) => {
    const anybody = await playwright.request.newContext({ baseURL: service.url, extraHTTPHeaders: {} })
    const [one = ''] = pipelines.map((name) => tokens.get(name))
    const [payload = '', signature = ''] = one.split('.')
    const claims = claimsOf(one)
    const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const signed = (value: object, secret: string) => {
      const text = encoded(value)
      return `${text}.${createHmac('sha256', secret).update(`sluice-token-1.${text}`).digest('base64url')}`
    }
    const reader = { kind: 'read', commit: 999_999, expiresAt: Date.now() + 1e9 }
    const forged = [
      `${encoded({ ...claims, expiresAt: claims.expiresAt + 1e9 })}.${signature}`,
      `${encoded({ ...claims, branch: 'main' })}.${signature}`,
      `${encoded(reader)}.${signature}`,
      `${payload}.`,
      payload,
      `.${signature}`,
      `${payload}.${signature.slice(0, -1)}`,
      `${payload}.${signature}${signature}`,
      `${payload}.${signature}.x`,
      `${payload}.${signature.toLowerCase()}`,
      `${payload}=.${signature}`,
      `${payload}.${'A'.repeat(43)}`,
      ...['', 'secret', 'sluice', 'attempt_token', key['x-api-key'], 'undefined', 'null'].map((secret) =>
        signed(reader, secret),
      ),
      'x'.repeat(10_000),
      'null',
      '{}',
    ]
    const url = `/catalog/v1/config?warehouse=${encodeURIComponent(`sluice@${claims.branch}`)}`
    for (const token of forged)
      for (const target of [url, '/catalog/v1/config?warehouse=sluice', '/lake/objects/_lake/a']) {
        const response = await anybody.get(target, { headers: bearer(token) })
        expect([token, target, response.status()]).toEqual([token, target, 401])
      }
    // A token in any other place is not read.
    const elsewhere: Record<string, string>[] = [
      { 'x-token': one },
      { authorization: one },
      { authorization: `Basic ${one}` },
    ]
    for (const headers of elsewhere) expect((await anybody.get(url, { headers })).status()).toBe(401)
    expect((await anybody.get(`${url}&token=${one}&access_token=${one}`)).status()).toBe(401)
    await anybody.dispose()
  })

  test('the attempt token of a cancelled run can no longer write', async ({ playwright }) => {
    const request = await playwright.request.newContext({ baseURL: service.url, extraHTTPHeaders: key })
    const anybody = await playwright.request.newContext({ baseURL: service.url, extraHTTPHeaders: {} })
    const [mine = ''] = pipelines
    const token = tokens.get(mine) ?? ''
    const { runId, branch } = claimsOf(token)
    expect((await request.post(`/api/v1/runs/${runId}/cancel`)).status()).toBe(200)
    const target = `/lake/objects/_lake/default/silver/${mine}-12345678/data/b.parquet`
    const prefix = `/catalog/v1/${encodeURIComponent(`sluice@${branch}`)}/namespaces/default%1Fsilver/tables`
    await eventually(async () =>
      (await anybody.put(target, { headers: bearer(token), data: Buffer.from('x') })).status(),
    ).toBe(403)
    const create = await anybody.post(prefix, {
      headers: bearer(token),
      data: { name: mine, schema: { type: 'struct', fields: [] } },
    })
    expect(create.status()).toBeGreaterThanOrEqual(400)
    await Promise.all([request.dispose(), anybody.dispose()])
  })
})
