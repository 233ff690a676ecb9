// The pages about pipelines: the list with its filters, and the parts of one pipeline.
import { expect, type Page, test } from '@playwright/test'
import {
  addTest,
  fresh,
  getJson,
  newNamespace,
  newZone,
  publish,
  publishedPipeline,
  writeFile,
} from '../kit/resources.ts'
import { runToEnd, runToSuccess } from '../kit/runs.ts'
import { expectAccessible, openConsole } from './open.ts'

const rowOf = (page: Page, name: string) =>
  page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) })

test('the list filters by state, tag and namespace', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const tag = fresh('nightly')
  const good = await publishedPipeline(request, 'select 1 as n', { namespace, name: 'good' })
  const bad = await publishedPipeline(request, 'select 1 as n', { namespace, name: 'bad' })
  await writeFile(request, `${good.prefix}config.yaml`, `tags: [${tag}]\n`)
  await publish(request, good)
  await runToSuccess(request, good)
  await addTest(request, bad, { name: 'never', sql: "select 'why' as reason", severity: 'error' })
  await publish(request, bad)
  await runToEnd(request, bad)
  await writeFile(request, `${bad.prefix}pipeline.sql`, 'select 2 as n')

  await openConsole(page, baseURL, `/pipelines?namespace=${namespace}`)
  const [first, second] = [good, bad].map(({ layer, name }) => `${namespace}.${layer}.${name}`) as [
    string,
    string,
  ]
  await expect(rowOf(page, first)).toBeVisible()
  const state = page.getByLabel('State')
  for (const chosen of ['last run failed', 'draft differs', 'tests fail']) {
    await state.selectOption({ label: chosen })
    await expect(rowOf(page, second)).toBeVisible()
    await expect(rowOf(page, first)).toHaveCount(0)
  }
  await expectAccessible(page, 'pipelines-filtered')
  await state.selectOption({ label: 'not published' })
  await expect(page.getByText('No pipeline fits these filters')).toBeVisible()
  await page.getByRole('button', { name: 'Show all pipelines' }).click()
  await page.getByLabel('Namespace').selectOption(namespace)
  await page.getByRole('button', { name: `#${tag}` }).click()
  await expect(rowOf(page, first)).toBeVisible()
  await expect(rowOf(page, second)).toHaveCount(0)
  await expect(page).toHaveURL(new RegExp(`tag=${tag}`))
})

test('the form of the configuration changes the file and keeps its comments', async ({
  page,
  request,
  baseURL,
}) => {
  const namespace = await newNamespace(request)
  const pipeline = await publishedPipeline(request, '-- @priority: 3\nselect 1 as n', { namespace })
  const file = `${pipeline.prefix}config.yaml`
  await writeFile(request, file, '# owned by finance\nmemory: 1GB # enough\n')
  await openConsole(page, baseURL, `/pipelines/${namespace}/${pipeline.layer}/${pipeline.name}`)
  await page.getByRole('button', { name: 'Configuration' }).click()
  const form = page.getByRole('form', { name: 'Configuration' })
  await expect(form.getByLabel('Memory')).toHaveValue('1GB')
  await expect(form.getByText('The code has @priority: 3, which applies instead.')).toBeVisible()
  await form.getByLabel('Write strategy').selectOption('incremental')
  await expect(form.getByText('merge_strategy incremental needs unique_key')).toBeVisible()
  await expectAccessible(page, 'pipeline-config')
  await form.getByLabel('Unique key').fill('n')
  await form.getByLabel('Memory').fill('2GB')
  await form.getByLabel('Tags').fill('a, b')
  await form.getByLabel('Partition by').fill('day(ts)')
  await form.getByLabel('Partition by').fill('')
  await page.getByRole('button', { name: 'Save draft' }).click()
  await expect(page.getByText('The draft is saved')).toBeVisible()
  expect((await getJson(request, `/api/v1/files/${file}`)).content).toBe(
    '# owned by finance\nmemory: 2GB # enough\nmerge_strategy: incremental\nunique_key: [ n ]\ntags: [ a, b ]\n'.replaceAll(
      /\[ (.*?) \]/g,
      '[$1]',
    ),
  )
  await page.getByRole('button', { name: 'YAML' }).click()
  await expect(page.getByRole('textbox', { name: 'Draft of config.yaml' })).toContainText('unique_key: [n]')
  await page.getByRole('textbox', { name: 'Draft of config.yaml' }).click()
  await page.keyboard.insertText('{')
  await page.getByRole('button', { name: 'Form', exact: true }).click()
  await expect(page.getByRole('alert')).toContainText('cannot be shown as a form')
})

test('a publish saves the draft first, and can run it', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const pipeline = await publishedPipeline(request, 'select 1 as n', { namespace })
  const { layer, name } = pipeline
  await openConsole(page, baseURL, `/pipelines/${namespace}/${layer}/${name}`)
  await page.getByRole('textbox', { name: /^Draft of pipeline/ }).click()
  await page.keyboard.press('Control+a')
  await page.keyboard.insertText('select 2 as n')
  await page.getByRole('button', { name: 'Publish', exact: true }).click()
  await expect(page.getByText('Changes that are not saved are saved first.')).toBeVisible()
  await expectAccessible(page, 'pipeline-publish')
  await page.getByRole('button', { name: 'Publish and run' }).click()
  await expect(page.getByRole('heading', { name: `Run of ${namespace}.${layer}.${name}` })).toBeVisible()
  await expect(page.locator('.facts').getByText('success')).toBeVisible()
  await expect(page.locator('.facts').getByText('version 2')).toBeVisible()
  await page.goBack()
  await expect(page.getByText('saved', { exact: true })).toBeVisible()
  expect((await getJson(request, `/api/v1/files/${pipeline.prefix}pipeline.sql`)).content).toBe(
    'select 2 as n',
  )
})

test('a refused run after a publish does not publish again', async ({ page, request, baseURL }) => {
  const { namespace, layer, name, url } = await publishedPipeline(request, 'select 1 as n')
  await openConsole(page, baseURL, `/pipelines/${namespace}/${layer}/${name}`)
  await page.route('**/api/v1/runs', (route) =>
    route.fulfill({
      status: 503,
      json: { error: { code: 'UNAVAILABLE', type: 'UNAVAILABLE', message: 'no run now' } },
    }),
  )
  await page.getByRole('button', { name: 'Publish', exact: true }).click()
  await page.getByRole('button', { name: 'Publish and run' }).click()
  await expect(page.getByText('no run now')).toBeVisible()
  await expect(page.getByRole('dialog')).toHaveCount(0)
  expect(await getJson(request, url)).toMatchObject({ published_version: 2 })
})

test('a draft runs on a branch', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const pipeline = await publishedPipeline(request, 'select 1 as n', { namespace })
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, 'select 2 as n')
  const branch = fresh('try')
  await request.post('/api/v1/branches', { data: { name: branch } })
  await openConsole(page, baseURL, `/pipelines/${namespace}/${pipeline.layer}/${pipeline.name}`)
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  await page.getByLabel('Branch').selectOption(branch)
  await page.getByLabel('Execute the draft').check()
  await page.getByRole('dialog').getByRole('button', { name: 'Run', exact: true }).click()
  await expect(page.locator('.facts').getByText('the draft')).toBeVisible()
  await expect(page.locator('.facts').getByText(branch)).toBeVisible()
})

test('tests show the results of the last run with their failing rows', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const pipeline = await publishedPipeline(request, 'select 1 as n, 2 as m', { namespace })
  await addTest(request, pipeline, {
    name: 'odd',
    sql: `select * from {{ this }} where n = 1`,
    severity: 'warn',
  })
  await publish(request, pipeline)
  await runToSuccess(request, pipeline)
  await openConsole(page, baseURL, `/pipelines/${namespace}/${pipeline.layer}/${pipeline.name}?tab=tests`)
  const row = page.getByRole('row').filter({ hasText: 'odd' })
  await expect(row.getByText('n=1, m=2')).toBeVisible()
  await expect(page.getByText('0 passed, 1 failed')).toContainText('in the last run')
  await expectAccessible(page, 'pipeline-tests-failed')
  await page.getByRole('button', { name: 'Run all on main' }).click()
  await expect(page.getByText('0 passed, 1 failed')).toContainText('on main now')
  await row.getByRole('button', { name: 'Delete odd' }).click()
  await expect(page.getByText('Its file is removed from the draft')).toBeVisible()
  await page.getByRole('button', { name: 'Delete the test' }).click()
  await expect(page.getByText('No test yet')).toBeVisible()
})

test('triggers of every kind are made, turned off and deleted', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const pipeline = await publishedPipeline(request, 'select 1 as n', { namespace })
  const other = await publishedPipeline(request, 'select 1 as n', { namespace })
  const { layer, name } = pipeline
  const zone = fresh('zone')
  await newZone(request, namespace, zone)
  await openConsole(page, baseURL, `/pipelines/${namespace}/${layer}/${name}?tab=starts`)
  const dialog = page.getByRole('dialog')
  const others = `${namespace}.${other.layer}.${other.name}`
  const add = async (kind: string, fields: Record<string, string>) => {
    await page.getByRole('button', { name: 'New trigger' }).click()
    await dialog.getByLabel('Starts a run').selectOption(kind)
    for (const [label, text] of Object.entries(fields)) await dialog.getByLabel(label).fill(text)
    await dialog.getByRole('button', { name: 'Create' }).click()
    await expect(dialog).toHaveCount(0)
  }
  await add('landing_zone_upload', { 'Landing zone': `${namespace}.${zone}` })
  await add('file_pattern', { 'Landing zone': `${namespace}.${zone}`, 'File name': '*.json' })
  await add('pipeline_success', { Pipeline: others, 'Seconds between two runs': '60' })
  await add('cron', { 'Cron expression': '5 4 * * *' })
  await add('cron_dependency', { 'Cron expression': '5 5 * * *', Pipelines: others })
  let answer = () => {}
  const isAnswered = new Promise<void>((resolve) => {
    answer = resolve
  })
  await page.route('**/triggers', async (route) => {
    if (route.request().method() === 'GET') await isAnswered
    await route.continue()
  })
  await add('webhook', {})
  await expect(page.getByText('The token of the webhook is shown only now')).toBeVisible()
  answer()
  for (const text of [
    `after an upload to ${namespace}.${zone}`,
    `after an upload of *.json to ${namespace}.${zone}`,
    `after a success of ${others}`,
    'at most once in 60 s',
    'at 5 4 * * *',
    `at 5 5 * * *, when ${others} have succeeded since`,
    'after a call of a webhook',
  ])
    await expect(page.getByRole('cell', { name: text }).first()).toBeVisible()
  await expectAccessible(page, 'pipeline-triggers')
  const hook = page.getByRole('row').filter({ hasText: 'after a call of a webhook' })
  await hook.getByRole('button', { name: 'Turn off' }).click()
  await expect(hook.getByText('disabled')).toBeVisible()
  await hook.getByRole('button', { name: 'Delete the trigger' }).click()
  await dialog.getByRole('button', { name: 'Delete' }).click()
  await expect(hook).toHaveCount(0)

  await page.getByRole('button', { name: 'New schedule' }).click()
  await dialog.getByLabel('Cron expression').fill('nonsense')
  await expect(dialog.getByText('This text is no cron expression.')).toBeVisible()
  await dialog.getByLabel('Cron expression').fill('0 6 * * 1')
  await expect(dialog.getByText(/Next: .* 6:00 AM UTC$/)).toBeVisible()
  await dialog.getByRole('button', { name: 'Create' }).click()
  await page.getByRole('button', { name: 'Delete the schedule' }).click()
  await dialog.getByRole('button', { name: 'Delete' }).click()
  await expect(page.getByText('No schedule')).toBeVisible()
})

test('a version shows what it changed', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const pipeline = await publishedPipeline(request, 'select 1 as first', { namespace })
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, 'select 2 as second')
  await publish(request, pipeline)
  await openConsole(page, baseURL, `/pipelines/${namespace}/${pipeline.layer}/${pipeline.name}?tab=versions`)
  await page.getByRole('button', { name: 'Look at 2' }).click()
  const dialog = page.getByRole('dialog')
  await expect(dialog.getByLabel('Version 2 against the version before')).toContainText('second')
  await expectAccessible(page, 'pipeline-version')
  await dialog.getByLabel('File').selectOption({ label: 'config.yaml' })
  await expect(dialog.getByText('The version before has the same file.')).toBeVisible()
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'Look at 1' }).click()
  await expect(dialog.getByLabel(/pipeline\.sql$/)).toContainText('first')
})

test('the lineage of a pipeline names its neighbours', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const bronze = await publishedPipeline(request, 'select 1 as n', { namespace, layer: 'bronze', name: 'a' })
  await runToSuccess(request, bronze)
  const read = (table: string) => `select * from {{ ref('${table}') }}`
  await publishedPipeline(request, read('bronze.a'), { namespace, layer: 'silver', name: 'b' })
  await publishedPipeline(request, read('silver.b'), { namespace, layer: 'gold', name: 'c' })
  await openConsole(page, baseURL, `/pipelines/${namespace}/silver/b?tab=lineage`)
  await expect(page.getByRole('list', { name: 'Upstream' })).toContainText(
    `pipeline${namespace}.bronze.asuccess`,
  )
  await expect(page.getByRole('list', { name: 'Downstream' })).toContainText(`${namespace}.gold.cdirect`)
  await expectAccessible(page, 'pipeline-lineage')
  await page.getByRole('link', { name: 'Show the pipeline in the graph' }).click()
  await expect(page.getByRole('heading', { name: 'Lineage' })).toBeVisible()
})

test('the retention of a pipeline overrides that of the service', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const { layer, name } = await publishedPipeline(request, 'select 1 as n', { namespace })
  await openConsole(page, baseURL, `/pipelines/${namespace}/${layer}/${name}?tab=runs`)
  const open = async () => {
    await page.getByRole('button', { name: 'More actions' }).click()
    await page.getByRole('menuitem', { name: 'How long results stay' }).click()
  }
  await open()
  await page.getByLabel('Runs max per pipeline').fill('7')
  await expectAccessible(page, 'pipeline-retention')
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('dialog')).toHaveCount(0)
  const stored = await getJson(request, `/api/v1/pipelines/${namespace}/${layer}/${name}/retention`)
  expect(stored.overrides).toEqual({ runs_max_per_pipeline: 7 })
  await open()
  await expect(page.getByLabel('Runs max per pipeline')).toHaveValue('7')
})

test('arrow keys move between the parts of a pipeline', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const { layer, name } = await publishedPipeline(request, 'select 1 as n', { namespace })
  await openConsole(page, baseURL, `/pipelines/${namespace}/${layer}/${name}?tab=starts`)
  await page.getByRole('tab', { name: 'Triggers and schedules' }).focus()
  await page.keyboard.press('ArrowRight')
  await expect(page.getByRole('tab', { name: 'Versions' })).toHaveAttribute('aria-selected', 'true')
  await expect(page.getByRole('tabpanel')).toContainText('published')
})

test('the code completes references to tables and their columns', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const source = { namespace, layer: 'bronze', name: 'read' }
  const read = await publishedPipeline(request, 'select 1 as amount', source)
  await runToSuccess(request, read)
  const { layer, name } = await publishedPipeline(request, 'select 1 as n', { namespace })
  await openConsole(page, baseURL, `/pipelines/${namespace}/${layer}/${name}`)
  const editor = page.getByRole('textbox', { name: /^Draft of pipeline/ })
  await editor.click()
  await page.keyboard.press('Control+a')
  await page.keyboard.type("select * from {{ ref('bronze")
  await page.getByRole('option', { name: "ref('bronze.read')" }).click()
  await expect(editor).toContainText("select * from {{ ref('bronze.read')}}")
  await page.keyboard.press('Control+End')
  await page.keyboard.type(' r where r.am')
  await page.getByRole('option', { name: 'r.amount' }).click()
  await expect(editor).toContainText('where r.amount')
})

test('a deleted pipeline leaves no text behind', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const { layer, name } = await publishedPipeline(request, 'select 1 as n', { namespace })
  await openConsole(page, baseURL, `/pipelines/${namespace}/${layer}/${name}`)
  const editor = page.getByRole('textbox', { name: /^Draft of pipeline/ })
  await editor.click()
  await page.keyboard.press('Control+a')
  await page.keyboard.insertText('select 2 as unsaved')
  await page.getByRole('button', { name: 'More actions' }).click()
  await page.getByRole('menuitem', { name: 'Delete the pipeline' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Delete the pipeline' }).click()
  await expect(page.getByRole('heading', { name: 'Pipelines' })).toBeVisible()
  await publishedPipeline(request, 'select 3 as n', { namespace, name })
  await page.goBack()
  await expect(editor).toHaveText('select 3 as n')
})

test('a text that is not saved stays when another person deletes the pipeline', async ({
  page,
  request,
  baseURL,
}) => {
  const { namespace, layer, name, url } = await publishedPipeline(request, 'select 1 as n')
  await openConsole(page, baseURL, `/pipelines/${namespace}/${layer}/${name}`)
  const editor = page.getByRole('textbox', { name: /^Draft of pipeline/ })
  await editor.click()
  await page.keyboard.press('Control+a')
  await page.keyboard.insertText('select 2 as unsaved')
  expect((await request.delete(url)).status()).toBe(204)
  await expect(page.getByText('This may be out of date')).toBeVisible()
  await expect(page.getByRole('button', { name: 'Publish', exact: true })).toHaveCount(0)
  await expect(editor).toHaveText('select 2 as unsaved')
})

test('Ctrl S in the form saves the configuration', async ({ page, request, baseURL }) => {
  const namespace = await newNamespace(request)
  const { layer, name } = await publishedPipeline(request, 'select 1 as n', { namespace })
  await openConsole(page, baseURL, `/pipelines/${namespace}/${layer}/${name}`)
  await page.getByRole('button', { name: 'Configuration' }).click()
  await page.getByLabel('Description').fill('changed by the form')
  await page.keyboard.press('Control+s')
  await expect(page.getByText('saved', { exact: true })).toBeVisible()
})
