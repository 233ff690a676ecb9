// Branch operations for other slices, within their transactions. The dispatcher's thread loads this file, so it imports nothing
// heavy.
export {
  closedBranchesPart,
  headOfMain,
  type MergeOutcome,
  mergeBranches,
  openBranches,
  openedBranchesPart,
} from './store/branches.ts'
