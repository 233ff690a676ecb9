import { type APIRequestContext, expect, test } from '@playwright/test'
import { eventually } from '../kit/eventually.ts'
import {
  newNamespace,
  newZone,
  pipelineWith,
  publish,
  publishedPipeline,
  writeFile,
} from '../kit/resources.ts'
import { ended, getRun, requestRun, runToEnd, runToSuccess } from '../kit/runs.ts'
import { expectAccessible, openConsole } from './open.ts'

/** A run that waits for a review. */
async function runInReview(request: APIRequestContext) {
  const namespace = await newNamespace(request)
  const pipeline = await pipelineWith(request, 'select 1 as n', { namespace })
  await writeFile(request, `${pipeline.prefix}config.yaml`, 'merge: review')
  await publish(request, pipeline)
  const id = await requestRun(request, pipeline)
  await eventually(async () => (await getRun(request, id)).phase).toBe('review')
  return { ...pipeline, namespace, id, title: `${namespace}.${pipeline.layer}.${pipeline.name}` }
}

test('the list shows the newest run and keeps its filter in the address', async ({
  page,
  request,
  baseURL,
}) => {
  const namespace = await newNamespace(request)
  const pipeline = await publishedPipeline(request, 'select 1 as n', { namespace })
  await runToSuccess(request, pipeline)
  const faults = await openConsole(page, baseURL, '/runs')
  const link = page.getByRole('link', { name: `${namespace}.${pipeline.layer}.${pipeline.name}` })
  await expect(link).toBeVisible()
  await expectAccessible(page, 'runs')
  await page.getByLabel('Namespace').selectOption(namespace)
  await page.getByLabel('Pipeline', { exact: true }).fill(pipeline.name)
  await page.keyboard.press('Enter')
  await page.getByLabel('Order').selectOption('longest first')
  await expect(page).toHaveURL(/sort=duration_ms/)
  await expect(page.getByText('1 run', { exact: true })).toBeVisible()
  await page.getByRole('combobox', { name: 'Status', exact: true }).selectOption('failed')
  await expect(page).toHaveURL(new RegExp(`namespace=${namespace}.*status=failed`))
  await expect(page.getByText('No run matches the filters')).toBeVisible()
  await page.getByRole('button', { name: 'Clear' }).click()
  await expect(link).toBeVisible()
  expect(faults).toEqual([])
})

test('a new run appears in the open list and can be cancelled there', async ({ page, request, baseURL }) => {
  await openConsole(page, baseURL, '/runs')
  const { id, title } = await runInReview(request)
  await page.getByRole('button', { name: `Cancel the run of ${title}` }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel the run' }).click()
  await expect(page.getByRole('dialog')).toBeHidden()
  expect(await ended(request, id)).toMatchObject({ status: 'cancelled' })
})

test('Reject ends the review with a reason', async ({ page, request, baseURL }) => {
  const { id } = await runInReview(request)
  const faults = await openConsole(page, baseURL, `/runs/${id}`)
  await expect(page.getByText('The run waits for a review.')).toBeVisible()
  await expect(page.getByRole('heading', { name: 'What it changes' })).toBeVisible()
  await page.getByRole('button', { name: 'Reject' }).click()
  await page.getByRole('dialog').getByLabel('Reason').fill('seen in the console')
  await page.getByRole('dialog').getByRole('button', { name: 'Reject' }).click()
  await expect(page.getByRole('button', { name: 'Run again' })).toBeVisible()
  expect(await ended(request, id)).toMatchObject({ status: 'failed' })
  expect(faults).toEqual([])
})

test('a failed run shows its tests, samples, log and statechart', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const pipeline = await pipelineWith(request, 'select 7 as id, -5 as amount', { namespace })
  const { layer, name } = pipeline
  const made = await request.post(`/api/v1/pipelines/${namespace}/${layer}/${name}/tests`, {
    data: {
      name: 'positive',
      sql: `select * from {{ ref('${layer}.${name}') }} where amount < 0`,
      severity: 'error',
    },
  })
  expect(made.status()).toBe(201)
  await publish(request, pipeline)
  const { id } = await runToEnd(request, pipeline)
  const faults = await openConsole(page, baseURL, `/runs/${id}`)
  await expect(page.getByText('id=7, amount=-5', { exact: true })).toBeVisible()
  await expect(page.getByRole('img', { name: 'Statechart of the run, now in failed' })).toBeVisible()
  await expectAccessible(page, 'run-failed')
  const log = page.getByRole('log')
  await expect(log).toContainText('rendered pipeline.sql')
  await page.getByLabel('Level').selectOption('from error')
  await expect(log).not.toContainText('rendered pipeline.sql')
  await page.getByLabel('Search the log').fill('no such line')
  await expect(page.getByText('No line has this text')).toBeVisible()
  await page.getByRole('button', { name: 'Run again' }).click()
  await expect(page.getByText('The run was requested')).toBeVisible()
  const { total } = await (
    await request.get('/api/v1/runs', { params: { namespace, pipeline: name } })
  ).json()
  expect(total).toBe(2)
  expect(faults).toEqual([])
})

test('a run shows its code, tables, landing files and SQL', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const zone = await newZone(request, namespace)
  await zone.upload('a.csv')
  const bronze = await publishedPipeline(request, 'select 3 as c', { namespace, layer: 'bronze', name: 'c' })
  await runToSuccess(request, bronze)
  const source = `select a, c from read_csv('{{ landing_zone("${zone.name}") }}'), {{ ref('bronze.c') }}`
  const pipeline = await publishedPipeline(request, source, { namespace })
  const { id, base_commit: commit } = await runToSuccess(request, pipeline)
  await openConsole(page, baseURL, `/runs/${id}`)
  await expect(page.getByRole('heading', { name: `Tables at commit ${commit}` })).toBeVisible()
  await expect(page.getByText(`${namespace}.bronze.c: 1 row in 1 file`, { exact: true })).toBeVisible()
  await expect(page.getByRole('link', { name: `${namespace}.${zone.name}` })).toBeVisible()
  await expect(page.getByText(/_a\.csv, 8 B/)).toBeVisible()
  await page.getByText('SQL as it was executed').click()
  await expect(page.getByLabel('SQL as it was executed')).toContainText(`"${namespace}.bronze"."c"`)
  await expectAccessible(page, 'run-inputs')
  await page.getByRole('button', { name: 'pipeline.sql' }).click()
  await expect(page.getByRole('dialog').getByLabel(/pipeline\.sql$/)).toContainText('landing_zone')
})
