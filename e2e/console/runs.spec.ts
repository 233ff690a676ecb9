import { expect, test } from '@playwright/test'
import { newNamespace, publishedPipeline } from '../resources.ts'
import { runToSuccess } from '../runs.ts'
import { expectAccessible, openConsole } from './open.ts'

test('the list shows the newest run and keeps its filter in the address', async ({
  page,
  request,
  baseURL,
}) => {
  const namespace = await newNamespace(request)
  const pipeline = await publishedPipeline(request, 'select 1 as n', { namespace })
  await runToSuccess(request, pipeline)
  const faults = await openConsole(page, baseURL, '/runs')
  await expect(
    page.getByRole('link', { name: `${namespace}.${pipeline.layer}.${pipeline.name}` }),
  ).toBeVisible()
  await expectAccessible(page, 'runs')
  await page.getByLabel('Status').selectOption('failed')
  await expect(page).toHaveURL(/status=failed/)
  expect(faults).toEqual([])
})
