import type { RunId } from '../../app/core/ids.ts'
import { limits } from '../../app/core/limits.ts'
import type { Outcome } from '../../app/runs/outcome.ts'
import type { LogLine } from '../../app/runs/service.ts'

/** Outcomes and lines, up to which an acceptance among them is stored by itself and at once. */
const TOLD_BY_FEW = 8
/** Log lines one transaction stores. */
const LOG_BATCH = 2_000

/** What one transaction takes: lines first, then outcomes. */
export interface Batch {
  outcomes: Outcome[]
  lines: LogLine[]
}

export type OutcomeQueue = ReturnType<typeof makeOutcomeQueue>

/** What followers have told and no transaction has stored yet. Each run's part stays in order, whatever fails. */
export function makeOutcomeQueue() {
  const outcomes: Outcome[] = []
  const lines: LogLine[] = []
  /** Lines ever told, and those of them that are stored or given up: lines are taken in the order in which they came. */
  let told = 0
  let settled = 0
  /** In the order of their numbers. */
  const waiting: { told: number; resolve(): void }[] = []

  return {
    add: (outcome: Outcome) => void outcomes.push(outcome),
    tell(line: LogLine) {
      told += 1
      lines.push(line)
    },
    /** Resolves when every line told so far is stored. */
    stored(): Promise<void> {
      if (settled >= told) return Promise.resolve()
      return new Promise((resolve) => waiting.push({ told, resolve }))
    },
    /** The batch is stored, or given up. */
    settle(batch: Batch) {
      settled += batch.lines.length
      while (waiting[0] !== undefined && waiting[0].told <= settled) waiting.shift()?.resolve()
    },
    has: (runId: RunId) => outcomes.some((outcome) => outcome.runId === runId),
    isEmpty: () => outcomes.length === 0 && lines.length === 0,

    /** The next batch: no run's outcome goes before a line that the run told earlier. */
    take(): Batch {
      const some = lines.splice(0, LOG_BATCH)
      const talking = new Set(lines.map((line) => line.runId))
      const taken = outcomes.filter((outcome) => !talking.has(outcome.runId)).slice(0, limits.dispatchBatch)
      const isTaken = new Set(taken)
      outcomes.splice(0, outcomes.length, ...outcomes.filter((outcome) => !isTaken.has(outcome)))
      return { outcomes: taken, lines: some }
    },

    /** Only that first attempts were accepted, if few runs have told anything. It is the first that such a run tells. */
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

    /** Everything that is there now, one line or outcome at a time; what is put back meanwhile comes next. */
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
