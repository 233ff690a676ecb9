// Measures the console in Chromium on 10,000 pipelines and a million runs. Each interaction has the longest task and the
// processor time of the page's main thread, and the time from the input to its next frame. It also has the slowest request, and
// the time until the result is on the screen. `DATA=folder` keeps the service's data for a second measurement.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type BrowserContext, chromium, type Page } from '@playwright/test'
import postgres from 'postgres'
import { findChromium } from '../tools/install/chromium.ts'
import { startService } from '../tools/service/service.ts'
import { clientOf, databaseUrlOf } from './client.ts'
import { fillForConsole, LIVE, PIPELINES, RUNS } from './console-data.ts'
import { Interactions, type Shown } from './interactions.ts'

const ROUNDS = Number(process.env.ROUNDS ?? 7)
const VIEWPORT = { width: 1440, height: 900 }

export async function benchConsoleScale() {
  const executablePath = findChromium()
  if (executablePath === undefined) return console.log('  Chromium is missing: set CHROMIUM_PATH')
  const dataDir = process.env.DATA ?? (await mkdtemp(join(tmpdir(), 'sluice-bench-')))
  // The reaper would prune the data: each pipeline has about a hundred runs.
  const service = await startService({ LOG_FORMAT: 'text', REAPER: 'off', DATA_DIR: dataDir })
  const sql = postgres(databaseUrlOf(dataDir), { max: 2, onnotice: () => {} })
  const client = clientOf(service.url)
  try {
    const [kept] = await sql`select 1 from pipeline limit 1`
    if (kept === undefined) await fillForConsole(sql, dataDir, client)
    const { total } = await client.call<{ total: number }>('GET', '/runs?limit=1')
    if (total < RUNS) throw new Error(`the API reports ${total} runs instead of ${RUNS}`)
    const browser = await chromium.launch({
      executablePath,
      args: ['--no-sandbox', '--disable-dev-shm-usage'],
    })
    const context = await browser.newContext({ viewport: VIEWPORT, reducedMotion: 'reduce' })
    const measured = new Interactions()
    await measured.watch(context)
    for (let round = 0; round < ROUNDS; round++) {
      for (const visit of [visitOverview, visitPipelines, visitRuns, visitLineage])
        await visit({ context, url: service.url, measured, requestRun: () => client.requestRun(LIVE) })
      console.log(`  round ${round + 1} of ${ROUNDS}`)
    }
    await browser.close()
    measured.print()
    console.log(`  ${PIPELINES.toLocaleString('en')} pipelines, ${total.toLocaleString('en')} runs`)
  } finally {
    await sql.end()
    await service.stop()
    if (process.env.DATA === undefined) await rm(dataDir, { recursive: true, force: true })
  }
}

interface Visit {
  context: BrowserContext
  url: string
  measured: Interactions
  requestRun: () => Promise<string>
}

/** Opens a page in a new tab, without the data of earlier tabs. Closes it at the end. */
async function inTab({ context, url }: Visit, path: string, work: (page: Page) => Promise<void>) {
  const page = await context.newPage()
  page.setDefaultTimeout(60_000)
  try {
    await page.goto(`${url}/console${path}`)
    await page.waitForSelector('nav.side')
    // The measured page is opened by a click, after this one has rested.
    await page.waitForTimeout(500)
    await work(page)
  } finally {
    await page.close()
  }
}

const place = (page: Page, name: string) => page.locator('nav.side').getByRole('link', { name, exact: true })
const row: Shown = { css: '[role=table] [role=row] a, .table tbody a' }
const scrolling = (page: Page) => async () => {
  await page.mouse.move(700, 500)
  await page.mouse.wheel(0, 300)
}

const visitOverview = (visit: Visit) =>
  inTab(visit, '/settings', async (page) => {
    const { measured } = visit
    const failure = { css: '.attention a' }
    await measured.measure(page, 'overview: open', () => place(page, 'Overview').click(), failure)
    await page.waitForTimeout(1_000)
    await measured.measureLive(page, 'overview: live update', visit.requestRun, {
      css: 'main p.muted',
      isChange: true,
    })
    const palette = { css: '[role=dialog] .palette' }
    await measured.measure(page, 'palette: open', () => page.keyboard.press('Control+k'), palette)
    const found: Shown = { css: '[role=option]', text: '.p' }
    await measured.measure(page, 'palette: first letter', () => page.keyboard.press('p'), found)
    const next: Shown = { css: '[role=option]', text: '.p9' }
    await measured.measure(page, 'palette: second letter', () => page.keyboard.press('9'), next)
    await measured.measure(page, 'palette: open a pipeline', () => page.keyboard.press('Enter'), {
      css: '.cm-content',
    })
  })

const visitPipelines = (visit: Visit) =>
  inTab(visit, '/settings', async (page) => {
    const { measured } = visit
    await measured.measure(page, 'pipelines: open', () => place(page, 'Pipelines').click(), row)
    await measured.measureFrames(page, 'pipelines: scroll', scrolling(page))
    const next = page.getByRole('button', { name: 'Next' })
    await measured.measure(page, 'pipelines: next page', () => next.click(), {
      css: '.pager',
      text: '51 to 100',
    })
    const filtered: Shown = { css: '.table tbody', isChange: true }
    await page.getByLabel('Search pipelines').focus()
    await measured.measure(page, 'pipelines: search, first letter', () => page.keyboard.press('7'), filtered)
    await measured.measure(page, 'pipelines: search, second letter', () => page.keyboard.press('7'), filtered)
    await page.getByLabel('Search pipelines').fill('')
    await page.waitForTimeout(1_000)
    const choose = async (label: string, key: string, name: string) => {
      // Keys that follow each other quickly would search for one text.
      await page.waitForTimeout(1_000)
      await page.getByLabel(label, { exact: true }).focus()
      await measured.measure(page, `pipelines: filter ${name}`, () => page.keyboard.press(key), filtered)
    }
    await choose('State', 'l', 'last run failed')
    await choose('State', 't', 'tests fail')
    await choose('State', 'a', 'all states')
    await choose('Namespace', 'n', 'namespace')
    await choose('Layer', 'b', 'layer')
    const tag = page.locator('.table tbody').getByRole('button', { name: 'team' }).first()
    await measured.measure(page, 'pipelines: filter tag', () => tag.click(), filtered)
    const link = page.locator('.table tbody tr:nth-child(3) td:nth-child(2) a')
    await measured.measure(page, 'pipelines: open one', () => link.click(), { css: '.cm-content' })
    const tab = (name: string) => page.getByRole('tab', { name })
    await measured.measure(page, 'pipeline: tab tests', () => tab('Tests').click(), {
      css: 'h2, h3',
      text: 'ests',
    })
    await measured.measure(page, 'pipeline: tab schedules', () => tab('Triggers').click(), {
      css: '.card .empty, .card .table',
    })
    await measured.measure(page, 'pipeline: tab versions', () => tab('Versions').click(), {
      css: '.table',
      text: 'published',
    })
    await measured.measure(page, 'pipeline: tab runs', () => tab('Runs').click(), {
      css: '.table',
      text: 'success',
    })
    await measured.measure(page, 'pipeline: tab lineage', () => tab('Lineage').click(), {
      css: '.neighbours',
    })
  })

const visitRuns = (visit: Visit) =>
  inTab(visit, '/settings', async (page) => {
    const { measured } = visit
    await measured.measure(page, 'runs: open', () => place(page, 'Runs').click(), row)
    await page.waitForTimeout(1_000)
    await measured.measureLive(page, 'runs: live update', visit.requestRun, {
      css: '.run-total',
      isChange: true,
    })
    await measured.measureFrames(page, 'runs: scroll', scrolling(page))
    await page.locator('.virtual').focus()
    await measured.measure(page, 'runs: go to the end', () => page.keyboard.press('End'), {
      css: '[role=row]:last-child a',
    })
    const filter = async (label: string, keys: readonly string[], shown: Shown) => {
      await page.getByLabel(label, { exact: true }).focus()
      for (const key of keys.slice(0, -1)) await page.keyboard.press(key)
      await measured.measure(
        page,
        `runs: filter ${label.toLowerCase()}`,
        () => page.keyboard.press(keys.at(-1) ?? ''),
        shown,
      )
      await page.getByRole('button', { name: 'Clear' }).click()
      await page.waitForTimeout(500)
    }
    const total: Shown = { css: '.run-total', isChange: true }
    await filter('Namespace', ['n'], total)
    await filter('Layer', ['g'], total)
    await filter('Pipeline', ['p', '7', '7', 'Enter'], total)
    await filter('Status', ['f'], total)
    await filter('Order', ['l'], { css: '[role=rowgroup] [role=row]:first-child', isChange: true })
    const link = page.locator('[role=row]:nth-child(2) a').first()
    await measured.measure(page, 'runs: open one', () => link.click(), { css: '.timeline li' })
  })

const visitLineage = (visit: Visit) =>
  inTab(visit, '/settings', async (page) => {
    const { measured } = visit
    await measured.measure(page, 'lineage: open', () => place(page, 'Lineage').click(), {
      css: '.graph canvas',
    })
    await page.getByLabel('Namespace').focus()
    const drawn: Shown = { css: '.lineage:has(canvas) [role=status]', isChange: true }
    await measured.measure(page, 'lineage: choose a namespace', () => page.keyboard.press('ArrowDown'), drawn)
    await useGraph(page, measured, '5,400 nodes')
    await page.getByLabel('Namespace').focus()
    await measured.measure(page, 'lineage: all namespaces', () => page.keyboard.press('A'), drawn)
    await useGraph(page, measured, '20,000 nodes')
  })

async function useGraph(page: Page, measured: Interactions, size: string) {
  const name = (text: string) => `lineage, ${size}: ${text}`
  await page.mouse.move(600, 500)
  await page.mouse.down()
  await measured.measureFrames(page, name('pan'), (step) => page.mouse.move(600 + 4 * step, 500 + 2 * step))
  await page.mouse.up()
  await measured.measureFrames(page, name('zoom'), (step) => page.mouse.wheel(0, step % 20 < 10 ? -100 : 100))
  const field = page.getByLabel('Search nodes')
  await field.focus()
  const found: Shown = { css: '.lineage [role=status]', isChange: true }
  await measured.measure(page, name('search, first letter'), () => page.keyboard.press('7'), found)
  await measured.measure(page, name('search, second letter'), () => page.keyboard.press('7'), found)
  const node = page.getByRole('list', { name: 'Nodes' }).getByRole('button').first()
  await measured.measure(page, name('choose a node'), () => node.click(), {
    css: '.lineage .segments',
    text: 'Upstream',
  })
  const upstream = page.getByRole('button', { name: 'Upstream' })
  await measured.measure(page, name('focus upstream'), () => upstream.click(), found)
  await page.getByRole('button', { name: 'All', exact: true }).click()
  await field.fill('')
}
