// Attack class: floods of the audit log. Refused requests without a credential displace no entry of a caller with one. They
// leave a bounded number of rows.
import { Agent, request as send } from 'node:http'
import { type APIRequestContext, expect } from '@playwright/test'
import { test } from '../../kit/own-service.ts'
import { type AuditEntry, auditOf, fresh } from '../../kit/resources.ts'

const KEY = 'a-key-of-the-audit-flood'
const FLOOD = 20_000
const ADDRESSES = 5_000
const CONNECTIONS = 64
const WRITES = 13

const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS })

test.describe.configure({ mode: 'serial' })
test.use({
  serviceEnv: { PLATFORM_API_KEYS: `robot:${KEY}`, RUNNER_URLS: 'none', QUERY_URLS: 'none' },
  extraHTTPHeaders: { 'x-api-key': KEY },
})
test.afterAll(() => agent.destroy())

/** A POST without a credential, on a reused connection. */
const post = (url: string, headers: Record<string, string>) =>
  new Promise<number>((resolve, reject) => {
    send(url, { agent, method: 'POST', headers }, (response) => {
      response.resume()
      response.once('end', () => resolve(response.statusCode ?? 0))
    })
      .once('error', reject)
      .end()
  })

async function flood(url: string, size: number, headersOf: (n: number) => Record<string, string>) {
  let sent = 0
  const statuses = new Set<number>()
  const client = async () => {
    while (sent < size) {
      const n = sent++
      statuses.add(await post(`${url}/api/v1/flood/${n}`, headersOf(n)))
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, client))
  return statuses
}

const wholeLog = (request: APIRequestContext) => auditOf(request, undefined, 5_000)
const total = (entries: AuditEntry[]) => entries.reduce((sum, { count }) => sum + count, 0)

test('20,000 anonymous POSTs are counted and displace no entry of a key', async ({ request, service }) => {
  const names = Array.from({ length: WRITES }, () => fresh('flooded'))
  const flooding = flood(service.url, FLOOD, () => ({}))
  for (const name of names) {
    const response = await request.post('/api/v1/namespaces', { data: { name } })
    expect(response.status()).toBe(201)
  }
  expect([...(await flooding)]).toEqual([401])
  const entries = await wholeLog(request)
  const ours = entries.filter(({ key }) => key === 'robot')
  expect(ours).toHaveLength(WRITES)
  for (const entry of ours) expect(entry).toMatchObject({ status: 201, count: 1, peer: '127.0.0.1' })
  const refused = entries.filter(({ status }) => status === 401)
  expect(total(refused)).toBe(FLOOD)
  // One row a minute; a slow machine takes some minutes.
  expect(refused.length).toBeLessThan(10)
})

test('refusals of invented client addresses share a row', async ({ request, service }) => {
  const before = await wholeLog(request)
  const addressOf = (n: number) => `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`
  const statuses = await flood(service.url, ADDRESSES, (n) => ({ 'X-Forwarded-For': addressOf(n) }))
  expect([...statuses]).toEqual([401])
  const after = await wholeLog(request)
  expect(total(after) - total(before)).toBe(ADDRESSES)
  expect(after.length - before.length).toBeLessThan(10)
})

test('each refusal of a caller with a key has its own entry', async ({ request }) => {
  const path = `/api/v1/namespaces/${fresh('missing')}`
  for (let n = 0; n < 30; n++) expect((await request.delete(path)).status()).toBe(404)
  const entries = await auditOf(request, (resource) => resource === path)
  expect(entries).toHaveLength(30)
  for (const entry of entries) expect(entry).toMatchObject({ status: 404, key: 'robot', count: 1 })
})
