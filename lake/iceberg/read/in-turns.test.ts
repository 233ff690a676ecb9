import { expect, test } from 'bun:test'
import { BadAvro } from '../format/avro-schema.ts'
import { inTurns } from './in-turns.ts'

/** Batches that each take this CPU time. */
function* slowBatches(count: number, ms: number) {
  for (let i = 0; i < count; i += 1) {
    const end = performance.now() + ms
    while (performance.now() < end);
    yield [i]
  }
}

test('other work of the process runs between the batches of a large file', async () => {
  let turns = 0
  const timer = setInterval(() => {
    turns += 1
  }, 1)
  expect(await inTurns(slowBatches(20, 5))).toHaveLength(20)
  clearInterval(timer)
  expect(turns).toBeGreaterThan(5)
})

test('a file that takes too long is refused', async () => {
  await expect(inTurns(slowBatches(1_000, 2), 20)).rejects.toThrow(BadAvro)
})
