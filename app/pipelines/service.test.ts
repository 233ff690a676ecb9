import { beforeAll, describe, expect, test } from 'bun:test'
import { renderTemplate } from '../../lake/pipeline/template.ts'
import type { ObjectStore } from '../objects/port.ts'
import type { PipelineState } from './schema.ts'
import { bytes, refusal, useParts } from './test-parts.ts'

const parts = useParts()

let pipelineCount = 0
/** Creates a pipeline with a unique name. */
async function created(extra: object = {}) {
  const ref = { namespace: 'default', layer: 'bronze' as const, name: `orders_${pipelineCount++}` }
  const createdPipeline = await parts.pipelines().create({ ...ref, ...extra })
  return { ref, createdPipeline, prefix: `default/pipelines/bronze/${ref.name}/` }
}
const keysUnder = async (prefix: string) =>
  (await parts.objects.list(prefix, { limit: 100 })).objects.map(({ key }) => key)
const transitionsOf = (id: string) =>
  parts.sql<{ event: string; from: string; to: string }[]>`
    select event, "from", "to" from transition where machine = 'draft' and entity_id = ${id} order by id`

describe('create', () => {
  test('starter sources read tables by ref and zones by file format', async () => {
    const table = await created({ source: 'silver.customers' })
    const other = await created({ source: 'sales.silver.customers' })
    await parts.objects.put('default/landing/taxi/20260101_000000_trips.parquet', bytes('PAR1'))
    const zone = await created({ source: 'taxi' })
    const python = await created({ type: 'python', source: 'orders' })
    const text = async (prefix: string, file: string) => (await parts.objects.text(prefix + file))?.text
    expect(await text(table.prefix, 'pipeline.sql')).toContain("{{ ref('silver.customers') }}")
    expect(await text(other.prefix, 'pipeline.sql')).toContain("{{ ref('sales.silver.customers') }}")
    expect(await text(zone.prefix, 'pipeline.sql')).toContain(`read_parquet('{{ landing_zone("taxi") }}')`)
    expect(await text(python.prefix, 'pipeline.py')).toContain('landing_zone("orders")')
  })

  test('creates an incremental pipeline when a unique key is given', async () => {
    const { prefix } = await created({ unique_key: 'id, "day"' })
    const config = (await parts.objects.text(`${prefix}config.yaml`))?.text
    expect(config).toContain('merge_strategy: incremental')
    expect((await parts.objects.text(`${prefix}pipeline.sql`))?.text).toBe(
      'select 1 as "id", 1 as """day"""\n',
    )
  })

  test('escapes a unique key that looks like template syntax', async () => {
    const { prefix } = await created({ unique_key: '{{ a }}, {% b, {{# c' })
    const source = (await parts.objects.text(`${prefix}pipeline.sql`))?.text ?? ''
    const nothing = { ref: () => '', landingZone: () => '' }
    const variables = { strategy: 'incremental', this: '', runStartedAt: '', watermarkValue: null } as const
    expect(renderTemplate({ file: 'pipeline.sql', source }, variables, nothing)).toBe(
      'select 1 as "{{ a }}", 1 as "{% b", 1 as "{{# c"\n',
    )
  })

  test('names the wrong field once', async () => {
    const body = { namespace: 'default', layer: 'bronze' as const, name: 'refused', unique_key: 'id, ID' }
    expect((await refusal(parts.pipelines().create(body))).message).toBe('unique_key: names "ID" twice')
  })

  test('concurrent creates of one name: one succeeds, the losers write nothing', async () => {
    const ref = { namespace: 'default', layer: 'gold' as const, name: 'raced' }
    const outcomes = await Promise.allSettled(
      ['a', 'b', 'c', 'd'].map((key) => parts.pipelines().create({ ...ref, unique_key: key })),
    )
    const won = outcomes.findIndex(({ status }) => status === 'fulfilled')
    const losers = outcomes.flatMap((outcome) =>
      outcome.status === 'rejected' ? [outcome.reason.status] : [],
    )
    expect(losers).toEqual([409, 409, 409])
    const source = (await parts.objects.text('default/pipelines/gold/raced/pipeline.sql'))?.text
    expect(source).toBe(`select 1 as "${'abcd'[won]}"\n`)
  })

  test('a failed create leaves neither a pipeline nor files', async () => {
    const ref = { namespace: 'default', layer: 'gold' as const, name: 'half' }
    const failing: ObjectStore = {
      ...parts.objects,
      put: async (key, body, options) => {
        if (key.endsWith('config.yaml')) throw new Error('no space left')
        return parts.objects.put(key, body, options)
      },
    }
    expect((await refusal(parts.pipelines({ objects: failing }).create(ref))).message).toBe('no space left')
    expect((await refusal(parts.pipelines().get(ref))).status).toBe(404)
    expect(await keysUnder('default/pipelines/gold/half/')).toEqual([])
    expect(await parts.pipelines().create(ref)).toMatchObject(ref)
  })
})

describe('draft', () => {
  test('a write makes the draft dirty and a publish makes it clean', async () => {
    const { ref, createdPipeline } = await created()
    const pipelines = parts.pipelines()
    await pipelines.fileWritten(ref, 'written')
    await pipelines.publish(ref)
    expect((await pipelines.get(ref)).draft_dirty).toBe(false)
    await pipelines.fileWritten(ref, 'written')
    expect((await pipelines.get(ref)).draft_dirty).toBe(true)
    // No file differs from version 1.
    await pipelines.rollback(ref, { version: 1 })
    expect((await pipelines.get(ref)).draft_dirty).toBe(false)
    const moves = (await transitionsOf(createdPipeline.id)).map(
      ({ event, from, to }) => `${event} ${from}>${to}`,
    )
    expect(moves).toEqual([
      'fileWritten unpublished>unpublished',
      'published unpublished>clean',
      'fileWritten clean>dirty',
      'rolledBack dirty>clean',
    ])
  })

  test('the draft stays dirty when a file is written during publish', async () => {
    const { ref, prefix } = await created()
    const whileValidating = async () => {
      await parts.objects.put(`${prefix}pipeline.sql`, bytes('select 2 as id'))
      await parts.pipelines().fileWritten(ref, 'written')
      return null
    }
    const outcome = await parts.pipelines({ validate: whileValidating }).publish(ref)
    const newest = await parts.objects.head(`${prefix}pipeline.sql`)
    if (outcome.kind !== 'published') throw new Error('was refused')
    expect(outcome.body.versions[`${prefix}pipeline.sql`]).not.toBe(newest?.versionId)
    expect((await parts.pipelines().get(ref)).draft_dirty).toBe(true)
  })

  test('ignores a file write for a missing pipeline', () =>
    parts.pipelines().fileWritten({ namespace: 'default', layer: 'gold', name: 'nobody' }, 'written'))
})

describe('delete', () => {
  test('delete hides the pipeline, cancels runs, and keeps pinned versions readable', async () => {
    const { ref, createdPipeline, prefix } = await created()
    const outcome = await parts.pipelines().publish(ref)
    await parts.pipelines().remove(ref)
    expect((await refusal(parts.pipelines().get(ref))).status).toBe(404)
    expect((await refusal(parts.pipelines().remove(ref))).status).toBe(404)
    expect(parts.cancelled).toContain(createdPipeline.id)
    expect(await keysUnder(prefix)).toEqual([])
    const pinned = outcome.kind === 'published' ? outcome.body.versions[`${prefix}pipeline.sql`] : ''
    expect((await parts.objects.text(`${prefix}pipeline.sql`, pinned))?.text).toBe('select 1 as "id"\n')
    expect(await parts.sql`select 1 from outbox where kind = 'pipelineDeleted'`).toHaveLength(0)
  })

  test('the effect finishes an interrupted delete', async () => {
    const { ref, createdPipeline, prefix } = await created()
    const unreachable: ObjectStore = {
      ...parts.objects,
      list: () => Promise.reject(new Error('unreachable')),
    }
    await parts.pipelines({ objects: unreachable }).remove(ref)
    expect(await keysUnder(prefix)).toHaveLength(2)
    const [effect] = await parts.sql`select payload from outbox where kind = 'pipelineDeleted'`
    expect(effect?.payload).toEqual({ pipeline_id: createdPipeline.id, prefix })
    await parts.pipelines().finishDeletion(effect?.payload)
    expect(await keysUnder(prefix)).toEqual([])
  })

  test('an interrupted delete never removes files of the next pipeline', async () => {
    const { ref, prefix } = await created()
    await parts.objects.put(`${prefix}tests/quality/old.sql`, bytes('select 0'))
    const unreachable: ObjectStore = {
      ...parts.objects,
      list: () => Promise.reject(new Error('unreachable')),
    }
    await parts.pipelines({ objects: unreachable }).remove(ref)
    const [effect] = await parts.sql`select payload from outbox where kind = 'pipelineDeleted'`
    const next = await parts.pipelines().create({ ...ref, description: 'Another' })
    await parts.pipelines().finishDeletion(effect?.payload)
    expect(await keysUnder(prefix)).toEqual([`${prefix}config.yaml`, `${prefix}pipeline.sql`])
    expect(await parts.pipelines().get(ref)).toMatchObject({ id: next.id, description: 'Another' })
  })

  test('an interrupted delete still ends runs after the name is reused', async () => {
    const { ref, createdPipeline, prefix } = await created()
    const ended: string[] = []
    const dying = { retireAllOf: () => Promise.reject(new Error('killed')) }
    await parts.pipelines({ triggers: dying }).remove(ref)
    await parts.pipelines().create(ref)
    const effects = await parts.sql`select payload from outbox where kind = 'pipelineDeleted'`
    expect(effects.map(({ payload }) => payload.pipeline_id)).toEqual([createdPipeline.id])
    // The next pipeline of that name is deleted and interrupted too. Each deletion has its own effect.
    await parts.pipelines({ triggers: dying }).remove(ref)
    const triggers = { retireAllOf: async (id: string) => void ended.push(id) }
    await parts.pipelines({ triggers }).finishDeletion(effects[0]?.payload)
    expect([ended, parts.cancelled.includes(createdPipeline.id)]).toEqual([[createdPipeline.id], true])
    expect(await keysUnder(prefix)).toHaveLength(2)
    const [remaining, ...others] = await parts.sql`select payload from outbox where kind = 'pipelineDeleted'`
    expect([remaining?.payload.prefix, others]).toEqual([prefix, []])
    await parts.pipelines().finishDeletion(remaining?.payload)
    expect(await keysUnder(prefix)).toEqual([])
    expect(await parts.sql`select 1 from outbox where kind = 'pipelineDeleted'`).toHaveLength(0)
  })
})

describe('list', () => {
  beforeAll(async () => {
    await parts.namespaces.create({ name: 'listing' })
    for (const name of ['alpha', 'al_pha', 'beta'])
      await parts.pipelines().create({ namespace: 'listing', layer: 'silver', name })
    const [alpha] = await parts.sql`select id from pipeline where namespace = 'listing' and name = 'alpha'`
    for (const [number, status] of ['failed', 'success'].entries())
      await parts.sql`
        insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones,
          snapshot, machine_version, status, waiting, finished_at, created_at)
        values (${parts.deps.newId()}, ${alpha?.id}, 'listing', 'silver', 'alpha', 'sql', 'manual', '{}', '[]', '{}', 1,
          ${status}, false, clock_timestamp(), clock_timestamp() + ${number} * interval '1 second')`
  })
  test('list counts all matches and shows the latest run', async () => {
    const { pipelines, total } = await parts
      .pipelines()
      .list({ namespace: 'listing', limit: '1', offset: '2' })
    expect(total).toBe(3)
    expect(pipelines[0]).toMatchObject({ name: 'alpha', last_run: { status: 'success' } })
    expect(pipelines[0]).not.toHaveProperty('s3_path')
  })

  test('list filters by the tags of the published version', async () => {
    const ref = { namespace: 'listing', layer: 'silver' as const, name: 'beta' }
    const write = (text: string) =>
      parts.objects.put('listing/pipelines/silver/beta/config.yaml', bytes(`${text}\n`))
    const tagged = async (tag: string) =>
      (await parts.pipelines().list({ namespace: 'listing', tag })).pipelines.map(({ name }) => name)
    await write('tags: [nightly, finance]')
    expect(await tagged('nightly')).toEqual([])
    await parts.pipelines().publish(ref)
    expect(await tagged('nightly')).toEqual(['beta'])
    expect((await parts.pipelines().get(ref)).tags).toEqual(['nightly', 'finance'])
    await write('tags: []')
    await parts.pipelines().publish(ref)
    expect(await tagged('nightly')).toEqual([])
    await parts.pipelines().rollback(ref, { version: 1 })
    expect(await tagged('finance')).toEqual(['beta'])
    expect(await tagged('fin')).toEqual([])
  })

  test('list filters by the state of the pipeline', async () => {
    const inState = async (state: PipelineState) =>
      (await parts.pipelines().list({ namespace: 'listing', state })).pipelines.map(({ name }) => name).sort()
    expect(await inState('published')).toEqual(['beta'])
    expect(await inState('unpublished')).toEqual(['al_pha', 'alpha'])
    // Its rollback left the draft as it was.
    expect(await inState('changed')).toEqual(['beta'])
    expect(await inState('failed')).toEqual([])
    expect(await inState('failing_tests')).toEqual([])
    const [run] = await parts.sql`
      select id, pipeline_id from run where namespace = 'listing' order by created_at desc limit 1`
    await parts.sql`
      insert into quality_result (run_id, pipeline_id, name, severity, status, value, duration_ms)
      values (${run?.id}, ${run?.pipeline_id}, 'few', 'warn', 'failed', 1, 1)`
    expect(await inState('failing_tests')).toEqual(['alpha'])
    await parts.sql`update run set status = 'failed' where id = ${run?.id}`
    expect(await inState('failed')).toEqual(['alpha'])
    await parts.pipelines().publish({ namespace: 'listing', layer: 'silver', name: 'beta' })
    expect(await inState('changed')).toEqual([])
  })

  test('a run on a branch changes neither the latest run nor the state', async () => {
    const inState = async (state: PipelineState) =>
      (await parts.pipelines().list({ namespace: 'listing', state })).pipelines.map(({ name }) => name).sort()
    const onBranch = (name: string, status: string) => parts.sql`
      insert into run (id, pipeline_id, namespace, layer, pipeline, pipeline_type, trigger, pins, landing_zones,
        snapshot, machine_version, status, waiting, branch, created_at)
      select ${parts.deps.newId()}, id, namespace, layer, name, 'sql', 'manual', '{}', '[]', '{}', 1, ${status}, false,
        'dev', clock_timestamp() + interval '1 minute'
      from pipeline where namespace = 'listing' and name = ${name} returning id, pipeline_id`
    const [before, failed] = [
      await parts.pipelines().get({ namespace: 'listing', layer: 'silver', name: 'alpha' }),
      await inState('failed'),
    ]
    await onBranch('alpha', failed.length > 0 ? 'success' : 'failed')
    const [other] = await onBranch('beta', 'failed')
    await parts.sql`
      insert into quality_result (run_id, pipeline_id, name, severity, status, value, duration_ms)
      values (${other?.id}, ${other?.pipeline_id}, 'few', 'warn', 'failed', 1, 1)`
    const after = await parts.pipelines().get({ namespace: 'listing', layer: 'silver', name: 'alpha' })
    expect(after.last_run).toEqual(before.last_run)
    expect(await inState('failed')).toEqual(failed)
    expect(await inState('failing_tests')).not.toContain('beta')
    const { pipelines } = await parts.pipelines().list({ namespace: 'listing', search: 'beta' })
    expect(pipelines).toMatchObject([{ last_run: null }])
  })
})
