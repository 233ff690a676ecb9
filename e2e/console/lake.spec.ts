import { expect, test } from '@playwright/test'
import { newNamespace, publish, publishedPipeline, writeFile } from '../resources.ts'
import { runToSuccess } from '../runs.ts'
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
  await page.getByRole('textbox', { name: 'b', exact: true }).fill('the second')
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('dialog')).toBeHidden()
  await expect(page.getByText('Numbers')).toBeVisible()
  const { description, columns } = await (await request.get(url)).json()
  expect([description, ...columns.map((column: { description: string }) => column.description)]).toEqual([
    'Numbers',
    'the first',
    'the second',
  ])
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
  await page.getByRole('button', { name: 'Back to the present' }).click()
  await state.getByRole('button', { name: 'Restore' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Restore' }).click()
  await expect(page.getByRole('gridcell', { name: 'before' })).toBeVisible()
  const { rows } = await (await request.get(`/api/v1/tables/${path}/preview`)).json()
  expect(rows).toEqual([{ state: 'before' }])
  expect(faults).toEqual([])
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
