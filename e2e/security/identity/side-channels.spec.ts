// Attack class: callers without a credential learn which resources exist. Status, size, headers, text and duration of answers
// could tell, as could everything that is open: probes, metrics, the document, pages.
import { type APIRequestContext, type APIResponse, expect, test } from '@playwright/test'
import { eventually } from '../../kit/eventually.ts'
import { fresh, getJson, type MadePipeline, newPipeline, newZone, writeFile } from '../../kit/resources.ts'
import { requestRun } from '../../kit/runs.ts'
import { addTrigger } from '../../kit/triggers.ts'

let anybody: APIRequestContext
let pipeline: MadePipeline
let runId: string
/** The address of an existing resource, and that of a missing one. */
let addresses: [there: string, nowhere: string]
/** Texts that no answer without the key may contain. */
let names: string[]

test.describe.configure({ mode: 'serial' })
test.beforeAll(async ({ playwright, request, baseURL }) => {
  anybody = await playwright.request.newContext({ baseURL, extraHTTPHeaders: {} })
  const namespace = fresh('hidden')
  expect((await request.post('/api/v1/namespaces', { data: { name: namespace } })).status()).toBe(201)
  pipeline = await newPipeline(request, { namespace, name: fresh('hidden') })
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, 'select 1 as hidden_column')
  const zone = await newZone(request)
  await zone.upload('hidden-file.csv')
  expect((await request.post(`${pipeline.url}/publish`)).status()).toBe(200)
  const trigger = await addTrigger(request, pipeline, 'webhook', {})
  runId = await requestRun(request, pipeline)
  addresses = [pipeline.url, `/api/v1/pipelines/${namespace}/bronze/nothing`]
  names = [namespace, pipeline.name, zone.name, 'hidden-file', 'hidden_column', runId, trigger.id]
})
test.afterAll(() => anybody?.dispose())

/** An answer without the headers that differ between any two answers. */
async function shown(response: APIResponse) {
  const headers = Object.entries(response.headers()).filter(([name]) => !/^(date|x-request-id)$/.test(name))
  return { status: response.status(), headers: Object.fromEntries(headers), body: await response.text() }
}

test('a body is not read before the credential is checked', async () => {
  const url = '/api/v1/pipelines'
  const answers = await Promise.all(
    [{ namespace: 'default', layer: 'bronze', name: pipeline.name }, { namespace: 1 }, {}, '{"broken'].map(
      async (data) =>
        shown(await anybody.post(url, { data, headers: { 'content-type': 'application/json' } })),
    ),
  )
  for (const answer of answers) expect(answer).toEqual(answers[0])
})

test('anonymous requests take equally long for existing and missing resources', async () => {
  // Medians of alternating requests, so that a slow machine affects both. A query of the database would show.
  const [there, nowhere] = addresses
  const times: Record<string, number[]> = { [there]: [], [nowhere]: [] }
  for (let round = 0; round < 150; round++)
    for (const url of [there, nowhere]) {
      const began = performance.now()
      await anybody.get(url)
      times[url]?.push(performance.now() - began)
    }
  const median = (url: string) => times[url]?.sort((a, b) => a - b)[75] ?? 0
  console.log(`without a key: there ${median(there).toFixed(2)} ms, nowhere ${median(nowhere).toFixed(2)} ms`)
  expect(Math.abs(median(there) - median(nowhere))).toBeLessThan(Math.max(median(nowhere), 2))
})

test('probes, metrics, the OpenAPI document and pages name no stored resource', async ({ request }) => {
  await eventually(async () => (await getJson(request, `/api/v1/runs/${runId}`)).finished_at).not.toBeNull()
  const page = await (await anybody.get('/console')).text()
  const pages = [...page.matchAll(/(?:src|href)="((?!data:)[^"]+)"/g)].map(
    ([, path = '']) => new URL(path, 'http://sluice.test/console').pathname,
  )
  for (const url of [
    '/health',
    '/health/live',
    '/health/ready',
    '/metrics',
    '/swagger',
    '/swagger/json',
    '/inspector',
    ...pages,
  ]) {
    const response = await anybody.get(url)
    expect([url, response.status()]).toEqual([url, 200])
    const text = JSON.stringify([response.headers(), await response.text()])
    for (const name of names) expect([url, name, text.includes(name)]).toEqual([url, name, false])
    // The answers also name no places of the machine and no addresses of its parts.
    expect([url, /postgres(ql)?:\/\/|\/tmp\/|\/root\/|canary-/.exec(text)?.[0]]).toEqual([url, undefined])
  }
})

test('metric labels come from the service, never from requests', async () => {
  const invented = fresh('invented')
  await anybody.get(`/${invented}`)
  await anybody.fetch(`/api/v1/${invented}`, { method: 'PROPFIND' })
  await anybody.get('/api/v1/runs', { headers: { 'user-agent': invented, 'x-request-id': invented } })
  await anybody.post('/api/v1/webhooks', { headers: { 'x-webhook-token': invented } })
  const text = await (await anybody.get('/metrics')).text()
  expect(text).toContain('path="unmatched"')
  expect(text).not.toContain(invented)
  const labels = new Set([...text.matchAll(/\b(\w+)="/g)].map(([, label]) => label))
  // Some labels appear later: with a maintenance, a query, a report of an engine, or a worker thread that was replaced.
  const known = [
    'code',
    'le',
    'method',
    'outcome',
    'part',
    'path',
    'reason',
    'role',
    'status',
    'use',
    'work',
    'worker',
  ]
  expect(known).toEqual(expect.arrayContaining([...labels]))
  expect([...labels]).toEqual(expect.arrayContaining(['code', 'le', 'method', 'path', 'status']))
})

test('other sites cannot read answers, even with a credential of the browser', async ({ request }) => {
  for (const origin of [
    'https://evil.test',
    'null',
    'http://localhost:3000.evil.test',
    'http://localhost:3001',
  ])
    for (const context of [anybody, request]) {
      const response = await context.get('/api/v1/namespaces', { headers: { origin } })
      expect([origin, response.headers()['access-control-allow-origin']]).toEqual([origin, undefined])
      expect(response.headers()['access-control-allow-credentials']).toBeUndefined()
    }
  const forged = await request.post('/api/v1/namespaces', {
    data: { name: fresh('forged') },
    headers: { origin: 'https://evil.test', 'sec-fetch-site': 'cross-site' },
  })
  expect(forged.status()).toBe(403)
})
