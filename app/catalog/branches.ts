// Branch operations for other slices, within their transactions. The dispatcher's thread loads this file, so it imports nothing
// heavy.
export {
  closedBranchesPart,
  headOfMain,
  keptBranchesPart,
  lockedHead,
  type MergeOutcome,
  mergeBranches,
  openBranches,
  openedBranchesPart,
} from './store/branches.ts'
export {
  authoredParentPart,
  copiedEntriesPart,
  lockParents,
  mergeIntoParents,
  type NestedOutcome,
  openParentPart,
} from './store/nested-branches.ts'
export { keepRunDiffs } from './store/run-diffs.ts'
export {
  type CommitFilter,
  closeUserBranch,
  commitsOf,
  countCommitsOf,
  countOpenBranches,
  countOpenBranchesOf,
  countShownBranches,
  deleteTag,
  HIDDEN,
  isInUse,
  type LakeCommit,
  lockedBranch,
  type OpenBranch,
  openBranchNamed,
  openUserBranch,
  type ShownBranch,
  type ShownTag,
  shownBranch,
  shownBranches,
  shownTag,
  shownTags,
} from './store/user-branches.ts'
export {
  type BranchChange,
  changesOf,
  conflictsIn,
  dropUnchanged,
  hasMoved,
  mergeUserBranch,
  rebaseBranch,
} from './store/user-merges.ts'
