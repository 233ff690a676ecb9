// The Swagger page in a real browser: it executes operations and sends nothing to another origin.
import { expect, request as newRequest, type Page, test } from '@playwright/test'
import { startOwnService } from '../kit/own-service.ts'
import { newPipeline } from '../kit/resources.ts'
import { startProService } from '../security/rights/pro-service.ts'

const NAMESPACE = 'browser-swagger'
const FILE = `${NAMESPACE}/notes/from the page.md`

/** Opens the page. Returns lists that collect requests to other origins and errors of the browser. */
async function openPage(page: Page, baseURL: string | undefined) {
  const elsewhere: string[] = []
  const complaints: string[] = []
  page.on('request', (request) => {
    const { origin, protocol } = new URL(request.url())
    if (protocol !== 'data:' && origin !== new URL(baseURL ?? '').origin) elsewhere.push(request.url())
  })
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()))
  page.on('pageerror', (error) => complaints.push(error.message))
  await page.goto(new URL('/swagger', baseURL).href)
  await expect(page.locator('.opblock').first()).toBeVisible()
  return { elsewhere, complaints }
}

const operation = (page: Page, id: string) => page.locator(`[id$="-${id}"].opblock`)

async function execute(page: Page, id: string, fill: (form: ReturnType<typeof operation>) => Promise<void>) {
  const form = operation(page, id)
  await form.locator('.opblock-summary-control').click()
  await fill(form)
  await form.getByRole('button', { name: 'Execute' }).click()
  const answer = form.locator('.live-responses-table .response').first()
  await expect(answer).toBeVisible()
  return { status: answer.locator('.response-col_status'), body: answer.locator('.response-col_description') }
}

test('the Swagger page executes operations without requests to another origin', async ({ page, baseURL }) => {
  const { elsewhere, complaints } = await openPage(page, baseURL)

  const list = await execute(page, 'listNamespaces', async () => {})
  await expect(list.status).toContainText('200')
  await expect(list.body).toContainText('"default"')

  const created = await execute(page, 'createNamespace', (form) =>
    form.locator('textarea.body-param__text').fill(JSON.stringify({ name: NAMESPACE })),
  )
  await expect(created.status).toContainText(/201|409/)

  expect(elsewhere).toEqual([])
  // On a repeated run the namespace exists already; the browser reports the 409 as an error.
  expect(complaints.filter((text) => !text.includes('409'))).toEqual([])
})

test('the Swagger page writes and reads a path with slashes and spaces', async ({ page, baseURL }) => {
  await openPage(page, baseURL)
  const path = (form: ReturnType<typeof operation>) => form.getByPlaceholder('path').fill(FILE)
  const written = await execute(page, 'writeFile', async (form) => {
    await path(form)
    await form.locator('textarea.body-param__text').fill(JSON.stringify({ content: 'written by hand' }))
  })
  await expect(written.status).toContainText('200')
  const read = await execute(page, 'readFile', path)
  await expect(read.status).toContainText('200')
  await expect(read.body).toContainText('written by hand')
})

test('the Swagger page uploads a file from a form', async ({ page, baseURL }) => {
  await openPage(page, baseURL)
  const uploaded = await execute(page, 'uploadFile', async (form) => {
    await form.locator('tr[data-property-name="path"] input[type="text"]').fill(`${NAMESPACE}/notes/`)
    await form
      .locator('input[type="file"]')
      .setInputFiles({ name: 'upload.md', mimeType: 'text/markdown', buffer: Buffer.from('# Notes') })
  })
  await expect(uploaded.status).toContainText('201')
  await expect(uploaded.body).toContainText(`${NAMESPACE}/notes/upload.md`)
})

test('the Swagger page follows the colour scheme of the reader', async ({ page, baseURL }) => {
  await page.emulateMedia({ colorScheme: 'dark' })
  await openPage(page, baseURL)
  await expect(page.locator('html')).toHaveClass(/dark-mode/)
  await page.emulateMedia({ colorScheme: 'light' })
  await expect(page.locator('html')).not.toHaveClass(/dark-mode/)
})

test('the authorized Swagger page uploads files and streams logs from its origin', async ({ page }) => {
  const key = 'browser-key-0123456789'
  const locked = await startOwnService({ PLATFORM_API_KEY: key, RUNNER_URLS: 'none', QUERY_URLS: 'none' })
  const api = await newRequest.newContext({ baseURL: locked.url, extraHTTPHeaders: { 'x-api-key': key } })
  try {
    const pipeline = await newPipeline(api)
    const accepted = await api.post('/api/v1/runs', {
      data: { namespace: pipeline.namespace, layer: pipeline.layer, pipeline: pipeline.name },
    })
    const { run_id } = await accepted.json()
    // No runner executes this run. The cancel ends the run and its log stream.
    expect((await api.post(`/api/v1/runs/${run_id}/cancel`)).status()).toBe(200)

    const { elsewhere, complaints } = await openPage(page, locked.url)
    await authorize(page, 'X-Api-Key', key)
    const list = await execute(page, 'listNamespaces', async () => {})
    await expect(list.status).toContainText('200')
    const uploaded = await execute(page, 'uploadFile', async (form) => {
      await form.locator('tr[data-property-name="path"] input[type="text"]').fill(pipeline.prefix)
      await form
        .locator('input[type="file"]')
        .setInputFiles({ name: 'upload.md', mimeType: 'text/markdown', buffer: Buffer.from('# Notes') })
    })
    await expect(uploaded.status).toContainText('201')
    await expect(uploaded.body).toContainText(`${pipeline.prefix}upload.md`)
    const stream = await execute(page, 'getRunLogs', async (form) => {
      await form.getByPlaceholder('id', { exact: true }).fill(run_id)
      await form.locator('tr[data-code="200"] select.content-type').selectOption('text/event-stream')
    })
    await expect(stream.status).toContainText('200')
    await expect(stream.body).toContainText('event: status')
    await expect(stream.body).toContainText('"status":"cancelled"')
    expect(elsewhere).toEqual([])
    expect(complaints).toEqual([])
  } finally {
    await api.dispose()
    await locked.stop()
  }
})

test('the Swagger page executes operations as the user of an access token', async ({ page }) => {
  const pro = await startProService()
  try {
    const { elsewhere } = await openPage(page, pro.url)
    const [, token = ''] = pro.user('ann').authorization?.split(' ') ?? []
    await authorize(page, 'AccessToken', token)
    const created = await execute(page, 'createLandingZone', (form) =>
      form
        .locator('textarea.body-param__text')
        .fill(JSON.stringify({ namespace: 'default', name: 'from-the-page' })),
    )
    await expect(created.status).toContainText('201')
    const zone = await pro.must(200, pro.user('ann'), 'GET', '/api/v1/landing-zones/default/from-the-page')
    expect(zone).toMatchObject({ owner: 'ann' })
    expect(elsewhere).toEqual([])
  } finally {
    await pro.stop()
  }
})

/** Enters a credential in the dialog of the Authorize button; `scheme` is the name of the credential. */
async function authorize(page: Page, scheme: string, value: string) {
  await page.locator('button.authorize').first().click()
  const dialog = page.locator('.modal-ux')
  const credential = dialog.locator('.auth-container', { hasText: scheme })
  await credential.locator('input[type="text"]').fill(value)
  await credential.locator('button.authorize').click()
  await credential.locator('button.btn-done').click()
}
