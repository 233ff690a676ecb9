// Moves of branches for other slices, within their transactions. The dispatcher's thread loads this file: keep it light.
export {
  closedBranchesPart,
  headOfMain,
  type MergeOutcome,
  mergeBranches,
  openBranches,
  openedBranchesPart,
} from './store/branches.ts'
