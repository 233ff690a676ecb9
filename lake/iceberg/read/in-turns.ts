// Decodes a file in small turns, so that a large file of one author does not hold up other requests of the process.

import { setImmediate as nextTurn } from 'node:timers/promises'
import { BadAvro } from '../format/avro-schema.ts'

/** Decoding time of one file. The largest manifests of people take about a second. */
const DECODING_MS_MAX = 10_000
/** Files that take no longer than one turn are read at once. */
const TURN_MS = 2

/** Collects the batches of an Avro file; other work of the process runs between two batches. @throws BadAvro */
export async function inTurns<T>(batches: Iterable<readonly T[]>, limitMs = DECODING_MS_MAX): Promise<T[]> {
  const all: T[] = []
  for await (const batch of partsInTurns(batches, BadAvro, limitMs)) for (const item of batch) all.push(item)
  return all
}

/** Yields the parts of a file; other work of the process runs between two parts. Throws `TooLong` when decoding takes too long. */
export async function* partsInTurns<T>(
  parts: Iterable<T>,
  TooLong: new (message: string) => Error,
  limitMs = DECODING_MS_MAX,
): AsyncGenerator<T> {
  let spentMs = 0
  let turnMs = 0
  let startedAt = performance.now()
  for (const part of parts) {
    const tookMs = performance.now() - startedAt
    spentMs += tookMs
    turnMs += tookMs
    if (spentMs > limitMs) throw new TooLong(`the file takes longer than ${limitMs / 1_000} s to read`)
    yield part
    if (turnMs > TURN_MS) {
      await nextTurn()
      turnMs = 0
    }
    startedAt = performance.now()
  }
}
