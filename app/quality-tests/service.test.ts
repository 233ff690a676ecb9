import { expect, test } from 'bun:test'
import { create } from '@bufbuild/protobuf'
import { RunQualityTestsResponseSchema, Severity } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { bytes, useParts } from '../pipelines/test-parts.ts'
import { makeQualityTestService, type QualityTestDeps } from './service.ts'

const parts = useParts()

const page = { limit: 100, offset: 0 }
const { signal } = new AbortController()
const service = (replaced: Partial<QualityTestDeps> = {}) =>
  makeQualityTestService({
    objects: parts.objects,
    pipelines: parts.pipelines(),
    runQualityTests: async () => null,
    readLake: async () => ({ warehouse: 'sluice', token: 'secret' }),
    ...replaced,
  })
let pipelineCount = 0
async function created() {
  const ref = { namespace: 'default', layer: 'gold' as const, name: `tested_${pipelineCount++}` }
  await parts.pipelines().create(ref)
  await parts.pipelines().publish(ref)
  return { ref, prefix: `default/pipelines/gold/${ref.name}/` }
}

test('a created test is a file of the draft and is listed unchanged', async () => {
  const { ref, prefix } = await created()
  const sql = '-- @tags: keys, nulls\n-- @severity: warn\nselect count(*)\nfrom {{ this }} -- where it is'
  const path = `${prefix}tests/quality/no-nulls.sql`
  expect(
    await service().create(ref, { name: 'no-nulls', sql, severity: 'error', description: 'No nulls' }),
  ).toEqual({
    name: 'no-nulls',
    severity: 'error',
    path,
  })
  expect((await parts.objects.text(path))?.text).toBe(
    '-- @severity: error\n-- @description: No nulls\n-- @tags: keys, nulls\nselect count(*)\nfrom {{ this }} -- where it is',
  )
  expect(await service().list(ref, page)).toEqual({
    tests: [
      {
        name: 'no-nulls',
        sql: 'select count(*)\nfrom {{ this }} -- where it is',
        severity: 'error',
        description: 'No nulls',
        published: false,
        tags: ['keys', 'nulls'],
        remediation: '',
      },
    ],
    total: 1,
  })
  expect((await parts.pipelines().get(ref)).draft_dirty).toBe(true)
  await parts.pipelines().publish(ref)
  expect((await service().list(ref, page)).tests[0]?.published).toBe(true)
})

test('concurrent creates of one test name succeed once', async () => {
  const { ref } = await created()
  const test = { name: 'once', sql: 'select 0', severity: 'error' as const }
  const outcomes = await Promise.allSettled([1, 2, 3].map(() => service().create(ref, test)))
  const refused = outcomes.flatMap((outcome) =>
    outcome.status === 'rejected' ? [outcome.reason.status] : [],
  )
  expect(refused).toEqual([409, 409])
})

test('lists only files that are tests', async () => {
  const { ref, prefix } = await created()
  await parts.objects.put(`${prefix}tests/quality/README.md`, bytes('# Tests'))
  await parts.objects.put(`${prefix}tests/quality/Not A Name.sql`, bytes('select 0'))
  expect((await service().list(ref, page)).total).toBe(0)
})

test("a run sends the draft's tests to the runner and counts the results", async () => {
  const { ref } = await created()
  await service().create(ref, { name: 'a', sql: 'select 0', severity: 'error' })
  let sent: Parameters<QualityTestDeps['runQualityTests']>[0] | undefined
  const runQualityTests: QualityTestDeps['runQualityTests'] = async (request) => {
    sent = request
    return create(RunQualityTestsResponseSchema, {
      results: [
        { name: 'a', severity: Severity.ERROR, passed: true, durationMs: 3n },
        { name: 'b', severity: Severity.WARN, value: 7n, error: 'no such column', durationMs: 4n },
      ],
    })
  }
  expect(await service({ runQualityTests }).run(ref, signal)).toEqual({
    results: [
      {
        name: 'a',
        status: 'passed',
        severity: 'error',
        value: 0,
        expected: 0,
        duration_ms: 3,
        error: null,
        samples: [],
      },
      {
        name: 'b',
        status: 'failed',
        severity: 'warn',
        value: 7,
        expected: 0,
        duration_ms: 4,
        error: 'no such column',
        samples: [],
      },
    ],
    passed: 1,
    failed: 1,
    total: 2,
  })
  expect(sent).toMatchObject({ ...{ layer: 'gold', pipelineName: ref.name }, lake: { token: 'secret' } })
  expect(sent?.files?.map(({ path }) => path)).toEqual(['config.yaml', 'pipeline.sql', 'tests/quality/a.sql'])
})
