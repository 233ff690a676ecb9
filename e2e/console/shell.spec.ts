import { expect, type Page, test } from '@playwright/test'
import { newNamespace, publishedPipeline } from '../kit/resources.ts'
import { expectAccessible, openConsole } from './open.ts'

const API = '**/api/v1/**'

/** The first request for the list of runs is answered in this way, all others by the service. */
const answerRuns = (page: Page, status: number, headers: Record<string, string> = {}) =>
  page.route('**/api/v1/runs?**', (route) =>
    route.fulfill({
      status,
      headers,
      json: { error: { code: 'X', type: 'X', message: `made up ${status}` } },
    }),
  )

test('keys open the help, the palette and every place', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const { layer, name } = await publishedPipeline(request, 'select 1 as n', { namespace })
  const faults = await openConsole(page, baseURL, '/runs')
  await expect(page.getByRole('heading', { name: 'Runs' })).toBeVisible()
  await page.keyboard.press('?')
  await expect(page.getByRole('dialog', { name: 'Keys' })).toBeVisible()
  await expectAccessible(page, 'keys')
  await page.keyboard.press('Escape')
  await page.keyboard.press('g')
  await page.keyboard.press('s')
  await expect(page).toHaveURL(/\/console\/system$/)
  await page.keyboard.press('Control+k')
  await page.keyboard.type(name)
  await expect(page.getByRole('option', { name: `${namespace}.${layer}.${name}` })).toBeVisible()
  await expectAccessible(page, 'palette')
  await page.keyboard.press('Enter')
  await expect(page).toHaveURL(new RegExp(`/pipelines/${namespace}/${layer}/${name}`))
  expect(faults).toEqual([])
})

test('a narrow page has its navigation behind a button', async ({ page, baseURL }) => {
  await page.setViewportSize({ width: 390, height: 844 })
  await openConsole(page, baseURL, '/runs')
  await expect(page.getByRole('link', { name: 'Lineage' })).toBeHidden()
  await page.getByRole('button', { name: 'Open the menu' }).click()
  await page.getByRole('link', { name: 'Lineage' }).click()
  await expect(page).toHaveURL(/\/lineage$/)
  await expect(page.getByRole('link', { name: 'Lineage' })).toBeHidden()
  await page.getByRole('button', { name: 'Open the menu' }).click()
  await page.keyboard.press('Escape')
  await expect(page.getByRole('link', { name: 'Lineage' })).toBeHidden()
  await page.getByRole('button', { name: 'Open the menu' }).click()
  await page.getByRole('button', { name: 'Close the menu' }).click()
  await expect(page.getByRole('link', { name: 'Lineage' })).toBeHidden()
})

test('the chosen colours stay after a reload', async ({ page, baseURL }) => {
  await openConsole(page, baseURL, '/runs')
  await page.getByRole('button', { name: 'Dark colours' }).click()
  await page.reload()
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark')
})

test('a refused answer has a state of its own and can be repeated', async ({ page, baseURL }) => {
  await answerRuns(page, 429, { 'retry-after': '1' })
  await openConsole(page, baseURL, '/runs')
  await expect(page.getByRole('heading', { name: 'Too many requests' })).toBeVisible()
  await expectAccessible(page, 'state-429')
  const repeated = page.waitForRequest('**/api/v1/runs?**')
  await page.getByRole('button', { name: 'Try again' }).click()
  await repeated
  await page.unroute('**/api/v1/runs?**')
  await expect(page.getByRole('heading', { name: 'Too many requests' })).toBeHidden()
})

test('a lost connection is named and heals by itself', async ({ page, baseURL }) => {
  await openConsole(page, baseURL, '/runs')
  await expect(page.getByRole('heading', { name: 'Runs', exact: true })).toBeVisible()
  await page.route(API, (route) => route.abort())
  await expect(page.getByText('No connection to the service.')).toBeVisible()
  await expectAccessible(page, 'state-lost')
  await page.unroute(API)
  await expect(page.getByText('No connection to the service.')).toBeHidden()
})

test('a slow answer shows that the console still waits', async ({ page, baseURL }) => {
  let answer = () => {}
  const isAnswered = new Promise<void>((resolve) => {
    answer = resolve
  })
  await page.route('**/api/v1/runs?**', async (route) => {
    await isAnswered
    await route.continue()
  })
  await openConsole(page, baseURL, '/runs')
  await expect(page.getByRole('status', { name: 'Loading' })).toBeVisible()
  await expect(page.getByText('The service is slow to answer.')).toBeVisible()
  await expectAccessible(page, 'state-slow')
  answer()
  await expect(page.getByText('The service is slow to answer.')).toBeHidden()
})

test('an unknown address leads back to the overview', async ({ page, baseURL }) => {
  await openConsole(page, baseURL, '/no/such/page')
  await expect(page.getByText('The console has no such page')).toBeVisible()
  await page.getByRole('link', { name: 'Go to the overview' }).click()
  await expect(page).toHaveURL(/\/console\/?$/)
})

test('the first load is small and the page is soon ready', async ({ page, baseURL }) => {
  let bytes = 0
  // The files of other pages load later, while the browser has nothing else to do.
  await page.addInitScript(() => {
    window.requestIdleCallback = () => 0
  })
  page.on('response', async (response) => {
    if (response.url().includes('/console')) bytes += (await response.request().sizes()).responseBodySize
  })
  await openConsole(page, baseURL, '/runs')
  await expect(page.getByRole('heading', { name: 'Runs', exact: true })).toBeVisible()
  await expect(page.getByRole('table', { name: 'Runs' })).toBeVisible()
  expect(bytes).toBeGreaterThan(50_000)
  expect(bytes).toBeLessThan(300_000)
})

test('the palette scrolls to the chosen command', async ({ page, baseURL }) => {
  await openConsole(page, baseURL)
  await page.setViewportSize({ width: 1440, height: 500 })
  await expect(page.getByRole('heading', { name: 'Overview' })).toBeVisible()
  await page.keyboard.press('Control+k')
  await expect(page.getByRole('combobox')).toBeFocused()
  for (let step = 0; step < 20; step += 1) await page.keyboard.press('ArrowDown')
  await expect(page.getByRole('option', { selected: true })).toBeInViewport()
})

test('the palette says that it searches, and why a search failed', async ({ page, baseURL }) => {
  let answer = () => {}
  const isAnswered = new Promise<void>((resolve) => {
    answer = resolve
  })
  await openConsole(page, baseURL, '/settings')
  await page.route('**/api/v1/pipelines?search=**', async (route) => {
    await isAnswered
    await route.fulfill({
      status: 403,
      json: { error: { code: 'PERMISSION_DENIED', type: 'FORBIDDEN', message: 'not for you' } },
    })
  })
  await expect(page.getByRole('heading', { name: 'Settings', exact: true })).toBeVisible()
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox').fill('no-such-name')
  const dialog = page.getByRole('dialog')
  await expect(dialog.getByText('Searching…')).toBeVisible()
  answer()
  await expect(dialog.getByText('not for you')).toBeVisible()
})
