// Invariants of runs whose pipelines ask for a review.
import type { Facts, RunFact } from './facts.ts'
import type { Runner } from './runner.ts'

interface Reviews {
  asked: ReadonlySet<string>
  approved: ReadonlySet<string>
  rejected: ReadonlySet<string>
}

/** A run that is in review, or waits to execute again after an approval. It does not hold the queue. */
export const isReviewed = ({ phase, waiting, snapshot }: RunFact) =>
  phase === 'review' || (waiting && snapshot.context.approved !== null)

/** Main has nothing of a run in review, each approved change once, and no rejected change. */
export function checkReviews(
  runs: readonly RunFact[],
  { commits }: Facts,
  { reviews, runner }: { reviews: Reviews; runner: Runner },
  fail: (what: string) => void,
): void {
  const commitsOf = Map.groupBy(commits, ({ run_id }) => run_id)
  for (const { id, attempt, branch, phase, status, merged_commit, snapshot } of runs) {
    const merges = commitsOf.get(id)?.length ?? 0
    if (merges > 1) fail(`run ${id} has ${merges} commits on main`)
    if (phase === 'review' && (merges > 0 || merged_commit !== null))
      fail(`run ${id} is in review, but main has its commit`)
    if (reviews.approved.has(id) && status !== 'success')
      fail(`run ${id} was acknowledged as approved, but is ${status}`)
    if (reviews.rejected.has(id) && (status !== 'failed' || merges > 0))
      fail(`run ${id} was acknowledged as rejected, but is ${status} with ${merges} commits`)
    if (branch !== 'main' || merged_commit === null || runner.reviews.get(id) === undefined) continue
    if (!reviews.asked.has(id)) fail(`run ${id} merged, but nobody approved it`)
    if (!runner.changes.get(`${id}:${attempt}`)?.has(snapshot.context.approved ?? ''))
      fail(`run ${id} merged another change than the approved ${snapshot.context.approved}`)
  }
}
