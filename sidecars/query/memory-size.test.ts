import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Engine, openLocked } from '../../lake/engine/instance.ts'
import { sizeInMemory } from './memory-size.ts'

const MIB = 1_048_576

let engine: Engine
let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sluice-size-'))
  engine = await openLocked({
    threads: 1,
    memoryLimitBytes: 128 * MIB,
    tempLimitBytes: MIB,
    tempDirectory: directory,
    allowedDirectories: [],
    allowedPaths: [],
  })
})
afterAll(async () => {
  engine.close()
  await rm(directory, { recursive: true })
})

async function sizeOf(query: string): Promise<number> {
  const size = sizeInMemory(await engine.describe(query))
  return Number((await engine.read(`SELECT ${size} FROM (${query})`)).value(0, 0))
}

test.each([
  ['texts', `SELECT repeat('ä', 5000) AS a FROM range(100)`],
  ['bytes', `SELECT repeat('x', 10000)::BLOB AS a FROM range(100)`],
  ['lists', `SELECT ['', NULL, repeat('x', 10000)] AS a FROM range(100)`],
  ['lists of lists', `SELECT [[repeat('x', 5000)], NULL, [repeat('x', 5000)]] AS a FROM range(100)`],
  ['structures', `SELECT {'it''s': 1, "B c": [repeat('x', 10000)]} AS a FROM range(100)`],
  ['maps', `SELECT MAP {repeat('k', 5000): {v: repeat('x', 5000)}} AS a FROM range(100)`],
  ['numbers in lists', 'SELECT range(1250) AS a FROM range(100)'],
])('%s count as often as there are rows', async (_, query) => {
  const blocks = await sizeOf(`${query} WHERE false`)
  const bytes = (await sizeOf(query)) - blocks
  expect(bytes).toBeGreaterThanOrEqual(1_000_000)
  expect(bytes).toBeLessThan(1_100_000)
})

test('what is missing takes a place, and every type of the lake has a size', async () => {
  expect(
    await sizeOf(`
      SELECT NULL::VARCHAR AS a, NULL::STRUCT(b BLOB) AS b, true AS c, 1::BIGINT AS d, 1.5::DECIMAL(38, 2) AS e,
        DATE '2024-01-01' AS f, TIME '10:00:00' AS g, TIMESTAMP '2024-01-01' AS h, now() AS i, uuid() AS j, 1::FLOAT AS k,
        1::DOUBLE AS l, 1::INTEGER AS m`),
  ).toBeGreaterThan(0)
  expect(() => sizeInMemory([{ name: 'a', type: 'VARIANT' }])).toThrow('the size of VARIANT is not known')
})
