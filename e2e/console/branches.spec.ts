import { type APIRequestContext, expect, type Page, test } from '@playwright/test'
import {
  addTest,
  fresh,
  getJson,
  type MadePipeline,
  newNamespace,
  publish,
  publishedPipeline,
  writeFile,
} from '../kit/resources.ts'
import { ended, requestRun, runToSuccess } from '../kit/runs.ts'
import { expectAccessible, openConsole } from './open.ts'

const SOURCE = 'select 1 as n'

/** A table of main, and a branch on which the draft has written other rows. */
async function changedBranch(request: APIRequestContext, draft: string) {
  const namespace = await newNamespace(request)
  const pipeline = await publishedPipeline(request, SOURCE, { namespace })
  await runToSuccess(request, pipeline)
  const branch = fresh('try')
  await request.post('/api/v1/branches', { data: { name: branch } })
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, draft)
  const run = await ended(request, await requestRun(request, pipeline, { branch, draft: true }))
  expect(run).toMatchObject({ status: 'success' })
  return { pipeline, branch, table: `${namespace}.gold.${pipeline.name}` }
}

const restore = async (request: APIRequestContext, pipeline: MadePipeline, source: string) => {
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, source)
  await publish(request, pipeline)
}

const merge = async (page: Page) => {
  await page.getByRole('button', { name: 'Merge', exact: true }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Merge' }).click()
}

test('a person creates a branch, runs a pipeline on it and deletes it', async ({
  page,
  request,
  baseURL,
}) => {
  const namespace = await newNamespace(request)
  const pipeline = await publishedPipeline(request, SOURCE, { namespace })
  const faults = await openConsole(page, baseURL, '/branches')
  const name = fresh('made')
  await page.getByRole('button', { name: 'New branch' }).click()
  await page.getByLabel('Name').fill(name)
  await page.getByLabel('Description').fill('Made by a person')
  await page.keyboard.press('Enter')
  await expect(page.getByRole('heading', { name, level: 1 })).toBeVisible()
  const offer = page.getByRole('button', { name: 'Merge', exact: true })
  await expect(offer).toHaveAccessibleDescription('No table to merge')
  expect(await getJson(request, `/api/v1/branches/${name}`)).toMatchObject({
    status: 'open',
    description: 'Made by a person',
  })
  await page.getByLabel('Pipeline', { exact: true }).fill(`${namespace}.gold.${pipeline.name}`)
  await page.getByRole('button', { name: 'Run on the branch' }).click()
  const href = await page.getByRole('link', { name: 'Open the run' }).getAttribute('href')
  expect(await ended(request, href?.split('/').at(-1) ?? '')).toMatchObject({
    status: 'success',
    branch: name,
  })
  await page.getByRole('button', { name: 'Compare rows' }).click()
  await expect(page.getByRole('grid').locator('.grid-row[data-tone=added]')).toHaveCount(1)
  await page.getByRole('button', { name: 'Delete' }).click()
  await page.getByRole('button', { name: 'Delete the branch' }).click()
  await expect(page).toHaveURL(/branches$/)
  expect(await getJson(request, `/api/v1/branches/${name}`)).toMatchObject({ status: 'deleted' })
  await page.getByLabel('Status').selectOption('deleted')
  await page.getByLabel('Search branches').fill(name)
  await expect(page.getByRole('link', { name })).toBeVisible()
  expect(faults).toEqual([])
})

test('a branch shows its changed rows and merges', async ({ page, request, baseURL }) => {
  const { branch, table, pipeline } = await changedBranch(request, "select 2 as n, 'new' as label")
  const faults = await openConsole(page, baseURL, `/branches/${branch}`)
  await expect(page.getByLabel('Changed tables').getByText(table)).toBeVisible()
  await expect(page.getByText('+ label VARCHAR')).toBeVisible()
  await page.getByRole('button', { name: 'Compare rows' }).click()
  const rows = page.getByRole('grid').locator('.grid-row')
  await expect(rows.and(page.locator('[data-tone=added]'))).toContainText('new')
  await expect(rows.and(page.locator('[data-tone=removed]'))).toHaveCount(1)
  await expectAccessible(page, 'branch-changed')
  await merge(page)
  await expect(page.getByText(/Merged as commit \d+ of main/)).toBeVisible()
  await expect(page.locator('.facts').getByText('merged')).toBeVisible()
  const { name } = pipeline
  const sql = `select n, label from "${pipeline.namespace}".gold."${name}"`
  const answer = await request.post('/api/v1/query', { data: { sql } })
  expect((await answer.json()).rows).toEqual([{ n: 2, label: 'new' }])
  expect(await getJson(request, pipeline.url)).toMatchObject({ published_version: 2, draft_dirty: false })
  expect(faults).toEqual([])
})

test('a merge that fails a test shows the test and its rows', async ({ page, request, baseURL }) => {
  const { branch, pipeline } = await changedBranch(request, 'select -5 as n')
  const sql = `select * from {{ ref('gold.${pipeline.name}') }} where n < 0`
  await addTest(request, pipeline, { name: 'not-negative', severity: 'error', sql })
  await restore(request, pipeline, SOURCE)
  await openConsole(page, baseURL, `/branches/${branch}`)
  await page.getByRole('button', { name: 'Merge', exact: true }).click()
  await page.getByLabel('Publish these drafts').uncheck()
  await page.getByRole('dialog').getByRole('button', { name: 'Merge' }).click()
  const results = page.getByRole('dialog').getByLabel('Results of the tests')
  await expect(results.getByRole('row', { name: /failed not-negative/ })).toContainText('-5')
  await expectAccessible(page, 'branch-failing-test')
  expect(await getJson(request, `/api/v1/branches/${branch}`)).toMatchObject({ status: 'open' })
})

test('a conflict is marked, and refuses merge and rebase', async ({ page, request, baseURL }) => {
  const { branch, pipeline, table } = await changedBranch(request, 'select 2 as n')
  await restore(request, pipeline, 'select 3 as n')
  await runToSuccess(request, pipeline)
  let answer = () => {}
  const isAnswered = new Promise<void>((resolve) => {
    answer = resolve
  })
  await page.route('**/api/v1/branches/*/diff**', async (route) => {
    await isAnswered
    await route.continue()
  })
  await openConsole(page, baseURL, `/branches/${branch}`)
  const offer = page.getByRole('button', { name: 'Merge', exact: true })
  await expect(offer).toHaveAccessibleDescription('Comparing with main…')
  const expectNotOffered = async () => {
    await expect(offer).toBeDisabled()
    await expect(offer).not.toHaveAttribute('data-kind', 'primary')
  }
  await expectNotOffered()
  answer()
  await expect(page.getByText('Main has changed the marked tables, too.')).toBeVisible()
  await expectNotOffered()
  await expect(offer).toHaveAccessibleDescription('Conflict with main in 1 table')
  await expectAccessible(page, 'branch-conflict')
  await page.getByRole('button', { name: 'Rebase' }).click()
  await page.getByRole('button', { name: 'Rebase the branch' }).click()
  await expect(page.getByRole('region', { name: 'Conflicts' })).toContainText(table)
  expect((await getJson(request, `/api/v1/branches/${branch}`)).commits_behind).toBeGreaterThan(0)
})

test('an open branch shows later commits on the branch and on main', async ({ page, request, baseURL }) => {
  const { branch, pipeline, table } = await changedBranch(request, 'select 2 as n')
  await openConsole(page, baseURL, `/branches/${branch}`)
  await page.getByRole('button', { name: 'Compare rows' }).click()
  const added = page.getByRole('grid').locator('.grid-row[data-tone=added]')
  await expect(added).toContainText('2')
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, 'select 4 as n')
  await ended(request, await requestRun(request, pipeline, { branch, draft: true }))
  await restore(request, pipeline, 'select 3 as n')
  await runToSuccess(request, pipeline)
  await expect(page.getByText('Main has changed the marked tables, too.')).toBeVisible()
  await expect(added).toContainText('4')
  await expect(page.getByLabel('Commits').getByRole('row', { name: table })).toHaveCount(2)
  await page.getByRole('button', { name: 'Hide rows' }).click()
  await expect(page.getByRole('grid')).toHaveCount(0)
})

test('an open branch follows its run by events, without polling', async ({ page, request, baseURL }) => {
  const { branch, pipeline } = await changedBranch(request, 'select 2 as n')
  await page.addInitScript(() => {
    window.setInterval = (() => 0) as unknown as typeof window.setInterval
  })
  const stream = page.waitForResponse(
    (response) => /inspector\/run\/events/.test(response.url()) && response.status() === 200,
  )
  await openConsole(page, baseURL, `/branches/${branch}`)
  const runs = page.getByLabel('Runs on this branch')
  await expect(runs.getByRole('row')).toHaveCount(2)
  await expect(page.getByText('1 ahead')).toBeVisible()
  await stream
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, 'select 4 as n')
  const id = await requestRun(request, pipeline, { branch, draft: true })
  await expect(runs.locator('tbody tr').nth(1)).toContainText('success')
  await expect(runs.locator(`a[href$="${id}"]`).first()).toBeVisible()
  await expect(page.getByText('2 ahead')).toBeVisible()
  await expect(page.getByLabel('Commits').locator('tbody tr')).toHaveCount(2)

  await runToSuccess(request, pipeline)
  await expect(page.getByText('1 behind')).toBeVisible()
  await page.getByRole('link', { name: 'All runs on this branch' }).click()
  await expect(page.getByText('2 runs', { exact: true })).toBeVisible()
  await page.getByLabel('Branch', { exact: true }).selectOption('main')
  await expect(page).toHaveURL(/branch=main/)
  await page.getByLabel('Pipeline', { exact: true }).fill(pipeline.name)
  await page.keyboard.press('Enter')
  // The first run of the table, and the one just now.
  await expect(page.getByText('2 runs', { exact: true })).toBeVisible()
  await page.getByLabel('Branch', { exact: true }).selectOption('all')
  await expect(page.getByText('4 runs', { exact: true })).toBeVisible()
})

test('a rebase moves the branch to the head of main', async ({ page, request, baseURL }) => {
  const branch = fresh('behind')
  await request.post('/api/v1/branches', { data: { name: branch } })
  const namespace = await newNamespace(request)
  await runToSuccess(request, await publishedPipeline(request, SOURCE, { namespace }))
  await openConsole(page, baseURL, `/branches/${branch}`)
  const { base_commit: before } = await getJson(request, `/api/v1/branches/${branch}`)
  await page.getByRole('button', { name: 'Rebase' }).click()
  await page.getByRole('button', { name: 'Rebase the branch' }).click()
  await expect(page.getByText(/The branch begins at commit \d+ of main/)).toBeVisible()
  const { base_commit: after } = await getJson(request, `/api/v1/branches/${branch}`)
  expect(after).toBeGreaterThan(before)
})

test('a person creates and deletes a tag', async ({ page, request, baseURL }) => {
  const faults = await openConsole(page, baseURL, '/branches')
  const name = fresh('tag')
  await page.getByRole('button', { name: 'New tag' }).click()
  await page.getByLabel('Name').fill(name)
  await page.getByLabel('Description').fill('Kept for the audit')
  await page.getByRole('button', { name: 'Create' }).click()
  const row = page.getByRole('row', { name: new RegExp(name) })
  await expect(row).toContainText('Kept for the audit')
  const { tags } = await getJson(request, '/api/v1/tags')
  expect(tags).toContainEqual(expect.objectContaining({ name, description: 'Kept for the audit' }))
  await expectAccessible(page, 'branches-and-tags')
  await page.getByLabel(`Delete the tag ${name}`).click()
  await page.getByRole('button', { name: 'Delete the tag', exact: true }).click()
  await expect(page.getByRole('dialog')).toHaveCount(0)
  await expect(row).toHaveCount(0)
  // The row of the button that opened the dialog is gone.
  await expect(page.locator(':focus')).toHaveCount(1)
  const left = await getJson(request, '/api/v1/tags')
  expect(left.tags).not.toContainEqual(expect.objectContaining({ name }))
  expect(faults).toEqual([])
})
