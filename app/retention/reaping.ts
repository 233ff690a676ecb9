// The tools of every reaper duty, for the duties of other slices.
export {
  BATCH_ROWS,
  inBatches,
  inSequence,
  NotLeading,
  nothingReaped,
  type Reaped,
  type ReaperObjects,
  type Reaping,
} from './store/reaping.ts'
