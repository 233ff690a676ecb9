import { expect, type Page, test } from '@playwright/test'
import { newNamespace, publishedPipeline } from '../kit/resources.ts'
import { runToEnd, runToSuccess } from '../kit/runs.ts'
import { expectAccessible, openConsole } from './open.ts'

const LARGE_NODES = 5_000

test('a node shows its state and its neighbours up and down', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const source = await publishedPipeline(request, 'select 1 as a', {
    namespace,
    layer: 'bronze',
    name: 'orders',
  })
  await runToSuccess(request, source)
  const sql = "select error('broken') from {{ ref('bronze.orders') }}"
  const broken = await publishedPipeline(request, sql, { namespace, name: 'totals' })
  const { id } = await runToEnd(request, broken)
  const faults = await openConsole(page, baseURL, `/lineage?search=${namespace}`)
  const nodes = page.getByRole('list', { name: 'Nodes' })
  await expect(page.getByRole('img', { name: /^Graph of/ })).toBeVisible()
  await nodes.getByRole('button', { name: `${namespace}.gold.totals failed` }).click()
  await page
    .getByRole('radio', { name: 'Upstream' })
    .or(page.getByRole('button', { name: 'Upstream' }))
    .click()
  await expect(nodes.getByRole('button', { name: `${namespace}.bronze.orders` })).toHaveCount(2)
  await expect(page).toHaveURL(/focus=upstream/)
  await expectAccessible(page, 'lineage-focus')
  await page.getByRole('link', { name: 'failed' }).click()
  await expect(page).toHaveURL(new RegExp(`/runs/${id}`))
  expect(faults).toEqual([])
})

test('the graph of one namespace has only its own pipelines', async ({ page, request, baseURL }) => {
  const [own, other] = [await newNamespace(request), await newNamespace(request)]
  for (const namespace of [own, other])
    await publishedPipeline(request, 'select 1 as a', { namespace, layer: 'bronze', name: 'orders' })
  const faults = await openConsole(page, baseURL, `/lineage?search=orders&namespace=${other}`)
  const nodes = page.getByRole('list', { name: 'Nodes' })
  await expect(nodes.getByRole('button', { name: `${other}.bronze.orders` })).toHaveCount(2)
  await page.getByLabel('Namespace').selectOption(own)
  await expect(nodes.getByRole('button', { name: `${own}.bronze.orders` })).toHaveCount(2)
  await expect(nodes.getByRole('button', { name: `${other}.bronze.orders` })).toHaveCount(0)
  expect(faults).toEqual([])
})

test('a known node of the address is in view, an unknown one is explained', async ({ page, baseURL }) => {
  await page.route('**/api/v1/lineage*', (route) =>
    route.fulfill({ json: route.request().url().includes('node=') ? { nodes: [], edges: [] } : chain() }),
  )
  await openConsole(page, baseURL, '/lineage')
  const canvas = page.getByRole('img', { name: /^Graph of/ })
  await expect(canvas).toBeVisible()
  const start = await canvas.screenshot()
  await openConsole(page, baseURL, '/lineage?node=table:long.gold.t19')
  await expect(page.getByRole('heading', { name: 'long.gold.t19' })).toBeVisible()
  await expect(canvas).toBeVisible()
  expect(start.equals(await canvas.screenshot())).toBe(false)
  await openConsole(page, baseURL, '/lineage?node=table:long.gold.nothing&focus=upstream')
  await expect(page.getByText('No node here')).toBeVisible()
  await expectAccessible(page, 'lineage-unknown')
  await page.getByRole('button', { name: 'Show all namespaces' }).click()
  await expect(canvas).toBeVisible()
})

test('with many pipelines, the graph around a node stays while others are chosen', async ({
  page,
  request,
  baseURL,
}) => {
  const namespace = await newNamespace(request)
  const source = { namespace, layer: 'bronze', name: 'orders' }
  await publishedPipeline(request, 'select 1 as a', source)
  await publishedPipeline(request, 'select 1 as a', { ...source, name: 'apart' })
  await publishedPipeline(request, "select * from {{ ref('bronze.orders') }}", { namespace, name: 'totals' })
  await page.route('**/api/v1/pipelines?limit=1', (route) =>
    route.fulfill({ json: { pipelines: [], total: 10_000 } }),
  )
  await openConsole(page, baseURL, `/lineage?node=pipeline:${namespace}.gold.totals`)
  const nodes = page.getByRole('list', { name: 'Nodes' }).getByRole('button')
  await expect(nodes).toHaveCount(4)
  await expect(page.getByLabel('Namespace')).toHaveValue(' around')
  await nodes
    .filter({ hasText: `${namespace}.bronze.orders` })
    .first()
    .click()
  await expect(page.getByRole('heading', { name: `${namespace}.bronze.orders` })).toBeVisible()
  await expect(nodes).toHaveCount(4)
  await page.getByLabel('Namespace').selectOption(namespace)
  await expect(nodes).toHaveCount(6)
})

/** Twenty tables in a row, too wide for the drawing. */
function chain() {
  const numbers = Array.from({ length: 20 }, (_, index) => index)
  const at = { type: 'table', namespace: 'long', layer: 'gold', table_stats: null }
  return {
    nodes: numbers.map((number) => ({ id: `table:long.gold.t${number}`, name: `t${number}`, ...at })),
    edges: numbers
      .slice(1)
      .map((number) => ({ source: `table:long.gold.t${number - 1}`, target: `table:long.gold.t${number}` })),
  }
}

test('a graph of 5,000 nodes pans and zooms', async ({ page, baseURL }) => {
  await page.route('**/api/v1/lineage*', (route) => route.fulfill({ json: largeGraph() }))
  await openConsole(page, baseURL, '/lineage')
  const canvas = page.getByRole('img', { name: /^Graph of 5000 nodes/ })
  await expect(canvas).toBeVisible()
  const before = await canvas.screenshot()
  const { frames, longestMs } = await moved(page)
  // The aim is 50 frames per second. Other tests share the processors, so the figure is only printed.
  console.log(`${frames.toFixed(1)} frames per second, the longest frame ${longestMs} ms`)
  expect(before.equals(await canvas.screenshot())).toBe(false)
})

/** 1,000 chains of a zone, a bronze pipeline and its table, a gold pipeline and its table. */
function largeGraph() {
  const chains = LARGE_NODES / 5
  const nodes: object[] = []
  const edges: object[] = []
  for (let chain = 0; chain < chains; chain++) {
    const namespace = 'large'
    const zone = `landing:large.z${chain}`
    nodes.push({
      id: zone,
      type: 'landing_zone',
      namespace,
      name: `z${chain}`,
      landing_info: { file_count: 1 },
    })
    for (const layer of ['bronze', 'gold']) {
      const at = { namespace, layer, name: `p${chain}` }
      const [pipeline, table] = [`pipeline:large.${layer}.p${chain}`, `table:large.${layer}.p${chain}`]
      nodes.push({ id: pipeline, type: 'pipeline', ...at, latest_run: null, quality: null })
      nodes.push({ id: table, type: 'table', ...at, table_stats: null })
      edges.push({ source: pipeline, target: table, type: 'produces' })
      if (layer === 'bronze') edges.push({ source: zone, target: pipeline, type: 'landing_input' })
      else
        for (const other of [chain, (chain * 7 + 3) % chains])
          edges.push({ source: `table:large.bronze.p${other}`, target: pipeline, type: 'ref' })
    }
  }
  return { nodes, edges }
}

/** Pans, then zooms in and out, one event per frame. Returns the rate and the times of the frames. */
const moved = (page: Page) =>
  page.evaluate(async () => {
    const canvas = document.querySelector('.graph canvas') as HTMLCanvasElement
    const { left, top, width, height } = canvas.getBoundingClientRect()
    const [x, y] = [left + width / 2, top + height / 2]
    canvas.setPointerCapture = () => {}
    canvas.hasPointerCapture = () => true
    const nextFrame = () => new Promise<number>((resolve) => requestAnimationFrame(resolve))
    const times: number[] = []
    for (let step = 0; step < 300; step++) {
      times.push(await nextFrame())
      const event =
        step < 150
          ? new PointerEvent('pointermove', { bubbles: true, movementX: step < 75 ? 4 : -4, movementY: 2 })
          : new WheelEvent('wheel', {
              bubbles: true,
              cancelable: true,
              clientX: x,
              clientY: y,
              deltaY: step % 60 < 30 ? -1 : 1,
            })
      canvas.dispatchEvent(event)
    }
    const gaps = times.slice(1).map((time, index) => time - (times[index] ?? time))
    const total = gaps.reduce((sum, gap) => sum + gap, 0)
    return {
      frames: (1000 * gaps.length) / total,
      longestMs: Math.round(Math.max(...gaps)),
    }
  })
