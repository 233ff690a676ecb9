import { beforeEach, expect, setDefaultTimeout, test } from 'bun:test'
import { useDatabase } from '../../tools/service/database.ts'
import { requestTo, testApp } from '../composition/test-app.ts'
import { newId } from '../core/ids.ts'
import { attentionRoutes } from './routes.ts'
import type { AttentionItem } from './schema.ts'
import { makeAttentionService } from './service.ts'

setDefaultTimeout(120_000)
const database = useDatabase({ rawConnections: 4 })
beforeEach(async () => {
  await database.sql`truncate run, quality_result, run_review, pipeline, lake_ref, retention_override cascade`
  await database.sql`insert into lake_ref (name, kind, state, number) values ('main', 'main', 'open', 0)`
})

async function pipeline(name: string) {
  const id = newId()
  await database.sql`
    insert into pipeline (id, namespace, layer, name, type, draft_snapshot, draft_machine_version, draft_dirty)
    values (${id}, 'default', 'gold', ${name}, 'sql', '{}', 1, false)`
  return id
}

interface NewRun {
  status?: string
  branch?: string
  daysAgo?: number
  count?: number
  phase?: string
  error?: string
}
async function run(pipelineId: string, run: NewRun = {}) {
  const { status = 'failed', branch = 'main', daysAgo = 0, count = 1, phase = null, error = null } = run
  const added = await database.sql<{ id: string }[]>`
    insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones, snapshot,
      machine_version, status, phase, waiting, branch, error, created_at, finished_at)
    select gen_random_uuid(), p.id, p.namespace, p.layer, p.name, 'sql', 'manual', '{}', '[]', '{}', 1, ${status}, ${phase},
      ${status === 'pending'}, ${branch}, ${error}, at, case when ${status} in ('success', 'failed', 'cancelled') then at end
    from pipeline p, generate_series(1, ${count}) n,
      lateral (select clock_timestamp() - ${daysAgo} * interval '1 day' as at) moment
    where p.id = ${pipelineId} returning id`
  return added[0]?.id ?? ''
}

const result = (runId: string, pipelineId: string, severity: string) => database.sql`
  insert into quality_result (run_id, pipeline_id, name, severity, status, value, duration_ms)
  values (${runId}, ${pipelineId}, 'few', ${severity}, 'failed', 1, 1)`

const app = () => testApp({ api: [attentionRoutes(makeAttentionService({ sql: database.sql }))] })
async function attention(query = '') {
  const response = await requestTo(app(), 'GET', `/api/v1/attention${query}`)
  expect(response.status).toBe(200)
  return (await response.json()) as { items: AttentionItem[]; total: number }
}
const shown = async () =>
  (await attention()).items.map(({ kind, pipeline, branch }) => `${kind} ${pipeline ?? branch}`)

test('a failure stays until a later run on main succeeds', async () => {
  const failing = await pipeline('failing')
  const others = await pipeline('others')
  const id = await run(failing, { daysAgo: 40, error: 'no column x' })
  await run(others, { status: 'success', count: 300 })
  await run(failing, { status: 'cancelled', count: 210 })
  await run(failing, { status: 'success', branch: 'dev', count: 210 })
  expect(await attention()).toMatchObject({
    total: 1,
    items: [
      {
        kind: 'failed',
        namespace: 'default',
        layer: 'gold',
        pipeline: 'failing',
        run_id: id,
        branch: 'main',
        reason: 'no column x',
      },
    ],
  })
  await run(failing, { status: 'running' })
  expect(await shown()).toEqual(['failed failing'])
  await run(failing, { status: 'success' })
  expect(await shown()).toEqual([])
  await run(failing, { status: 'failed', branch: 'dev' })
  expect(await shown()).toEqual([])
})

test('a pipeline that was deleted needs no attention', async () => {
  const id = await pipeline('gone')
  await run(id)
  await database.sql`update pipeline set deleted_at = now() where id = ${id}`
  expect(await shown()).toEqual([])
  await pipeline('gone')
  expect(await shown()).toEqual([])
})

test('reviews, waiting runs, warnings and old branches need attention', async () => {
  const [a, b, c] = [await pipeline('a'), await pipeline('b'), await pipeline('c')]
  await run(a, { status: 'running', phase: 'review' })
  await run(b, { status: 'pending', daysAgo: 1 })
  await run(b, { status: 'pending' })
  await run(b, { status: 'pending', branch: 'dev', daysAgo: 1 })
  await result(await run(c, { status: 'success' }), c, 'warn')
  await result(await run(a, { status: 'success', branch: 'dev' }), a, 'warn')
  await database.sql`update lake_ref set number = 5 where name = 'main'`
  await database.sql`
    insert into lake_ref (name, kind, base) values ('late', 'user', 3), ('new', 'user', 5), ('_hidden', 'user', 1), ('v1', 'tag', 1)`
  await database.sql`insert into lake_ref (name, kind, base, state) values ('closed', 'user', 1, 'merged')`
  expect(await shown()).toEqual(['review a', 'waiting b', 'failing_tests c', 'behind late'])
  const { items } = await attention()
  expect(items.map(({ reason }) => reason)).toEqual([
    'waits for a review',
    'waits for a runner',
    'tests of severity warn failed: few',
    '2 commits behind main',
  ])
  expect(items.at(-1)).toMatchObject({ namespace: null, pipeline: null, run_id: null })
})

test('pages of the list have its exact total, also beyond its end', async () => {
  for (const [n, name] of ['a', 'b', 'c'].entries()) await run(await pipeline(name), { daysAgo: 3 - n })
  const names = async (query: string) => {
    const { items, total } = await attention(query)
    return [items.map(({ pipeline }) => pipeline), total]
  }
  expect(await names('?limit=2')).toEqual([['c', 'b'], 3])
  expect(await names('?limit=2&offset=2')).toEqual([['a'], 3])
  expect(await names('?limit=2&offset=9')).toEqual([[], 3])
})

test('a caller sees only items of visible pipelines', async () => {
  const [seen, hidden] = [await pipeline('seen'), await pipeline('hidden')]
  await run(seen)
  await run(hidden)
  await run(hidden, { status: 'pending', daysAgo: 1 })
  const service = makeAttentionService({ sql: database.sql })
  const visible = { pipelines: [seen], zones: [], namespaces: [] }
  const { items, total } = await service.list({}, visible as never)
  expect([items.map(({ pipeline }) => pipeline), total]).toEqual([['seen'], 1])
})

test('the list covers 10,000 pipelines with 40,000 runs', async () => {
  await database.sql`
    insert into pipeline (id, namespace, layer, name, type, draft_snapshot, draft_machine_version, draft_dirty)
    select gen_random_uuid(), 'default', 'gold', 'p' || n, 'sql', '{}', 1, false from generate_series(1, 10000) n`
  await database.sql`
    insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones, snapshot,
      machine_version, status, waiting, branch, created_at, finished_at)
    select gen_random_uuid(), p.id, p.namespace, p.layer, p.name, 'sql', 'manual', '{}', '[]', '{}', 1,
      case when n = 4 and right(p.name, 1) = '7' then 'failed' else 'success' end, false,
      case when n > 2 then 'main' else 'dev' end, at, at
    from pipeline p, generate_series(1, 4) n, lateral (select now() - (4 - n) * interval '1 hour' as at) moment`
  await database.sql`analyze run, pipeline`
  await attention()
  const began = performance.now()
  const { total } = await attention()
  console.log(`attention over 10,000 pipelines and 40,000 runs: ${Math.round(performance.now() - began)} ms`)
  expect(total).toBe(1_000)
})
