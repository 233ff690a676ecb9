// Specification: Quality tests.
import { expect, test } from '@playwright/test'
import { addTest, expectError, getJson, newPipeline, pipelineWith, writeFile } from '../kit/resources.ts'
import { runToEnd } from '../kit/runs.ts'

const fine = {
  name: 'no-nulls',
  sql: 'select count(*) from (select 1 as a) where a is null',
  severity: 'error',
}

test('a quality test is created, listed, published and deleted @tests.list @tests.create @tests.create.409 @tests.delete', async ({
  request,
}) => {
  const { url, prefix } = await newPipeline(request)
  const created = await request.post(`${url}/tests`, {
    data: { ...fine, description: 'Every row has a value' },
  })
  const path = `${prefix}tests/quality/no-nulls.sql`
  expect([created.status(), await created.json()]).toEqual([
    201,
    { name: 'no-nulls', severity: 'error', path },
  ])

  const listed = {
    ...fine,
    description: 'Every row has a value',
    published: false,
    tags: [],
    remediation: '',
  }
  const list = async () => (await request.get(`${url}/tests`)).json()
  expect(await list()).toEqual({ tests: [listed], total: 1 })
  await expectError(await request.post(`${url}/tests`, { data: fine }), 409)

  await request.post(`${url}/publish`)
  expect(await list()).toEqual({ tests: [{ ...listed, published: true }], total: 1 })

  const deleted = await request.delete(`${url}/tests/no-nulls`)
  expect([deleted.status(), await deleted.text()]).toEqual([204, ''])
  expect(await list()).toEqual({ tests: [], total: 0 })
  await expectError(await request.delete(`${url}/tests/no-nulls`), 404)
  expect(await getJson(request, url)).toMatchObject({ draft_dirty: true })
})

test('a test file declares severity, description, tags and remediation in its header @tests.header', async ({
  request,
}) => {
  const { url, prefix } = await newPipeline(request)
  await writeFile(
    request,
    `${prefix}tests/quality/by-hand.sql`,
    '-- @severity: warn\n-- @description: By hand\n-- @tags: keys, daily\n-- @remediation: Load again\nselect 0',
  )
  await request.post(`${url}/tests`, { data: { ...fine, name: 'a-first' } })
  const { tests, total } = await getJson(request, `${url}/tests`)
  expect(total).toBe(2)
  expect(tests).toMatchObject([
    { name: 'a-first', severity: 'error' },
    {
      name: 'by-hand',
      sql: 'select 0',
      severity: 'warn',
      description: 'By hand',
      tags: ['keys', 'daily'],
      remediation: 'Load again',
    },
  ])
})

test('a bad field is 400 naming it and writes no test @name.test @tests.create.400', async ({ request }) => {
  const { url, prefix } = await newPipeline(request)
  for (const [field, value] of [
    ['name', undefined],
    ['name', ''],
    ['name', 'Upper'],
    ['name', 'under_score'],
    ['name', '../up'],
    ['name', 'a'.repeat(129)],
    ['sql', undefined],
    ['sql', ''],
    ['sql', ' \n'],
    ['sql', 7],
    ['severity', undefined],
    ['severity', 'fatal'],
    ['severity', null],
    ['description', 7],
    ['description', 'two\nlines'],
  ] as const)
    await expectError(
      await request.post(`${url}/tests`, { data: { ...fine, [field]: value } }),
      400,
      new RegExp(`^${field}: `),
    )
  const files = await getJson(request, '/api/v1/files', { prefix: `${prefix}tests/` })
  expect(files.total).toBe(0)
})

test('every test request for an unknown pipeline is 404 @tests.list.404 @tests.create.404 @tests.run.404', async ({
  request,
}) => {
  for (const pipeline of ['default/bronze/nobody-here', 'default/copper/a', 'Default/bronze/a']) {
    const url = `/api/v1/pipelines/${pipeline}/tests`
    await expectError(await request.get(url), 404)
    await expectError(await request.post(url, { data: fine }), 404)
    await expectError(await request.delete(`${url}/no-nulls`), 404)
    await expectError(await request.post(`${url}/run`), 404)
  }
  const { url } = await newPipeline(request)
  await expectError(await request.delete(`${url}/tests/Not_A_Name`), 404)
})

test('running all tests evaluates the draft tests against main @tests.run', async ({ request }) => {
  const { url } = await newPipeline(request)
  for (const test of [
    { name: 'a-passes', sql: 'select 0', severity: 'error' },
    { name: 'b-counts', sql: 'select 7 as failing', severity: 'warn' },
    { name: 'c-selects-rows', sql: 'select * from range(3)', severity: 'error' },
    { name: 'd-selects-none', sql: 'select * from range(3) where false', severity: 'error' },
    { name: 'e-breaks', sql: 'select nothing_of_that_name', severity: 'warn' },
  ] as const)
    await addTest(request, { url }, test)
  const response = await request.post(`${url}/tests/run`)
  expect(response.status()).toBe(200)
  const { results, ...counts } = await response.json()
  expect(counts).toEqual({ passed: 2, failed: 3, total: 5 })
  const facts = { expected: 0, duration_ms: expect.any(Number), error: null, samples: [] }
  const samples = ['range=0', 'range=1', 'range=2']
  expect(results).toEqual([
    { name: 'a-passes', status: 'passed', severity: 'error', value: 0, ...facts },
    { name: 'b-counts', status: 'failed', severity: 'warn', value: 7, ...facts },
    { name: 'c-selects-rows', status: 'failed', severity: 'error', value: 3, ...facts, samples },
    { name: 'd-selects-none', status: 'passed', severity: 'error', value: 0, ...facts },
    {
      name: 'e-breaks',
      status: 'failed',
      severity: 'warn',
      value: expect.any(Number),
      ...facts,
      error: expect.stringContaining('nothing_of_that_name'),
    },
  ])
})

test('a blocked run names failed tests and rows, and merges nothing', async ({ request }) => {
  const pipeline = await pipelineWith(request, 'select range as id from range(5)')
  const { url, prefix, namespace, layer, name } = pipeline
  await writeFile(request, `${prefix}config.yaml`, 'max_retries: 3')
  for (const test of [
    { name: 'few', sql: 'select id from {{ this }} where id > 1 order by id', severity: 'error' },
    { name: 'none', sql: 'select count(*) from {{ this }} where id = 4', severity: 'error' },
  ] as const)
    await addTest(request, { url }, test)
  const run = await runToEnd(request, pipeline)
  expect(run).toMatchObject({
    status: 'failed',
    attempt: 1,
    error: 'testing: 2 quality tests failed: few (3 rows: id=2; id=3; id=4), none (1 row)',
  })
  const { nodes } = await getJson(request, '/api/v1/lineage', { namespace })
  const node = nodes.find(({ id }: { id: string }) => id === `pipeline:${namespace}.${layer}.${name}`)
  expect(node.quality).toEqual({ total: 2, passed: 0, failed: 2, warned: 0 })
  const { results } = await (await request.post(`${url}/tests/run`)).json()
  expect(results[0]).toMatchObject({
    status: 'failed',
    error: `tests/quality/few.sql: table ${namespace}.${layer}.${name} does not exist: no run has created it yet`,
  })
})

test('running tests of a pipeline without tests returns empty results', async ({ request }) => {
  const { url } = await newPipeline(request)
  const response = await request.post(`${url}/tests/run`)
  expect([response.status(), await response.json()]).toEqual([
    200,
    { results: [], passed: 0, failed: 0, total: 0 },
  ])
})
