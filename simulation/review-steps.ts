// Steps of reviewers on runs in review, and of the reaper that ends reviews.
import type { Memory } from './invariants.ts'
import type { Random } from './random.ts'
import type { Replica } from './replica.ts'

interface ReviewStage {
  random: Random
  memory: Memory
}

/** Runs that wait for a reviewer. */
export const reviewedRuns = ({ memory: { lastFacts } }: Pick<ReviewStage, 'memory'>): string[] =>
  lastFacts?.runs.flatMap(({ id, phase }) => (phase === 'review' ? id : [])) ?? []

/** Mostly a run in review, sometimes any run. */
function drawRun(stage: ReviewStage): string | null {
  const reviewed = reviewedRuns(stage)
  if (reviewed.length > 0 && stage.random.chance(0.9)) return stage.random.pick(reviewed)
  const all = stage.memory.lastFacts?.runs ?? []
  return all.length === 0 ? null : stage.random.pick(all).id
}

/** The steps by name; each returns a title and an operation. */
export const REVIEW_STEPS = {
  approve(stage: ReviewStage, replica: Replica) {
    const id = drawRun(stage)
    if (id === null) return null
    const { reviews } = stage.memory
    return {
      title: `a reviewer approves run ${id}`,
      operation() {
        // Recorded before the answer, because an approval whose answer is lost may count.
        reviews.asked.add(id)
        return replica.runs.approve(id, {}, 'reviewer')
      },
      done: (value: unknown) => {
        if ((value as { status: string }).status === 'success') reviews.approved.add(id)
      },
    }
  },

  reject(stage: ReviewStage, replica: Replica) {
    const id = drawRun(stage)
    if (id === null) return null
    return {
      title: `a reviewer rejects run ${id}`,
      operation: () => replica.runs.reject(id, { message: 'the plan of the seed' }, 'reviewer'),
      done: () => void stage.memory.reviews.rejected.add(id),
    }
  },

  expireReviews: (_: ReviewStage, replica: Replica) => ({
    title: 'fail expired reviews',
    operation: async () => (await replica.failReviews())?.ids,
  }),
}
