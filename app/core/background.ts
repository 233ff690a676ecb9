import type { DryRunResult } from './removals.ts'

/** Background work as the HTTP application sees it. The application sends hints; a lost hint only delays the work. */
export interface Background {
  nudge(about: 'runRequested' | 'outbox'): void
  /** Tells the trigger evaluator about a new event. False: the evaluator is not active in this process. */
  eventRecorded(): boolean
  /** Null: the reaper is off. `run` starts a tick and resolves at its end. `dryRun` lists the removals of a tick. */
  reaper: { run(): Promise<void>; dryRun(): Promise<DryRunResult> } | null
}

/** Background work as the process that starts it sees it. */
export interface ProcessBackground extends Background {
  /** Starts the work, once. Earlier hints are lost. */
  start(): void
  /** Ends all threads immediately and starts new ones; for operators and for fault tests. */
  restart(): void
  stop(): Promise<void>
}
