// Specification: Common conventions, Errors, Limits.
import { request as sendRequest } from 'node:http'
import { brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib'
import { expect, test } from '@playwright/test'
import { rawRequest } from '../kit/raw-request.ts'
import { expectError } from '../kit/resources.ts'

test('an unknown route answers 404 with the error envelope @convention.prefix @errors.404.unknown', async ({
  request,
}) => {
  for (const path of [
    '/nope',
    '/api/v1',
    '/api/v1/nope',
    '/api/v2/namespaces',
    '/api/v1/namespaces/default/nope',
    '/API/v1/namespaces',
    '/api%2Fv1/namespaces',
  ])
    await expectError(await request.get(path), 404, /^route not found/)
})

test('an unsupported method is 405 and lists the allowed methods @convention.method', async ({ request }) => {
  const response = await request.patch('/api/v1/namespaces', { data: {} })
  await expectError(response, 405, /PATCH/)
  expect(response.headers().allow).toBe('GET, HEAD, OPTIONS, POST')
})

test('malformed JSON, a wrong content type and a wrong shape are 400 @runtime @convention.json', async ({
  request,
}) => {
  const post = (data: string, type = 'application/json') =>
    request.post('/api/v1/namespaces', { data: Buffer.from(data), headers: { 'content-type': type } })
  await expectError(await post('{"name":'), 400, /^body: .*JSON/)
  await expectError(await post('[]'), 400, /^body: /)
  await expectError(await post('{"name":"fine-name"}', 'text/plain'), 400, /^Content-Type: /)
  await expectError(await post('{}'), 400, /^name: is required/)
  await expectError(await post('{"name":7}'), 400, /^name: /)
  await expectError(await post('{"name":"fine-name","description":{}}'), 400, /^description: /)
})

test('a compressed body is 400 naming the header @runtime @convention.coding', async ({ request }) => {
  const headers = { 'content-type': 'application/json' }
  const post = (coding: string, data: Buffer) =>
    request.post('/api/v1/namespaces', { data, headers: { ...headers, 'content-encoding': coding } })
  await expectError(await post('gzip', gzipSync('{"name":"fine-name"}')), 400, /^Content-Encoding: /)
  await expectError(await post('br', Buffer.from('{"name":"fine-name"}')), 400, /^Content-Encoding: /)
  await expectError(await post('identity', Buffer.from('{}')), 400, /^name: is required/)
  const form = { data: Buffer.from('x'), headers: { 'content-type': 'multipart/form-data; boundary=x' } }
  await expectError(
    await request.post('/api/v1/files/upload', {
      ...form,
      headers: { ...form.headers, 'content-encoding': 'gzip' },
    }),
    400,
    /^Content-Encoding: /,
  )
})

test('text that Postgres cannot store is 400 naming the field @convention.text', async ({ request }) => {
  const post = (data: string) =>
    request.post('/api/v1/namespaces', {
      data: Buffer.from(data),
      headers: { 'content-type': 'application/json' },
    })
  await expectError(await post('{"name":"fine-name","description":"a\\u0000b"}'), 400, /^description: .*NUL/)
  await expectError(await post('{"name":"fine-name","description":"\\udc00"}'), 400, /^description: /)
})

test('a path or query with broken encoding never causes a 500 @runtime', async ({ request, baseURL }) => {
  for (const target of [
    '/api/v1/namespaces/%ff',
    '/api/v1/namespaces?limit=%e0%a4',
    '/api/v1/%00',
    '/api/v1/runs?namespace=%00',
  ]) {
    const { status, body } = await rawRequest(baseURL ?? '', [`GET ${target} HTTP/1.1`, 'Host: sluice.test'])
    expect([400, 404, 405]).toContain(status)
    expect(JSON.parse(body)).toHaveProperty('error.code')
  }
  expect((await request.get('/api/v1/namespaces')).status()).toBe(200)
})

test('an invalid Host header is 400, never a 500 @runtime @convention.host', async ({ baseURL }) => {
  for (const host of ['[::1', 'a:99999', '%zz', '999.1.1.1', 'a:b:c', 'a b', 'a/b?c', 'me@a', 'a#b']) {
    const lines = ['GET /api/v1/namespaces HTTP/1.1', `Host: ${host}`]
    const { status, body } = await rawRequest(baseURL ?? '', lines)
    expect([host, status]).toEqual([host, 400])
    expect(JSON.parse(body).error).toMatchObject({ message: expect.stringMatching(/^Host: /) })
  }
  for (const host of ['a', 'A:1', 'sluice.test:8080', '[::1]:80', 'localhost'])
    expect(
      (await rawRequest(baseURL ?? '', ['GET /api/v1/namespaces HTTP/1.1', `Host: ${host}`])).status,
    ).toBe(200)
})

test('a JSON body over 1 MiB is 413, chunked or not @runtime @convention.body-limit', async ({
  request,
  baseURL,
}) => {
  const big = Buffer.alloc(1_048_577, ' ')
  const headers = { 'content-type': 'application/json' }
  await expectError(await request.post('/api/v1/namespaces', { data: big, headers }), 413, /1MiB/)
  const chunked = Buffer.concat([
    Buffer.from(`${big.length.toString(16)}\r\n`),
    big,
    Buffer.from('\r\n0\r\n\r\n'),
  ])
  const lines = [
    'POST /api/v1/namespaces HTTP/1.1',
    'Host: sluice.test',
    'Content-Type: application/json',
    'Transfer-Encoding: chunked',
  ]
  expect((await rawRequest(baseURL ?? '', lines, chunked)).status).toBe(413)
})

test('a client that reads only after sending 40 MB still receives 413 @runtime', async ({ baseURL }) => {
  const big = Buffer.alloc(40_000_000, ' ')
  for (const path of ['/api/v1/namespaces', '/api/v1/files/upload'])
    for (const connection of ['close', 'keep-alive']) {
      const type = path.endsWith('upload') ? 'multipart/form-data; boundary=x' : 'application/json'
      const sent = sendRequest(`${baseURL}${path}`, {
        method: 'POST',
        agent: false,
        headers: { connection, 'content-type': type, 'content-length': big.length },
      })
      const status = new Promise((resolve, reject) => {
        sent.on('error', reject)
        sent.on('response', (response) => {
          response.resume()
          response.on('end', () => resolve(response.statusCode))
        })
      })
      sent.end(big)
      expect([path, connection, await status]).toEqual([path, connection, 413])
      sent.destroy()
    }
})

test('a page limit is clamped when too large and defaulted when invalid @convention.page', async ({
  request,
}) => {
  // Every write adds an entry to the audit log, so this makes a list of several pages.
  for (let written = 0; written < 210; written += 30)
    await Promise.all(Array.from({ length: 30 }, () => request.post('/api/v1/nowhere')))
  for (const [query, length, page] of [
    ['', 50, 50],
    ['limit=7&offset=3', 7, 7],
    ['limit=200', 200, 200],
    ['limit=201', 200, 200],
    ['limit=100000', 200, 200],
    ['limit=0', 50, 50],
    ['limit=-1', 50, 50],
    ['limit=1e2&offset=-5', 50, 50],
    ['limit=&offset=x', 50, 50],
    ['offset=99999999999999999999', 0, 50],
  ] as const) {
    const entries = await request.get(`/api/v1/audit?${query}`)
    expect([query, entries.status(), (await entries.json()).length]).toEqual([query, 200, length])
    for (const list of ['audit', 'pipelines', 'runs']) {
      const { link = '' } = (await request.get(`/api/v1/${list}?${query}`)).headers()
      const first = new URLSearchParams(/\?([^>]*)>; rel="first"/.exec(link)?.[1])
      expect([list, query, first.get('limit'), first.get('offset')]).toEqual([list, query, `${page}`, '0'])
    }
  }
  await expectError(await request.get('/api/v1/pipelines?sort=owner'), 400, /^sort: /)
  await expectError(await request.get('/api/v1/pipelines?order=up'), 400, /^order: /)
})

test('JSON is compressed according to the Accept-Encoding header @runtime', async ({ baseURL }) => {
  const sql = "select i as id, 'row ' || i as name from range(20000) t(i)"
  const ask = (accept: string, size: number, path = '/api/v1/query') =>
    raw(
      `${baseURL}${path}`,
      { 'accept-encoding': accept },
      path === '/api/v1/query' ? { sql, limit: size } : undefined,
    )
  const plain = await ask('identity', 20_000)
  expect(plain.headers).toMatchObject({ vary: expect.stringContaining('Accept-Encoding') })
  expect(plain.headers['content-encoding']).toBeUndefined()
  const rows = JSON.parse(plain.body.toString()).rows
  expect(rows).toHaveLength(20_000)
  for (const [accept, coding, decode] of [
    ['gzip', 'gzip', gunzipSync],
    ['br;q=0.9, gzip;q=0.1', 'br', brotliDecompressSync],
  ] as const) {
    const answer = await ask(accept, 20_000)
    expect([answer.status, answer.headers['content-encoding']]).toEqual([200, coding])
    expect(answer.headers.vary).toContain('Accept-Encoding')
    expect(JSON.parse(decode(answer.body).toString()).rows).toEqual(rows)
    expect(answer.body.length).toBeLessThan(plain.body.length / 3)
  }
  expect((await ask('gzip', 1)).headers['content-encoding']).toBeUndefined()
  const required = await ask('gzip, identity;q=0', 1)
  expect(JSON.parse(gunzipSync(required.body).toString()).rows).toEqual([{ id: 0, name: 'row 0' }])

  const document = await ask('gzip', 0, '/swagger/json')
  expect(JSON.parse(gunzipSync(document.body).toString()).openapi).toMatch(/^3/)
  const head = await raw(`${baseURL}/swagger/json`, { 'accept-encoding': 'gzip' }, undefined, 'HEAD')
  expect([head.status, head.body.length, head.headers.vary]).toEqual([
    200,
    0,
    expect.stringContaining('Accept-Encoding'),
  ])
  const known = { 'accept-encoding': 'gzip', 'if-none-match': `${document.headers.etag}` }
  const unchanged = await raw(`${baseURL}/swagger/json`, known)
  expect([unchanged.status, unchanged.body.length]).toEqual([304, 0])
})

/** Sends a request and returns the bytes as they arrive, without decompression. */
function raw(url: string, headers: Record<string, string>, body?: object, method = body ? 'POST' : 'GET') {
  const key: Record<string, string> = process.env.SLUICE_KEY ? { 'x-api-key': process.env.SLUICE_KEY } : {}
  const type: Record<string, string> = body ? { 'content-type': 'application/json' } : {}
  return new Promise<{ status: number; headers: Record<string, unknown>; body: Buffer }>(
    (resolve, reject) => {
      const sent = sendRequest(url, { method, headers: { ...key, ...type, ...headers } }, (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk) => chunks.push(chunk))
        response.on('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body: Buffer.concat(chunks),
          }),
        )
        response.on('error', reject)
      })
      sent.on('error', reject)
      sent.end(body && JSON.stringify(body))
    },
  )
}
