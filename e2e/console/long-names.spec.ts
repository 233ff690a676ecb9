// Every address of the console with names of 127 characters, wide and narrow: where the browser sets each text. Only a browser
// knows that. The addresses come from the table of routes, so a new page is measured without a change here.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type APIRequestContext, expect, type Page, request as requests, test } from '@playwright/test'
import { type OwnService, startOwnService } from '../kit/own-service.ts'
import { addTest, csv, pipelineWith, publish, publishedPipeline, writeFile } from '../kit/resources.ts'
import { ended, getRun, requestRun, runToEnd, runToSuccess } from '../kit/runs.ts'
import { addTrigger } from '../kit/triggers.ts'
import { licensedWith, startProvider } from '../security/rights/pro-service.ts'
import { faultsOfLayout, watchDrawings } from './measure.ts'
import { openConsole } from './open.ts'

const SIZES = [
  { width: 1440, height: 900 },
  { width: 390, height: 844 },
]

/** A name of 127 characters, or of the length that the service allows. No line can break within it. */
const long = (prefix: string, length = 127) => prefix.padEnd(length, 'wide')

const NAMESPACE = long('namespace', 63)
const ZONE = long('zone')
const FILE = long('file', 123)
const BRANCH = long('branch', 63)
const NAME = long('table')
const COLUMNS = ['first', 'second', 'third'].map((name) => long(name))
const USER = long('person')
const SENTENCE = `${long('word')} ${'a text of many words '.repeat(4)}`

interface Seeded {
  runs: string[]
  /** The trigger with the longest configuration. */
  trigger: string
  namespaceId: string
}

/** One long name of each kind that the console shows. */
async function seed(request: APIRequestContext): Promise<Seeded> {
  const made = async (path: string, data: object) => {
    const response = await request.post(`/api/v1${path}`, { data })
    expect([path, response.status(), await response.text()]).toEqual([path, 201, expect.anything()])
    return response.json()
  }
  await made('/namespaces', { name: NAMESPACE })
  await made('/landing-zones', { namespace: NAMESPACE, name: ZONE, description: SENTENCE })
  const zone = `/api/v1/landing-zones/${NAMESPACE}/${ZONE}`
  const rows = `${COLUMNS.join()}\n1,${long('value')},2.5\n`
  for (const [kind, name] of [
    ['files', `${FILE}.csv`],
    ['files', `q${FILE.slice(1)}.csv`],
    ['samples', `${FILE}.csv`],
  ] as const) {
    const file = await request.post(`${zone}/${kind}`, { multipart: { file: csv(name, rows) } })
    expect(file.status(), await file.text()).toBe(201)
    if (name.startsWith('q'))
      expect((await request.post(`${zone}/files/${(await file.json()).id}/quarantine`)).status()).toBe(200)
  }
  const reader = await pipelineWith(request, `select * from read_csv('{{ landing_zone("${ZONE}") }}')`, {
    namespace: NAMESPACE,
    layer: 'bronze',
    name: NAME,
  })
  await publish(request, reader)
  const trigger = long('trigger', 200)
  const first = await runToEnd(request, reader, { trigger })
  const table = await publishedPipeline(request, `select * from {{ ref('bronze.${NAME}') }}`, {
    namespace: NAMESPACE,
    name: NAME,
    description: SENTENCE,
  })
  await addTest(request, table, {
    name: long('test'),
    severity: 'warn',
    sql: `select * from {{ ref('gold.${NAME}') }} where "${COLUMNS[0]}" = 1`,
  })
  const { namespace, layer, name } = table
  await made('/schedules', { namespace, layer, pipeline: name, cron: '0 6 * * *' })
  await addTrigger(request, table, 'webhook', {})
  const filePattern = await addTrigger(request, table, 'file_pattern', {
    namespace,
    zone_name: ZONE,
    pattern: long('other'),
  })
  await addTrigger(request, reader, 'file_pattern', { namespace, zone_name: ZONE, pattern: long('pattern') })
  const published = await request.post(`${table.url}/publish`, { data: { message: SENTENCE } })
  expect(published.status()).toBe(200)
  const warned = await runToSuccess(request, table)
  await request.put(`/api/v1/tables/${namespace}/${layer}/${name}/metadata`, {
    data: { description: SENTENCE, owner: USER, column_descriptions: { [COLUMNS[0] ?? '']: SENTENCE } },
  })
  const broken = await publishedPipeline(request, `select error('${SENTENCE}')`, {
    namespace,
    layer: 'silver',
    name: long('broken'),
  })
  const failed = await runToEnd(request, broken)
  const reviewed = await pipelineWith(request, 'select 1 as n', {
    namespace,
    layer: 'silver',
    name: long('reviewed'),
  })
  await writeFile(request, `${reviewed.prefix}config.yaml`, 'merge: review\n')
  await publish(request, reviewed)
  const waiting = await requestRun(request, reviewed)
  await expect.poll(async () => (await getRun(request, waiting)).phase).toBe('review')

  await made('/branches', { name: BRANCH, description: SENTENCE })
  await writeFile(
    request,
    `${table.prefix}pipeline.sql`,
    `select *, 1 as "${long('added')}" from {{ ref('bronze.${NAME}') }}`,
  )
  await ended(request, await requestRun(request, table, { branch: BRANCH, draft: true, trigger }))
  await made('/tags', { name: long('tag', 63), description: SENTENCE })
  const { namespaces } = await (await request.get('/api/v1/namespaces')).json()
  const { id: namespaceId } = namespaces.find((each: { name: string }) => each.name === NAMESPACE)
  await made('/sharing', {
    resource_type: 'namespace',
    resource_id: namespaceId,
    grantee_id: long('reader'),
    permission: 'read',
  })
  return { runs: [first.id, warned.id, failed.id, waiting], trigger: filePattern.id, namespaceId }
}

/** Addresses of the routes that name a resource, and of pages that show more with a parameter. */
const ADDRESSES: Record<string, (seeded: Seeded) => string[]> = {
  '/pipelines/$ns/$layer/$name': () => [`/pipelines/${NAMESPACE}/gold/${NAME}`],
  '/runs/$id': ({ runs }) => runs.map((id) => `/runs/${id}`),
  '/inspector/$machine': () => ['run', 'draft', 'trigger'].map((machine) => `/inspector/${machine}`),
  '/inspector/$machine/$id': ({ runs, trigger }) => [
    ...runs.map((id) => `/inspector/run/${id}`),
    `/inspector/trigger/${trigger}`,
  ],
  '/lake/$ns/$layer/$name': () => [`/lake/${NAMESPACE}/gold/${NAME}`],
  '/branches/$branch': () => [`/branches/${BRANCH}`],
  '/sharing': ({ namespaceId }) => ['/sharing', `/sharing?kind=namespace&id=${namespaceId}`],
  '/query': () => [`/query?sql=${encodeURIComponent(`select * from "${NAMESPACE}".gold."${NAME}"`)}`],
  '/landing-zones/$ns/$name': () => [`/landing-zones/${NAMESPACE}/${ZONE}`],
}

/** Steps of a person before the page shows its names. */
const STEPS: Record<string, (page: Page) => Promise<void>> = {
  '/query': (page) => page.getByRole('button', { name: 'Execute' }).click(),
}

/** Buttons that open a dialog, and nothing else. */
const DIALOGS =
  /^(?:Merge|Rebase|Delete|Describe|Publish|New (?:test|trigger|schedule|pipeline|branch|tag|namespace|landing zone)|Grant|Transfer ownership|Approve|Reject|Edit the expected schema|tests\/.*)$/

const TABLE = readFileSync(join(import.meta.dirname, '..', '..', 'console', 'router.tsx'), 'utf8')
const ROUTES = [...TABLE.matchAll(/^ {2}page\('([^']+)'/gm)].map(([, path = '']) => path)

/** Answers of the API that the page waits for. Streams of events have no end. */
function answersOf(page: Page): () => number {
  const open = new Set<unknown>()
  page.on('request', (request) => {
    const isStream = request.headers().accept === 'text/event-stream'
    if (/\/(?:api|health)\//.test(request.url()) && !isStream) open.add(request)
  })
  page.on('requestfinished', (request) => open.delete(request))
  page.on('requestfailed', (request) => open.delete(request))
  return () => open.size
}

const frames = (page: Page) =>
  page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))))

test('the table of routes is complete', () => {
  expect(ROUTES).toHaveLength(TABLE.split("import('./pages/").length - 1)
})

test('the measurement finds each kind of fault, and none in a sound page', async ({ page }) => {
  const found = async (html: string) => {
    await page.setContent(`<!doctype html><style>*{margin:0;font:16px/20px monospace}</style>${html}`)
    return faultsOfLayout(page)
  }
  const word = 'w'.repeat(20)
  for (const [html, fault] of [
    [`<div style="width:100px;overflow-wrap:anywhere">${word}</div>`, undefined],
    [`<div style="width:100px;overflow:hidden;text-overflow:ellipsis">${word}</div>`, undefined],
    [`<div style="width:100px;overflow:auto">${word}</div>`, undefined],
    [`<div style="width:12px;overflow-wrap:anywhere">${word}</div>`, 'by the letter'],
    [`<div style="width:100px">${word}</div>`, 'leaves div'],
    [`<div style="width:100px;overflow:hidden">${word}</div>`, 'cut by div'],
    [`<p>first</p><p style="margin-top:-15px">second</p>`, 'overlap'],
    [`<div style="width:9999px">wide</div>`, 'the document is 9999 px wide'],
    [`<div style="height:9999px">high</div>`, 'the document is 9999 px high'],
    [`<main style="overflow:auto"><div style="width:9999px">wide</div></main>`, 'main scrolls sideways'],
    [
      `<div role="table"><div role="row"><i>head</i></div><div role="row" style="padding-left:9px"><i>cell</i></div></div>`,
      'a row leaves its columns',
    ],
  ] as const)
    expect(await found(html)).toEqual(fault === undefined ? [] : [expect.stringContaining(fault)])
})

test.describe('with names of 127 characters', () => {
  let provider: Awaited<ReturnType<typeof startProvider>>
  let service: OwnService
  let seeded: Seeded
  let token: string

  test.beforeAll(async () => {
    provider = await startProvider()
    service = await startOwnService({ ...licensedWith(), ...provider.env })
    token = provider.token({ sub: USER, name: USER, roles: ['admin'] })
    const extraHTTPHeaders = { authorization: `Bearer ${token}` }
    seeded = await seed(await requests.newContext({ baseURL: service.url, extraHTTPHeaders }))
  })
  test.afterAll(async () => {
    await service?.stop()
    provider?.stop()
  })

  for (const route of ROUTES)
    test(`each text of ${route} stays in its place`, async ({ page }) => {
      const addresses = ADDRESSES[route]?.(seeded) ?? (route.includes('$') ? undefined : [route])
      if (addresses === undefined) throw new Error(`the route ${route} names a resource: add it to ADDRESSES`)
      await page.addInitScript((entry) => sessionStorage.setItem('sluice-api-key', entry), token)
      await watchDrawings(page)
      const open = answersOf(page)
      const faults: string[] = []
      const settled = async () => {
        for (let quiet = 0; quiet < 2; ) {
          await frames(page)
          quiet = open() === 0 ? quiet + 1 : 0
        }
        await expect(page.getByRole('status', { name: 'Loading' })).toHaveCount(0)
      }
      const measured = async (name: string) => {
        for (const size of SIZES) {
          await page.setViewportSize(size)
          await settled()
          for (const fault of await faultsOfLayout(page)) faults.push(`${name} at ${size.width} px: ${fault}`)
          if (process.env.SHOTS)
            for (const scheme of ['light', 'dark'] as const) {
              await page.emulateMedia({ colorScheme: scheme })
              await page.screenshot({
                path: `${process.env.SHOTS}/${name.replace(/\W+/g, '-').slice(0, 80)}-${size.width}-${scheme}.png`,
              })
            }
        }
      }
      const measuredOnce = new Set<string | null>()
      const measuredDialogs = async (name: string) => {
        const offers = page.getByRole('main').getByRole('button', { name: DIALOGS })
        for (const offer of await offers.all()) {
          const label = await offer.textContent()
          if (measuredOnce.has(label) || !(await offer.isEnabled())) continue
          measuredOnce.add(label)
          await offer.click()
          await expect(page.getByRole('dialog')).toBeVisible()
          await measured(`${name} ${label}`)
          await page.keyboard.press('Escape')
          await expect(page.getByRole('dialog')).toBeHidden()
        }
      }
      for (const [index, address] of addresses.entries()) {
        await openConsole(page, service.url, address)
        await expect(page.getByRole('heading', { level: 1 })).toBeVisible()
        await STEPS[route]?.(page)
        await settled()
        const name = `${route} ${index + 1}`
        const tabs = await page.getByRole('tab').allTextContents()
        if (tabs.length === 0) {
          await measured(name)
          await measuredDialogs(name)
        }
        for (const tab of tabs) {
          await page.getByRole('tab', { name: tab, exact: true }).click()
          await measured(`${name} ${tab}`)
          await measuredDialogs(`${name} ${tab}`)
        }
      }
      expect(faults).toEqual([])
    })
})
