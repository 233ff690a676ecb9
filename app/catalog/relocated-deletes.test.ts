import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { keyIn } from '../../lake/iceberg/format/location.ts'
import { readManifest, readManifestList } from '../../lake/iceberg/format/manifest.ts'
import { currentSnapshot, parseMetadata, type TableMetadata } from '../../lake/iceberg/format/metadata.ts'
import { systemClock } from '../core/clock.ts'
import { bytesOf } from '../objects/body.ts'
import { testLog } from '../test-app.ts'
import { settleLakeRoot } from './lake-root.ts'
import { openTestCatalog, type TestCatalog } from './test-catalog.ts'

// The conversion of a lake with position deletes. Readers of other engines compare the whole location in a delete file.

setDefaultTimeout(60_000)

const OLD = 'sluice://lake/'
const NEW = 's3://bucket/'
const TABLE = { namespace: 'default', layer: 'gold', name: 'one' } as const

let lake: TestCatalog
beforeAll(async () => {
  lake = await openTestCatalog(undefined, {}, OLD)
  const first = await lake.attempt(TABLE)
  const { commit } = await first.write('select unnest(range(5)) as n', 'append')
  expect(await lake.merge(first, commit)).toBe('merged')
  const second = await lake.attempt(TABLE)
  const deleted = await second.deletePositions([1, 3])
  expect(await lake.merge(second, deleted.commit)).toBe('merged')
})
afterAll(() => lake.close())

test('converts position deletes, so that every reader finds the data files that they name', async () => {
  const old = await deletesOf(await current())
  expect(old.locations).toEqual([expect.stringMatching(/^sluice:/), expect.stringMatching(/^sluice:/)])
  await settle(NEW)
  const metadata = await current()
  const { file, locations, storedBytes, data } = await deletesOf(metadata)
  expect(file.location).toMatch(/^s3:\/\/bucket\/_lake\/.*-r[0-9a-f]{8}\.parquet$/)
  expect(locations).toEqual([data, data])
  expect(file.sizeBytes).toBe(storedBytes)
  expect(await rows(metadata)).toEqual(LEFT)
})

test('writes the same file when the conversion starts again, and converts back', async () => {
  const before = await deletesOf(await current())
  await lake.sql`delete from secret where name = 'lake_root'`
  await settle(OLD)
  const back = await deletesOf(await current())
  expect(back.locations).toEqual([back.data, back.data])
  expect(back.data).toStartWith(OLD)
  expect(await rows(await current())).toEqual(LEFT)
  await settle(NEW)
  const again = await deletesOf(await current())
  expect([again.file.location, again.bytes]).toEqual([before.file.location, before.bytes])
})

test('moves a state whose delete file is damaged', async () => {
  const { file, bytes } = await deletesOf(await current())
  await lake.objects.delete(keyIn(file.location))
  await lake.objects.put(keyIn(file.location), bytes.subarray(0, 40))
  await settle(OLD)
  const [moved] = (await filesOf(await current())).filter(({ content }) => content !== 'data')
  expect(moved?.location).toBe(`${OLD}${keyIn(file.location)}`)
  await lake.objects.delete(keyIn(file.location))
  await lake.objects.put(keyIn(file.location), bytes)
  await settle(NEW)
})

test('moves a state whose delete file is lost, without hiding the loss', async () => {
  const { file } = await deletesOf(await current())
  await lake.objects.delete(keyIn(file.location))
  await settle(OLD)
  expect((await deletesOf(await current()).catch((error) => error)).message).toBe(
    `${OLD}${keyIn(file.location)} is missing`,
  )
})

const LEFT = [{ n: '0' }, { n: '2' }, { n: '4' }]

const settle = (root: string) =>
  settleLakeRoot({ database: lake, objects: lake.objects, root, clock: systemClock, log: testLog })

const stored = async (location: string): Promise<Uint8Array> => {
  const bytes = await bytesOf(lake.objects, keyIn(location))
  if (bytes === null) throw new Error(`${location} is missing`)
  return bytes
}

async function current(): Promise<TableMetadata> {
  const [row] = await lake.sql<{ location: string }[]>`
    select c.metadata_location as location from main_entry e join lake_content c on c.id = e.content_id
    where e.to_commit is null`
  return parseMetadata(new TextDecoder().decode(await stored(row?.location ?? '')))
}

const rows = async (metadata: TableMetadata) => lake.rows((await lake.reader()).token, metadata)

async function filesOf(metadata: TableMetadata) {
  const list = await stored(currentSnapshot(metadata)?.['manifest-list'] ?? '')
  const entries = await Promise.all(
    readManifestList(list).map(async (manifest) => readManifest(await stored(manifest.location), manifest)),
  )
  return entries.flat().map(({ file }) => file)
}

/** The only delete file of a table, with its rows, and the location of the only data file. */
async function deletesOf(metadata: TableMetadata) {
  const files = await filesOf(metadata)
  const file = files.find(({ content }) => content === 'position-deletes')
  const data = files.find(({ content }) => content === 'data')?.location
  if (file === undefined || data === undefined) throw new Error('the table has no delete file')
  const bytes = await stored(file.location)
  return { file, data, bytes, storedBytes: bytes.byteLength, locations: await locationsIn(bytes) }
}

/** Read by name and without the product's code, as in another engine. */
async function locationsIn(bytes: Uint8Array): Promise<string[]> {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-deletes-'))
  const instance = await DuckDBInstance.create(':memory:')
  const duckdb = await instance.connect()
  try {
    const path = join(directory, 'deletes.parquet')
    await Bun.write(path, bytes)
    const read = await duckdb.runAndReadAll(`select file_path from '${path}' order by pos`)
    return read.getRows().map(([location]) => String(location))
  } finally {
    duckdb.closeSync()
    instance.closeSync()
    await rm(directory, { recursive: true })
  }
}
