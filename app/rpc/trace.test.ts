// Follows a client's trace into the query service, which is a separate process, and from there into the catalog.
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { startTestQueries, type TestQueries } from '../../sidecars/query/testing.ts'
import { testAccess } from '../../sidecars/rpc/testing.ts'
import type { App } from '../composition/server.ts'
import { testApp } from '../composition/test-app.ts'
import { systemClock } from '../core/clock.ts'
import { newId } from '../core/ids.ts'
import { queryRoutes } from '../query/routes.ts'
import { makeQueryService } from '../query/service.ts'
import { queryAt } from './clients.ts'
import { makePool } from './pool.ts'

setDefaultTimeout(60_000)

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const TRACEPARENT = `00-${TRACE}-00f067aa0ba902b7-01`

let queries: TestQueries
let app: App
/** Replaces the address of the API: records each request, then forwards or refuses it. */
let catalog: ReturnType<typeof Bun.serve>
let heard: Headers[] = []
let isRefusing = false

beforeAll(async () => {
  catalog = Bun.serve({
    port: 0,
    fetch(request) {
      heard.push(request.headers)
      if (isRefusing) return new Response('not today', { status: 404 })
      const { pathname, search } = new URL(request.url)
      return fetch(`${queries.catalog.url}${pathname}${search}`, { headers: request.headers })
    },
  })
  queries = await startTestQueries({ API_URLS: catalog.url.origin })
  const { sql, tokens } = queries.catalog
  const services = makePool('query service', [queryAt(queries.url, () => {}, testAccess(catalog.url.origin))])
  const publicUrl = catalog.url.origin
  app = testApp({
    api: [queryRoutes(makeQueryService({ sql, tokens, clock: systemClock, newId, publicUrl, services }))],
  })
})
afterAll(async () => {
  await catalog.stop(true)
  await queries.close()
})

/** The headers that the catalog receives during a query with these headers. */
async function heardOf(headers: Record<string, string>) {
  heard = []
  // A new table for each query, so that no cache contains it.
  const name = `t${newId().replaceAll('-', '')}`
  await queries.table(`default.gold.${name}`, 'SELECT 1 AS a')
  const response = await app.fetch(
    new Request('http://test/api/v1/query', {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ sql: `SELECT * FROM gold.${name}` }),
    }),
  )
  const said = (name: string) => [...new Set(heard.map((one) => one.get(name)))]
  return {
    status: response.status,
    traceparents: said('traceparent'),
    tracestates: said('tracestate'),
    requestIds: said('x-request-id'),
  }
}

test('trace and id of a request reach query service and catalog', async () => {
  const headers = { traceparent: TRACEPARENT, tracestate: 'a=1', 'x-request-id': 'asked-for-it' }
  expect(await heardOf(headers)).toEqual({
    status: 200,
    traceparents: [TRACEPARENT],
    tracestates: ['a=1'],
    requestIds: ['asked-for-it'],
  })
})

test('an invalid trace stops at the API, which creates a request id', async () => {
  expect(await heardOf({ traceparent: TRACEPARENT.toUpperCase(), tracestate: 'a=1' })).toEqual({
    status: 200,
    traceparents: [null],
    tracestates: [null],
    requestIds: [expect.stringMatching(/^[0-9a-f-]{36}$/)],
  })
})

test('log lines of the query service name their request and trace', async () => {
  isRefusing = true
  await heardOf({ traceparent: TRACEPARENT, 'x-request-id': 'refused' })
  isRefusing = false
  const line = queries
    .log()
    .split('\n')
    .find((one) => one.includes('error'))
  expect(line).toContain(`request_id=refused trace_id=${TRACE}`)
})
