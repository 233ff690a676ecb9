// Runs that demand labels or memory of their runner. The labels belong to a service of this file.
import { type APIRequestContext, expect } from '@playwright/test'
import { eventually } from '../kit/eventually.ts'
import { test } from '../kit/own-service.ts'
import {
  ENDLESS,
  type MadePipeline,
  newNamespace,
  pipelineWith,
  publish,
  publishedPipeline,
  writeFile,
} from '../kit/resources.ts'
import { cancel, getRun, logOf, requestRun, runToSuccess } from '../kit/runs.ts'

test.use({ serviceEnv: { RUNNER_LABELS: 'gpu,eu', NAMESPACE_CONCURRENCY: '1' } })

async function demanding(request: APIRequestContext, config: string) {
  const pipeline = await pipelineWith(request, 'select 1 as a', { layer: 'gold' })
  await writeFile(request, `${pipeline.prefix}config.yaml`, config)
  return pipeline
}

test('a run executes on a runner with its labels and its memory @placement.runs', async ({ request }) => {
  const pipeline = await demanding(request, 'runs_on: [gpu, eu]\nmemory: 256MB\npriority: 10\n')
  await publish(request, pipeline)
  const { id } = await runToSuccess(request, pipeline)
  const messages = (await logOf(request, id)).map(({ message }) => message)
  expect(messages).toContain('this attempt executes alone on its runner: its configuration demands memory')
  expect(await getRun(request, id)).toMatchObject({ waiting_reason: null })
})

for (const [config, reason] of [
  ['runs_on: us', /^no runner has the labels us \(runs_on\)$/],
  [
    'memory: 900000GB',
    /^no runner gives 921600000 MB of memory for one run \(memory\); the largest gives \d+ MB$/,
  ],
] as const)
  test(`a run with ${config} waits and says why @placement.waits`, async ({ request }) => {
    const pipeline = await demanding(request, config)
    await publish(request, pipeline)
    const id = await requestRun(request, pipeline)
    await eventually(async () => (await getRun(request, id)).waiting_reason).toMatch(reason)
    expect(await getRun(request, id)).toMatchObject({ status: 'pending', started_at: null })
    expect(await logOf(request, id)).toMatchObject([
      { level: 'warn', message: expect.stringMatching(/^the run waits: no runner /) },
    ])
    await cancel(request, id)
  })

test('a namespace executes no more runs than NAMESPACE_CONCURRENCY @placement.turns', async ({ request }) => {
  const namespaces = [await newNamespace(request), await newNamespace(request)]
  const [first, second, other] = await Promise.all(
    [0, 0, 1].map((n) => publishedPipeline(request, ENDLESS, { namespace: namespaces[n] })),
  )
  const ids = []
  for (const pipeline of [first, second, other] as MadePipeline[])
    ids.push(await requestRun(request, pipeline))
  const [running = '', waiting = '', elsewhere = ''] = ids
  const statusOf = async (id: string) => (await getRun(request, id)).status
  for (const id of [running, elsewhere]) await eventually(() => statusOf(id)).toBe('running')
  expect(await statusOf(waiting)).toBe('pending')
  await cancel(request, running)
  await eventually(() => statusOf(waiting)).toBe('running')
  for (const id of [waiting, elsewhere]) await cancel(request, id)
})

for (const [config, message] of [
  ['runs_on: [GPU]', /runs_on: must be labels/],
  ['memory: lots', /memory: must be a size such as 512MB or 16GB, not "lots"/],
  ['priority: 1000', /priority: must be a whole number from -100 to 100, not 1000/],
] as const)
  test(`publish refuses ${config} @placement.422`, async ({ request }) => {
    const { url } = await demanding(request, config)
    const refused = await request.post(`${url}/publish`)
    expect([refused.status(), (await refused.json()).error]).toEqual([422, expect.stringMatching(message)])
  })
