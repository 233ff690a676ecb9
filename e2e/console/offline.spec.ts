// The console without a network, with a slow one, and after an upgrade of the service.
import { expect, type Page, test } from '@playwright/test'
import { expectAccessible, openConsole } from './open.ts'

const ASSETS = '**/console/assets/**'

/** Without the files that load while the browser has nothing else to do. */
const withoutPreload = (page: Page) =>
  page.addInitScript(() => {
    window.requestIdleCallback = () => 0
  })

/** Requests wait until `open` is called. */
function makeGate() {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open, opened }
}

const menu = (page: Page) => page.getByRole('navigation', { name: 'Console' })
const goTo = (page: Page, name: string) => menu(page).getByRole('link', { name, exact: true }).click()
const heading = (page: Page, name: string) => page.getByRole('heading', { level: 1, name, exact: true })

/** Expects that the page has not been loaded again since `mark`. */
const mark = (page: Page) => page.evaluate(() => Object.assign(window, { isMarked: true }))
const expectNoReload = async (page: Page) =>
  expect(await page.evaluate(() => 'isMarked' in window), 'the page was loaded again').toBe(true)

test('without a network, every page still opens', async ({ page, context, baseURL }) => {
  // The last part that loads by itself.
  const isComplete = page.waitForEvent('requestfinished', (request) => /\/chart-/.test(request.url()))
  await openConsole(page, baseURL, '/runs')
  await expect(heading(page, 'Runs')).toBeVisible()
  await isComplete
  await mark(page)
  await context.setOffline(true)
  for (const name of await menu(page).locator('li a').allTextContents()) {
    await goTo(page, name)
    await expect(heading(page, name)).toBeVisible()
  }
  await expect(page.getByText('No connection to the service.')).toBeVisible()
  await expectNoReload(page)
})

test('a page that did not arrive says so and comes with the network', async ({ page, context, baseURL }) => {
  await withoutPreload(page)
  await openConsole(page, baseURL, '/runs')
  await expect(heading(page, 'Runs')).toBeVisible()
  await mark(page)
  await context.setOffline(true)
  await goTo(page, 'Lake')
  await expect(page.getByText('This page could not be loaded')).toBeVisible()
  await expectAccessible(page, 'not-loaded')
  // Other pages stay within reach.
  await goTo(page, 'Runs')
  await expect(heading(page, 'Runs')).toBeVisible()
  await goTo(page, 'Lake')
  await expect(page.getByText('This page could not be loaded')).toBeVisible()
  await page.getByRole('button', { name: 'Try again' }).click()
  await expect(page.getByText('This page could not be loaded')).toBeVisible()
  await context.setOffline(false)
  await expect(heading(page, 'Lake')).toBeVisible()
  await expectNoReload(page)
})

test('another try loads a page whose code failed to arrive', async ({ page, baseURL }) => {
  await withoutPreload(page)
  await openConsole(page, baseURL, '/runs')
  await expect(heading(page, 'Runs')).toBeVisible()
  await mark(page)
  await page.route(ASSETS, (route) => route.abort())
  await goTo(page, 'System')
  await expect(page.getByText('This page could not be loaded')).toBeVisible()
  await page.unroute(ASSETS)
  await page.getByRole('button', { name: 'Try again' }).click()
  await expect(heading(page, 'System')).toBeVisible()
  await expectNoReload(page)
})

test('a part that did not arrive leaves its page as it is', async ({ page, baseURL }) => {
  await withoutPreload(page)
  await openConsole(page, baseURL, `/query?sql=${encodeURIComponent('select range as n from range(3)')}`)
  await page.getByRole('button', { name: 'Execute' }).click()
  await expect(page.getByRole('grid')).toBeVisible()
  await page.route(ASSETS, (route) => route.abort())
  await page.getByRole('button', { name: 'Chart', exact: true }).click()
  await expect(page.getByText('This page could not be loaded')).toBeVisible()
  await expect(page.getByRole('textbox', { name: 'SQL' })).toContainText('range(3)')
  await page.unroute(ASSETS)
  await page.getByRole('button', { name: 'Try again' }).click()
  await expect(page.locator('.uplot')).toBeVisible()
})

test('a hovered link loads the code and the data of its page', async ({ page, baseURL }) => {
  await withoutPreload(page)
  await openConsole(page, baseURL, '/runs')
  await expect(heading(page, 'Runs')).toBeVisible()
  const code = page.waitForRequest(ASSETS)
  const data = page.waitForRequest('**/api/v1/admin/replicas')
  await menu(page).getByRole('link', { name: 'System', exact: true }).hover()
  await Promise.all([code, data])
  await expect(heading(page, 'Runs')).toBeVisible()
})

test('a slow network shows progress at once', async ({ page, baseURL }) => {
  const held = makeGate()
  await withoutPreload(page)
  await openConsole(page, baseURL, '/runs')
  await expect(heading(page, 'Runs')).toBeVisible()
  await page.route(ASSETS, async (route) => {
    await held.opened
    await route.continue()
  })
  await goTo(page, 'Branches')
  await expect(page.getByRole('progressbar', { name: 'Loading the page' })).toBeVisible()
  await expect(menu(page)).toBeVisible()
  held.open()
  await expect(heading(page, 'Branches')).toBeVisible()
  await expect(page.getByRole('progressbar', { name: 'Loading the page' })).toBeHidden()
})

test('a slow first load is no blank page', async ({ page, baseURL }) => {
  const held = makeGate()
  const chunks = makeGate()
  await page.route('**/console/assets/*.js', async (route) => {
    await (/\/main-/.test(route.request().url()) ? held : chunks).opened
    await route.continue()
  })
  const opened = openConsole(page, baseURL, '/runs')
  await expect(page.getByRole('status')).toHaveText('Loading the console…')
  held.open()
  await expect(page.getByRole('progressbar', { name: 'Loading the page' })).toBeVisible()
  await expect(menu(page)).toBeVisible()
  chunks.open()
  await opened
  await expect(heading(page, 'Runs')).toBeVisible()
})

test('after an upgrade of the service, the console offers its new version', async ({ page, baseURL }) => {
  await withoutPreload(page)
  await openConsole(page, baseURL, '/runs')
  await expect(heading(page, 'Runs')).toBeVisible()
  await mark(page)
  await page.route(ASSETS, (route) => route.fulfill({ status: 404 }))
  await page.route('**/console/', (route) =>
    route.fulfill({ contentType: 'text/html', body: '<p>newer</p>' }),
  )
  await goTo(page, 'Audit')
  await expect(page.getByText('The service has a new version of the console')).toBeVisible()
  await expectNoReload(page)
  await page.unroute(ASSETS)
  await page.getByRole('button', { name: 'Load the new version' }).click()
  await expect(heading(page, 'Audit')).toBeVisible()
})
