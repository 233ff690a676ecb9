import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { join } from 'node:path'
import { create } from '@bufbuild/protobuf'
import { openTestCatalog, type TestCatalog } from '../../../app/catalog/test-catalog.ts'
import { LakeAccessSchema } from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { testDirectory } from '../../../tools/test/directory.ts'
import { openObjectCache } from '../../objects/object-cache.ts'
import { makeLake } from '../attempt/lake-session.ts'
import { landingIn } from '../attempt/landing.ts'
import { testEngines, testSandbox } from '../engine/test-engines.ts'
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

test('finding a watermark leaves no open instance in the engine', async () => {
  const attempt = await catalog.attempt(name)
  const { metadata: table } = await attempt.write(
    `SELECT range AS id, repeat('x', 65_537) AS text FROM range(10)`,
    'overwrite',
  )
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
  expect(await watermarkOf({ name, table, column: 'id' }, place, signal)).toEqual({
    value: '9',
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
