import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeLog } from '../log.ts'
import { chooseWall } from '../sandbox/wall.ts'
import { type DefinedTable, type EngineLease, type Engines, makeEngines } from './engines.ts'

setDefaultTimeout(60_000)

const MIB = 1_048_576
const { signal } = new AbortController()

let engines: Engines
let directory: string
beforeAll(async () => {
  const log = makeLog('test', 'text', () => {})
  directory = await mkdtemp(join(tmpdir(), 'sluice-engines-'))
  engines = makeEngines({
    directory,
    size: { threads: 1, memoryLimitBytes: 128 * MIB, tempLimitBytes: MIB },
    access: { allowedDirectories: [], allowedPaths: [] },
    concurrency: 1,
    wall: await chooseWall('auto', { readable: [], writable: [] }, log),
    log,
  })
})
afterAll(async () => {
  await engines.stop()
  await rm(directory, { recursive: true, force: true })
})

const tableOf = (name: string, from: string): DefinedTable => ({
  catalog: 'default',
  schema: 'gold',
  name,
  state: `state of ${name}`,
  from,
})

/** A query of nobody's tables. */
const askOf = (lease: EngineLease, define: readonly DefinedTable[] = []) =>
  lease.run(
    {
      statement: { sql: 'SELECT 1 AS one', kind: 'select', setsSeed: false },
      catalog: null,
      define,
      drop: [],
      places: null,
      rowsLimit: 1,
      isShort: false,
      jsonBytesMax: 1_000_000,
      bytesLimit: MIB,
    },
    signal,
  )

/** Two queries that ask for the table. Answers whether the engine that had it is there for a third, and has it in memory. */
async function keptAfterTwo(table: DefinedTable) {
  const first = await engines.take(signal)
  await askOf(first, [table])
  first.release()
  const second = await engines.take(signal)
  second.keep([table])
  await askOf(second)
  second.release()
  const third = await engines.take(signal)
  const isThere = third.has(table, table.state)
  const isView = third.has(table, table.state, true)
  third.release()
  return { isThere, isKept: isThere && !isView }
}

test('a table that is asked for again is read into memory', async () => {
  const small = tableOf('small', '(SELECT range AS id FROM range(10))')
  expect(await keptAfterTwo(small)).toEqual({ isThere: true, isKept: true })
})

test('one that takes more memory than its files tell stays where it is', async () => {
  const large = tableOf('large', `(SELECT repeat('x', 1_000) AS a FROM range(50_000))`)
  expect(await keptAfterTwo(large)).toEqual({ isThere: true, isKept: false })
})

test.each([
  ['memory', '(SELECT array_agg(range) AS a FROM range(50_000_000))'],
  ['time', '(SELECT count(*) AS a FROM range(1_000_000_000_000) WHERE random() < 0)'],
])('an engine that used up its %s for one is ended, and no other tries it again', async (name, from) => {
  const table = tableOf(name, from)
  expect(await keptAfterTwo(table)).toEqual({ isThere: false, isKept: false })
  expect(await keptAfterTwo(table)).toEqual({ isThere: true, isKept: false })
})
