import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { readAvro } from '../../lake/iceberg/format/avro.ts'
import { keyIn } from '../../lake/iceberg/format/location.ts'
import { exactLongs } from '../../lake/iceberg/format/manifest-schema.ts'
import { parseMetadata, type TableMetadata } from '../../lake/iceberg/format/metadata.ts'
import { until } from '../../tools/test/until.ts'
import { systemClock } from '../core/clock.ts'
import { bytesOf } from '../objects/body.ts'
import { type ObjectStore, StoreUnavailable } from '../objects/port.ts'
import { recordingLog, testLog } from '../test-app.ts'
import { type LakeRootParts, settleLakeRoot } from './lake-root.ts'
import { openTestCatalog, type TestCatalog } from './test-catalog.ts'

setDefaultTimeout(60_000)

const OLD = 'sluice://lake/'
const NEW = 's3://bucket/'
const ONE = { namespace: 'default', layer: 'gold', name: 'one' } as const
const TWO = { ...ONE, name: 'two' } as const

let lake: TestCatalog
/** Metadata locations by content before any conversion. */
let before: Map<string, string>

beforeAll(async () => {
  lake = await openTestCatalog(undefined, {}, OLD)
  for (const [table, sql, operation] of [
    [ONE, "select 1 as n, 'a' as t", 'append'],
    [TWO, "select 9007199254740993 as big, timestamp '2026-01-01 00:00:00' as at", 'append'],
    [ONE, "select 2 as n, 'b' as t", 'append'],
    [ONE, "select 3 as n, 'c' as t", 'overwrite'],
  ] as const) {
    const attempt = await lake.attempt(table)
    const { commit } = await attempt.write(sql, operation)
    expect(await lake.merge(attempt, commit)).toBe('merged')
  }
  // A branch that is still open has its own state.
  await (await lake.attempt(ONE)).write("select 4 as n, 'd' as t", 'append')
  before = await locations()
})
afterAll(() => lake.close())

test('converts every state of a lake and keeps its rows', async () => {
  const rows = await rowsOfStates()
  await settle(NEW)
  expect(await rowsOfStates()).toEqual(rows)
  expect(rows.size).toBe(5)
  for (const location of (await locations()).values())
    expect(location).toStartWith(`${NEW}_lake/default/gold/`)
  for (const text of await reachableTexts()) expect(text).not.toContain('sluice://')
  await settle(NEW)
  expect(await recordedRoot()).toBe(NEW)
})

test('copies each manifest once although several snapshots share it', async () => {
  await reset()
  const calls: string[] = []
  const objects: ObjectStore = {
    ...lake.objects,
    put: (key, ...rest) => {
      calls.push(key)
      return lake.objects.put(key, ...rest)
    },
  }
  await settle(NEW, { objects })
  expect(new Set(calls).size).toBe(calls.length)
  expect(calls.filter((key) => key.includes('-m0-'))).toHaveLength(5)
})

test('goes on after a failure at any step and ends with the same result', async () => {
  await reset()
  await settle(NEW)
  const wanted = await locations()
  const texts = await reachableTexts()
  let failures = 0
  for (let step = 1; ; step++) {
    await reset()
    const failed = await settle(NEW, failingAt(step)).then(
      () => false,
      () => true,
    )
    if (!failed) break
    failures += 1
    await settle(NEW)
    expect(await locations()).toEqual(wanted)
    expect(await reachableTexts()).toEqual(texts)
  }
  // Each of the 5 states has a metadata file and a list, and takes statements of its own.
  expect(failures).toBeGreaterThan(30)
})

test('converts an interrupted lake back when the former root is configured again', async () => {
  await reset()
  const rows = await rowsOfStates()
  await expect(settle(NEW, failingAt(40))).rejects.toThrow('crash')
  await settle(OLD)
  expect(await rowsOfStates()).toEqual(rows)
  expect([...(await locations()).values()].every((location) => location.startsWith(OLD))).toBe(true)
  for (const text of await reachableTexts()) expect(text).not.toContain(NEW)
  // The catalog of this test has the old root, so a run can write again.
  const attempt = await lake.attempt(ONE)
  const { metadata, commit } = await attempt.write("select 5 as n, 'e' as t", 'append')
  expect(await lake.rows(attempt.token, metadata)).toEqual([
    { n: 3, t: 'c' },
    { n: 5, t: 'e' },
  ])
  expect(await lake.merge(attempt, commit)).toBe('merged')
})

test('refuses a commit that was computed before the conversion', async () => {
  const attempt = await lake.attempt(ONE)
  const plan = await attempt.plan("select 6 as n, 'f' as t", 'append')
  const updates = plan.updates.map((update) => {
    if (update.action !== 'add-snapshot') return update
    const list = update.snapshot['manifest-list'].replace(OLD, NEW)
    return { ...update, snapshot: { ...update.snapshot, 'manifest-list': list } }
  })
  const commit = attempt.client.commit({ namespace: ['default', 'gold'], name: 'one' }, { ...plan, updates })
  await expect(commit).rejects.toThrow('is outside the lake, whose root is sluice://lake/')
})

test('waits until running replicas have stopped', async () => {
  await lake.sql`insert into replica (name, alive_until) values ('other', clock_timestamp() + interval '1 hour')`
  const { log, entries } = recordingLog()
  const settled = settle(NEW, { log })
  await until(() =>
    entries.some(({ message }) => message.includes('waiting until 1 running replicas have stopped')),
  )
  for (const location of (await locations()).values()) expect(location).toStartWith(OLD)
  await lake.sql`delete from replica`
  await settled
  for (const location of (await locations()).values()) expect(location).toStartWith(NEW)
})

test('lets one of several processes convert the lake', async () => {
  await settle(OLD)
  const logs = [recordingLog(), recordingLog(), recordingLog()]
  await Promise.all(logs.map(({ log }) => settle(NEW, { log })))
  const lines = logs.flatMap(({ entries }) => entries.map(({ message }) => message))
  expect(lines.filter((line) => line.includes('2 of 2 tables done'))).toHaveLength(1)
})

test('refuses a store without any file of the lake', async () => {
  const objects: ObjectStore = { ...lake.objects, head: async () => null }
  await expect(settle('s3://empty/', { objects })).rejects.toThrow(StoreUnavailable)
  expect(await recordedRoot()).toBe(NEW)
})

test('moves a state whose metadata file is lost, and reports the file', async () => {
  await settle(OLD)
  const [id, location] = [...(await locations())][0] ?? ['', '']
  const { log, entries } = recordingLog()
  await lake.objects.delete(keyIn(location))
  await settle(NEW, { log })
  expect((await locations()).get(id)).toBe(NEW + keyIn(location))
  expect(entries.map(({ message }) => message)).toContain(
    `lake conversion: metadata file ${location} is lost or damaged`,
  )
})

const settle = (root: string, parts: Partial<LakeRootParts> = {}) =>
  settleLakeRoot({ database: lake, objects: lake.objects, root, clock: systemClock, log: testLog, ...parts })

/** Fails at this call of the store or statement, and at every later one, as in a process that ends. */
function failingAt(step: number): Pick<LakeRootParts, 'database' | 'objects'> {
  let calls = 0
  const count = () => {
    calls += 1
    if (calls >= step) throw new Error('crash')
  }
  const counted = <F extends object>(target: F): F =>
    new Proxy(target, {
      apply(call, self, args) {
        count()
        return Reflect.apply(call as never, self, args)
      },
    })
  const { get, put } = lake.objects
  return {
    database: { sql: counted(lake.sql), session: lake.session },
    objects: {
      ...lake.objects,
      get: async (...args) => {
        count()
        return get(...args)
      },
      put: async (...args) => {
        count()
        return put(...args)
      },
    },
  }
}

/** Makes the lake as it was before its first conversion. */
async function reset(): Promise<void> {
  await lake.sql`delete from secret where name = 'lake_root'`
  for (const [id, location] of before)
    await lake.sql`update lake_content set metadata_location = ${location} where id = ${id}`
}

async function recordedRoot(): Promise<unknown> {
  const [row] = await lake.sql`select value from secret where name = 'lake_root'`
  return row?.value
}

async function locations(): Promise<Map<string, string>> {
  const rows = await lake.sql<{ id: string; location: string }[]>`
    select id, metadata_location as location from lake_content order by id`
  return new Map(rows.map(({ id, location }) => [id, location]))
}

async function textAt(location: string): Promise<string> {
  const bytes = await bytesOf(lake.objects, keyIn(location))
  if (bytes === null) throw new Error(`${location} is missing`)
  if (!location.endsWith('.avro')) return new TextDecoder().decode(bytes)
  const { schema, metadata, records } = readAvro(bytes, exactLongs)
  return JSON.stringify({ schema, metadata, records }, (_, value) =>
    typeof value === 'bigint' ? String(value) : value,
  )
}

async function statesOf(): Promise<Map<string, TableMetadata>> {
  const states = new Map<string, TableMetadata>()
  for (const [id, location] of await locations()) states.set(id, parseMetadata(await textAt(location)))
  return states
}

async function rowsOfStates(): Promise<Map<string, unknown>> {
  const { token } = await lake.reader()
  const rows = new Map<string, unknown>()
  for (const [id, metadata] of await statesOf()) rows.set(id, await lake.rows(token, metadata))
  return rows
}

/** The texts of all metadata that a state reaches. */
async function reachableTexts(): Promise<string[]> {
  const seen = new Set<string>([...(await locations()).values()])
  for (const { snapshots } of (await statesOf()).values())
    for (const snapshot of snapshots) {
      seen.add(snapshot['manifest-list'])
      const { records } = JSON.parse(await textAt(snapshot['manifest-list']))
      for (const record of records) seen.add(record.manifest_path)
    }
  return Promise.all([...seen].sort().map(textAt))
}
