// The outcome of an attempt, as the follower of the attempt reports it.
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

/** `runnerBoot`: the boot id of the runner that reports the outcome, if a runner does. */
export type Outcome = { runId: RunId; attempt: number; runnerBoot?: string } & (
  | { kind: 'accepted'; runnerBoot: string }
  | { kind: 'refused'; retryAfterMs: number }
  | { kind: 'entered'; phase: 'executing' | 'testing' }
  | {
      kind: 'executed'
      /** The trace of the run, if known. */
      traceparent?: string | null
      /** The branch commit that was tested; null when no table changed. */
      testedCommit: string | null
      rowsWritten: number
      tests: TestResult[]
      /** The tables and views that the attempt read, as `namespace.layer.name`. */
      inputTables: string[]
      landingFileIds: string[]
      archivesLandingZones: boolean
      /** Hours for which the branch stays readable if the gate fails. */
      keepFailedHours: number
      /** Set when the pipeline wants a review of the change. */
      review?: { change: string; timeoutHours: number; isFourEyes: boolean }
    }
  /** `retry`: the pipeline's settings for retries, where they were read. */
  | { kind: 'failed'; error: string; retry?: { max: number; delaySeconds: number } }
  /** An engine process of the runner crashed or was killed from outside. */
  | { kind: 'engineLost'; why: string }
  /** `hasBegun`: the runner had begun to execute the attempt, as far as known. */
  | { kind: 'lost'; why: string; hasBegun: boolean }
)

export type Executed = Extract<Outcome, { kind: 'executed' }>
