// A newcomer changes a draft and wonders why nothing changes: the service says what is published and what is not.
import { expect, test } from '@playwright/test'
import { expectError, getJson, newPipeline, writeFile } from './resources.ts'
import { logOf, runToSuccess } from './runs.ts'

test('the log of a run says that the draft differs from the version it executes', async ({ request }) => {
  const pipeline = await newPipeline(request, { layer: 'gold' })
  const logOfRun = async () => {
    const { id } = await runToSuccess(request, pipeline)
    return (await logOf(request, id)).slice(0, 2).map(({ message }) => message)
  }
  expect((await request.post(`${pipeline.url}/publish`)).status()).toBe(200)
  const differs = expect.stringMatching(
    /^the draft differs from version 1, which this run executes: publish to run the draft$/,
  )
  expect(await logOfRun()).not.toContainEqual(differs)
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, 'select 2 as a')
  expect(await logOfRun()).toContainEqual(differs)
})

test('max_versions of a pipeline can be set, and takes effect at the next publish', async ({ request }) => {
  const { url } = await newPipeline(request, { max_versions: 2 })
  const versions = async () => {
    const list = await getJson(request, `${url}/versions`)
    return list.versions.map(({ version_number }: { version_number: number }) => version_number)
  }
  for (let turn = 0; turn < 3; turn++) await request.post(`${url}/publish`)
  expect(await versions()).toEqual([3, 2])
  const changed = await request.put(url, { data: { max_versions: 1 } })
  expect(await changed.json()).toMatchObject({ max_versions: 1 })
  expect(await getJson(request, url)).toMatchObject({ max_versions: 1 })
  await request.post(`${url}/publish`)
  expect(await versions()).toEqual([4])
  for (const value of [0, 1_001, 1.5])
    await expectError(
      await request.put(url, { data: { max_versions: value } }),
      400,
      /^max_versions: must be/,
    )
})
