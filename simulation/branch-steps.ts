// Steps of clients on branches of users: open, merge, rebase and delete. Two names are used again and again.
import type { Merger } from '../app/branches/merges.ts'
import { UNLIMITED } from '../app/core/access.ts'
import type { Facts } from './facts.ts'
import type { Random } from './random.ts'
import type { Replica } from './replica.ts'

const NAMES = ['dev', 'lab'] as const

const ANYBODY: Merger = {
  name: null,
  isAdmin: true,
  access: UNLIMITED,
  reader: null,
  signal: new AbortController().signal,
}

interface BranchStage {
  random: Random
  /** The share of requests that name a branch of a user. */
  branchShare: number
  memory: { lastFacts: Facts | null }
}

/** Open branches with changes and without unfinished runs. */
export function mergeableBranches({ memory: { lastFacts } }: Pick<BranchStage, 'memory'>): string[] {
  const used = new Set(
    lastFacts?.runs.flatMap(({ branch, finished_at }) => (finished_at === null ? branch : [])),
  )
  const changed = new Set(lastFacts?.branchEntries.map(({ ref }) => ref))
  return NAMES.filter(
    (name) =>
      changed.has(name) &&
      !used.has(name) &&
      lastFacts?.refs.some((ref) => ref.name === name && ref.state === 'open'),
  )
}

/** The branch of a requested run, and whether the run executes the draft. */
export function drawTarget(stage: Pick<BranchStage, 'random' | 'branchShare'>): {
  branch?: string
  draft?: boolean
} {
  const { random, branchShare } = stage
  if (!random.chance(branchShare)) return {}
  return { branch: random.chance(0.8) ? 'dev' : 'lab', draft: random.chance(0.3) }
}

/** The steps by name; each returns a title and an operation. */
export const BRANCH_STEPS = {
  openBranch({ random }: BranchStage, replica: Replica) {
    const name = random.pick(NAMES)
    const from = random.chance(0.2) ? random.pick(NAMES.filter((other) => other !== name)) : undefined
    return {
      title: `a client opens branch ${name} from ${from ?? 'main'}`,
      operation: () => replica.branches.create({ name, from }, ANYBODY, null),
    }
  },

  mergeBranch(stage: BranchStage, replica: Replica) {
    const mergeable = mergeableBranches(stage)
    const name = stage.random.pick(mergeable.length > 0 && stage.random.chance(0.8) ? mergeable : NAMES)
    return {
      title: `a client merges branch ${name}`,
      operation: () => replica.merges.merge(name, {}, ANYBODY),
    }
  },

  rebaseBranch({ random }: BranchStage, replica: Replica) {
    const name = random.pick(NAMES)
    return {
      title: `a client rebases branch ${name}`,
      operation: () => replica.merges.rebase(name, ANYBODY),
    }
  },

  deleteBranch({ random }: BranchStage, replica: Replica) {
    const name = random.pick(NAMES)
    return {
      title: `a client deletes branch ${name}`,
      operation: () => replica.branches.remove(name, ANYBODY),
    }
  },
}
