import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { join } from 'node:path'
import { create } from '@bufbuild/protobuf'
import { openTestCatalog, type TestCatalog } from '../../../app/iceberg/test-catalog.ts'
import type { TableMetadata } from '../../../lake/iceberg/format/metadata.ts'
import { LakeAccessSchema } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { testDirectory } from '../../../tools/kit/directory.ts'
import { openObjectCache } from '../../objects/object-cache.ts'
import { testEngines, testSandbox } from '../engine/test-engines.ts'
import { makeLake } from '../session/lake-session.ts'
import { landingIn } from '../session/landing.ts'
import { watermarkOf } from './watermark.ts'

setDefaultTimeout(60_000)

const MIB = 1_048_576
const name = { namespace: 'default', layer: 'silver', name: 'grown' } as const

const directory = testDirectory()
const pool = testEngines(directory, await testSandbox([directory]))
let catalog: TestCatalog
beforeAll(async () => {
  catalog = await openTestCatalog()
})
afterAll(async () => {
  await pool.stop()
  await catalog.close()
})

/** Writes the rows of the queries, each to a file, and opens an engine that reads them. */
async function written(...queries: string[]) {
  const attempt = await catalog.attempt(name)
  let table: TableMetadata | undefined
  for (const [at, sql] of queries.entries())
    table = (await attempt.write(sql, at === 0 ? 'overwrite' : 'append')).metadata
  if (table === undefined) throw new Error('there is no query')
  const { signal } = new AbortController()
  const cache = await openObjectCache({
    leased: join(directory, 'leased'),
    shared: join(directory, 'cache'),
    maxBytes: MIB,
  })
  const lake = makeLake({ lakeDir: null, cache })(
    create(LakeAccessSchema, {
      catalogUrl: `${catalog.url}/catalog`,
      objectsUrl: `${catalog.url}/lake/objects`,
      warehouse: `sluice@${attempt.branch}`,
      token: attempt.token,
    }),
    signal,
  )
  const engine = await pool.acquire()
  const at = { directory: engine.directory, landing: landingIn(engine.directory) }
  const place = { lake, engine, ...at, python: null, clear: async () => {} }
  return { table, lake, engine, place, signal }
}

test('finding a watermark leaves no open instance in the engine', async () => {
  const { table, lake, engine, place, signal } = await written(
    `SELECT range AS id, repeat('x', 65_537) AS text FROM range(10)`,
  )
  expect(await watermarkOf({ name, table, column: 'id' }, place, signal)).toEqual({
    value: '9',
    type: 'BIGINT',
    warning: null,
  })
  // Instance 2 was the first fresh instance of the lease.
  const again = engine.call({ kind: 'judge', number: 2, sql: 'SELECT 1', sampleRows: 0 })
  await expect(again).rejects.toThrow('unknown engine instance 2')
  expect(await watermarkOf({ name, table, column: 'text' }, place, signal)).toEqual({
    value: null,
    warning: 'watermark_value is none: the largest value of column "text" is longer than 65536 characters',
  })
  lake.close()
  await engine.release()
  // Releasing the lease does not close the instance again.
  expect((await pool.acquire()).pid).toBe(engine.pid)
})

test.each([
  ['DOUBLE', "'nan'", '1.5', "'0.5'", '1.5', 'such as nan'],
  ['DOUBLE', "'infinity'", '1e20', "'0.5'", '1e+20', 'such as inf'],
  ['FLOAT', "'nan'", '1.5', "'0.5'", '1.5', 'such as nan'],
  ['DATE', "'9999-12-31'", "'2026-01-01'", "'2025-01-01'", '2026-01-01', 'such as 9999-12-31'],
  [
    'TIMESTAMP',
    "'9999-12-31'",
    "'2026-01-01'",
    "'2025-01-01'",
    '2026-01-01 00:00:00',
    'such as 9999-12-31 00:00:00',
  ],
  [
    'TIMESTAMPTZ',
    "'2999-01-01'",
    "'2026-01-01 12:00:00.5+00'",
    "'2025-01-01'",
    '2026-01-01 12:00:00.5+00',
    'such as 2999',
  ],
])('a watermark of %s ignores %s', async (type, bad, largest, other, value, reason) => {
  const { table, lake, engine, place, signal } = await written(
    `SELECT CAST(v AS ${type}) AS v FROM (VALUES (${bad}), (NULL), (${other})) t(v)`,
    `SELECT CAST(${largest} AS ${type}) AS v`,
  )
  const watermark = await watermarkOf({ name, table, column: 'v' }, place, signal)
  expect(watermark.value).toBe(value)
  expect(watermark.warning).toContain(
    'watermark_value ignores 1 row of the table: column "v" is in the future',
  )
  expect(watermark.warning).toContain(reason)
  lake.close()
  await engine.release()
})

test('a watermark of today is no watermark of the future', async () => {
  const { table, lake, engine, place, signal } = await written('SELECT now() + INTERVAL 14 HOURS AS v')
  expect((await watermarkOf({ name, table, column: 'v' }, place, signal)).warning).toBeNull()
  lake.close()
  await engine.release()
})
