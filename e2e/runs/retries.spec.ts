// Pipeline configuration: max_retries, retry_delay_seconds.
import { expect, test } from '@playwright/test'
import { eventually } from '../kit/eventually.ts'
import { fresh, pipelineWith, writeFile } from '../kit/resources.ts'
import { cancel, getRun, logOf, newTable, requestRun } from '../kit/runs.ts'

/** As many retries as possible, so that they last until the test has added the missing table. */
const RETRIED = 'max_retries: 100\nretry_delay_seconds: 1\n'

test('a run that fails in execution retries and reads newly added tables', async ({ request }) => {
  const later = fresh('later')
  const pipeline = await pipelineWith(request, `select * from {{ ref('bronze.${later}') }}`)
  await writeFile(request, `${pipeline.prefix}config.yaml`, RETRIED)
  const run_id = await requestRun(request, pipeline)
  const run = () => getRun(request, run_id)
  const logs = async () => (await logOf(request, run_id)).map(({ message }) => message)
  await eventually(logs).toContainEqual(expect.stringMatching(/^attempt 1 failed: .*does not exist/))
  expect(await run()).toMatchObject({ status: 'running', error: null, finished_at: null })
  await newTable(request, { namespace: 'default', layer: 'bronze', name: later }, 'select 1 as a')
  await eventually(async () => (await run()).status).toBe('success')
  expect((await run()).attempt).toBeGreaterThan(1)
  expect(await logs()).toContain('next attempt in 1 s: retry 1 of 100')
})

test('a run can be cancelled between two attempts', async ({ request }) => {
  const pipeline = await pipelineWith(request, 'select nothing')
  await writeFile(request, `${pipeline.prefix}config.yaml`, 'max_retries: 1\nretry_delay_seconds: 3600\n')
  const run_id = await requestRun(request, pipeline)
  const run = () => getRun(request, run_id)
  const logs = async () => JSON.stringify(await logOf(request, run_id))
  await eventually(logs).toContain('next attempt in 3600 s: retry 1 of 1')
  await cancel(request, run_id)
  expect(await run()).toMatchObject({ status: 'cancelled', attempt: 1 })
})
