import { expect, test } from 'bun:test'
import { create } from '@bufbuild/protobuf'
import { ValidatePipelineResponseSchema } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { withCycles } from './cycles.ts'
import type { PublishDeps } from './publish.ts'
import { makeSourceReferences } from './source-references.ts'
import { bytes, useParts } from './test-parts.ts'

const parts = useParts()

type Type = 'sql' | 'python'
async function createPipeline(name: string, source: string, type: Type = 'sql') {
  const ref = { namespace: 'default', layer: 'silver' as const, name }
  await parts.pipelines().create({ ...ref, type })
  const file = type === 'sql' ? 'pipeline.sql' : 'pipeline.py'
  await parts.objects.put(`default/pipelines/silver/${name}/${file}`, bytes(source))
  return ref
}

const reads = (name: string) => `select * from {{ ref('silver.${name}') }}`
const valid: PublishDeps['validate'] = async ({ files = [] }) =>
  create(ValidatePipelineResponseSchema, {
    valid: true,
    files: files.map(({ path }) => ({ path, valid: true })),
  })

async function warningsOf(name: string, validate = valid) {
  const references = makeSourceReferences(parts)
  const ref = { namespace: 'default', layer: 'silver' as const, name }
  const outcome = await parts.pipelines({ validate: withCycles(validate, references) }).publish(ref)
  if (outcome.kind !== 'published') throw new Error('was refused')
  return outcome.body.validation?.files.flatMap(({ warnings }) => warnings)
}

test('a cycle through published sources and drafts is a warning', async () => {
  await createPipeline('a', reads('b'))
  await createPipeline('b', reads('c'))
  await createPipeline('c', 'result = sql("select * from " + ref("default.silver.a"))', 'python')
  expect(await warningsOf('b')).toEqual([
    'the pipeline reads its own table: default.silver.b <- default.silver.c <- default.silver.a <- default.silver.b',
  ])
  // The published source counts, because runs execute it; the draft does not.
  await parts.objects.put('default/pipelines/silver/b/pipeline.sql', bytes('select 1 as a'))
  expect(await warningsOf('a')).toHaveLength(1)
  expect(await warningsOf('b')).toEqual([])
  expect(await warningsOf('a')).toEqual([])
})

test('missing tables and diamond-shaped references are not cycles', async () => {
  await createPipeline('top', `${reads('left')} join ${reads('right')}`)
  await createPipeline('left', reads('base'))
  await createPipeline('right', reads('base'))
  await createPipeline('base', reads('nothing'))
  for (const name of ['top', 'left', 'base']) expect(await warningsOf(name)).toEqual([])
})

test('reports no cycle when no runner validated the pipeline', async () => {
  await createPipeline('lonely', reads('lonely'))
  expect(await warningsOf('lonely', async () => null)).toBeUndefined()
})

test('parses a source once per version', async () => {
  await createPipeline('once', reads('base'))
  let texts = 0
  const objects = {
    ...parts.objects,
    head: (key: string) => parts.objects.head(key),
    text: (key: string, version?: string) => {
      texts += 1
      return parts.objects.text(key, version)
    },
  }
  const references = makeSourceReferences({ db: parts.db, objects })
  for (let n = 0; n < 3; n += 1)
    expect([...(await references.of(['default.silver.once', 'default.silver.never']))]).toEqual([
      ['default.silver.once', { tables: ['default.silver.base'], zones: [] }],
    ])
  expect(texts).toBe(1)
  await parts.objects.put('default/pipelines/silver/once/pipeline.sql', bytes('select 1 as a'))
  await parts.pipelines().fileWritten({ namespace: 'default', layer: 'silver', name: 'once' }, 'test')
  expect((await references.of(['default.silver.once'])).get('default.silver.once')?.tables).toEqual([])
  expect(texts).toBe(2)
})
