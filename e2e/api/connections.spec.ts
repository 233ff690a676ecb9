// HTTP at the level of a connection: pipelining, HEAD, and clients that disconnect.
import { connect } from 'node:net'
import { expect, test } from '@playwright/test'
import { eventually } from '../kit/eventually.ts'
import { rawRequest } from '../kit/raw-request.ts'
import { fresh, getJson } from '../kit/resources.ts'

/**
 * Sends the requests in one write on one connection; the last request closes it. Resolves with the status and the request id of
 * each answer.
 */
async function pipelined(baseURL: string, requests: readonly string[][]) {
  const named = requests.map(([line = '', ...rest], index) => {
    const blank = rest.indexOf('')
    const headers = blank === -1 ? rest : rest.slice(0, blank)
    const body = blank === -1 ? [] : rest.slice(blank + 1)
    return {
      head: [line, 'Host: localhost', `X-Request-ID: piped-${index}`, ...headers],
      body: body.join(''),
    }
  })
  const earlier = named.slice(0, -1).map(({ head, body }) => `${head.join('\r\n')}\r\n\r\n${body}`)
  const last = named.at(-1)
  const { head, body } = await rawRequest(
    baseURL,
    [earlier.join('') + (last?.head.join('\r\n') ?? '')],
    last?.body,
  )
  const text = `${head}\r\n\r\n${body}`
  const all = (pattern: RegExp) => [...text.matchAll(pattern)].map(([, found]) => found)
  return { statuses: all(/HTTP\/1\.1 (\d+) /g), ids: all(/^x-request-id: (\S+)/gim) }
}

test('pipelined requests are answered in order, however long each takes @runtime', async ({
  request,
  baseURL,
}) => {
  const url = baseURL ?? ''
  const lines = [
    'GET /health',
    'GET /health/ready',
    'GET /api/v1/namespaces',
    'GET /nope',
    'GET /swagger/json',
  ]
  for (const count of [2, 20]) {
    const requests = Array.from({ length: count }, (_, index) => [`${lines[index % lines.length]} HTTP/1.1`])
    const { statuses, ids } = await pipelined(url, requests)
    const expected = ['200', '200', '200', '404', '200']
    expect(statuses).toEqual(requests.map((_, index) => expected[index % lines.length]))
    expect(ids).toEqual(requests.map((_, index) => `piped-${index}`))
  }
  const [first, second] = [fresh('piped'), fresh('piped')].map((name) => JSON.stringify({ name }))
  const created = (text = '') => [
    'POST /api/v1/namespaces HTTP/1.1',
    'Content-Type: application/json',
    `Content-Length: ${text.length}`,
    '',
    text,
  ]
  const written = await pipelined(url, [
    created(first),
    created(second),
    ['GET /api/v1/namespaces HTTP/1.1'],
    ...Array.from({ length: 10 }, () => created(first)),
  ])
  // Requests execute in order, so every repeated name is refused, even if its statement would be faster.
  expect(written.statuses).toEqual(['201', '201', '200', ...Array.from({ length: 10 }, () => '409')])
  expect(written.ids).toEqual(written.statuses.map((_, index) => `piped-${index}`))
  const { namespaces } = await getJson(request, '/api/v1/namespaces')
  const names = namespaces.map(({ name }: { name: string }) => name)
  for (const text of [first, second]) expect(names).toContain(JSON.parse(text ?? '').name)
})

test('a request with two Host headers is refused after earlier pipelined answers @runtime', async ({
  baseURL,
}) => {
  const text = JSON.stringify({ name: fresh('piped') })
  const first = [
    'POST /api/v1/namespaces HTTP/1.1',
    'Content-Type: application/json',
    `Content-Length: ${text.length}`,
    '',
    text,
  ]
  const twoHosts = ['GET /health HTTP/1.1', 'Host: other']
  expect((await pipelined(baseURL ?? '', [first, twoHosts])).statuses).toEqual(['201', '400'])
})

test('on every route, HEAD omits Content-Length or reports that of GET @runtime', async ({
  request,
  baseURL,
}) => {
  const { paths } = await getJson(request, '/swagger/json')
  const documented = Object.entries<Record<string, { responses?: Record<string, { content?: object }> }>>(
    paths,
  )
    .filter(([, methods]) => methods.get !== undefined)
    .filter(([path]) => !path.endsWith('/events'))
    .map(([path]) => path.replace('{machine}', 'run').replaceAll(/\{\w+\}/g, 'absent'))
  for (const path of [...documented, '/nope', '/swagger', '/swagger/json', '/console']) {
    const answer = await request.get(path)
    const length = (await answer.body()).length
    const { status, head, body } = await rawRequest(baseURL ?? '', [
      `HEAD ${path} HTTP/1.1`,
      'Host: localhost',
    ])
    expect([path, status, body]).toEqual([path, answer.status(), ''])
    const announced = /^content-length: (\d+)/im.exec(head)?.[1]
    // `/metrics` counts both requests, so its length changes.
    if (announced !== undefined && path !== '/metrics')
      expect([path, Number(announced)]).toEqual([path, length])
    if (length > 0) expect([path, announced]).not.toEqual([path, '0'])
  }
})

test('a disconnected client counts as 499, not as a service error @runtime', async ({ request, baseURL }) => {
  const { hostname, port } = new URL(baseURL ?? '')
  const statuses = async (path: string) => {
    const text = await (await request.get('/metrics')).text()
    const pattern = new RegExp(`http_requests_total\\{method="POST",path="${path}",status="(\\d+)"\\}`, 'g')
    return [...text.matchAll(pattern)].map(([, status]) => status)
  }
  const sql = JSON.stringify({
    sql: 'select count(*) from range(100000) a, range(100000) b where a.range % 7 = b.range % 11',
  })
  const { go_version: runtime } = await getJson(request, '/health/live')
  for (const [path, length, body, status] of [
    ['/api/v1/query', sql.length, sql, '499'],
    // The body breaks off. Deno reports the end of the connection to the application only after the answer.
    ['/api/v1/pipelines', 1_000, '{"namespace":', runtime.startsWith('deno') ? '400' : '499'],
  ] as const) {
    const socket = connect(Number(port), hostname)
    socket.on('error', () => {})
    const head = [
      `POST ${path} HTTP/1.1`,
      'Host: localhost',
      'Content-Type: application/json',
      `Content-Length: ${length}`,
    ]
    socket.write(`${head.join('\r\n')}\r\n\r\n${body}`)
    // Another request is answered first, so that the service has begun this one before the client leaves.
    await eventually(async () => (await request.get('/health')).status()).toBe(200)
    socket.destroy()
    await expect.poll(() => statuses(path), { message: path }).toContain(status)
    expect(await statuses(path)).not.toContain('503')
  }
})
