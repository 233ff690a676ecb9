import { expect, test } from 'bun:test'
import { begunTrace, NO_TRACE } from '../../../ground/telemetry/trace.ts'
import { newId, type PipelineId, type RunId } from '../../core/ids.ts'
import { useRuns } from '../test-runs.ts'
import { outcomesOf, type RunRequest, requestedRuns } from './requests.ts'

const { opened, pipelineNamed } = useRuns()

async function published(name: string) {
  const { id } = await pipelineNamed(name)
  await opened.sql`
    update pipeline_version set published_versions = '{"a": "1"}', landing_zones = '["default.drop"]' where pipeline_id = ${id}`
  return id
}

const request = (pipelineId: PipelineId, event: string, triggerId = newId()): RunRequest => ({
  id: newId() as RunId,
  pipelineId,
  trigger: 'trigger:cron:* * * * *',
  cause: { triggerId, event },
  chainDepth: 3,
  landingFileId: null,
  trace: NO_TRACE,
})

const ask = (requests: RunRequest[]) =>
  opened.sql.begin(async (tx) => outcomesOf(await requestedRuns(tx, requests)))

test('a request pins the published version and adds a history entry', async () => {
  const wanted = request(await published('pins'), 'e1')
  expect([...(await ask([wanted])).values()]).toEqual(['requested'])
  const [run] = await opened.sql`select * from run where id = ${wanted.id}`
  expect(run).toMatchObject({
    namespace: 'default',
    layer: 'gold',
    pipeline: 'pins',
    status: 'pending',
    waiting: true,
    version_number: 1,
    pins: { a: '1' },
    landing_zones: ['default.drop'],
    chain_depth: 3,
    trigger_event: 'e1',
    ...begunTrace(wanted.id, NO_TRACE),
  })
  expect(await opened.sql`select event, cause from transition where entity_id = ${wanted.id}`).toEqual([
    { event: 'requested', cause: 'trigger:cron:* * * * *' },
  ] as never)
})

test('one event of one trigger makes one run, even in concurrent statements', async () => {
  const id = await published('once')
  const triggerId = newId()
  const both = [request(id, 'e', triggerId), request(id, 'e', triggerId)]
  expect([...(await ask(both)).values()].sort()).toEqual(['repeated', 'requested'])
  expect([...(await ask([request(id, 'e', triggerId)])).values()]).toEqual(['repeated'])
  expect([...(await ask([request(id, 'another', triggerId)])).values()]).toEqual(['requested'])
  const rivals = Array.from({ length: 8 }, () => request(id, 'raced', triggerId))
  const outcomes = (await Promise.all(rivals.map((one) => ask([one])))).flatMap((map) => [...map.values()])
  expect(outcomes.filter((outcome) => outcome === 'requested')).toHaveLength(1)
})

test('requests that cannot run are reported and do not affect others', async () => {
  const live = await published('live')
  const gone = await published('gone')
  const draft = await published('draft')
  await opened.sql`update pipeline set deleted_at = clock_timestamp() where id = ${gone}`
  await opened.sql`update pipeline set published_version = null where id = ${draft}`
  const requested = [gone, draft, live, newId() as PipelineId].map((id) => request(id, 'e'))
  const outcomes = await ask(requested)
  expect(requested.map(({ id }) => outcomes.get(id))).toEqual(['gone', 'unpublished', 'requested', 'gone'])
})
