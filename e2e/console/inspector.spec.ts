// The inspector in a real browser: live updates, keyboard, both colour schemes, few and thousands of instances.
import { type APIRequestContext, expect, type Page, test } from '@playwright/test'
import { startOwnService } from '../kit/own-service.ts'
import {
  ENDLESS,
  getJson,
  type MadePipeline,
  newNamespace,
  newPipeline,
  publish,
  publishedPipeline,
  writeFile,
} from '../kit/resources.ts'
import { cancel, requestRun, runToSuccess } from '../kit/runs.ts'
import { addTrigger } from '../kit/triggers.ts'
import { openConsole } from './open.ts'

/** Opens the inspector at an address of the former page. */
const openPage = (page: Page, baseURL: string | undefined, hash = '') =>
  openConsole(page, baseURL, `/inspector${hash}`)

/** Uses a new namespace, so that a search finds only this pipeline. */
const published = async (request: APIRequestContext, sql: string) =>
  publishedPipeline(request, sql, { namespace: await newNamespace(request) })

async function publishAnew(request: APIRequestContext, pipeline: MadePipeline, sql: string) {
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, sql)
  await publish(request, pipeline)
}

/** The innermost active state. */
const lit = (page: Page) => page.locator('#canvas .state.active')
const rows = (page: Page) => page.locator('.virtual-row a')
const pills = (page: Page) => page.locator('.virtual-row .pill')
const summary = (page: Page) => page.locator('.instance-summary')
const position = (page: Page) => page.locator('.step-position')
const search = (page: Page) => page.getByRole('searchbox', { name: 'Pipeline or id' })
/** The end of the address of a run. */
const toRun = (id: string) => new RegExp(`/console/inspector/run/${id}$`)
const steps = (page: Page) => page.locator('.history li')

const finished = async (request: APIRequestContext, pipeline: MadePipeline) =>
  (await runToSuccess(request, pipeline)).id

test('a waiting run shows its reason and updates live without a reload', async ({
  page,
  request,
  baseURL,
}) => {
  // The first two runs end only when they are cancelled, so even a slow page sees every state.
  const pipeline = await published(request, ENDLESS)
  const first = await requestRun(request, pipeline)
  const second = await requestRun(request, pipeline)
  await publishAnew(request, pipeline, 'select 1 as n')
  const third = await requestRun(request, pipeline)
  const problems = await openPage(page, baseURL, `#/run/${second}`)
  await expect(page.locator('.waits li').first()).toContainText('of this pipeline')
  await expect(page.locator('.waits a').first()).toHaveAttribute('href', toRun(first))
  await expect(lit(page)).toHaveAttribute('data-state', 'pending.waiting')
  await expect(page.locator('#connection')).toHaveText('live')
  await cancel(request, first)
  await expect(lit(page)).toHaveAttribute('data-state', /^running\./)
  await expect(page.locator('#canvas .compound.active')).toHaveAttribute('data-state', 'running')
  await expect(page.locator('.waits')).toBeHidden()

  await page.goto(new URL(`/inspector#/run/${third}`, baseURL).href)
  await expect(page.locator('.waits a').first()).toHaveAttribute('href', toRun(second))
  await expect(lit(page)).toHaveAttribute('data-state', 'pending.waiting')
  await expect(page.locator('#connection')).toHaveText('live')
  await cancel(request, second)
  await expect(lit(page)).toHaveAttribute('data-state', 'success')
  await expect(page.locator('#connection')).toHaveText('ended')
  await expect(page.locator('.now .pill')).toHaveText('success')
  const total = await steps(page).count()
  await expect(position(page)).toHaveText(`${total} of ${total}`)
  await expect(steps(page).last().locator('.pill')).toHaveText('success')
  await expect(page.locator('#canvas .way.taken')).toHaveCount(1)
  expect(problems).toEqual([])
})

test('keys and clicks step through a history; every step has a URL', async ({ page, request, baseURL }) => {
  const id = await finished(request, await published(request, 'select 1 as n'))
  const problems = await openPage(page, baseURL, `#/run/${id}`)
  await expect(lit(page)).toHaveAttribute('data-state', 'success')
  const count = await steps(page).count()
  await expect(position(page)).toHaveText(`${count} of ${count}`)
  await expect(page.locator('.facts dt')).toHaveText([
    'Requested',
    'Attempt',
    'Version',
    'Started',
    'Duration',
    'Rows written',
    'Base commit',
    'Merge commit',
  ])

  await page.keyboard.press('ArrowLeft')
  await expect(lit(page)).toHaveAttribute('data-state', 'running.merging')
  await expect(page).toHaveURL(new RegExp(`/run/${id}\\?step=\\d+$`))
  await expect(page.locator('#canvas .way.taken')).toHaveAttribute(
    'data-transitions',
    /running\.\w+:executed:3/,
  )
  await expect(page.locator('.history li[aria-current] .effect')).toHaveText(['mergeBranch'])

  await page.keyboard.press('Home')
  await expect(lit(page)).toHaveAttribute('data-state', 'pending.waiting')
  // Two arrows are drawn: into the compound state `pending`, and into its inner state.
  await expect(page.locator('#canvas .way.taken[data-transitions="created"]')).toHaveCount(2)
  await page.getByRole('button', { name: 'Step forward (→)' }).click()
  await expect(lit(page)).toHaveAttribute('data-state', 'pending.starting')
  await expect(page.locator('.history li[aria-current] .effect')).toHaveText(['openAttempt', 'submitAttempt'])
  await expect(page.locator('.history li[aria-current]')).toContainText('by dispatcher')

  await page.reload()
  await expect(lit(page)).toHaveAttribute('data-state', 'pending.starting')
  await expect(position(page)).toHaveText(`2 of ${count}`)
  await page.keyboard.press('End')
  await expect(lit(page)).toHaveAttribute('data-state', 'success')
  await expect(page).toHaveURL(toRun(id))
  await page.locator('.lifeline button').first().click()
  await expect(lit(page)).toHaveAttribute('data-state', 'pending.waiting')

  await page.getByRole('tab', { name: 'Log' }).click()
  await expect(page.getByRole('log')).toContainText('attempt 1')
  expect(problems).toEqual([])
})

test('addresses of the former page lead to the console', async ({ page, request, baseURL }) => {
  const pipeline = await published(request, 'select 1 as n')
  const id = await finished(request, pipeline)
  const { history } = await getJson(request, `/api/v1/inspector/run/instances/${id}`)
  const [first] = history.steps
  const list = `state=success&q=${pipeline.namespace}`
  for (const [former, address, heading] of [
    ['/inspector', '/console/inspector/run', 'Inspector'],
    ['/inspector/', '/console/inspector/run', 'Inspector'],
    ['/inspector#/trigger', '/console/inspector/trigger', 'Inspector'],
    [`/inspector#/run?${list}`, `/console/inspector/run?${list}`, 'Inspector'],
    [`/inspector#/run/${id}@${first.id}`, `/console/inspector/run/${id}?step=${first.id}`, pipeline.name],
  ]) {
    await page.goto('about:blank')
    await page.goto(new URL(former ?? '', baseURL).href)
    await expect(page).toHaveURL(new URL(address ?? '', baseURL).href)
    await expect(page.getByRole('heading', { level: 1 })).toContainText(heading ?? '')
  }
  await expect(lit(page)).toHaveAttribute('data-state', 'pending.waiting')
})

test('search, statechart and keys navigate a list, and Escape returns to it', async ({
  page,
  request,
  baseURL,
}) => {
  const pipeline = await published(request, 'select 1 as n')
  const ids = [await finished(request, pipeline), await finished(request, pipeline)]
  const problems = await openPage(page, baseURL, '#/run')
  await expect(rows(page).first()).toBeVisible()
  await page.keyboard.press('/')
  await page.keyboard.type(pipeline.namespace)
  await expect(summary(page)).toHaveText('2 runs')
  await expect(page.locator('#canvas .state[data-state="success"] .badge')).toHaveText('2')
  await page.locator('#canvas [data-state="failed"]').click()
  await expect(page.locator('.empty')).toContainText('Nothing matches')
  await page.locator('#canvas [data-state="success"]').focus()
  await page.keyboard.press('Enter')
  await expect(summary(page)).toHaveText('2 runs in success')

  await search(page).focus()
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Enter')
  await expect(page).toHaveURL(toRun(String(ids[0])))
  // The list lights the same state, so only a part of the instance tells that its page is there.
  await expect(page.locator('#panel')).toBeVisible()
  await expect(lit(page)).toHaveAttribute('data-state', 'success')
  await page.keyboard.press('Escape')
  await expect(summary(page)).toHaveText('2 runs in success')

  await page.locator('#tabs [data-machine="draft"]').click()
  await search(page).fill(pipeline.namespace)
  await expect(summary(page)).toHaveText('1 draft')
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, 'select 2 as n')
  await expect(pills(page).first()).toHaveText('dirty')
  expect(problems).toEqual([])
})

test('an instance can be exported as JSON and SVG', async ({ page, request, baseURL }) => {
  const id = await finished(request, await published(request, 'select 1 as n'))
  await openPage(page, baseURL, `#/run/${id}`)
  for (const [button, name] of [
    ['#export-json', `run-${id}.json`],
    ['#export-svg', `run-${id}.svg`],
    ['#save-chart', 'run.svg'],
  ] as const) {
    const [download] = await Promise.all([page.waitForEvent('download'), page.locator(button).click()])
    expect(download.suggestedFilename()).toBe(name)
  }
})

test('the inspector follows the system colour scheme unless the reader chooses one', async ({
  page,
  request,
  baseURL,
}, testInfo) => {
  await finished(request, await published(request, 'select 1 as n'))
  await page.emulateMedia({ colorScheme: 'dark' })
  await openPage(page, baseURL)
  await expect(rows(page).first()).toBeVisible()
  await expect(page.locator('#canvas .compound').first()).toBeVisible()
  const brightness = () =>
    page.evaluate(() => {
      const of = (selector: string, property: 'backgroundColor' | 'fill') => {
        const element = document.querySelector(selector)
        const numbers = element === null ? null : getComputedStyle(element)[property].match(/[\d.]+/g)
        return Number(numbers?.[0]) < 128 ? 'dark' : 'light'
      }
      return [
        of('body', 'backgroundColor'),
        of('.card', 'backgroundColor'),
        of('.chart .compound > rect', 'fill'),
      ]
    })
  expect(await brightness()).toEqual(['dark', 'dark', 'dark'])
  await page.screenshot({ path: testInfo.outputPath('dark.png') })
  await page.emulateMedia({ colorScheme: 'light' })
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'light')
  expect(await brightness()).toEqual(['light', 'light', 'light'])
  await page.screenshot({ path: testInfo.outputPath('light.png') })
  await page.getByRole('button', { name: 'Dark colours' }).click()
  await page.reload()
  await expect(page.locator('#canvas .compound').first()).toBeVisible()
  expect(await brightness()).toEqual(['dark', 'dark', 'dark'])
})

test('a focused control keeps the focus while a history changes', async ({ page, request, baseURL }) => {
  const pipeline = await published(request, 'select 1 as n')
  const trigger = await addTrigger(request, pipeline, 'webhook', {})
  const change = (cooldown: number) => request.put(trigger.url, { data: { cooldown_seconds: cooldown } })
  for (const cooldown of [1, 2, 3]) expect((await change(cooldown)).status()).toBe(200)
  const problems = await openPage(page, baseURL, `#/trigger/${trigger.id}`)
  await expect(steps(page)).toHaveCount(4)

  const step = steps(page).nth(1).locator('button')
  await step.focus()
  await page.keyboard.press('Enter')
  await expect(position(page)).toHaveText('2 of 4')
  await expect(step).toBeFocused()
  await change(4)
  await expect(steps(page)).toHaveCount(5)
  await expect(step).toBeFocused()

  const forth = page.getByRole('button', { name: 'Step forward (→)' })
  await forth.focus()
  for (const place of ['3 of 5', '4 of 5', '5 of 5']) {
    await page.keyboard.press('Enter')
    await expect(position(page)).toHaveText(place)
    await expect(forth).toBeFocused()
  }
  await page.getByRole('tab', { name: 'Data' }).focus()
  await page.keyboard.press('Enter')
  await expect(page.locator('.code-block')).toBeVisible()
  await expect(page.getByRole('tab', { name: 'Data' })).toBeFocused()
  expect(problems).toEqual([])
})

test('a mouse press takes effect even if the page redraws before release', async ({
  page,
  request,
  baseURL,
}) => {
  const pipeline = await published(request, 'select 1 as n')
  await finished(request, pipeline)
  const problems = await openPage(page, baseURL, `#/run?q=${pipeline.namespace}`)
  await expect(summary(page)).toHaveText('1 run')
  const chip = page.locator('[data-chip="success"]')
  await chip.hover()
  await page.mouse.down()
  await finished(request, pipeline)
  await expect(chip.locator('.state-count')).toHaveText('2')
  await page.mouse.up()
  await expect(summary(page)).toHaveText('2 runs in success')

  const running = await published(request, ENDLESS)
  const id = await requestRun(request, running)
  await page.goto(new URL(`/inspector#/run?q=${running.namespace}`, baseURL).href)
  const row = rows(page).first()
  await expect(pills(page).first()).toHaveAttribute('data-state', 'running.executing')
  await row.hover()
  await page.mouse.down()
  await cancel(request, id)
  await expect(pills(page).first()).toHaveAttribute('data-state', 'cancelled')
  await page.mouse.up()
  await expect(page).toHaveURL(toRun(id))

  const trigger = await addTrigger(request, pipeline, 'webhook', {})
  const change = (cooldown: number) => request.put(trigger.url, { data: { cooldown_seconds: cooldown } })
  await change(1)
  await page.goto(new URL(`/inspector#/trigger/${trigger.id}`, baseURL).href)
  await expect(steps(page)).toHaveCount(2)
  await expect(page.locator('#connection')).toHaveText('live')
  await steps(page).first().locator('button').hover()
  await page.mouse.down()
  await change(2)
  await expect(steps(page)).toHaveCount(3)
  await page.mouse.up()
  await expect(position(page)).toHaveText('1 of 3')
  expect(problems).toEqual([])
})

test('a history longer than one response is fully drawn and stepped through', async ({
  page,
  request,
  baseURL,
}) => {
  const CHANGES = 520
  const trigger = await addTrigger(request, await published(request, 'select 1 as n'), 'webhook', {})
  const url = new URL(trigger.url, baseURL)
  const headers = { 'content-type': 'application/json' }
  // Plain `fetch`, because Playwright's own client records every request.
  for (let cooldown = 1; cooldown <= CHANGES; cooldown++) {
    const body = JSON.stringify({ cooldown_seconds: cooldown })
    await (await fetch(url, { method: 'PUT', headers, body })).body?.cancel()
  }
  await page.setViewportSize({ width: 390, height: 800 })
  const problems = await openPage(page, baseURL, `#/trigger/${trigger.id}`)
  await expect(position(page)).toHaveText(`${CHANGES + 1} of ${CHANGES + 1}`)
  await expect(steps(page)).toHaveCount(500)
  const beyond = () =>
    page.locator('.lifeline').evaluate((line) => line.scrollWidth - Math.ceil(line.clientWidth))
  expect(await beyond()).toBeLessThanOrEqual(0)

  await steps(page).first().locator('button').click()
  await expect(position(page)).toHaveText(`22 of ${CHANGES + 1}`)
  await page.keyboard.press('ArrowLeft')
  await expect(position(page)).toHaveText(`21 of ${CHANGES + 1}`)
  await page.keyboard.press('Home')
  await expect(position(page)).toHaveText(`1 of ${CHANGES + 1}`)
  await expect(steps(page)).toHaveCount(CHANGES + 1)
  expect(await beyond()).toBeLessThanOrEqual(0)
  expect(problems).toEqual([])
})

test('the inspector fits a telephone screen', async ({ page, request, baseURL }) => {
  const id = await finished(request, await published(request, 'select 1 as n'))
  await page.setViewportSize({ width: 375, height: 740 })
  for (const hash of ['#/run', '#/draft', '#/trigger', `#/run/${id}`]) {
    await openPage(page, baseURL, hash)
    await expect(page.locator('#canvas svg')).toBeVisible()
    expect(
      await page.evaluate(() =>
        [document.documentElement, document.querySelector('main')].map((part) => part?.scrollWidth),
      ),
    ).toEqual([375, 375])
  }
})

test.describe('inspector with an API key, no runner and 3,000 runs', () => {
  const KEY = 'inspector-key-0123456789'
  const COUNT = 3_000
  const AT_ONCE = 16
  let service: Awaited<ReturnType<typeof startOwnService>>
  test.beforeAll(async ({ playwright }) => {
    service = await startOwnService({
      PLATFORM_API_KEY: KEY,
      RUNNER_URLS: 'none',
      QUERY_URLS: 'none',
      RATE_LIMIT: 'off',
    })
    const request = await playwright.request.newContext({
      baseURL: service.url,
      extraHTTPHeaders: { 'x-api-key': KEY },
    })
    const pipeline = await newPipeline(request, { name: 'crowd' })
    // Plain `fetch`, because Playwright's own client and assertions record every request.
    const { namespace, layer, name } = pipeline
    const body = JSON.stringify({ namespace, layer, pipeline: name })
    const headers = { 'x-api-key': KEY, 'content-type': 'application/json' }
    const ask = async () => {
      for (let index = 0; index < COUNT / AT_ONCE; index++) {
        const response = await fetch(`${service.url}/api/v1/runs`, { method: 'POST', headers, body })
        if (response.status !== 202) throw new Error(await response.text())
        await response.body?.cancel()
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, ask))
    await request.dispose()
  })
  test.afterAll(() => service.stop())

  test('the inspector asks for the key and renders 3,000 runs lazily', async ({ page }) => {
    await openPage(page, service.url)
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('API key or access token').fill('wrong')
    await page.keyboard.press('Enter')
    await expect(dialog.getByRole('alert')).toContainText('This key or token is refused')
    await dialog.getByLabel('API key or access token').fill(KEY)
    await page.keyboard.press('Enter')
    await expect(dialog).toBeHidden()
    await expect(summary(page)).toHaveText(/^3,0\d\d runs$/)
    await expect(page.locator('#connection')).toHaveText('live')
    await expect(page.locator('#canvas .state[data-state="pending.waiting"] .badge')).toHaveText(/^3,0\d\d$/)
    expect(await page.evaluate(() => [localStorage.length, Object.values(sessionStorage)])).toEqual([
      0,
      [KEY],
    ])

    const total = Number((await summary(page).textContent())?.replace(/\D/g, ''))
    await page.getByRole('table', { name: 'Runs' }).focus()
    await page.keyboard.press('End')
    const last = page.locator(`.virtual-row[aria-rowindex="${total + 1}"] a`)
    await expect(last).toBeVisible()
    expect(await page.locator('.virtual-row').count()).toBeLessThan(60)
    // The last row is the oldest run, the only run that does not wait for another.
    await last.click()
    await expect(page.locator('.waits')).toContainText('Runners are switched off')
    await expect(page.locator('.waits')).not.toContainText('come first')
    await page.getByRole('tab', { name: 'Log' }).click()
    const [log] = await Promise.all([page.waitForEvent('download'), page.locator('#export-log').click()])
    expect(log.suggestedFilename()).toMatch(/^run-[\w-]+-log\.json$/)
    await page.goBack()
    await rows(page).first().click()
    await expect(page.locator('.waits')).toContainText(/29\d\d older runs|30\d\d older runs/)
  })
})
