// The page of a landing zone: files, schema, samples, runs, pipelines and settings, judged by the API.
import { type APIRequestContext, expect, type Page, test } from '@playwright/test'
import {
  csv,
  fresh,
  getJson,
  newNamespace,
  newZone,
  pipelineWith,
  publish,
  writeFile,
} from '../kit/resources.ts'
import { runToEnd, runToSuccess } from '../kit/runs.ts'
import { addTrigger } from '../kit/triggers.ts'
import { expectAccessible, openConsole } from './open.ts'

const FLIGHTS = 'flight,origin,delay\n12,BOS,5\n13,LAS,-2\n'

/** A zone in a namespace of its own. */
async function zoneOf(request: APIRequestContext) {
  const zone = await newZone(request, await newNamespace(request), fresh('flights'))
  return { ...zone, path: `/landing-zones/${zone.namespace}/${zone.name}` }
}

/** A published pipeline on the zone that archives its files. */
async function archiving(
  request: APIRequestContext,
  { namespace, name }: { namespace: string; name: string },
) {
  const sql = `select * from read_csv('{{ landing_zone("${name}") }}')`
  const pipeline = await pipelineWith(request, sql, { namespace, layer: 'bronze', name: 'flights' })
  await writeFile(request, `${pipeline.prefix}config.yaml`, 'archive_landing_zones: true\n')
  await publish(request, pipeline)
  return pipeline
}

test('a file that a successful run leaves in the zone does not wait', async ({ page, request, baseURL }) => {
  const zone = await zoneOf(request)
  const sql = `select * from read_csv('{{ landing_zone("${zone.name}") }}')`
  const pipeline = await pipelineWith(request, sql, { namespace: zone.namespace, layer: 'bronze' })
  await publish(request, pipeline)
  await zone.upload('kept.csv', FLIGHTS)
  await runToSuccess(request, pipeline)
  await openConsole(page, baseURL, `${zone.path}?tab=reads`)
  const row = page.getByLabel('Reads').getByRole('row', { name: /_kept\.csv/ })
  await expect(row).toContainText('stays in the zone')
  await expect(page.getByRole('main').getByText(/\bwait/)).toHaveCount(0)
})

const tab = (page: Page, name: string) => page.getByRole('tab', { name }).click()

test('a dropped file appears in the list and can be deleted', async ({ page, request, baseURL }) => {
  const zone = await zoneOf(request)
  const faults = await openConsole(page, baseURL, zone.path)
  await expect(page.getByText('No file in the zone')).toBeVisible()
  await page.getByLabel('Choose files').setInputFiles([
    { name: 'one.csv', mimeType: 'text/csv', buffer: Buffer.from(FLIGHTS) },
    { name: 'two.csv', mimeType: 'text/csv', buffer: Buffer.from(FLIGHTS) },
  ])
  await expect(page.getByLabel('Uploads').getByText('stored')).toHaveCount(2)
  await expect(page.getByText('2 files in the zone')).toBeVisible()
  await expectAccessible(page, 'landing-files')
  await page.getByRole('button', { name: /^Actions for .*_one\.csv$/ }).click()
  await page.getByRole('menuitem', { name: 'Delete the file' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Delete the file' }).click()
  await expect(page.getByText('1 file in the zone')).toBeVisible()
  const { files } = await getJson(request, `${zone.url}/files`)
  expect(files.map(({ filename }: { filename: string }) => filename)).toEqual([
    expect.stringMatching(/_two\.csv$/),
  ])
  expect(faults).toEqual([])
})

test('a file is put in quarantine and restored', async ({ page, request, baseURL }) => {
  const zone = await zoneOf(request)
  await zone.upload('broken.parquet', 'no parquet')
  await openConsole(page, baseURL, zone.path)
  await page
    .getByRole('button', { name: /_broken\.parquet$/ })
    .first()
    .click()
  await page.getByRole('button', { name: 'Put the file in quarantine' }).click()
  await tab(page, 'Files')
  const row = page.getByLabel('Files').getByRole('row', { name: /_broken\.parquet/ })
  await expect(row).toContainText('in quarantine')
  await expect(page.getByText('0 files in the zone')).toBeVisible()
  await page.getByRole('button', { name: /^Actions for .*_broken\.parquet$/ }).click()
  await page.getByRole('menuitem', { name: 'Restore the file' }).click()
  await expect(row).not.toContainText('in quarantine')
  await page.getByRole('button', { name: /^Actions for .*_broken\.parquet$/ }).click()
  await page.getByRole('menuitem', { name: 'Put the file in quarantine' }).click()
  await expect(row).toContainText('in quarantine')
})

test('a last page that others empty leads back to the files', async ({ page, request, baseURL }) => {
  const zone = await zoneOf(request)
  for (let file = 0; file < 51; file++) await zone.upload(`f${file}.csv`, FLIGHTS)
  await openConsole(page, baseURL, `${zone.path}?offset=50`)
  await expect(page.getByText('51 to 51 of 51')).toBeVisible()
  const { files } = await getJson(request, `${zone.url}/files`)
  await request.delete(`${zone.url}/files/${files[0].id}`)
  await expect(page.getByText('50 files in the zone')).toBeVisible()
  await expect(page.getByText('No file in the zone')).toHaveCount(0)
  await page.getByRole('button', { name: 'Previous' }).click()
  await expect(page.getByRole('button', { name: /^Actions for/ })).toHaveCount(50)
})

test('a zone that another person deletes is said to be gone', async ({ page, request, baseURL }) => {
  const zone = await zoneOf(request)
  await openConsole(page, baseURL, zone.path)
  await expect(page.getByText('Drop files here.')).toBeVisible()
  expect((await request.delete(zone.url)).status()).toBe(204)
  await expect(page.getByRole('heading', { name: 'Not found' })).toBeVisible()
  await expect(page.getByText('Drop files here.')).toHaveCount(0)
})

test('a file that is dropped beside the area does not leave the console', async ({
  page,
  request,
  baseURL,
}) => {
  const zone = await zoneOf(request)
  await openConsole(page, baseURL, zone.path)
  await expect(page.getByText('Drop files here.')).toBeVisible()
  const isRefused = (selector: string, type: string) =>
    page.evaluate(
      ([at, name]) => {
        const dataTransfer = new DataTransfer()
        dataTransfer.items.add(new File(['a'], 'a.csv'))
        const event = new DragEvent(name ?? '', { bubbles: true, cancelable: true, dataTransfer })
        document.querySelector(at ?? '')?.dispatchEvent(event)
        return event.defaultPrevented
      },
      [selector, type],
    )
  expect(await isRefused('h1', 'dragover')).toBe(true)
  expect(await isRefused('h1', 'drop')).toBe(true)
  await expect(page.getByLabel('Uploads')).toHaveCount(0)
  await isRefused('.drop', 'drop')
  await expect(page.getByLabel('Uploads').getByText('stored')).toBeVisible()
})

test('differences from the expected schema are marked in words', async ({ page, request, baseURL }) => {
  const zone = await zoneOf(request)
  await zone.upload('flights.csv', FLIGHTS)
  await request.put(zone.url, {
    data: { expected_schema: 'flight:BIGINT,origin:VARCHAR,delay:INTEGER,day:DATE' },
  })
  const faults = await openConsole(page, baseURL, `${zone.path}?tab=schema`)
  await expect(page.getByText('2 differences from the expected schema')).toBeVisible()
  const rows = page.getByLabel('Columns', { exact: true }).getByRole('row')
  await expect(rows).toHaveText([
    'ColumnComparisonDetected typeExpected type',
    'flightas expectedBIGINTBIGINT',
    'originas expectedVARCHARVARCHAR',
    'delayother typeBIGINTINTEGER',
    'daymissingnoneDATE',
  ])
  await expect(page.getByRole('grid', { name: 'First rows' })).toContainText('BOS')
  await expectAccessible(page, 'landing-schema')
  await page.getByRole('button', { name: 'Use the detected schema' }).click()
  await expect(page.getByLabel('Columns and types')).toHaveValue(
    'flight:BIGINT\norigin:VARCHAR\ndelay:BIGINT',
  )
  await expectAccessible(page, 'landing-schema-dialog')
  await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click()
  await expect(page.getByText('The files have exactly the expected columns.')).toBeVisible()
  expect(await getJson(request, zone.url)).toMatchObject({
    expected_schema: 'flight:BIGINT,origin:VARCHAR,delay:BIGINT',
  })
  await zone.upload('more.csv', 'flight,origin,delay,gate\n14,ORD,0,B2\n')
  await expect(page.getByLabel('Files to read').getByRole('option')).toHaveCount(3)
  await page.getByLabel('Files to read').selectOption({ index: 1 })
  await expect(rows.last()).toHaveText('gateunexpectedVARCHARnone')
  await expect(page.getByRole('grid', { name: 'First rows' })).toContainText('ORD')
  expect(faults).toEqual([])
})

test('a wrong expected schema is refused in the dialog', async ({ page, request, baseURL }) => {
  const zone = await zoneOf(request)
  await openConsole(page, baseURL, `${zone.path}?tab=schema`)
  await expect(page.getByText('There is no file and no sample')).toBeVisible()
  await page.getByRole('button', { name: 'Edit the expected schema' }).click()
  await page.getByLabel('Columns and types').fill('flight BIGINT')
  await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('alert')).toContainText("'flight BIGINT' does not have the form col:type")
  await page.getByLabel('Columns and types').fill('flight:BIGINT\n"gate no":VARCHAR')
  await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('dialog')).toBeHidden()
  await expect(page.getByLabel('Columns', { exact: true })).toContainText('gate no')
  expect(await getJson(request, zone.url)).toMatchObject({
    expected_schema: 'flight:BIGINT,"gate no":VARCHAR',
  })
})

test('files that cannot be read together show the reason', async ({ page, request, baseURL }) => {
  const zone = await zoneOf(request)
  // The date has two meanings.
  await zone.upload('one.csv', 'a,day\n1,03/04/2026\n')
  await zone.upload('two.csv', 'a,b\n1,2\n')
  await openConsole(page, baseURL, `${zone.path}?tab=schema`)
  await expect(page.getByRole('alert')).toContainText('The files cannot be read as one table.')
  await expect(page.getByRole('alert')).toContainText('one.csv')
  await expectAccessible(page, 'landing-schema-unreadable')
  await page.getByLabel('Files to read').selectOption({ index: 1 })
  await expect(page.getByLabel('Columns', { exact: true })).toContainText('BIGINT')
})

test('samples are explained, uploaded and deleted', async ({ page, request, baseURL }) => {
  const zone = await zoneOf(request)
  const faults = await openConsole(page, baseURL, `${zone.path}?tab=samples`)
  await expect(page.getByText('No sample', { exact: true })).toBeVisible()
  await page
    .getByLabel('Choose samples')
    .setInputFiles({ name: 'sample.csv', mimeType: 'text/csv', buffer: Buffer.from(FLIGHTS) })
  await expect(page.getByText('previews of pipelines read these samples')).toBeVisible()
  await expectAccessible(page, 'landing-samples')
  await tab(page, 'Schema and rows')
  await expect(page.getByText('from 1 sample, because the zone has no file')).toBeVisible()
  await tab(page, 'Samples')
  await page.getByRole('button', { name: 'Delete sample.csv' }).click()
  await expect(page.getByText('No sample', { exact: true })).toBeVisible()
  expect(await getJson(request, `${zone.url}/samples`)).toEqual({ files: [], total: 0 })
  expect(faults).toEqual([])
})

test('the list of runs shows which run took which file', async ({ page, request, baseURL }) => {
  const zone = await zoneOf(request)
  const pipeline = await archiving(request, zone)
  const first = await zone.upload('first.csv', FLIGHTS)
  const { id } = await runToSuccess(request, pipeline)
  await zone.upload('bad.csv', 'flight,origin,delay\n"1,BOS\n')
  await writeFile(
    request,
    `${pipeline.prefix}pipeline.sql`,
    "select error('no luck') from read_csv('{{ landing_zone(\"NAME\") }}')".replace('NAME', zone.name),
  )
  await publish(request, pipeline)
  const failed = await runToEnd(request, pipeline)
  expect(failed.status).toBe('failed')
  const faults = await openConsole(page, baseURL, `${zone.path}?tab=reads`)
  const rows = page.getByLabel('Reads').getByRole('row')
  await expect(rows).toHaveCount(3)
  await expect(rows.nth(1)).toContainText(/_bad\.csv.*failed.*waits/)
  await expect(rows.nth(2)).toContainText(/_first\.csv.*success.*archived.*by this run/)
  await expectAccessible(page, 'landing-reads')
  await rows.nth(2).getByRole('button', { name: first.filename }).click()
  await expect(page.getByRole('grid', { name: 'First rows' })).toContainText('LAS')
  await expect(page.getByLabel('Files to read')).toHaveValue(first.id)
  await tab(page, 'Files')
  await page.getByRole('button', { name: /^Actions for .*_bad\.csv$/ }).click()
  await page.getByRole('menuitem', { name: 'Show the runs that read it' }).click()
  await expect(rows).toHaveCount(2)
  await page.getByRole('button', { name: 'Show all files' }).click()
  await expect(rows).toHaveCount(3)
  await rows
    .nth(2)
    .getByRole('link', { name: /success/ })
    .click()
  await expect(page).toHaveURL(new RegExp(`/runs/${id}$`))
  expect(faults).toEqual([])
})

test('the readers of the zone are shown with their triggers', async ({ page, request, baseURL }) => {
  const zone = await zoneOf(request)
  const pipeline = await archiving(request, zone)
  await openConsole(page, baseURL, `${zone.path}?tab=readers`)
  const row = page.getByLabel('Pipelines', { exact: true }).getByRole('row').nth(1)
  await expect(row).toContainText(`${zone.namespace}.bronze.flights`)
  await expect(row).toContainText('None: add a trigger')
  await addTrigger(request, pipeline, 'file_pattern', { ...zone.config, pattern: '*.csv' })
  await addTrigger(request, pipeline, 'landing_zone_upload', zone.config)
  await addTrigger(request, pipeline, 'cron', { cron_expr: '0 6 * * *' })
  await page.reload()
  await expect(row).toContainText(/on\s*files like \*\.csv\s*on\s*each upload\s*Change triggers/)
  await expectAccessible(page, 'landing-readers')
  await row.getByRole('link', { name: 'Change triggers' }).click()
  await expect(page).toHaveURL(/\/pipelines\/.*tab=starts/)
})

test('description, owner and lifecycle are changed in the settings', async ({ page, request, baseURL }) => {
  const zone = await zoneOf(request)
  const faults = await openConsole(page, baseURL, `${zone.path}?tab=settings`)
  await page.getByLabel('Description').fill('Flights of the agency')
  await page.getByLabel('Owner', { exact: true }).fill('ann')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await expect(page.getByText('owned by ann')).toBeVisible()
  await expect(page.getByLabel('Days until an archived file is deleted')).toBeDisabled()
  await page.getByLabel('Delete archived files by age').check()
  await page.getByLabel('Days until an archived file is deleted').fill('7')
  await expectAccessible(page, 'landing-settings')
  await page.getByRole('button', { name: 'Save the lifecycle' }).click()
  await expect(page.getByText('The lifecycle is changed')).toBeVisible()
  await page.reload()
  await expect(page.getByLabel('Days until an archived file is deleted')).toHaveValue('7')
  expect(await getJson(request, zone.url)).toMatchObject({
    description: 'Flights of the agency',
    owner: 'ann',
  })
  expect(await getJson(request, `${zone.url}/lifecycle`)).toEqual({
    processed_max_age_days: 7,
    auto_purge: true,
  })
  await page.getByLabel('Owner', { exact: true }).fill('')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await expect(page.getByText('owned by ann')).toBeHidden()
  expect(await getJson(request, zone.url)).toMatchObject({ owner: null })
  expect(faults).toEqual([])
})

test('a new pipeline starts from the zone, and the zone can be deleted', async ({
  page,
  request,
  baseURL,
}) => {
  const zone = await zoneOf(request)
  await openConsole(page, baseURL, zone.path)
  const link = page.getByRole('link', { name: 'New pipeline from this zone' })
  await expect(link).toHaveAttribute(
    'href',
    new RegExp(`/pipelines\\?create=${zone.name}&namespace=${zone.namespace}$`),
  )
  await link.click()
  const form = page.getByRole('dialog', { name: 'New pipeline' })
  await expect(form.getByLabel('Name', { exact: true })).toHaveValue(zone.name)
  await form.getByRole('button', { name: 'Create' }).click()
  await expect(page).toHaveURL(new RegExp(`/pipelines/${zone.namespace}/bronze/${zone.name}`))
  await openConsole(page, baseURL, zone.path)
  await page.getByRole('button', { name: 'More actions' }).click()
  await page.getByRole('menuitem', { name: 'Delete the zone' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Delete the zone' }).click()
  await expect(page).toHaveURL(/\/landing-zones$/)
  expect((await request.get(zone.url)).status()).toBe(404)
})

const HOSTILE = `<img src=x onerror="document.title='hit'"><script>document.title='hit'<\u2215script>'&{{7*7}}.csv`

test('hostile names of files, samples and columns are shown as text', async ({ page, request, baseURL }) => {
  const zone = await zoneOf(request)
  const column = '<b onclick=x>c</b>'
  const file = csv(HOSTILE, `${column}\n<script>document.title='hit'</script>\n`)
  for (const part of ['files', 'samples'])
    expect((await request.post(`${zone.url}/${part}`, { multipart: { file } })).status()).toBe(201)
  await request.put(zone.url, {
    data: { description: HOSTILE, owner: HOSTILE, expected_schema: `"${column}":DATE` },
  })
  const pipeline = await archiving(request, zone)
  await runToSuccess(request, pipeline)
  await request.post(`${zone.url}/files`, { multipart: { file } })
  const faults: string[] = []
  for (const part of ['files', 'schema', 'samples', 'reads', 'readers', 'settings']) {
    faults.push(...(await openConsole(page, baseURL, `${zone.path}?tab=${part}`)))
    await expect(page.getByText('<img src=x').first()).toBeVisible()
    if (part === 'schema') await expect(page.getByText(column).first()).toBeVisible()
    if (part === 'reads') await expect(page.getByText('by this run')).toBeVisible()
    expect(await page.title()).not.toBe('hit')
    expect(await page.locator('main img, main script, main b[onclick]').count(), part).toBe(0)
    if (part === 'files' || part === 'reads') await expectAccessible(page, `landing-hostile-${part}`)
  }
  await openConsole(page, baseURL, `${zone.path}?tab=samples`)
  await page.getByRole('button', { name: /^Delete <img src=x/ }).click()
  await expect(page.getByText('No sample', { exact: true })).toBeVisible()
  expect(faults).toEqual([])
})
