// Journeys of people through the console, judged by the API.
import { expect, type Page, test } from '@playwright/test'
import { eventually } from '../kit/eventually.ts'
import { newNamespace, publishedPipeline, writeFile } from '../kit/resources.ts'
import { getRun, requestRun } from '../kit/runs.ts'
import { expectAccessible, openConsole } from './open.ts'

const FILE = { name: 'orders.csv', mimeType: 'text/csv', buffer: Buffer.from('id,amount\n1,10\n2,-5\n') }

async function typeCode(page: Page, text: string) {
  const editor = page.getByRole('textbox', { name: /^Draft of pipeline/ })
  await editor.click()
  await page.keyboard.press('Control+a')
  await page.keyboard.insertText(text)
}

test('a newcomer goes from a file to a failing test and its fix', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  let clicks = 0
  /** Every click of the journey counts, also those in dialogs. Keys and texts do not. */
  const click = async (name: string, role: 'button' | 'link' | 'tab' = 'button') => {
    clicks += 1
    await page.getByRole(role, { name, exact: true }).last().click()
  }
  const faults = await openConsole(page, baseURL, '/')
  await click('Landing zones', 'link')
  await click('New landing zone')
  await page.keyboard.type('orders')
  await page.getByRole('dialog').getByLabel('Namespace').fill(namespace)
  await page.keyboard.press('Enter')
  clicks += 1
  await page.getByLabel('Choose files').first().setInputFiles(FILE)
  await expect(page.getByRole('cell', { name: /^\d.*orders.csv$/ }).first()).toBeVisible()

  await click('Pipelines', 'link')
  await click('New pipeline')
  await page.keyboard.type('orders')
  await page.getByRole('dialog').getByLabel('Namespace').fill(namespace)
  await page.getByLabel('Reads').fill('orders')
  await page.keyboard.press('Enter')
  await expect(page.getByRole('textbox', { name: /^Draft of pipeline/ })).toContainText(
    'landing_zone("orders")',
  )
  await expect(page.getByText('2 rows,').first()).toBeVisible()

  await click('Tests', 'tab')
  await click('New test')
  await page.keyboard.type('no-debts')
  await page.getByLabel('SQL').fill("select * from {{ ref('bronze.orders') }} where amount < 0")
  await page.keyboard.press('Control+Enter')
  await expect(page.getByText('no-debts').first()).toBeVisible()
  await click('Publish')
  await click('Publish and run')
  await expect(page.getByRole('alert')).toContainText('no-debts')
  await expect(page.getByText('id=2, amount=-5', { exact: true })).toBeVisible()
  await expect(page.getByText('+2', { exact: true })).toBeVisible()

  await click(`${namespace}.bronze.orders`, 'link')
  await typeCode(page, `select id, abs(amount) as amount from read_csv('{{ landing_zone("orders") }}')`)
  await click('Compare with the published version')
  await expect(page.getByLabel('Draft against the published version')).toContainText('abs(amount)')
  await click('Publish')
  await click('Publish and run')
  await expect(page.locator('.facts').getByText('success')).toBeVisible()
  await expect(page.getByText('Merged as', { exact: true })).toBeVisible()
  const { rows } = await (
    await request.post('/api/v1/query', {
      data: { sql: 'select sum(amount)::int as n from bronze.orders', namespace },
    })
  ).json()
  expect(rows).toEqual([{ n: 15 }])
  expect(clicks).toBeLessThan(15)
  // Chromium styles a text that replaces a selection. The policy blocks the style, and the editor discards it.
  expect(faults.filter((fault) => !/inline style|style-src-attr/.test(fault))).toEqual([])
})

test('a person looks at a change in review and approves it', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const pipeline = await publishedPipeline(request, 'select 1 as n', { namespace })
  await writeFile(request, `${pipeline.prefix}config.yaml`, 'merge: review\n')
  await request.post(`/api/v1/pipelines/${namespace}/${pipeline.layer}/${pipeline.name}/publish`)
  const id = await requestRun(request, pipeline)
  await eventually(async () => (await getRun(request, id)).phase).toBe('review')
  await openConsole(page, baseURL, '/')
  await page
    .getByRole('link', { name: `${namespace}.${pipeline.layer}.${pipeline.name}` })
    .first()
    .click()
  await page.getByRole('button', { name: 'Compare rows' }).click()
  await expect(page.getByRole('grid')).toContainText('1')
  await expectAccessible(page, 'run-in-review')
  await page.getByRole('button', { name: 'Approve' }).click()
  await page.getByRole('dialog').getByLabel('Note (optional)').fill('seen in the console')
  await page.getByRole('dialog').getByRole('button', { name: 'Approve' }).click()
  await eventually(async () => (await getRun(request, id)).status).toBe('success')
  await expect(page.locator('.facts').getByText('success')).toBeVisible()
})

test('a draft that another person changed is not overwritten', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const pipeline = await publishedPipeline(request, 'select 1 as n', { namespace })
  await openConsole(page, baseURL, `/pipelines/${namespace}/${pipeline.layer}/${pipeline.name}`)
  await typeCode(page, 'select 2 as mine')
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, 'select 3 as theirs')
  await page.keyboard.press('Control+s')
  await expect(page.getByText('Another person has changed this draft')).toBeVisible()
  await page.getByRole('button', { name: 'Load the stored draft' }).click()
  await expect(page.getByRole('textbox', { name: /^Draft of pipeline/ })).toContainText('theirs')
})

test('a draft that is not saved stays while a person looks elsewhere', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const pipeline = await publishedPipeline(request, 'select 1 as n', { namespace })
  await openConsole(page, baseURL, `/pipelines/${namespace}/${pipeline.layer}/${pipeline.name}`)
  await typeCode(page, 'select 2 as unsaved')
  await page.getByRole('button', { name: 'Configuration' }).click()
  await page.getByRole('link', { name: 'Lineage' }).click()
  await expect(page.getByRole('heading', { name: 'Lineage' })).toBeVisible()
  await page.goBack()
  await expect(page.getByRole('textbox', { name: /^Draft of pipeline/ })).toContainText('unsaved')
  await expect(page.getByText('not saved')).toBeVisible()
})
