import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdir, rm, truncate, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Code, ConnectError } from '@connectrpc/connect'
import { testDirectory } from '../../tools/kit/directory.ts'
import { startTestQueries, type TestQueries } from './testing.ts'

setDefaultTimeout(60_000)

const directory = testDirectory()
let queries: TestQueries
beforeAll(async () => {
  queries = await startTestQueries({ LAKE_DIR: directory, QUERY_CONCURRENCY: '1' })
})
afterAll(() => queries.close())

/** Copies the lake to the directory of a disk store. */
async function share(): Promise<string[]> {
  const { objects } = await queries.catalog.objects.list('_lake/', { limit: 1_000 })
  for (const { key } of objects) {
    const file = await queries.catalog.objects.get(key)
    await mkdir(dirname(join(directory, key)), { recursive: true })
    await writeFile(join(directory, key), new Uint8Array(await new Response(file?.body).arrayBuffer()))
  }
  return objects.map(({ key }) => key)
}

test('files of a shared lake are read in place, without the gateway', async () => {
  await queries.table('default.gold.shared', 'SELECT range AS id FROM range(10)')
  await share()
  const { requests } = queries.catalog
  requests.length = 0
  expect(await queries.query('SELECT sum(id)::INTEGER AS s FROM gold.shared')).toMatchObject({
    rows: [{ s: 45 }],
  })
  expect(requests).toEqual([expect.stringMatching(/^GET \/catalog\//)])
})

test.each([
  ['missing', '.parquet', (path: string) => rm(path), Code.FailedPrecondition],
  ['truncated', '.parquet', (path: string) => truncate(path, 100), Code.Internal],
  ['empty', '.parquet', (path: string) => truncate(path), Code.Internal],
  ['unlisted', '-m0.avro', (path: string) => rm(path), Code.FailedPrecondition],
  ['unknown', '.metadata.json', (path: string) => rm(path), Code.FailedPrecondition],
])('a %s file (%s) is reported, by its name if it is missing', async (name, suffix, damage, code) => {
  await queries.table(`default.gold.${name}`, 'SELECT range AS id FROM range(100)')
  const keys = await share()
  const key = keys.find((other) => other.startsWith(`_lake/default/gold/${name}-`) && other.endsWith(suffix))
  await damage(join(directory, key ?? ''))
  const error = await queries.query(`SELECT sum(id) FROM gold.${name}`).catch((caught: unknown) => caught)
  expect(error).toBeInstanceOf(ConnectError)
  expect(ConnectError.from(error).code).toBe(code)
  if (code === Code.FailedPrecondition)
    expect(String(error)).toContain(`table default.gold.${name} cannot be read: its file ${key} is missing`)
  expect(await queries.query('SELECT count(*) AS n FROM gold.shared')).toMatchObject({ rows: [{ n: 10 }] })
})
