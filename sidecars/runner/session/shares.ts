export interface Shares {
  /** Time for all items together. */
  ms: number
  signal: AbortSignal
  /** Replaces the machine's clock, for tests. */
  time?: { now(): number; timeout(ms: number): AbortSignal }
}

interface Shared<Item, Result> {
  /** Runs before every turn. It uses no item's share, but the time for all items limits it. */
  ready?(signal: AbortSignal): Promise<void>
  work(item: Item, signal: AbortSignal): Promise<Result>
  /** The result of an item whose turns were too short. `spentMs` is the length of its last turn. */
  late(item: Item, spentMs: number): Result
}

/** The time ended before every item had a turn. An item without a turn has no result, not even a late one. */
export class NoTimeLeft extends Error {
  constructor() {
    super('the total time ended before every item had a turn')
  }
}

/**
 * Processes items one after the other within a total time. Time that quick items leave goes to the others. An item that exceeds
 * its share is interrupted. It starts again when every item has had its turn. If the second turn is too short, `late` makes its
 * result. Throws NoTimeLeft, the errors of `ready` and `work`, and the signal's reason.
 */
export async function inShares<Item, Result>(
  items: readonly Item[],
  { ms, signal, time = MACHINE }: Shares,
  { ready = async () => {}, work, late }: Shared<Item, Result>,
): Promise<Result[]> {
  const deadline = time.now() + ms
  const end = time.timeout(ms)
  const results = new Map<Item, () => Result>()

  /** Returns whether the time was sufficient. */
  async function within(timeout: AbortSignal, act: (signal: AbortSignal) => Promise<void>): Promise<boolean> {
    try {
      await act(AbortSignal.any([signal, timeout]))
      return true
    } catch (error) {
      if (signal.aborted || !(timeout.aborted || end.aborted)) throw error
      return false
    }
  }

  let pending = items
  for (let round = 1; round <= ROUNDS; round++) {
    const interrupted: Item[] = []
    for (const [index, item] of pending.entries()) {
      const share = () => Math.floor((deadline - time.now()) / (pending.length - index))
      const isReady = share() > 0 && (await within(end, ready))
      const shareMs = share()
      const startedAt = time.now()
      const act = async (timeout: AbortSignal) => {
        const result = await work(item, timeout)
        results.set(item, () => result)
      }
      if (isReady && shareMs > 0) {
        if (await within(time.timeout(shareMs), act)) continue
        const spentMs = time.now() - startedAt
        results.set(item, () => late(item, spentMs))
      }
      interrupted.push(item)
    }
    pending = interrupted
  }
  return items.map((item) => {
    const result = results.get(item)
    if (result === undefined) throw new NoTimeLeft()
    return result()
  })
}

const ROUNDS = 2
const MACHINE = { now: () => performance.now(), timeout: (ms: number) => AbortSignal.timeout(ms) }
