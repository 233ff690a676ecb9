import { readFile } from 'node:fs/promises'
import { expect, type Page, test } from '@playwright/test'
import { fresh, newNamespace, publishedPipeline, writeFile } from '../kit/resources.ts'
import { ended, requestRun, runToSuccess } from '../kit/runs.ts'
import { expectAccessible, openConsole } from './open.ts'

const open = async (page: Page, baseURL: string | undefined, sql: string, more = '') => {
  const faults = await openConsole(page, baseURL, `/query?sql=${encodeURIComponent(sql)}${more}`)
  await expect(page.getByRole('textbox', { name: 'SQL of the query' })).toBeVisible()
  return faults
}

/** Executes from the keyboard, inside the editor. */
const execute = async (page: Page) => {
  await page.getByRole('textbox', { name: 'SQL of the query' }).focus()
  await page.keyboard.press('Control+Enter')
}

const grid = (page: Page) => page.getByRole('grid', { name: 'Rows of the query' })

async function downloaded(page: Page, format: string): Promise<Buffer> {
  const download = page.waitForEvent('download')
  await page.getByRole('button', { name: format, exact: true }).click()
  expect((await download).suggestedFilename()).toBe(`query.${format.toLowerCase()}`)
  return readFile(await (await download).path())
}

const ROWS = "select range as n, 'row ' || range as label, range * 2 as double from range(3) order by n"

test('a result is sorted, filtered, drawn and exported', async ({ page, baseURL }) => {
  const faults = await open(page, baseURL, ROWS)
  await execute(page)
  await expect(grid(page).getByRole('gridcell').first()).toHaveText('0')
  await page.getByRole('button', { name: /^n\b/ }).click()
  await page.getByRole('button', { name: /^n\b/ }).click()
  await expect(grid(page).getByRole('gridcell').first()).toHaveText('2')
  await expectAccessible(page, 'query-result')
  expect(String(await downloaded(page, 'CSV'))).toBe(
    'n,label,double\r\n0,row 0,0\r\n1,row 1,2\r\n2,row 2,4\r\n',
  )
  expect(JSON.parse(String(await downloaded(page, 'JSON')))).toHaveLength(3)
  expect(String((await downloaded(page, 'Parquet')).subarray(-4))).toBe('PAR1')
  expect(String((await downloaded(page, 'Arrow')).subarray(0, 6))).toBe('ARROW1')
  await page.getByLabel('Filter the rows').fill('row 1')
  await expect(grid(page).locator('.grid-row')).toHaveCount(1)
  await expect(page.getByText('1 rows have this text')).toBeVisible()
  await page.getByLabel('Filter the rows').fill('')
  await page.getByRole('button', { name: 'Chart' }).click()
  await expect(page.getByRole('img', { name: 'Chart: double by n' })).toBeVisible()
  await page.getByLabel('Up').selectOption('n')
  await page.getByRole('button', { name: 'Line' }).click()
  await expect(page.getByRole('img', { name: 'Chart: n by n' }).locator('canvas')).toBeVisible()
  await expectAccessible(page, 'query-chart')
  expect(faults).toEqual([])
})

test('a query reads the branch and the commit of the address', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const pipeline = await publishedPipeline(request, "select 'main' as place", { namespace })
  const { merged_commit: commit } = await runToSuccess(request, pipeline)
  const branch = fresh('other')
  await request.post('/api/v1/branches', { data: { name: branch } })
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, "select 'branch' as place")
  await ended(request, await requestRun(request, pipeline, { branch, draft: true }))
  const sql = `select place from "${namespace}".gold."${pipeline.name}"`
  await open(page, baseURL, sql, `&as_of=${commit}`)
  await execute(page)
  await expect(grid(page).getByRole('gridcell')).toHaveText('main')
  await open(page, baseURL, sql)
  await page.getByLabel('Branch').selectOption(branch)
  await expect(page).toHaveURL(new RegExp(`branch=${branch}`))
  await execute(page)
  await expect(grid(page).getByRole('gridcell')).toHaveText('branch')
})

test('the editor completes tables and columns', async ({ page, request, baseURL }) => {
  const pipeline = await publishedPipeline(request, 'select 1 as place', {
    namespace: 'default',
    layer: 'gold',
    name: fresh('unusual').replaceAll('-', '_'),
  })
  await runToSuccess(request, pipeline)
  await open(page, baseURL, `select * from gold.${pipeline.name} u where u.`)
  const tables = page.waitForResponse((response) => response.url().includes('/api/v1/schema'))
  await page.getByRole('textbox', { name: 'SQL of the query' }).focus()
  await tables
  await page.keyboard.press('Control+End')
  await page.keyboard.type('pla')
  await page.getByRole('option', { name: 'u.place' }).click()
  await page.keyboard.type(' = lower(u.pla')
  await page.getByRole('option', { name: 'u.place' }).click()
  await page.keyboard.press('End')
  await page.keyboard.type(' and u.place')
  await page.keyboard.type(` in (select place from gold.${pipeline.name.slice(0, -1)}`)
  await expect(page.getByRole('option', { name: `gold.${pipeline.name}` })).toBeVisible()
})

test('an error marks its line in the editor', async ({ page, baseURL }) => {
  await open(page, baseURL, 'select 1,\n  2 frm x y')
  await execute(page)
  await expect(page.getByRole('alert')).toContainText('line 2')
  await expect(page.locator('.cm-lint-marker-error')).toHaveCount(1)
  await expectAccessible(page, 'query-error')
})

test('a person cancels a running query', async ({ page, baseURL }) => {
  await open(page, baseURL, 'select max(hash(x.range, y.range)) from range(1000000) x, range(1000000) y')
  const failed = page.waitForEvent('requestfailed', (request) => request.url().endsWith('/api/v1/query'))
  await execute(page)
  await page.getByRole('button', { name: 'Cancel' }).click()
  await failed
  await expect(page.getByRole('button', { name: 'Execute' })).toBeEnabled()
})

test('a plan is drawn as a tree', async ({ page, baseURL }) => {
  const faults = await open(
    page,
    baseURL,
    'select * from range(9) a(i) join range(8) b(i) using (i) where i > 2',
  )
  await page.getByRole('button', { name: 'Explain' }).click()
  const plan = page.getByRole('region', { name: 'Plan of the query' })
  await expect(plan.getByText('HASH_JOIN')).toBeVisible()
  await expect(plan.getByText('RANGE', { exact: true }).or(plan.getByText('TABLE_SCAN'))).toHaveCount(2)
  await expectAccessible(page, 'query-plan')
  expect(faults).toEqual([])
})

test('this browser keeps only the text of queries', async ({ page, baseURL }) => {
  await open(page, baseURL, "select 'sec' || 'ret' as x")
  await execute(page)
  await expect(grid(page)).toContainText('secret')
  await page.getByLabel('Save this query as').fill('My query')
  await page.getByRole('button', { name: 'Save' }).click()
  const stored = await page.evaluate(() => JSON.stringify(localStorage))
  expect(stored).toContain('My query')
  expect(stored).not.toContain('secret')
  await open(page, baseURL, 'select 2')
  await page.getByRole('button', { name: 'My query', exact: true }).click()
  await expect(page.getByRole('textbox', { name: 'SQL of the query' })).toContainText("'sec' || 'ret'")
  // Once among the saved queries, and once in the history.
  await expect(page.getByTitle("select 'sec' || 'ret' as x")).toHaveCount(2)
  await page.getByRole('button', { name: 'Clear' }).click()
  await expect(page.getByText('Nothing executed yet')).toBeVisible()
  await page.getByLabel('Forget My query').click()
  await expect(page.getByRole('button', { name: 'My query', exact: true })).toHaveCount(0)
})

test('a million cells scroll and sort while only visible cells exist', async ({ page, baseURL }) => {
  const columns = Array.from({ length: 10 }, (_, index) => `range + ${index} as c${index}`)
  await open(page, baseURL, `select ${columns} from range(100000)`, '&limit=100000')
  await execute(page)
  await expect(page.getByRole('heading', { name: '100,000 rows' })).toBeVisible()
  await grid(page).press('Control+End')
  expect(await grid(page).getByRole('gridcell').count()).toBeLessThan(1_000)
  await page.getByRole('button', { name: /^c0\b/ }).click()
  await page.getByRole('button', { name: /^c0\b/ }).click()
  await grid(page).evaluate((element) => element.scrollTo({ top: 0 }))
  await expect(grid(page).getByRole('gridcell').first()).toHaveText('99999')
})

test('an edited query stays while the person looks at other pages', async ({ page, baseURL }) => {
  await openConsole(page, baseURL, '/query?sql=select%201%20as%20linked')
  const editor = page.getByRole('textbox', { name: 'SQL of the query' })
  await editor.click()
  await page.keyboard.press('Control+a')
  await page.keyboard.insertText('select 2 as edited')
  await page.getByRole('link', { name: 'Runs', exact: true }).click()
  await expect(page.getByRole('heading', { name: 'Runs' })).toBeVisible()
  await page.goBack()
  await expect(editor).toHaveText('select 2 as edited')
})
