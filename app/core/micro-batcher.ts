// Items that arrive while a batch is being stored form the next batch. Many callers share one durable commit, without a timer.
import { isAway, isPassing } from '../../drizzle/errors.ts'

interface MicroBatcher<Item, Answer> {
  /** Resolves with the answer for this item when its batch is stored; rejects with the error of its batch. */
  add(item: Item): Promise<Answer>
  /** Items that are not yet in a batch. */
  waiting(): number
}

interface Waiting<Item, Answer> {
  item: Item
  resolve(answer: Answer): void
  reject(error: unknown): void
}

/**
 * Stores one batch at a time, each with at most `batchMax` items, in the order of arrival. `store` returns one answer per item,
 * in the order of the items. A failed batch is stored again item by item, unless the error is transient: then all its items
 * fail. If the database is unreachable, the waiting items fail too.
 */
export function makeMicroBatcher<Item, Answer>(
  batchMax: number,
  store: (items: readonly Item[]) => Promise<readonly Answer[]>,
): MicroBatcher<Item, Answer> {
  const waiting: Waiting<Item, Answer>[] = []
  let isStoring = false

  async function storeAll() {
    while (waiting.length > 0) await storeBatch(waiting.splice(0, batchMax))
    isStoring = false
  }

  async function storeBatch(batch: readonly Waiting<Item, Answer>[]): Promise<void> {
    try {
      const answers = await store(batch.map(({ item }) => item))
      for (const [n, { resolve }] of batch.entries()) resolve(answers[n] as Answer)
    } catch (error) {
      if (isAway(error)) for (const { reject } of waiting.splice(0)) reject(error)
      if (batch.length === 1 || isPassing(error)) for (const { reject } of batch) reject(error)
      else for (const entry of batch) await storeBatch([entry])
    }
  }

  return {
    add: (item) =>
      new Promise((resolve, reject) => {
        waiting.push({ item, resolve, reject })
        if (isStoring) return
        isStoring = true
        // The first batch includes all items of this turn of the event loop.
        setImmediate(storeAll)
      }),
    waiting: () => waiting.length,
  }
}
