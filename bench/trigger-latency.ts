// Measures the latency from a cause to the run that it triggers, on an idle service over HTTP. The causes are an upload, a
// webhook call and the success of another pipeline. The measurement ends at the notification, after the commit, that the run is
// running. Then one success triggers the runs of a thousand pipelines. The runner does nothing, so the figures are those of the
// control plane. Two limits are measured as well: one durable commit, and the least durable work of an upload on this disk. An
// upload syncs its file and its directory, and commits twice: the record of the file and the start of the run.
import { mkdtemp, open, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { figuresOf, printFigures, timed } from './figures.ts'
import { type NoOpService, startNoOpService } from './no-op-service.ts'
import { addPublished } from './pipelines.ts'

const WARM_UP = 20
const TIMES = 200
const WIDE = 1_000
const CONTENT = 'a,b\n1,2\n'

export async function benchTriggerLatency() {
  const service = await startNoOpService()
  try {
    const names = await addPublished(service.sql, WIDE + 5)
    const [uploaded = '', called = '', upstream = '', downstream = '', source = ''] = names.splice(0, 5)
    const answered: number[] = []
    const rows = {
      'upload to running': figuresOf(await uploads(service, uploaded, answered)),
      'upload to its answer': figuresOf(answered.slice(WARM_UP)),
      'webhook call to running': figuresOf(await webhooks(service, called)),
      'success of upstream to running': figuresOf(await successes(service, upstream, downstream)),
      'a durable file and two durable commits': figuresOf(await bareUploads(service)),
      'one durable commit': figuresOf(await timed(TIMES, () => commit(service))),
    }
    printFigures(rows, 'one durable commit')
    await wide(service, source, names)
  } finally {
    await service.stop()
  }
}

const addTrigger = <Answer>({ call }: NoOpService, pipeline: string, type: string, config: object) =>
  call<Answer>('POST', `/pipelines/default/gold/${pipeline}/triggers`, { type, config })

/**
 * Milliseconds from the call of `cause` to the first notification of the run that it triggers. The next measurement begins when
 * that run has ended.
 */
async function fromCauseToRunning({ news }: NoOpService, cause: (n: number) => Promise<unknown>) {
  const samples: number[] = []
  for (let n = 0; n < WARM_UP + TIMES; n++) {
    const started = news.nextBut(null)
    const since = performance.now()
    await cause(n)
    const { firstAt } = await news.of(await started)
    if (n >= WARM_UP) samples.push(firstAt - since)
  }
  return samples
}

async function uploads(service: NoOpService, pipeline: string, answered: number[]) {
  const { call } = service
  await call('POST', '/landing-zones', { namespace: 'default', name: 'drop' })
  await addTrigger(service, pipeline, 'landing_zone_upload', { namespace: 'default', zone_name: 'drop' })
  return fromCauseToRunning(service, async (n) => {
    const form = new FormData()
    form.set('file', new File([CONTENT], `${n}.csv`, { type: 'text/csv' }))
    const since = performance.now()
    await call('POST', '/landing-zones/default/drop/files', form)
    answered.push(performance.now() - since)
  })
}

const commit = ({ sql }: NoOpService) =>
  sql`insert into replica (name, alive_until) values (gen_random_uuid()::text, clock_timestamp())`

/** Measures the durable writes and commits of an upload, one upload after the other, in a separate directory. */
async function bareUploads(service: NoOpService) {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
  const synced = async (path: string, flags: string, text = '') => {
    const file = await open(path, flags)
    if (text !== '') await file.write(text)
    await file.sync()
    await file.close()
  }
  try {
    return await timed(TIMES, async (n) => {
      await synced(join(directory, 'arriving'), 'wx', CONTENT)
      await rename(join(directory, 'arriving'), join(directory, String(n)))
      await synced(directory, 'r')
      await commit(service)
      await commit(service)
    })
  } finally {
    await rm(directory, { recursive: true })
  }
}

async function webhooks(service: NoOpService, pipeline: string) {
  const { webhook_token } = await addTrigger<{ webhook_token: string }>(service, pipeline, 'webhook', {})
  return fromCauseToRunning(service, () =>
    service.call('POST', '/webhooks', undefined, { 'x-webhook-token': webhook_token }),
  )
}

/** Milliseconds from the success of the upstream run to the notification that the downstream run is running. */
async function successes(service: NoOpService, upstream: string, downstream: string) {
  const { call, news } = service
  await addTrigger(service, downstream, 'pipeline_success', upstreamOf(upstream))
  const samples: number[] = []
  for (let n = 0; n < WARM_UP + TIMES; n++) {
    const { run_id } = await call<{ run_id: string }>('POST', '/runs', request(upstream))
    const started = news.nextBut(run_id)
    const { endedAt } = await news.of(run_id)
    const { firstAt } = await news.of(await started)
    if (n >= WARM_UP) samples.push(firstAt - endedAt)
  }
  return samples
}

const upstreamOf = (pipeline: string) => ({ namespace: 'default', layer: 'gold', pipeline })
const request = (pipeline: string) => ({ ...upstreamOf(pipeline), trigger: 'manual' })

/**
 * Lets one success trigger the runs of a thousand pipelines. Prints when all runs were requested, running and ended, by the
 * database's clock.
 */
async function wide(service: NoOpService, source: string, names: readonly string[]) {
  const { call, sql } = service
  const queue = [...names]
  await Promise.all(
    Array.from({ length: 16 }, async () => {
      for (let name = queue.pop(); name !== undefined; name = queue.pop())
        await addTrigger(service, name, 'pipeline_success', upstreamOf(source))
    }),
  )
  const { run_id } = await call<{ run_id: string }>('POST', '/runs', request(source))
  const trigger = `trigger:pipeline_success:default.gold.${source}`
  const giveUpAt = performance.now() + 60_000
  for (let over = 0; over < names.length && performance.now() < giveUpAt; ) {
    await Bun.sleep(200)
    const [row] = await sql<{ over: number }[]>`
      select count(*)::int as over from run where trigger = ${trigger} and status = 'success'`
    over = row?.over ?? 0
  }
  const [row] = await sql<Record<'runs' | 'pipelines' | 'requested' | 'running' | 'ended', number>[]>`
    select count(*)::int as runs, count(distinct r.pipeline_id)::int as pipelines,
      extract(epoch from max(r.created_at) - max(s.finished_at))::float8 * 1000 as requested,
      extract(epoch from max(r.started_at) - max(s.finished_at))::float8 * 1000 as running,
      extract(epoch from max(r.finished_at) - max(s.finished_at))::float8 * 1000 as ended
    from run r, run s where r.trigger = ${trigger} and s.id = ${run_id}`
  if (row === undefined) throw new Error('no run was started')
  console.log(
    `  one success, ${names.length} pipelines: ${row.runs} runs of ${row.pipelines} pipelines; all requested after ${row.requested.toFixed(0)} ms, running after ${row.running.toFixed(0)} ms, over after ${row.ended.toFixed(0)} ms`,
  )
}
