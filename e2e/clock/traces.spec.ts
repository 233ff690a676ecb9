// OpenTelemetry: the clock is the cause of runs. The tests wait for minutes, so they are not part of the usual suite.
import { type APIRequestContext, expect, request as requests, test } from '@playwright/test'
import { type Collector, spansOfRun, startCollector } from '../kit/collector.ts'
import { type OwnService, startOwnService } from '../kit/own-service.ts'
import { type MadePipeline, publishedPipeline } from '../kit/resources.ts'
import { runsOf } from '../kit/runs.ts'
import { addTrigger } from '../kit/triggers.ts'

/** Covers a minute until due, half a minute until the next tick, and the run on a busy machine. */
const DUE_MS = 240_000
const EVERY_MINUTE = '* * * * *'

test.setTimeout(720_000)

let collector: Collector
let service: OwnService
let request: APIRequestContext
test.beforeAll(async () => {
  collector = await startCollector()
  service = await startOwnService({ ...collector.env, QUERY_URLS: 'none' })
  request = await requests.newContext({ baseURL: service.url })
})
test.afterAll(async () => {
  await request?.dispose()
  await service?.stop()
  await collector?.stop()
})

async function firstRun(pipeline: MadePipeline) {
  const successes = async () =>
    (await runsOf(request, pipeline)).filter((run: { status: string }) => run.status === 'success')
  await expect
    .poll(async () => (await successes()).length, { timeout: DUE_MS, intervals: [500] })
    .toBeGreaterThan(0)
  return (await successes())[0].id as string
}

test('a schedule or cron begins the trace of its run @traces.due', async () => {
  const [bySchedule, byCron] = [await publishedPipeline(request), await publishedPipeline(request)]
  const { namespace, layer, name } = bySchedule
  const data = { namespace, layer, pipeline: name, cron: EVERY_MINUTE }
  expect((await request.post('/api/v1/schedules', { data })).status()).toBe(201)
  await addTrigger(request, byCron, 'cron', { cron_expr: EVERY_MINUTE })
  for (const [pipeline, root] of [
    [byCron, 'trigger'],
    [bySchedule, 'schedule'],
  ] as const) {
    const id = await firstRun(pipeline)
    const names = [root, 'queue', 'attempt', 'merge']
    const { spans, parentOf, parentsOf } = await spansOfRun(collector, { request, id, names })
    expect(spans.filter((span) => parentOf(span) === null).map((span) => span.name)).toEqual([root])
    expect(spans.find((span) => span.name === root)?.parentSpanId ?? '').toBe('')
    for (const child of ['queue', 'attempt', 'merge']) expect(parentsOf(child)).toEqual([root])
  }
})
