// What becomes of an attempt, as whoever follows it tells it.
import type { RunId } from '../core/ids.ts'

export interface TestResult {
  name: string
  severity: 'error' | 'warn'
  isPassed: boolean
  value: number
  durationMs: number
  error: string | null
  /** The first rows of a failed test that selects rows, as text. */
  samples?: readonly string[]
}

/** `runnerBoot`: the start of the runner that tells it, where one does. */
export type Outcome = { runId: RunId; attempt: number; runnerBoot?: string } & (
  | { kind: 'accepted'; runnerBoot: string }
  | { kind: 'refused'; retryAfterMs: number }
  | { kind: 'entered'; phase: 'executing' | 'testing' }
  | {
      kind: 'executed'
      /** The branch commit that was tested; null when no table changed. */
      testedCommit: string | null
      rowsWritten: number
      tests: TestResult[]
      landingFileIds: string[]
      archivesLandingZones: boolean
    }
  /** `retry`: what the pipeline's configuration allows, where it was read. */
  | { kind: 'failed'; error: string; retry?: { max: number; delaySeconds: number } }
  /** An engine process of its runner was killed from outside, or crashed. */
  | { kind: 'engineLost'; why: string }
  /** `hasBegun`: the runner had begun to execute it, as far as anybody knows. */
  | { kind: 'lost'; why: string; hasBegun: boolean }
)

export type Executed = Extract<Outcome, { kind: 'executed' }>
