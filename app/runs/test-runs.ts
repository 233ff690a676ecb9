// For tests: a database per file with pipelines, whose runs start and report as with a dispatcher.
import { setDefaultTimeout } from 'bun:test'
import { useDatabase } from '../../tools/service/database.ts'
import { addPipeline } from '../../workers/testing.ts'
import type { RunId } from '../core/ids.ts'
import type { Executed, Outcome } from './outcome.ts'
import { anySlot } from './placement.ts'
import { applyOutcomes } from './store/outcomes.ts'
import { startWaiting } from './store/start.ts'

export const RUNNER = 'http://127.0.0.1:1'

export const accepted = (runId: RunId, attempt = 1): Outcome => ({
  runId,
  attempt,
  kind: 'accepted',
  runnerBoot: 'boot',
})
export const lost = (runId: RunId): Outcome => ({
  runId,
  attempt: 1,
  kind: 'lost',
  why: 'gone',
  hasBegun: true,
})
export const failed = (runId: RunId, error: string): Outcome => ({ runId, attempt: 1, kind: 'failed', error })
/** Outcome of an attempt that by default changed no table. */
export const executed = (runId: RunId, more: Partial<Executed> = {}): Outcome => ({
  runId,
  attempt: 1,
  kind: 'executed',
  testedCommit: null,
  rowsWritten: 0,
  tests: [],
  inputTables: [],
  landingFileIds: [],
  archivesLandingZones: false,
  keepFailedHours: 0,
  ...more,
})

/** Set-up of a whole test file: registers hooks before and after its tests. */
export function useRuns(rawConnections = 4) {
  setDefaultTimeout(60_000)
  const opened = useDatabase({ rawConnections })
  const pipelineNamed = (name: string, landingZones: string[] = []) =>
    addPipeline(opened.sql, name, { landingZones, nudge: () => {} })
  return {
    opened,
    pipelineNamed,
    requested: async (name: string) => (await pipelineNamed(name)).request(),
    start: (slots = 4) => startWaiting(opened.sql, Array(slots).fill(anySlot(RUNNER)), 'tester'),
    tell: (...outcomes: Outcome[]) => applyOutcomes(opened.sql, outcomes, []),
  }
}
