import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { openTestCatalog, type TestCatalog } from '../iceberg/test-catalog.ts'
import { StoreUnavailable } from '../objects/port.ts'
import { requireLakeRoot } from './lake-root.ts'

setDefaultTimeout(60_000)

const ROOT = 's3://sluice/'
const ONE = { namespace: 'default', layer: 'gold', name: 'one' } as const

let lake: TestCatalog
beforeAll(async () => {
  lake = await openTestCatalog()
})
afterAll(() => lake.close())

async function recordedRoot(): Promise<unknown> {
  const [row] = await lake.sql`select value from secret where name = 'lake_root'`
  return row?.value
}

test('an empty lake gets the configured root, also another one later', async () => {
  await requireLakeRoot(lake.sql, 's3://first/')
  await requireLakeRoot(lake.sql, ROOT)
  expect(await recordedRoot()).toBe(ROOT)
})

test('a lake with another root is refused and left unchanged', async () => {
  await (await lake.attempt(ONE)).write('select 1 as n', 'append')
  const before = await lake.sql`select id, metadata_location from lake_content`
  await requireLakeRoot(lake.sql, ROOT)
  const refused = requireLakeRoot(lake.sql, 's3://other/')
  await expect(refused).rejects.toThrow(StoreUnavailable)
  await expect(refused).rejects.toThrow(
    'begin with s3://sluice/, not with s3://other/: set S3_BUCKET as before',
  )
  expect(await recordedRoot()).toBe(ROOT)
  expect(await lake.sql`select id, metadata_location from lake_content`).toEqual(before)
})

test('a lake without a recorded root is refused for the root of its states', async () => {
  await lake.sql`delete from secret where name = 'lake_root'`
  await expect(requireLakeRoot(lake.sql, 's3://other/')).rejects.toThrow(StoreUnavailable)
  expect(await recordedRoot()).toBeUndefined()
  await requireLakeRoot(lake.sql, ROOT)
  expect(await recordedRoot()).toBe(ROOT)
})
