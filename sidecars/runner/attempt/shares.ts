export interface Shares {
  /** For all of them together. */
  ms: number
  signal: AbortSignal
  /** Another time than that of the machine. */
  time?: { now(): number; timeout(ms: number): AbortSignal }
}

export interface Shared<Item, Result> {
  /** Comes before every turn, and takes of nobody's share: the time of all bounds it. */
  ready?(signal: AbortSignal): Promise<void>
  work(item: Item, signal: AbortSignal): Promise<Result>
  /** Answers for what its turns were too short for; the last one took so long. */
  late(item: Item, spentMs: number): Result
}

/** The time was over before everything had a turn: nobody can answer for what had none. */
export class NoTurn extends Error {
  constructor() {
    super('the time was over before everything had its turn')
  }
}

/**
 * Works off items one after the other within a time: what the quick ones leave is for the others. Whatever needs more than its
 * share is interrupted, and begins again when every item has had its turn; `late` answers for what does not end then
 * either. Throws NoTurn, what `ready` and `work` throw, and the signal's reason.
 */
export async function inShares<Item, Result>(
  items: readonly Item[],
  { ms, signal, time = MACHINE }: Shares,
  { ready = async () => {}, work, late }: Shared<Item, Result>,
): Promise<Result[]> {
  const deadline = time.now() + ms
  const end = time.timeout(ms)
  const answers = new Map<Item, () => Result>()

  /** Whether there was time enough. */
  async function within(over: AbortSignal, act: (signal: AbortSignal) => Promise<void>): Promise<boolean> {
    try {
      await act(AbortSignal.any([signal, over]))
      return true
    } catch (error) {
      if (signal.aborted || !(over.aborted || end.aborted)) throw error
      return false
    }
  }

  let waiting = items
  for (let round = 1; round <= ROUNDS; round++) {
    const interrupted: Item[] = []
    for (const [place, item] of waiting.entries()) {
      const share = () => Math.floor((deadline - time.now()) / (waiting.length - place))
      const isReady = share() > 0 && (await within(end, ready))
      const own = share()
      const begun = time.now()
      const act = async (over: AbortSignal) => {
        const result = await work(item, over)
        answers.set(item, () => result)
      }
      if (isReady && own > 0) {
        if (await within(time.timeout(own), act)) continue
        const spentMs = time.now() - begun
        answers.set(item, () => late(item, spentMs))
      }
      interrupted.push(item)
    }
    waiting = interrupted
  }
  return items.map((item) => {
    const answer = answers.get(item)
    if (answer === undefined) throw new NoTurn()
    return answer()
  })
}

const ROUNDS = 2
const MACHINE = { now: () => performance.now(), timeout: (ms: number) => AbortSignal.timeout(ms) }
