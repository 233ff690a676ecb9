import type { RunId } from '../../app/core/ids.ts'
import { limits } from '../../app/core/limits.ts'
import type { Outcome } from '../../app/runs/outcome.ts'
import type { LogLine } from '../../app/runs/service.ts'

/** If the queue holds at most this many outcomes and lines, acceptances are stored first, by themselves. */
const TOLD_BY_FEW = 8
/** Log lines per transaction. */
const LOG_BATCH = 2_000

/** The input of one transaction: lines first, then outcomes. */
export interface Batch {
  outcomes: Outcome[]
  lines: LogLine[]
}

export type OutcomeQueue = ReturnType<typeof makeOutcomeQueue>

/** Outcomes and log lines that no transaction has stored yet. The order within each run survives failures. */
export function makeOutcomeQueue() {
  const outcomes: Outcome[] = []
  const lines: LogLine[] = []
  /** Counts of lines ever queued, and of lines stored or dropped. Lines leave the queue in order of arrival. */
  let told = 0
  let settled = 0
  /** Callers of `stored`, sorted by their counts of lines. */
  const waiting: { told: number; resolve(): void }[] = []

  return {
    add: (outcome: Outcome) => void outcomes.push(outcome),
    tell(line: LogLine) {
      told += 1
      lines.push(line)
    },
    /** Resolves when every line queued so far is stored or dropped. */
    stored(): Promise<void> {
      if (settled >= told) return Promise.resolve()
      return new Promise((resolve) => waiting.push({ told, resolve }))
    },
    /** Marks the batch as stored or dropped. */
    settle(batch: Batch) {
      settled += batch.lines.length
      while (waiting[0] !== undefined && waiting[0].told <= settled) waiting.shift()?.resolve()
    },
    has: (runId: RunId) => outcomes.some((outcome) => outcome.runId === runId),
    isEmpty: () => outcomes.length === 0 && lines.length === 0,

    /** The next batch. An outcome of a run never precedes an earlier line of that run. */
    take(): Batch {
      const some = lines.splice(0, LOG_BATCH)
      const talking = new Set(lines.map((line) => line.runId))
      const taken = outcomes.filter((outcome) => !talking.has(outcome.runId)).slice(0, limits.dispatchBatch)
      const isTaken = new Set(taken)
      outcomes.splice(0, outcomes.length, ...outcomes.filter((outcome) => !isTaken.has(outcome)))
      return { outcomes: taken, lines: some }
    },

    /**
     * Only acceptances of first attempts, and only while the queue is short. An acceptance is the first news of such a run, so
     * the order within the run is kept.
     */
    takeAccepted(): Batch {
      const isFew = outcomes.length + lines.length <= TOLD_BY_FEW
      const taken = isFew ? outcomes.filter(({ kind, attempt }) => kind === 'accepted' && attempt === 1) : []
      const isTaken = new Set(taken)
      outcomes.splice(0, outcomes.length, ...outcomes.filter((outcome) => !isTaken.has(outcome)))
      return { outcomes: taken, lines: [] }
    },

    putBack(batch: Batch) {
      outcomes.unshift(...batch.outcomes)
      lines.unshift(...batch.lines)
    },

    /** The current content, one line or outcome at a time. Items that are put back meanwhile come next. */
    *singly(): Generator<Batch> {
      for (let count = lines.length + outcomes.length; count > 0; count--) {
        const line = lines.shift()
        if (line !== undefined) {
          yield { outcomes: [], lines: [line] }
          continue
        }
        const outcome = outcomes.shift()
        if (outcome !== undefined) yield { outcomes: [outcome], lines: [] }
      }
    },
  }
}
