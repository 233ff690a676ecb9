// Feedback for a user who changes a draft, forgets to publish it and sees no effect.
import { expect, test } from '@playwright/test'
import { newPipeline, publish, writeFile } from '../kit/resources.ts'
import { logOf, runToSuccess } from '../kit/runs.ts'

test('a run log warns when the draft differs from the executed version', async ({ request }) => {
  const pipeline = await newPipeline(request, { layer: 'gold' })
  const logOfRun = async () => {
    const { id } = await runToSuccess(request, pipeline)
    return (await logOf(request, id)).slice(0, 2).map(({ message }) => message)
  }
  await publish(request, pipeline)
  const differs = expect.stringMatching(
    /^the draft differs from version 1, which this run executes: publish to run the draft$/,
  )
  expect(await logOfRun()).not.toContainEqual(differs)
  await writeFile(request, `${pipeline.prefix}pipeline.sql`, 'select 2 as a')
  expect(await logOfRun()).toContainEqual(differs)
})
