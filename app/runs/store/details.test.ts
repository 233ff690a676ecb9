import { expect, test } from 'bun:test'
import { newId } from '../../core/ids.ts'
import { accepted, executed, useRuns } from '../test-runs.ts'

const { opened, pipelineNamed, start, tell } = useRuns()

const FAILED = {
  name: 'few',
  severity: 'error',
  isPassed: false,
  value: 2,
  durationMs: 3,
  error: null,
  samples: ['id=1', 'id=\u0000'],
} as const
const PASSED = {
  name: 'any',
  severity: 'warn',
  isPassed: true,
  value: 0,
  durationMs: 1,
  error: null,
} as const

test('a run shows the results of its tests with failing rows', async () => {
  const { runs, request } = await pipelineNamed('tested')
  const id = await request()
  expect(await runs.tests(id)).toEqual({ results: [], passed: 0, failed: 0, total: 0 })
  await start()
  await tell(accepted(id), executed(id, { tests: [FAILED, PASSED] }))
  expect(await runs.tests(id)).toEqual({
    results: [
      {
        name: 'any',
        severity: 'warn',
        status: 'passed',
        value: 0,
        expected: 0,
        duration_ms: 1,
        error: null,
        samples: [],
      },
      {
        name: 'few',
        severity: 'error',
        status: 'failed',
        value: 2,
        expected: 0,
        duration_ms: 3,
        error: null,
        samples: ['id=1', 'id=\ufffd'],
      },
    ],
    passed: 1,
    failed: 1,
    total: 2,
  })
  await expect(runs.tests(newId())).rejects.toThrow('not found')
})

test('a run shows its code and the landing files of its attempt', async () => {
  const { sql } = opened
  const [zone, ...files] = [newId(), newId(), newId()]
  await sql`insert into landing_zone (id, namespace, name) values (${zone}, 'default', 'drop')`
  for (const [number, file] of files.entries())
    await sql`
      insert into landing_file (id, zone_id, filename, original_name, path, version_id, size_bytes, content_type)
      values (${file}, ${zone}, ${`${number}.csv`}, 'a.csv', ${`default/landing/drop/${number}.csv`}, '1', 3, 'text/csv')`
  const { runs, request } = await pipelineNamed('fed', ['default.drop'])
  const id = await request()
  expect(await runs.inputs(id)).toMatchObject({ landing_files: [], landing_file_count: 0 })
  await start()
  const shown = (number: number, archived: boolean) => ({
    id: files[number],
    namespace: 'default',
    zone: 'drop',
    filename: `${number}.csv`,
    size_bytes: 3,
    archived,
  })
  expect(await runs.inputs(id)).toMatchObject({
    landing_files: [shown(0, false), shown(1, false)],
    landing_file_count: 2,
  })
  await tell(accepted(id), executed(id, { landingFileIds: files, archivesLandingZones: true }))
  await sql`delete from landing_file where id = ${files[1] ?? ''}`
  expect(await runs.inputs(id)).toMatchObject({ landing_files: [shown(0, true)], landing_file_count: 2 })
  await expect(runs.inputs(newId())).rejects.toThrow('not found')
})
