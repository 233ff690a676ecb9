// Decodes a file in small turns, so that a large file of one author does not hold up other requests of the process.

import { setImmediate as nextTurn } from 'node:timers/promises'
import { BadAvro } from '../format/avro-schema.ts'

/** Decoding time of one file. The largest manifests of people take about a second. */
const DECODING_MS_MAX = 10_000

/** Collects the batches of a file; other work of the process runs between two batches. @throws BadAvro */
export async function inTurns<T>(batches: Iterable<readonly T[]>, limitMs = DECODING_MS_MAX): Promise<T[]> {
  const all: T[] = []
  let spentMs = 0
  let startedAt = performance.now()
  for (const batch of batches) {
    for (const item of batch) all.push(item)
    spentMs += performance.now() - startedAt
    if (spentMs > limitMs) throw new BadAvro(`the Avro file takes longer than ${limitMs / 1_000} s to read`)
    // Most files have one batch.
    if (spentMs > TURN_MS) await nextTurn()
    startedAt = performance.now()
  }
  return all
}

/** Files that take no longer than one turn are read at once. */
const TURN_MS = 2
