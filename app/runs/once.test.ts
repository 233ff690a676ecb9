import { expect, test } from 'bun:test'
import { inTrace } from '../../ground/telemetry/trace.ts'
import { notFound } from '../core/errors.ts'
import { newId, type PipelineId } from '../core/ids.ts'
import type { IdempotencyKey } from '../http/idempotency.ts'
import { makeRunService } from './service.ts'
import { makeNotices } from './store/notices.ts'
import { useRuns } from './test-runs.ts'

const { opened, pipelineNamed } = useRuns(6)

/** A pipeline and the run services of two replicas. `delete` removes the pipeline. */
async function open(name: string) {
  const { sql } = opened
  const { id } = await pipelineNamed(name)
  let isThere = true
  const nudges: string[] = []
  const service = () =>
    makeRunService({
      sql,
      newId,
      notices: makeNotices(sql, () => {}),
      runnable: async () => {
        if (!isThere) throw notFound('pipeline')
        return {
          pipelineId: id,
          pipelineType: 'sql',
          versionNumber: null,
          pins: {},
          landingZones: [],
          placement: null,
        }
      },
      nudge: (about) => nudges.push(about),
    })
  return {
    id,
    nudges,
    services: [service(), service()] as const,
    body: { namespace: 'default', layer: 'gold' as const, pipeline: name, trigger: 'manual' },
    async delete() {
      isThere = false
      await sql`update pipeline set deleted_at = clock_timestamp() where id = ${id}`
    },
  }
}

const keyed = (key: string, requestHash = 'a'): IdempotencyKey => ({
  caller: '',
  operation: 'POST /api/v1/runs',
  key,
  requestHash,
})
const runsOf = (id: PipelineId) => opened.sql<{ id: string }[]>`select id from run where pipeline_id = ${id}`

test('twenty identical requests at two replicas make one run and one hint', async () => {
  const { id, nudges, services, body } = await open('raced')
  const accepted = await Promise.all(
    Array.from({ length: 20 }, (_, index) => services[index % 2 === 0 ? 0 : 1].request(body, keyed('raced'))),
  )
  const runs = await runsOf(id)
  expect(runs).toHaveLength(1)
  expect([...new Set(accepted.map((one) => JSON.stringify(one)))]).toEqual([
    JSON.stringify({ run_id: runs[0]?.id, status: 'pending' }),
  ])
  expect(nudges).toEqual(['runRequested'])
  const history = await opened.sql`select 1 from transition where entity_id = ${runs[0]?.id ?? ''}`
  expect(history).toHaveLength(1)
})

test('each request without a key makes a run', async () => {
  const { id, services, body } = await open('keyless')
  await Promise.all([1, 2, 3].map(() => services[0].request(body)))
  expect(await runsOf(id)).toHaveLength(3)
})

test('another request under the same key is 409 and makes no run', async () => {
  const { id, services, body } = await open('conflict')
  await services[0].request(body, keyed('conflict'))
  const other = services[0].request({ ...body, trigger: 'other' }, keyed('conflict', 'b'))
  await expect(other).rejects.toMatchObject({ status: 409 })
  expect(await runsOf(id)).toHaveLength(1)
})

test('a deleted pipeline answers repeated requests, and refuses new ones with 404', async () => {
  const pipeline = await open('gone')
  const { services, body } = pipeline
  const first = await services[0].request(body, keyed('gone'))
  await pipeline.delete()
  expect(await services[1].request(body, keyed('gone'))).toEqual(first)
  await expect(services[0].request(body, keyed('late'))).rejects.toMatchObject({ status: 404 })
  expect(await opened.sql`select 1 from idempotency_key where key = 'late'`).toHaveLength(0)
})

test('a run has the trace of the first request under its key', async () => {
  const { services, body } = await open('once-traced')
  const traceparent = (digit: string) => `00-${digit.repeat(32)}-${digit.repeat(16)}-01`
  const request = (digit: string) =>
    inTrace(
      () => ({ requestId: null, traceparent: traceparent(digit), tracestate: `a=${digit}` }),
      () => services[0].request(body, keyed('traced')),
    )
  const { run_id } = await request('1')
  expect(await request('2')).toMatchObject({ run_id })
  const runs = await opened.sql`select traceparent, tracestate from run where id = ${run_id}`
  expect([...runs]).toEqual([{ traceparent: traceparent('1'), tracestate: 'a=1' }])
})
