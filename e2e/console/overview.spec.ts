import { expect, test } from '@playwright/test'
import { addTest, newNamespace, publish, publishedPipeline, writeFile } from '../kit/resources.ts'
import { runToEnd, runToSuccess } from '../kit/runs.ts'
import { expectAccessible, openConsole } from './open.ts'

test('a failed run needs attention until a later run succeeds', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const pipeline = await publishedPipeline(request, "select error('no prices') as n", { namespace })
  const { layer, name, prefix } = pipeline
  expect(await runToEnd(request, pipeline)).toMatchObject({ status: 'failed' })
  const faults = await openConsole(page, baseURL, '/')
  const attention = page.locator('section', {
    has: page.getByRole('heading', { name: 'Needs attention' }),
  })
  const link = attention.getByRole('link', { name: `${namespace}.${layer}.${name}` })
  await expect(link).toBeVisible()
  await expect(attention.getByText('no prices').first()).toBeVisible()
  await expect(page.getByText('postgres')).toBeVisible()
  await expect(page.getByRole('table', { name: 'Runs by hour' })).toContainText('failed')
  await expectAccessible(page, 'overview')
  await writeFile(request, `${prefix}pipeline.sql`, 'select 1 as n')
  await request.post(`/api/v1/pipelines/${namespace}/${layer}/${name}/publish`)
  await runToSuccess(request, pipeline)
  await expect(link).toBeHidden()
  expect(faults).toEqual([])
})

test('a test that only warns needs attention', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const pipeline = await publishedPipeline(request, 'select 1 as n', { namespace })
  await addTest(request, pipeline, { name: 'odd', sql: 'select 1', severity: 'warn' })
  await publish(request, pipeline)
  await runToSuccess(request, pipeline)
  await openConsole(page, baseURL, '/')
  await page
    .getByRole('listitem')
    .filter({ hasText: 'tests warn' })
    .getByRole('link', { name: `${namespace}.${pipeline.layer}.${pipeline.name}` })
    .click()
  await expect(page.getByText('0 passed, 1 failed')).toContainText('in the last run')
})

test('a text beside a long name has room in wide and narrow pages', async ({ page, request, baseURL }) => {
  await runToSuccess(request, await publishedPipeline(request, 'select 1 as n'))
  const long = { pipeline: 'p'.repeat(127), trigger: 't'.repeat(200) }
  await page.route('**/api/v1/runs?*', async (route) => {
    const response = await route.fetch()
    const answer = await response.json()
    const runs = answer.runs.map((run: object) => ({ ...run, ...long }))
    await route.fulfill({ response, json: { ...answer, runs } })
  })
  await openConsole(page, baseURL, '/')
  for (const width of [1440, 390]) {
    await page.setViewportSize({ width, height: 900 })
    const [name, trigger] = [page.getByText(long.pipeline), page.getByText(long.trigger)]
    await expect(trigger.first()).toBeVisible()
    for (const text of [name, trigger])
      expect((await text.first().boundingBox())?.width, `at ${width} px`).toBeGreaterThan(100)
  }
  // The page asks again at any time, and an answer after the end of the test would fail it.
  await page.unrouteAll({ behavior: 'wait' })
})
