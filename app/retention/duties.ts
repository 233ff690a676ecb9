// The reaper's duties of this slice, and its record of a tick, as workers/reaper/reaper.ts calls them.
export { DryRun, undone } from './dry-run.ts'
export { purgeDeletedPipelines } from './purge-pipelines.ts'
export { pruneAudit, pruneEvents, pruneHistory, pruneIdempotencyKeys } from './store/history.ts'
export { pruneLogs } from './store/logs.ts'
export { pruneQualityResults } from './store/results.ts'
export { pruneRuns } from './store/runs.ts'
export { recordTick, tickState } from './store/tick.ts'
