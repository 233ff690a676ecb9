export interface Shares {
  /** For all of them together. */
  ms: number
  signal: AbortSignal
  /** Another time than that of the machine. */
  time?: { now(): number; timeout(ms: number): AbortSignal }
}

/**
 * Works off items one after the other within a time: what the quick ones leave is for the others. Whatever needs more than its
 * share is interrupted, and begins again when every item has had its turn; `late` answers for what does not end then
 * either, with what its last turn took. Throws what `work` throws, and the signal's reason.
 */
export async function inShares<Item, Result>(
  items: readonly Item[],
  { ms, signal, time = MACHINE }: Shares,
  work: (item: Item, signal: AbortSignal) => Promise<Result>,
  late: (item: Item, spentMs: number) => Result,
): Promise<Result[]> {
  const deadline = time.now() + ms
  const results = new Map<Item, Result>()
  const spent = new Map<Item, number>()
  let waiting = items
  for (let round = 1; round <= ROUNDS; round++) {
    const interrupted: Item[] = []
    for (const [place, item] of waiting.entries()) {
      const share = Math.floor((deadline - time.now()) / (waiting.length - place))
      const begun = time.now()
      const over = time.timeout(Math.max(0, share))
      try {
        if (share <= 0) interrupted.push(item)
        else results.set(item, await work(item, AbortSignal.any([signal, over])))
      } catch (error) {
        if (signal.aborted || !over.aborted) throw error
        spent.set(item, time.now() - begun)
        interrupted.push(item)
      }
    }
    waiting = interrupted
  }
  return items.map((item) => results.get(item) ?? late(item, spent.get(item) ?? 0))
}

const ROUNDS = 2
const MACHINE = { now: () => performance.now(), timeout: (ms: number) => AbortSignal.timeout(ms) }
