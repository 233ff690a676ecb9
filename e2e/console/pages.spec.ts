// Every page with real data: what it shows, and axe in light and dark, wide and narrow.
import { type APIRequestContext, expect, test } from '@playwright/test'
import { fresh, newNamespace, publishedPipeline, writeFile } from '../kit/resources.ts'
import { runToEnd, runToSuccess } from '../kit/runs.ts'
import { expectAccessible, openConsole } from './open.ts'

/** A namespace with a zone and a file, a bronze and a gold table, a failing test and a branch. */
async function seed(request: APIRequestContext) {
  const namespace = await newNamespace(request)
  const zone = fresh('orders')
  const made = await request.post('/api/v1/landing-zones', { data: { namespace, name: zone } })
  expect(made.status()).toBe(201)
  const file = { name: 'orders.csv', mimeType: 'text/csv', buffer: Buffer.from('id,amount\n1,10\n2,-5\n') }
  await request.post(`/api/v1/landing-zones/${namespace}/${zone}/files`, { multipart: { file } })
  const bronze = await publishedPipeline(request, `select * from read_csv('{{ landing_zone("${zone}") }}')`, {
    namespace,
    layer: 'bronze',
    name: 'orders',
  })
  const { id: bronzeRun } = await runToSuccess(request, bronze)
  const gold = await publishedPipeline(
    request,
    "select sum(amount) as total from {{ ref('bronze.orders') }}",
    {
      namespace,
      layer: 'gold',
      name: 'totals',
    },
  )
  await runToSuccess(request, gold)
  const branch = fresh('try')
  await request.post('/api/v1/branches', { data: { name: branch } })
  return { namespace, zone, bronze, gold, bronzeRun, branch }
}

type Seed = Awaited<ReturnType<typeof seed>>

/** The name of each page, with its address and a text that it shows. */
const PAGES: Record<string, (seeded: Seed) => readonly [path: string, shown: string]> = {
  overview: ({ namespace }) => ['/', goldOf(namespace)],
  pipelines: ({ namespace }) => [`/pipelines?namespace=${namespace}`, goldOf(namespace)],
  'pipeline-code': ({ namespace }) => [`/pipelines/${namespace}/gold/totals`, '1 row,'],
  'pipeline-tests': ({ namespace }) => [`/pipelines/${namespace}/gold/totals?tab=tests`, 'No test yet'],
  'pipeline-starts': ({ namespace }) => [`/pipelines/${namespace}/gold/totals?tab=starts`, 'No schedule'],
  'pipeline-versions': ({ namespace }) => [`/pipelines/${namespace}/gold/totals?tab=versions`, 'published'],
  'pipeline-runs': ({ namespace }) => [`/pipelines/${namespace}/gold/totals?tab=runs`, 'success'],
  run: ({ bronzeRun }) => [`/runs/${bronzeRun}`, 'What it changes'],
  inspector: ({ namespace }) => [`/inspector/run?q=${namespace}`, '2 runs'],
  'inspector-draft': ({ namespace }) => [`/inspector/draft?q=${namespace}`, '2 drafts'],
  'inspector-run': ({ bronzeRun }) => [`/inspector/run/${bronzeRun}`, 'Merge commit'],
  lineage: ({ namespace }) => [`/lineage?search=${namespace}`, goldOf(namespace)],
  lake: ({ namespace }) => [`/lake?search=${namespace}`, goldOf(namespace)],
  table: ({ namespace }) => [`/lake/${namespace}/gold/totals`, 'Read it with another engine'],
  branches: ({ branch }) => ['/branches', branch],
  branch: ({ branch }) => [`/branches/${branch}`, 'The branch changes no table'],
  query: () => ['/query', 'Execute a query to see rows here'],
  zones: ({ namespace, zone }) => ['/landing-zones', `${namespace}.${zone}`],
  zone: ({ namespace, zone }) => [`/landing-zones/${namespace}/${zone}`, 'orders.csv'],
  system: () => ['/system', 'Leadership of this replica'],
  retention: () => ['/retention', 'runs max per pipeline'],
  audit: () => ['/audit', 'Resource'],
  sharing: () => ['/sharing', 'This edition has one role'],
  settings: ({ namespace }) => ['/settings', namespace],
}
const goldOf = (namespace: string) => `${namespace}.gold.totals`

test.describe('with data', () => {
  let seeded: Seed
  test.beforeAll(async ({ request }) => {
    seeded = await seed(request)
  })
  for (const [name, of] of Object.entries(PAGES))
    test(`the page ${name} shows its data and passes axe`, async ({ page, baseURL }) => {
      const [path, shown] = of(seeded)
      const faults = await openConsole(page, baseURL, path)
      await expect(page.getByText(shown).first()).toBeVisible()
      await expectAccessible(page, name)
      expect(faults).toEqual([])
    })
})

const HOSTILE = `<img src=x onerror="document.title='hit'"><script>document.title='hit'</script>"'&{{7*7}}`

test('hostile names, rows, logs and errors are shown as text', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const sql = `select '${HOSTILE.replaceAll("'", "''").replaceAll('{{', '{ {')}' as "<b onclick=x>c</b>"`
  const pipeline = await publishedPipeline(request, sql, { namespace })
  const { layer, name } = pipeline
  const run = await runToSuccess(request, pipeline)
  await request.put(`/api/v1/tables/${namespace}/${layer}/${name}/metadata`, {
    data: { description: HOSTILE, column_descriptions: { '<b onclick=x>c</b>': HOSTILE } },
  })
  await writeFile(
    request,
    `${pipeline.prefix}pipeline.sql`,
    `select error('${HOSTILE.replaceAll("'", "''").replaceAll('{{', '{ {')}')`,
  )
  await request.post(`/api/v1/pipelines/${namespace}/${layer}/${name}/publish`)
  const failed = await runToEnd(request, pipeline)
  expect(failed.status).toBe('failed')
  const faults: string[] = []
  for (const path of [
    `/lake/${namespace}/${layer}/${name}`,
    `/pipelines/${namespace}/${layer}/${name}`,
    `/runs/${run.id}`,
    `/runs/${failed.id}`,
    `/query?sql=${encodeURIComponent(`select '${HOSTILE.replaceAll("'", "''")}' as x`)}`,
    `/pipelines?search=${encodeURIComponent(HOSTILE)}`,
  ]) {
    faults.push(...(await openConsole(page, baseURL, path)))
    await expect(page.getByRole('heading', { level: 1 })).toBeVisible()
    await page.waitForLoadState('networkidle')
    expect(await page.title()).not.toBe('hit')
    expect(await page.locator('main img:not(.statechart), main script').count(), path).toBe(0)
  }
  await openConsole(page, baseURL, `/lake/${namespace}/${layer}/${name}`)
  await expect(page.getByText('<img src=x').first()).toBeVisible()
  expect(faults.filter((fault) => fault.startsWith('policy'))).toEqual([])
})

test('the check of a page finds faults of each width and colour scheme', async ({ page }) => {
  const checked = async (css: string) => {
    await page.setContent(`<!doctype html><html lang="en" data-theme="light"><title>a page</title>
      <style>html { background: #fff; color: #000 } ${css}</style><main><h1>a page</h1></main></html>
      <script>
        matchMedia('(prefers-color-scheme: dark)').onchange = ({ matches }) => {
          document.documentElement.dataset.theme = matches ? 'dark' : 'light'
        }
      </script>`)
    await expectAccessible(page, 'a page')
  }
  await checked('')
  for (const scheme of ['light', 'dark'])
    for (const width of ['min-width: 391px', 'max-width: 390px'])
      await expect(
        checked(`@media (prefers-color-scheme: ${scheme}) and (${width}) { h1 { color: #eee } }`),
        `${scheme}, ${width}`,
      ).rejects.toThrow('color-contrast')
  await expect(checked('@media (max-width: 390px) { h1 { width: 999px } }')).rejects.toThrow('too wide')
})
