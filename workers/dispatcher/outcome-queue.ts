import type { RunId } from '../../app/core/ids.ts'
import { limits } from '../../app/core/limits.ts'
import type { Outcome } from '../../app/runs/outcome.ts'
import type { LogLine } from '../../app/runs/service.ts'

/** If the queue holds at most this many outcomes and lines, acceptances are stored first, by themselves. */
const SHORT_QUEUE = 8
/** Log lines per transaction. */
const LOG_BATCH = 2_000

/** The input of one transaction: lines first, then outcomes. */
export interface Batch {
  outcomes: Outcome[]
  lines: LogLine[]
}

/** Outcomes and log lines that no transaction has stored yet. The order within each run survives failures. */
export function makeOutcomeQueue() {
  const outcomes: Outcome[] = []
  const lines: LogLine[] = []
  /** Counts of lines ever queued, and of lines stored or dropped. Lines leave the queue in order of arrival. */
  let queuedLines = 0
  let settledLines = 0
  /** Callers of `stored`, sorted by their counts of lines. */
  const waiting: { queuedLines: number; resolve(): void }[] = []

  return {
    add: (outcome: Outcome) => void outcomes.push(outcome),
    appendLine(line: LogLine) {
      queuedLines += 1
      lines.push(line)
    },
    /** Resolves when every line queued so far is stored or dropped. */
    stored(): Promise<void> {
      if (settledLines >= queuedLines) return Promise.resolve()
      return new Promise((resolve) => waiting.push({ queuedLines, resolve }))
    },
    /** Marks the batch as stored or dropped. */
    settle(batch: Batch) {
      settledLines += batch.lines.length
      while (waiting[0] !== undefined && waiting[0].queuedLines <= settledLines) waiting.shift()?.resolve()
    },
    has: (runId: RunId) => outcomes.some((outcome) => outcome.runId === runId),
    isEmpty: () => outcomes.length === 0 && lines.length === 0,

    /** The next batch. An outcome of a run never precedes an earlier line of that run. */
    drain(): Batch {
      const firstLines = lines.splice(0, LOG_BATCH)
      const runsWithLines = new Set(lines.map((line) => line.runId))
      const drained = outcomes
        .filter((outcome) => !runsWithLines.has(outcome.runId))
        .slice(0, limits.dispatchBatch)
      const drainedSet = new Set(drained)
      outcomes.splice(0, outcomes.length, ...outcomes.filter((outcome) => !drainedSet.has(outcome)))
      return { outcomes: drained, lines: firstLines }
    },

    /**
     * Only acceptances of first attempts, and only while the queue is short. An acceptance is the first news of such a run, so
     * the order within the run is kept.
     */
    drainAccepted(): Batch {
      const isFew = outcomes.length + lines.length <= SHORT_QUEUE
      const accepted = isFew
        ? outcomes.filter(({ kind, attempt }) => kind === 'accepted' && attempt === 1)
        : []
      const drainedSet = new Set(accepted)
      outcomes.splice(0, outcomes.length, ...outcomes.filter((outcome) => !drainedSet.has(outcome)))
      return { outcomes: accepted, lines: [] }
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
