import { type APIRequestContext, expect, test } from '@playwright/test'
import { eventually } from '../kit/eventually.ts'
import { fresh, newNamespace, publish, publishedPipeline, writeFile } from '../kit/resources.ts'
import { runToSuccess } from '../kit/runs.ts'
import { expectAccessible, openConsole } from './open.ts'

test('a table is found, described, and keeps its other descriptions', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const pipeline = await publishedPipeline(request, 'select 1 as a, 2 as b', { namespace })
  await runToSuccess(request, pipeline)
  const url = `/api/v1/tables/${namespace}/${pipeline.layer}/${pipeline.name}`
  await request.put(`${url}/metadata`, { data: { column_descriptions: { a: 'the first' } } })
  const faults = await openConsole(page, baseURL, `/lake?search=${namespace}`)
  await page.getByRole('link', { name: `${namespace}.${pipeline.layer}.${pipeline.name}` }).click()
  await page.getByRole('button', { name: 'Describe' }).click()
  await page.getByRole('textbox', { name: 'The table' }).fill('Numbers')
  await page.getByRole('textbox', { name: 'Owned by' }).fill('team sales')
  await page.getByRole('textbox', { name: 'b', exact: true }).fill('the second')
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('dialog')).toBeHidden()
  await expect(page.getByText('Numbers')).toBeVisible()
  await expect(page.getByText('team sales')).toBeVisible()
  await expect(page.getByRole('cell', { name: 'the second' })).toBeVisible()
  const { description, owner, columns } = await (await request.get(url)).json()
  expect([
    description,
    owner,
    ...columns.map((column: { description: string }) => column.description),
  ]).toEqual(['Numbers', 'team sales', 'the first', 'the second'])
  await expectAccessible(page, 'table-described')
  await expect(page.getByText("load_catalog('sluice'")).toHaveCount(0)
  await page.getByText('PyIceberg', { exact: true }).click()
  await expect(page.getByText(`${new URL('/iceberg', baseURL).href}`).first()).toBeVisible()
  expect(faults).toEqual([])
})

test('an earlier state of a table is shown and restored', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const pipeline = await publishedPipeline(request, "select 'before' as state", { namespace })
  const { merged_commit: first } = await runToSuccess(request, pipeline)
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, "select 'after' as state")
  await publish(request, pipeline)
  await runToSuccess(request, pipeline)
  const path = `${namespace}/${pipeline.layer}/${pipeline.name}`
  const faults = await openConsole(page, baseURL, `/lake/${path}`)
  await expect(page.getByRole('gridcell', { name: 'after' })).toBeVisible()
  const state = page.getByLabel('States of the table').getByRole('row').last()
  await state.getByRole('button', { name: 'Look at it' }).click()
  await expect(page.getByText(`The table as of commit ${first}`)).toBeVisible()
  await expect(page.getByRole('gridcell', { name: 'before' })).toBeVisible()
  await expectAccessible(page, 'table-as-of')
  // A save would remove the descriptions of columns that this state lacks.
  await expect(page.getByRole('button', { name: 'Describe' })).toHaveCount(0)
  await page.getByRole('button', { name: 'Back to the present' }).click()
  await state.getByRole('button', { name: 'Restore' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Restore' }).click()
  await expect(page.getByRole('gridcell', { name: 'before' })).toBeVisible()
  await expect(page.getByText(`The table has the state of commit ${first}`)).toBeVisible()
  const { rows } = await (await request.get(`/api/v1/tables/${path}/preview`)).json()
  expect(rows).toEqual([{ state: 'before' }])
  expect(faults).toEqual([])
})

test('an open page of a table shows the result of a later run', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const pipeline = await publishedPipeline(request, "select 'before' as state", { namespace })
  await runToSuccess(request, pipeline)
  await page.clock.install()
  await openConsole(page, baseURL, `/lake/${namespace}/${pipeline.layer}/${pipeline.name}`)
  await expect(page.getByRole('gridcell', { name: 'before' })).toBeVisible()
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, "select 'after' as state, 1 as added")
  await publish(request, pipeline)
  await runToSuccess(request, pipeline)
  // The page asks again at an interval.
  await page.clock.fastForward(15_000)
  await expect(page.getByRole('gridcell', { name: 'after' })).toBeVisible()
  await expect(page.getByRole('row', { name: /^added INTEGER/ })).toBeVisible()
})

test('the page of a table leads to its lineage and its query', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const pipeline = await publishedPipeline(request, 'select 7 as n', { namespace })
  await runToSuccess(request, pipeline)
  const path = `/lake/${namespace}/${pipeline.layer}/${pipeline.name}`
  const faults = await openConsole(page, baseURL, path)
  const main = page.getByRole('main')
  await main.getByRole('link', { name: 'Lineage' }).click()
  const nodes = page.getByRole('list', { name: 'Nodes' }).getByRole('button')
  await expect(nodes).toHaveCount(2)
  await page.goBack()
  await main.getByRole('link', { name: 'Query' }).click()
  await page.getByRole('button', { name: /^(Run|Execute)/ }).click()
  await expect(page.getByRole('gridcell', { name: '7' })).toBeVisible()
  expect(faults).toEqual([])
})

test('the files of a table are shown with partitions and in pages', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const settings = '-- @partition_by: [{column: day, transform: month}, {column: kind}]\n'
  const sql = `${settings}select range as id, date '2024-01-15' + to_months(range::int) as day,
    case when range > 0 then 'web' end as kind, 'a long text of order ' || range as words from range(24)`
  const { layer, name } = await publishedPipeline(request, sql, { namespace })
  await runToSuccess(request, { namespace, layer, name })
  const faults = await openConsole(page, baseURL, `/lake/${namespace}/${layer}/${name}`)
  await expect(page.getByText('month(day), kind')).toBeVisible()
  await expect(page.getByText('24 data files')).toBeVisible()
  const files = page.getByLabel('Data files')
  await expect(files.getByRole('row')).toHaveCount(21)
  await expect(page.getByText('1 to 20 of 24')).toBeVisible()
  await files.scrollIntoViewIfNeeded()
  await expectAccessible(page, 'table-files')
  await page.getByRole('button', { name: 'Next' }).click()
  await expect(files.getByRole('row')).toHaveCount(5)
  await expect(page).toHaveURL(/offset=20/)
  const found = await (
    await request.get(`/api/v1/tables/${namespace}/${layer}/${name}/files?offset=20`)
  ).json()
  for (const { path, partition } of found.files) {
    const row = files.getByRole('row', { name: path.split('/').at(-1) })
    for (const { field, value } of partition)
      await expect(row.getByText(`${field} = ${value ?? 'NULL'}`)).toBeVisible()
  }
  expect(faults).toEqual([])
})

test('the columns of a table show their statistics', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const sql =
    "select nullif(range, 2) as id, date '2026-01-31' + range::int as day, {a: 1} as nested from range(5)"
  const { layer, name } = await publishedPipeline(request, sql, { namespace })
  await runToSuccess(request, { namespace, layer, name })
  const faults = await openConsole(page, baseURL, `/lake/${namespace}/${layer}/${name}`)
  const cellsOf = (column: string) =>
    page.getByLabel('Columns').getByRole('row', { name: column }).getByRole('cell').allInnerTexts()
  await eventually(() => cellsOf('id BIGINT')).toEqual([
    'id',
    'BIGINT',
    '–',
    '1',
    '0',
    '4',
    expect.stringMatching(/^\d+ B$/),
  ])
  expect((await cellsOf('day')).slice(3, 6)).toEqual(['0', '2026-01-31', '2026-02-04'])
  expect((await cellsOf('nested')).slice(3, 6)).toEqual(['–', '–', '–'])
  expect(faults).toEqual([])
})

test('a view and an empty table say why they have no files', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const view = await publishedPipeline(request, '-- @materialized: view\nselect 1 as a', { namespace })
  await runToSuccess(request, view)
  const branch = await branchWithTables(request, namespace, ['empty'])
  const faults = await openConsole(page, baseURL, `/lake/${namespace}/${view.layer}/${view.name}`)
  await expect(page.getByText('A view stores no rows')).toBeVisible()
  await expect(page.getByRole('columnheader', { name: 'Nulls' })).toHaveCount(0)
  await expectAccessible(page, 'table-view')
  page.removeAllListeners()
  faults.push(...(await openConsole(page, baseURL, `/lake/${namespace}/gold/empty?branch=${branch}`)))
  await expect(page.getByText('The table has no data file')).toBeVisible()
  await expectAccessible(page, 'table-empty')
  expect(faults).toEqual([])
})

/** An open branch where another engine made empty gold tables. */
async function branchWithTables(request: APIRequestContext, namespace: string, names: string[]) {
  const branch = fresh('lake')
  expect((await request.post('/api/v1/branches', { data: { name: branch } })).status()).toBe(201)
  const schema = { type: 'struct', fields: [{ id: 1, name: 'id', type: 'long', required: false }] }
  for (const name of names) {
    const url = `/iceberg/v1/sluice.${branch}/namespaces/${namespace}%1Fgold/tables`
    expect((await request.post(url, { data: { name, schema } })).status()).toBe(200)
  }
  return branch
}

test('the list is filtered by namespace, branch and point in time', async ({ page, request, baseURL }) => {
  const [first, second] = [await newNamespace(request), await newNamespace(request)]
  const table = { namespace: first, layer: 'gold', name: 'orders' }
  await publishedPipeline(request, 'select 1 as a', table)
  const { merged_commit: commit } = await runToSuccess(request, table)
  await publishedPipeline(request, 'select 1 as a', { ...table, namespace: second })
  await runToSuccess(request, { ...table, namespace: second })
  const many = Array.from({ length: 60 }, (_, index) => `made-${String(index).padStart(2, '0')}`)
  const branch = await branchWithTables(request, second, many)
  const faults = await openConsole(page, baseURL, '/lake')
  const rows = page.getByLabel('Tables').getByRole('row')
  const filters = page.getByRole('main')
  await filters.getByLabel('Namespace').selectOption(second)
  await expect(rows).toHaveCount(2)
  await filters.getByLabel('Branch').selectOption(branch)
  await expect(page.getByText('1 to 50 of 61')).toBeVisible()
  await expectAccessible(page, 'lake-filters')
  await page.getByRole('button', { name: 'Next' }).click()
  await expect(rows).toHaveCount(12)
  await filters.getByLabel('Search tables').fill('made-5')
  await expect(rows).toHaveCount(11)
  await expect(page).toHaveURL(new RegExp(`namespace=${second}.*branch=${branch}.*search=made-5`))
  await page.reload()
  await expect(rows).toHaveCount(11)
  await page.getByRole('link', { name: `${second}.gold.made-50` }).click()
  await expect(page.getByText('The table has no data file')).toBeVisible()
  await page.goBack()
  await filters.getByLabel('Search tables').fill('')
  await filters.getByLabel('As of').fill(String(commit))
  await filters.getByLabel('As of').press('Enter')
  await expect(page.getByText('No table matches these filters')).toBeVisible()
  await filters.getByLabel('Namespace').selectOption(first)
  await expect(rows).toHaveCount(2)
  await page.getByRole('link', { name: `${first}.gold.orders` }).click()
  await expect(page.getByText(`The table as of commit ${commit}`)).toBeVisible()
  expect(faults).toEqual([])
})
