// Merges of tested branches, within the transactions that make their runs successes.
import assert from 'node:assert/strict'
import type { SqlTx } from '../../../drizzle/client.ts'
import { isTerminal } from '../../../machines/run.ts'
import type { RunId } from '../../core/ids.ts'
import { MAIN } from '../../core/lake-version.ts'
import type { Decision } from '../../protection/rule.ts'
import { mergeBranches } from '../../versions/store/branches.ts'
import { mergeIntoParents } from '../../versions/store/nested-branches.ts'
import type { Executed } from '../outcome.ts'
import { branchOf } from './attempts.ts'
import type { LogLevel } from './logs.ts'
import { hasMerged, type LockedRun, moveRun } from './moves.ts'

/** Appends a log line after the lines of the run's attempt; `line` orders these lines. */
export type AppendLine = (run: LockedRun, line: number, level: LogLevel, message: string) => void

/** The facts of an attempt that its merge needs. */
type Tested = Pick<Executed, 'testedCommit'>

/**
 * Merges tested branches. Main is locked once for all of them, and only if there is something to merge. The branches of users
 * are locked after main.
 */
export async function mergeTested(
  tx: SqlTx,
  runs: Map<RunId, LockedRun>,
  executed: ReadonlyMap<RunId, Tested>,
  now: Date,
  appendLine: AppendLine,
): Promise<void> {
  const merging = [...runs.values()].filter((run) => run.effects.includes('mergeBranch'))
  if (merging.length === 0) return
  const requestOf = (run: LockedRun) => {
    const testedCommit = executed.get(run.id)?.testedCommit
    assert(testedCommit)
    const branch = branchOf(run.id, run.snapshot.context.attempt)
    const decision = run.snapshot.context.approved === null ? undefined : APPROVED
    const message = `${run.namespace}.${run.layer}.${run.pipeline}`
    return { branch, testedCommit, runId: run.id, message, decision }
  }
  const isOnMain = ({ branch }: LockedRun) => branch === MAIN
  const onMain = await mergeBranches(tx, merging.filter(isOnMain).map(requestOf))
  const nested = await mergeIntoParents(tx, merging.filter((run) => !isOnMain(run)).map(requestOf))
  for (const run of merging) {
    const { attempt } = run.snapshot.context
    const branch = branchOf(run.id, attempt)
    const result = onMain.get(branch) ?? nested.get(branch)
    if (result?.kind === 'merged') {
      run.mergedCommit = result.commit
      moveRun(run, { type: 'merged', attempt }, 'merge', now)
      continue
    }
    const why =
      result === undefined
        ? `branch ${branch} no longer exists`
        : result.kind === 'conflict'
          ? `${result.table} changed on ${run.branch}`
          : result.kind === 'protected'
            ? `${result.table} needs a review since then`
            : result.why
    conflicted(run, why, now, appendLine)
  }
}

/** The approval of a run checks its reviewer. */
const APPROVED: Decision = { authors: [], by: null }

/** Moves a merging run to its next attempt, or fails the run after too many conflicts. */
export function conflicted(run: LockedRun, why: string, now: Date, appendLine: AppendLine): void {
  const { attempt } = run.snapshot.context
  appendLine(run, 5, 'warn', `merge conflict in attempt ${attempt}: ${why}`)
  moveRun(run, { type: 'conflicted', attempt }, 'merge', now)
  run.rowsWritten = null
  if (isTerminal(run.status))
    run.error = `merging: gave up after ${run.snapshot.context.conflicts + 1} conflicts: ${why}`
  else run.notBefore = new Date(now.getTime() + Math.min(5_000, 25 * 2 ** run.snapshot.context.conflicts))
}

/** The last log line of an ended run. */
export function closingLine(run: LockedRun): [LogLevel, string] {
  const { status, error, durationMs, branch, mergedCommit, rowsWritten } = run
  if (status !== 'success') {
    assert(error !== null)
    return ['error', error]
  }
  assert(durationMs !== null)
  const success = `success after ${durationMs} ms`
  if (!hasMerged(run)) return ['info', `${success}: no table changed`]
  assert(rowsWritten !== null)
  return branch === MAIN
    ? ['info', `${success}: ${rowsText(rowsWritten)} merged as commit ${mergedCommit}`]
    : ['info', `${success}: ${rowsText(rowsWritten)} merged into branch ${branch}`]
}

export const rowsText = (count: number) => `${count} ${count === 1 ? 'row' : 'rows'}`
