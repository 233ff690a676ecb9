// Every list honours `limit` and `offset`, returns an exact total and links to its other pages (docs/semantics/http.md). The tests
// of a resource cover the peculiarities of its list.
import { type APIRequestContext, expect, test } from '@playwright/test'
import {
  fresh,
  newNamespace,
  newPipeline,
  newZone,
  publish,
  publishedPipeline,
  writeFile,
} from '../kit/resources.ts'

const MADE = 5
/** Items per requested page. */
const LIMIT = 2

interface List {
  /** Address with filters, so that the list holds only the items of the test. */
  url: string
  /** Field of the body that holds the items; without it, the body is the array. */
  key?: string
  /** Other tests may add items meanwhile. */
  isShared?: boolean
}

async function times(make: (n: number) => Promise<unknown>, count = MADE) {
  for (let n = 0; n < count; n++) await make(n)
}
const created = async (request: APIRequestContext, url: string, data: object) => {
  const response = await request.post(url, { data })
  expect([response.status(), await response.text()]).toEqual([expect.any(Number), expect.anything()])
  expect(response.ok()).toBe(true)
}

/** Makes a list with items, by row of COVERAGE.md. */
const LISTS: Record<string, (request: APIRequestContext) => Promise<List>> = {
  async 'pipelines.list'(request) {
    const namespace = await newNamespace(request)
    await times(() => newPipeline(request, { namespace }))
    return { url: `/api/v1/pipelines?namespace=${namespace}`, key: 'pipelines' }
  },
  async 'pipelines.versions'(request) {
    const pipeline = await newPipeline(request)
    await times(async (n) => {
      await writeFile(request, `${pipeline.prefix}pipeline.sql`, `select ${n} as a`)
      await publish(request, pipeline)
    })
    return { url: `${pipeline.url}/versions`, key: 'versions' }
  },
  async 'runs.list'(request) {
    const { namespace, layer, name } = await publishedPipeline(request)
    await times(() => created(request, '/api/v1/runs', { namespace, layer, pipeline: name }))
    return { url: `/api/v1/runs?namespace=${namespace}&layer=${layer}&pipeline=${name}`, key: 'runs' }
  },
  async 'triggers.list'(request) {
    const pipeline = await publishedPipeline(request)
    await times((n) =>
      created(request, `${pipeline.url}/triggers`, { type: 'cron', config: { cron_expr: `${n} 4 1 1 *` } }),
    )
    return { url: `${pipeline.url}/triggers`, key: 'triggers' }
  },
  async 'schedules.list'(request) {
    const { namespace, layer, name } = await publishedPipeline(request)
    await times((n) =>
      created(request, '/api/v1/schedules', { namespace, layer, pipeline: name, cron: `${n} 4 1 1 *` }),
    )
    return { url: '/api/v1/schedules', key: 'schedules', isShared: true }
  },
  async 'tests.list'(request) {
    const { url } = await newPipeline(request)
    await times((n) =>
      created(request, `${url}/tests`, { name: `t${n}`, sql: 'select 1 where false', severity: 'warn' }),
    )
    return { url: `${url}/tests`, key: 'tests' }
  },
  async 'zones.list'(request) {
    const namespace = await newNamespace(request)
    await times(() => created(request, '/api/v1/landing-zones', { namespace, name: fresh('z') }))
    return { url: `/api/v1/landing-zones?namespace=${namespace}`, key: 'zones' }
  },
  async 'zones.files'(request) {
    const zone = await newZone(request)
    await times((n) => zone.upload(`f${n}.csv`))
    return { url: `${zone.url}/files`, key: 'files' }
  },
  async 'zones.samples'(request) {
    const zone = await newZone(request)
    await times((n) => zone.uploadSample(`s${n}.csv`))
    return { url: `${zone.url}/samples`, key: 'files' }
  },
  async 'files.list'(request) {
    const { prefix } = await newPipeline(request)
    await times((n) => writeFile(request, `${prefix}docs/d${n}.md`, 'text'))
    return { url: `/api/v1/files?prefix=${encodeURIComponent(`${prefix}docs/`)}`, key: 'files' }
  },
  async 'namespaces.list'(request) {
    await times(() => newNamespace(request))
    return { url: '/api/v1/namespaces', key: 'namespaces', isShared: true }
  },
  async 'audit.list'(request) {
    await times(() => newNamespace(request))
    return { url: '/api/v1/audit', isShared: true }
  },
}

for (const [row, make] of Object.entries(LISTS))
  test(`pages of @${row} are bounded, complete and linked, with an exact total @limit.page @limit.page.audit`, async ({
    request,
  }) => {
    const list = await make(request)
    const page = (query: string) =>
      read(request, list, `${list.url}${list.url.includes('?') ? '&' : '?'}${query}`)

    const all = await read(request, list, list.url)
    expect(all.items.length).toBeGreaterThanOrEqual(MADE)
    if (!list.isShared) expect(all).toMatchObject({ items: { length: MADE }, total: MADE })

    // Only the links lead from page to page.
    const first = await page(`limit=${LIMIT}`)
    expect(Object.keys(first.links).sort()).toEqual(['first', 'last', 'next'])
    expect(first.items).toHaveLength(LIMIT)
    if (!list.isShared) {
      const met = [...first.items]
      let last = first
      for (let pages = 0; last.links.next !== undefined && pages < MADE; pages++) {
        const next = await read(request, list, last.links.next)
        expect(next.links.prev).toBeDefined()
        expect(next.total).toBe(MADE)
        met.push(...next.items)
        last = next
      }
      expect(met).toEqual(all.items)
      expect((await read(request, list, first.links.last ?? '')).items).toEqual(all.items.slice(4))
      expect((await read(request, list, last.links.prev ?? '')).items).toEqual(all.items.slice(2, 4))
      const firstAgain = await read(request, list, last.links.first ?? '')
      expect(firstAgain.items).toEqual(first.items)
    }

    // A page beyond the end is empty, and its `prev` link is the last page.
    for (const offset of ['1000000', '9'.repeat(30)]) {
      const beyond = await page(`limit=${LIMIT}&offset=${offset}`)
      expect(beyond.items).toEqual([])
      expect(Object.keys(beyond.links).sort()).toEqual(['first', 'last', 'prev'])
      if (!list.isShared) expect(beyond.links.prev).toBe(beyond.links.last)
    }

    // An invalid number is ignored; a `limit` that is too large is clamped.
    for (const query of [
      'limit=0',
      'limit=-3',
      'limit=x',
      'limit=1.5',
      'limit=',
      'offset=-1',
      'offset=x',
      'limit=100000',
    ]) {
      const odd = await page(query)
      expect(odd.items.length).toBeGreaterThanOrEqual(MADE)
      if (!list.isShared) expect(odd.items).toEqual(all.items)
    }
    expect((await page('limit=100000')).items.length).toBeLessThanOrEqual(200)
  })

for (const path of ['/api/v1/tables', '/api/v1/schema'])
  test(`${path} returns a total and links to its pages`, async ({ request }) => {
    const { total, links } = await read(request, { url: path, key: 'tables' }, `${path}?limit=1`)
    expect(total).toEqual(expect.any(Number))
    expect(Object.keys(links)).toEqual(expect.arrayContaining(['first', 'last']))
    const beyond = await read(request, { url: path, key: 'tables' }, `${path}?limit=1&offset=1000000`)
    expect(beyond.items).toEqual([])
  })

async function read(request: APIRequestContext, { key }: List, url: string) {
  const response = await request.get(url)
  expect([response.status(), await response.text()]).toEqual([200, expect.anything()])
  const body = await response.json()
  const links = Object.fromEntries(
    [...(response.headers().link ?? '').matchAll(/<([^>]+)>; rel="(\w+)"/g)].map(([, target = '', rel]) => [
      rel,
      target,
    ]),
  ) as { [rel in 'first' | 'prev' | 'next' | 'last']?: string }
  // Compares only stable fields, because runs change meanwhile.
  const listed: Record<string, unknown>[] = key === undefined ? body : body[key]
  const items = listed.map((item) => item.id ?? item.path ?? item.name ?? item.filename)
  expect(items).not.toContain(undefined)
  expect(new Set(items).size).toBe(items.length)
  return { items, total: key === undefined ? undefined : (body.total as number), links }
}

test('list links stay within the length that proxies accept, whatever the filter @convention.link-length', async ({
  request,
}) => {
  const namespace = await newNamespace(request)
  await times((n) => writeFile(request, `${namespace}/notes/${n}.md`, 'a note'), 3)
  const relsWith = async (excluded: number) => {
    const url = `/api/v1/files?prefix=${namespace}/notes/&limit=1&exclude=${'x'.repeat(excluded)}`
    const response = await request.get(url)
    expect(response.status()).toBe(200)
    expect(((await response.json()) as { files: unknown[] }).files).toHaveLength(1)
    const { link = '' } = response.headers()
    expect(link.length).toBeLessThanOrEqual(3_072)
    return [...link.matchAll(/rel="(\w+)"/g)].map(([, rel]) => rel)
  }
  expect(await relsWith(10)).toEqual(['first', 'next', 'last'])
  expect(await relsWith(2_000)).toEqual(['next'])
  expect(await relsWith(6_000)).toEqual([])
})
