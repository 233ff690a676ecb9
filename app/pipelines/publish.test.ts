import { describe, expect, test } from 'bun:test'
import { create } from '@bufbuild/protobuf'
import { ValidatePipelineResponseSchema } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { type Access, EVERYTHING, UNLIMITED } from '../core/access.ts'
import type { PublishDeps } from './publish.ts'
import { bytes, refusal, useParts } from './test-parts.ts'

const parts = useParts()

let pipelineCount = 0
async function created() {
  const ref = { namespace: 'default', layer: 'silver' as const, name: `p${pipelineCount++}` }
  await parts.pipelines().create(ref)
  return { ref, prefix: `default/pipelines/silver/${ref.name}/` }
}
const write = (key: string, text: string) => parts.objects.put(key, bytes(text))
const numbersOf = async (ref: { namespace: string; layer: string; name: string }) =>
  (await parts.pipelines().versions(ref, { limit: 1000, offset: 0 })).versions.map((v) => v.version_number)

describe('publish', () => {
  test('publish pins the current file versions; later writes do not change them', async () => {
    const { ref, prefix } = await created()
    await write(`${prefix}tests/quality/no-nulls.sql`, 'select 0')
    const outcome = await parts.pipelines().publish(ref, 'First')
    if (outcome.kind !== 'published') throw new Error('was refused')
    expect(outcome.body).toMatchObject({ status: 'published', version: 1, message: 'First' })
    const { versions } = outcome.body
    expect(Object.keys(versions).sort()).toEqual([
      `${prefix}config.yaml`,
      `${prefix}pipeline.sql`,
      `${prefix}tests/quality/no-nulls.sql`,
    ])
    await write(`${prefix}pipeline.sql`, 'select 2 as id')
    const runnable = await parts.pipelines().runnable(ref)
    expect(runnable).toMatchObject({ versionNumber: 1, pipelineType: 'sql', pins: versions })
    const text = await parts.objects.text(`${prefix}pipeline.sql`, runnable.pins[`${prefix}pipeline.sql`])
    expect(text?.text).toBe('select 1 as "id"\n')
  })

  test('publish validates exactly the pinned files and the existing references', async () => {
    const { ref, prefix } = await created()
    await write(
      `${prefix}pipeline.sql`,
      `select * from {{ ref('silver.${ref.name}') }}, {{ ref('gold.none') }}, '{{ landing_zone("files") }}'`,
    )
    await parts.sql`insert into landing_zone (id, namespace, name) values (${parts.deps.newId()}, 'default', 'files')`
    let sent: Parameters<PublishDeps['validate']>[0] | undefined
    const validate: PublishDeps['validate'] = async (request) => {
      sent = request
      return create(ValidatePipelineResponseSchema, { valid: true, files: [] })
    }
    expect((await parts.pipelines({ validate }).publish(ref)).kind).toBe('published')
    expect(sent).toMatchObject({
      ...{ namespace: 'default', layer: 'silver', pipelineName: ref.name, type: 'sql' },
      knownTables: [`default.silver.${ref.name}`],
      knownZones: ['default.files'],
    })
    expect(sent?.files?.map(({ path }) => path)).toEqual(['config.yaml', 'pipeline.sql'])
    expect(await parts.pipelines().runnable(ref)).toMatchObject({ landingZones: ['default.files'] })
  })

  test('does not vouch for ownership changes made during the publish', async () => {
    const { sql } = parts
    const { ref } = await created()
    await sql`update pipeline set owner = 'mallory' where name = ${ref.name}`
    const handedBy = async () =>
      (await sql`select handed_by from pipeline where name = ${ref.name}`)[0]?.handed_by
    const validate = async () => {
      await sql`update pipeline set owner = 'bob', handed_by = '{mallory}' where name = ${ref.name}`
      return null
    }
    const bob: Access = { ...UNLIMITED, owner: 'bob', isAdmin: false }
    expect((await parts.pipelines({ validate }).publish(ref, '', null, EVERYTHING, bob)).kind).toBe(
      'published',
    )
    expect(await handedBy()).toEqual(['mallory'])
    expect((await parts.pipelines().publish(ref, '', null, EVERYTHING, bob)).kind).toBe('published')
    expect(await handedBy()).toEqual([])
  })

  test('returns the failed validation and creates no version', async () => {
    const { ref, prefix } = await created()
    const path = `${prefix}pipeline.sql`
    const report = { valid: false, errors: ['line 1: unexpected end'], warnings: ['odd'] }
    const validate = async () =>
      create(ValidatePipelineResponseSchema, { valid: false, files: [{ path: 'pipeline.sql', ...report }] })
    expect(await parts.pipelines({ validate }).publish(ref)).toEqual({
      kind: 'refused',
      body: {
        error: `validation failed: ${path}: line 1: unexpected end`,
        validation: { valid: false, files: [{ path, ...report }] },
      },
    })
    expect(await numbersOf(ref)).toEqual([])
  })

  test('refuses a publish without the source file of its type', async () => {
    const { ref, prefix } = await created()
    await parts.pipelines().update(ref, { type: 'python' })
    const outcome = await parts.pipelines().publish(ref)
    expect(outcome).toMatchObject({
      kind: 'refused',
      body: { validation: { valid: false, files: [{ path: `${prefix}pipeline.py`, valid: false }] } },
    })
  })

  test('returns 404 if the pipeline is missing or was replaced during validation', async () => {
    const nobody = { namespace: 'default', layer: 'gold', name: 'nobody' }
    expect((await refusal(parts.pipelines().publish(nobody))).status).toBe(404)
    const { ref } = await created()
    const validate = async () => {
      await parts.pipelines().remove(ref)
      await parts.pipelines().create(ref)
      return null
    }
    expect((await refusal(parts.pipelines({ validate }).publish(ref))).status).toBe(404)
    expect(await numbersOf(ref)).toEqual([])
  })
})

describe('publish with an idempotency key', () => {
  const keyed = (key: string, requestHash = 'a') => ({ caller: '', operation: 'publish', key, requestHash })

  test('creates one version for repeated and concurrent requests with one key', async () => {
    const { ref, prefix } = await created()
    const key = keyed(prefix)
    const outcomes = await Promise.all(
      Array.from({ length: 6 }, () => parts.pipelines().publish(ref, 'once', key)),
    )
    expect(await numbersOf(ref)).toEqual([1])
    await write(`${prefix}pipeline.sql`, 'select 2 as id')
    expect([...outcomes, await parts.pipelines().publish(ref, 'once', key)]).toEqual(
      Array.from({ length: 7 }, () => outcomes[0] as (typeof outcomes)[0]),
    )
    expect((await refusal(parts.pipelines().publish(ref, 'other', keyed(prefix, 'b')))).status).toBe(409)
    expect(await numbersOf(ref)).toEqual([1])
  })

  test('can be repeated with the same key after a refusal', async () => {
    const { ref, prefix } = await created()
    await parts.objects.delete(`${prefix}pipeline.sql`)
    expect((await parts.pipelines().publish(ref, '', keyed(prefix))).kind).toBe('refused')
    await write(`${prefix}pipeline.sql`, 'select 1 as id')
    expect((await parts.pipelines().publish(ref, '', keyed(prefix))).kind).toBe('published')
  })
})

describe('versions', () => {
  test('a rollback adds the old files as a new version', async () => {
    const { ref, prefix } = await created()
    await parts.pipelines().publish(ref)
    await write(`${prefix}pipeline.sql`, 'select 2 as id')
    await parts.pipelines().publish(ref)
    const rolledBack = await parts.pipelines().rollback(ref, { version: 1 })
    expect(rolledBack).toEqual({
      status: 'rolled_back',
      from_version: 1,
      new_version: 3,
      message: 'Rollback to v1',
    })
    const [first, third] = await Promise.all(
      ['1', '3'].map((number) => parts.pipelines().version(ref, number)),
    )
    expect(third?.published_versions).toEqual(first?.published_versions ?? {})
    expect(await parts.pipelines().runnable(ref)).toMatchObject({
      versionNumber: 3,
      pins: first?.published_versions,
    })
  })

  test('a rollback compares the draft with the new version', async () => {
    const { ref, prefix } = await created()
    const pipelines = parts.pipelines()
    const isDirty = async () => (await pipelines.get(ref)).draft_dirty
    await write(`${prefix}pipeline.sql`, 'select 1 as id')
    await pipelines.publish(ref)
    await write(`${prefix}pipeline.sql`, 'select 2 as id')
    await write(`${prefix}notes.md`, 'new')
    await pipelines.publish(ref)
    expect(await isDirty()).toBe(false)
    await pipelines.rollback(ref, { version: 1 })
    expect(await isDirty()).toBe(true)
    await pipelines.rollback(ref, { version: 2 })
    expect(await isDirty()).toBe(false)
    // The text of version 1, written again, is no change of version 1.
    await write(`${prefix}pipeline.sql`, 'select 1 as id')
    await pipelines.rollback(ref, { version: 1 })
    expect(await isDirty()).toBe(true)
    await parts.objects.delete(`${prefix}notes.md`)
    await pipelines.rollback(ref, { version: 1 })
    expect(await isDirty()).toBe(false)
  })

  test('publish keeps only the newest max_versions versions', async () => {
    const { ref } = await created()
    expect(await parts.pipelines().update(ref, { max_versions: 3 })).toMatchObject({ max_versions: 3 })
    for (let turn = 0; turn < 5; turn++) await parts.pipelines().publish(ref)
    expect(await numbersOf(ref)).toEqual([5, 4, 3])
    expect((await refusal(parts.pipelines().rollback(ref, { version: 2 }))).status).toBe(404)
    expect((await refusal(parts.pipelines().rollback(ref, { version: 2 ** 40 }))).status).toBe(404)
    await parts.pipelines().update(ref, { max_versions: 1 })
    expect(await numbersOf(ref)).toEqual([5, 4, 3])
    await parts.pipelines().publish(ref)
    expect(await numbersOf(ref)).toEqual([6])
  })
})

test('a never published pipeline runs the current files of its draft', async () => {
  const { ref, prefix } = await created()
  await write(`${prefix}pipeline.sql`, `select * from read_csv_auto('{{ landing_zone("drop") }}')`)
  const newest = await parts.objects.head(`${prefix}pipeline.sql`)
  const runnable = await parts.pipelines().runnable(ref)
  expect(runnable).toMatchObject({ versionNumber: null, landingZones: ['default.drop'] })
  expect(runnable.pins[`${prefix}pipeline.sql`]).toBe(newest?.versionId ?? '')
})
