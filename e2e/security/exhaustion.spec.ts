// Attack class: resource exhaustion. Slow clients, floods and texts that are dear to look at cost their sender something, and
// others nothing: whoever asks meanwhile is answered.
import { connect, type Socket } from 'node:net'
import { type APIRequestContext, expect, test } from '@playwright/test'
import { type OwnService, startOwnService } from '../own-service.ts'
import { rawRequest } from '../raw-request.ts'
import { newPipeline, writeFile } from '../resources.ts'
import { started } from './attempts.ts'

/** Nobody waits longer for an answer that costs little. */
const PATIENCE_MS = 10_000
const KEY = `X-Api-Key: ${process.env.SLUICE_KEY}`

/** Others are answered, while something is going on. */
const expectAnswers = async (request: APIRequestContext) => {
  for (const path of ['/health', '/api/v1/namespaces', '/api/v1/runs?limit=1'])
    expect((await request.get(path, { timeout: PATIENCE_MS })).status()).toBe(200)
}

function open(baseUrl: string, first: string): { socket: Socket; closed: Promise<void> } {
  const { hostname, port } = new URL(baseUrl)
  const socket = connect(Number(port), hostname, () => socket.write(first))
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  socket.on('error', () => {})
  socket.resume()
  return { socket, closed }
}

test('clients that never end their headers, or their bodies, hold up nobody, and are shown out', async ({
  request,
  baseURL,
}) => {
  const service = baseURL ?? ''
  test.setTimeout(60_000)
  const start = 'POST /api/v1/namespaces HTTP/1.1\r\nHost: sluice.test\r\n'
  const silent = Array.from({ length: 50 }, () => open(service, ''))
  const headless = Array.from({ length: 100 }, () => open(service, start))
  const trickling = Array.from({ length: 20 }, () => open(service, start))
  const bodiless = Array.from({ length: 50 }, () =>
    open(service, `${start}${KEY}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{`),
  )
  const trickle = setInterval(() => {
    for (const { socket } of trickling) socket.write('X-A: b\r\n')
  }, 1_000)
  try {
    await expectAnswers(request)
    await Promise.all([...silent, ...headless, ...trickling].map(({ closed }) => closed))
    await expectAnswers(request)
  } finally {
    clearInterval(trickle)
    for (const { socket } of [...silent, ...headless, ...trickling, ...bodiless]) socket.destroy()
  }
})

test('headers, addresses and bodies beyond all measure are refused before anybody reads them', async ({
  request,
  baseURL,
}) => {
  const service = baseURL ?? ''
  const line = 'GET /api/v1/namespaces HTTP/1.1'
  const host = 'Host: sluice.test'
  const answers = await Promise.all([
    rawRequest(service, [line, host, KEY, `X-A: ${'a'.repeat(100_000)}`]).catch(() => null),
    rawRequest(service, [line, host, KEY, ...Array.from({ length: 5_000 }, (_, n) => `X-${n}: a`)]).catch(
      () => null,
    ),
    rawRequest(service, [`GET /api/v1/namespaces?${'a'.repeat(200_000)} HTTP/1.1`, host, KEY]).catch(
      () => null,
    ),
    rawRequest(service, [`GET /${'a/'.repeat(50_000)} HTTP/1.1`, host, KEY]).catch(() => null),
    rawRequest(service, [`${'G'.repeat(50_000)} / HTTP/1.1`, host, KEY]).catch(() => null),
  ])
  for (const [index, answer] of answers.entries())
    expect([index, [400, 404, 413, 414, 431, undefined].includes(answer?.status || undefined)]).toEqual([
      index,
      true,
    ])
  const json = ['Content-Type: application/json', KEY, host]
  for (const lines of [
    ['POST /api/v1/namespaces HTTP/1.1', ...json, 'Content-Length: 1048577'],
    ['POST /api/v1/query HTTP/1.1', ...json, 'Content-Length: 999999999'],
    ['PUT /api/v1/files/default/a HTTP/1.1', ...json, 'Content-Length: 9999999999'],
  ]) {
    // Not one byte of the body is sent: the length is enough.
    const answer = await rawRequest(service, lines).catch(() => null)
    expect([lines[0], [400, 413, undefined].includes(answer?.status || undefined)]).toEqual([lines[0], true])
  }
  await expectAnswers(request)
})

test('sources that are dear to scan for references are scanned in the time of their length', async ({
  request,
}) => {
  const names: string[] = []
  for (const source of [
    `{{ ref(${"'a".repeat(200_000)}`,
    `${'{{ '.repeat(200_000)}`,
    `${"ref('".repeat(100_000)}`,
    `${'ref ('.repeat(100_000)}`,
    `${'$a$'.repeat(150_000)}`,
    `${'/*'.repeat(250_000)}`,
    `${' '.repeat(500_000)}ref`,
    `${'{% raw %}'.repeat(50_000)}`,
    `${'"'.repeat(500_001)}`,
  ]) {
    const pipeline = await newPipeline(request, { layer: 'gold' })
    await writeFile(request, `${pipeline.prefix}pipeline.sql`, source)
    names.push(pipeline.name)
    const response = await request.post(`${pipeline.url}/publish`, { data: {}, timeout: PATIENCE_MS })
    expect([source.slice(0, 12), [200, 422].includes(response.status())]).toEqual([source.slice(0, 12), true])
  }
  const python = await newPipeline(request, { layer: 'gold', type: 'python' })
  await writeFile(request, `${python.prefix}pipeline.py`, `f"${'{f"'.repeat(100_000)}`)
  const lineage = await request.get('/api/v1/lineage?namespace=default', { timeout: 2 * PATIENCE_MS })
  expect(lineage.status()).toBe(200)
  const text = await lineage.text()
  for (const name of names) expect(text).toContain(name)
  await expectAnswers(request)
})

test.describe('where clients are counted', () => {
  const headers = { 'x-api-key': 'key-of-exhaustion' }
  let service: OwnService
  test.beforeAll(async () => {
    test.setTimeout(90_000)
    service = await startOwnService({
      PLATFORM_API_KEY: headers['x-api-key'],
      RATE_LIMIT: '1',
      RATE_BURST: '500',
      SSE_STREAMS: '40',
      SSE_STREAMS_PER_CLIENT: '5',
      RUNNER_URLS: 'none',
      QUERY_URLS: 'none',
    })
  })
  test.afterAll(() => service?.stop())

  test('event streams have places, for each client and in all, that come back', async ({ playwright }) => {
    const request = await playwright.request.newContext({ baseURL: service.url, extraHTTPHeaders: headers })
    const pipeline = await newPipeline(request)
    const id = await started(request, pipeline)
    const { hostname, port } = new URL(service.url)
    const follow = (client: string) =>
      new Promise<{ status: number; socket: Socket }>((resolve, reject) => {
        const socket = connect(Number(port), hostname, () =>
          socket.write(
            `GET /api/v1/runs/${id}/logs HTTP/1.1\r\nHost: sluice.test\r\nX-Api-Key: ${headers['x-api-key']}\r\nX-Forwarded-For: ${client}\r\nAccept: text/event-stream\r\n\r\n`,
          ),
        )
        socket.once('data', (chunk) => resolve({ status: Number(String(chunk).split(' ')[1]), socket }))
        socket.once('error', reject)
      })
    const one = await Promise.all(Array.from({ length: 20 }, () => follow('203.0.113.1')))
    expect(one.filter(({ status }) => status === 200).length).toBe(5)
    expect(one.filter(({ status }) => status === 429).length).toBe(15)
    const many = await Promise.all(
      Array.from({ length: 80 }, (_, index) => follow(`203.0.113.${2 + (index % 16)}`)),
    )
    expect(many.filter(({ status }) => status === 200).length).toBe(35)
    expect(new Set(many.map(({ status }) => status))).toEqual(new Set([200, 429]))
    for (const { socket } of [...one, ...many]) socket.destroy()
    await expect
      .poll(async () => {
        const { status, socket } = await follow('203.0.113.1')
        socket.destroy()
        return status
      })
      .toBe(200)
    await request.dispose()
  })

  test('what keeps an engine busy is counted apart, running all tests too', async ({ playwright }) => {
    const request = await playwright.request.newContext({ baseURL: service.url, extraHTTPHeaders: headers })
    const { url } = await newPipeline(request)
    const limits = await Promise.all(
      [
        request.post('/api/v1/query', { data: { sql: 'select 1' } }),
        request.post(`${url}/preview`, { data: {} }),
        request.post(`${url}/tests/run`, { data: {} }),
        request.get('/api/v1/tables/default/bronze/a/preview'),
        request.get('/api/v1/namespaces'),
      ].map(async (asked) => (await asked).headers()['ratelimit-limit']),
    )
    expect(limits).toEqual(['100', '100', '100', '100', '500'])
    const answers = await Promise.all(
      Array.from({ length: 120 }, () => request.post(`${url}/tests/run`, { data: {} })),
    )
    expect(answers.some((response) => response.status() === 429)).toBe(true)
    expect((await request.get('/api/v1/namespaces')).status()).toBe(200)
    await request.dispose()
  })
})
