// What attempts have come to. Many in one transaction; success and merge are the same transaction (I3).
import type { JSONValue } from 'postgres'
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import { isTerminal, type RunEvent, type RunStatus } from '../../machines/run.ts'
import { closeBranches, mergeBranches } from '../catalog/branches.ts'
import type { RunId } from '../ids.ts'
import { branchOf, handleOf } from './attempts.ts'
import { type LogLevel, type LogLine, seqAfter, storeLogLines } from './logs.ts'
import { databaseTime, type LockedRun, lockRuns, moveRun, saveRuns } from './moves.ts'
import type { RunCompleted } from './notices.ts'

export interface TestResult {
  name: string
  severity: 'error' | 'warn'
  isPassed: boolean
  value: number
  durationMs: number
  error: string | null
}

export type Outcome = { runId: RunId; attempt: number } & (
  | { kind: 'accepted'; runnerBoot: string }
  | { kind: 'refused'; retryAfterMs: number }
  | { kind: 'entered'; phase: 'executing' | 'testing' }
  | {
      kind: 'executed'
      /** The branch commit that was tested; null when no table changed. */
      testedCommit: string | null
      rowsWritten: number
      tests: TestResult[]
      landingFileIds: string[]
      archivesLandingZones: boolean
    }
  | { kind: 'failed'; error: string }
  | { kind: 'lost'; why: string }
)

type Executed = Extract<Outcome, { kind: 'executed' }>

export interface Applied {
  changed: RunId[]
  completed: RunCompleted[]
  /** Attempts that a runner accepted after their runs had moved on: nobody waits for them. */
  unwanted: { runId: RunId; attempt: number }[]
}

/** Applies outcomes in order. Those of another attempt, or that come after the run's end, change nothing. */
export const applyOutcomes = (
  sql: Sql,
  outcomes: readonly Outcome[],
  lines: readonly LogLine[],
): Promise<Applied> =>
  sql.begin(async (tx) => {
    await storeLogLines(tx, lines)
    const changed = new Set(lines.map((line) => line.runId))
    if (outcomes.length === 0) return { changed: [...changed], completed: [], unwanted: [] }

    const runs = await lockRuns(
      tx,
      outcomes.map((outcome) => outcome.runId),
    )
    const now = await databaseTime(tx)
    const told: LogLine[] = []
    const tell = (run: LockedRun, line: number, level: LogLevel, message: string) =>
      told.push({ runId: run.id, seq: seqAfter(run.snapshot.context.attempt, line), at: now, level, message })

    const executed = new Map<RunId, Executed>()
    const unwanted: Applied['unwanted'] = []
    const boots: { run_id: RunId; attempt: number; boot: string }[] = []
    for (const outcome of outcomes) {
      const run = runs.get(outcome.runId)
      if (run === undefined || !moveRun(run, eventOf(outcome), 'runner', now)) {
        if (outcome.kind === 'accepted') unwanted.push(outcome)
        continue
      }
      switch (outcome.kind) {
        case 'accepted':
          boots.push({ run_id: run.id, attempt: outcome.attempt, boot: outcome.runnerBoot })
          break
        case 'refused':
          run.notBefore = new Date(now.getTime() + outcome.retryAfterMs)
          break
        case 'executed':
          executed.set(run.id, outcome)
          run.rowsWritten = outcome.rowsWritten
          if (run.status === 'failed') run.error = gateError(outcome.tests)
          break
        case 'failed':
          run.error = outcome.error
          break
        case 'lost':
          tell(run, 1, 'warn', `runner lost in attempt ${outcome.attempt}: ${outcome.why}`)
          if (isTerminal(run.status))
            run.error = `runner lost ${run.snapshot.context.lostRunners + 1} times: ${outcome.why}`
          break
      }
    }

    await mergeTested(tx, runs, executed, now, tell)
    await settle(tx, runs, executed, boots, now)
    for (const run of runs.values()) {
      if (run.moves.length > 0) changed.add(run.id)
      if (run.moves.length > 0 && isTerminal(run.status)) tell(run, 9, ...closingLine(run))
    }
    await storeLogLines(tx, told)
    await saveRuns(tx, runs.values(), now)
    return { changed: [...changed], completed: completedOf(runs.values()), unwanted }
  })

/** Ends runs at somebody's request; those that have ended already are left out of the answer. */
export async function cancelRuns(
  tx: SqlTx,
  ids: readonly RunId[],
  cause: string,
): Promise<Map<RunId, LockedRun>> {
  const runs = await lockRuns(tx, ids)
  const now = await databaseTime(tx)
  for (const [id, run] of runs) {
    if (!moveRun(run, { type: 'cancelRequested' }, cause, now)) runs.delete(id)
  }
  await settle(tx, runs, new Map(), [], now)
  await storeLogLines(
    tx,
    [...runs.values()].map((run) => ({
      runId: run.id,
      seq: seqAfter(run.snapshot.context.attempt, 9),
      at: now,
      level: 'warn' as const,
      message: `cancelled: ${cause}`,
    })),
  )
  await saveRuns(tx, runs.values(), now)
  return runs
}

export const completedOf = (runs: Iterable<LockedRun>): RunCompleted[] =>
  [...runs].flatMap(({ id, pipelineId, namespace, layer, pipeline, status, effects }) =>
    effects.includes('announce') && isTerminal(status)
      ? [{ run_id: id, pipeline_id: pipelineId, namespace, layer, pipeline, status }]
      : [],
  )

function eventOf(outcome: Outcome): RunEvent {
  const { attempt } = outcome
  switch (outcome.kind) {
    case 'accepted':
      return { type: 'accepted', attempt }
    case 'refused':
      return { type: 'refused', attempt }
    case 'entered':
      return { type: 'entered', attempt, phase: outcome.phase }
    case 'executed':
      return {
        type: 'executed',
        attempt,
        isBlocked: outcome.tests.some(blocks),
        hasChanged: outcome.testedCommit !== null,
      }
    case 'failed':
      return { type: 'executionFailed', attempt }
    case 'lost':
      return { type: 'runnerLost', attempt }
  }
}

const blocks = (result: TestResult) => !result.isPassed && result.severity === 'error'

function gateError(tests: readonly TestResult[]): string {
  const failed = tests.filter(blocks)
  const list = failed.map((test) => `${test.name} (${test.error ?? `${test.value} rows`})`).join(', ')
  return `testing: ${failed.length} quality ${failed.length === 1 ? 'test' : 'tests'} failed: ${list}`
}

/** Main is locked once for all, and only if there is something to merge. */
async function mergeTested(
  tx: SqlTx,
  runs: Map<RunId, LockedRun>,
  executed: Map<RunId, Executed>,
  now: Date,
  tell: (run: LockedRun, line: number, level: LogLevel, message: string) => void,
) {
  const merging = [...runs.values()].filter((run) => run.effects.includes('mergeBranch'))
  if (merging.length === 0) return
  const results = await mergeBranches(
    tx,
    merging.map((run) => ({
      branch: branchOf(run.id, run.snapshot.context.attempt),
      testedCommit: executed.get(run.id)?.testedCommit ?? '',
      runId: run.id,
      message: `${run.namespace}.${run.layer}.${run.pipeline}`,
    })),
  )
  for (const run of merging) {
    const { attempt } = run.snapshot.context
    const result = results.get(branchOf(run.id, attempt))
    if (result?.kind === 'merged') {
      run.mergedCommit = result.commit
      moveRun(run, { type: 'merged', attempt }, 'merge', now)
      continue
    }
    const why =
      result === undefined
        ? 'the branch is gone'
        : result.kind === 'conflict'
          ? `${result.table} changed on main`
          : result.why
    tell(run, 1, 'warn', `merge conflict in attempt ${attempt}: ${why}`)
    moveRun(run, { type: 'conflicted', attempt }, 'merge', now)
    run.rowsWritten = null
    if (isTerminal(run.status))
      run.error = `merging: gave up after ${run.snapshot.context.conflicts + 1} conflicts: ${why}`
    else run.notBefore = new Date(now.getTime() + Math.min(5_000, 25 * 2 ** run.snapshot.context.conflicts))
  }
}

/** Everything that must be true together with the new states. */
async function settle(
  tx: SqlTx,
  runs: Map<RunId, LockedRun>,
  executed: Map<RunId, Executed>,
  boots: { run_id: RunId; attempt: number; boot: string }[],
  now: Date,
) {
  const all = [...runs.values()]
  if (boots.length > 0)
    await tx`
      update run_attempt a set runner_boot = b.boot
      from jsonb_to_recordset(${tx.json(boots as unknown as JSONValue)}) as b(run_id uuid, attempt int, boot text)
      where a.run_id = b.run_id and a.attempt = b.attempt`

  const closing = all.filter((run) => run.effects.includes('closeBranch'))
  if (closing.length > 0)
    await closeBranches(
      tx,
      closing.map((run) => branchOf(run.id, run.snapshot.context.attempt)),
    )

  const ended = all.filter((run) => run.effects.includes('closeBranch') || run.mergedCommit !== null)
  if (ended.length > 0)
    await tx`
      update run_attempt a set state = 'closed', outcome = e.outcome, closed_at = ${now}
      from jsonb_to_recordset(${tx.json(ended.map((run) => ({ run_id: run.id, outcome: run.status })) as unknown as JSONValue)})
        as e(run_id uuid, outcome text)
      where a.run_id = e.run_id and a.state = 'open'`
  for (const run of ended) run.follower = null

  const cancelling = all.filter((run) => run.effects.includes('cancelAttempt'))
  if (cancelling.length > 0)
    await tx`
      insert into outbox (kind, payload, due_at)
      select 'cancelAttempt', jsonb_build_object('handle', c.handle, 'runnerUrl', a.runner_url), clock_timestamp()
      from jsonb_to_recordset(${tx.json(
        cancelling.map((run) => ({
          run_id: run.id,
          attempt: run.snapshot.context.attempt,
          handle: handleOf(run.id, run.snapshot.context.attempt),
        })) as unknown as JSONValue,
      )}) as c(run_id uuid, attempt int, handle text)
      join run_attempt a on a.run_id = c.run_id and a.attempt = c.attempt`

  await storeResults(tx, all, executed)
  await archiveInputs(tx, all, executed, now)
}

async function storeResults(tx: SqlTx, runs: LockedRun[], executed: Map<RunId, Executed>) {
  const results = runs.flatMap((run) =>
    (executed.get(run.id)?.tests ?? []).map((test) => ({
      run_id: run.id,
      pipeline_id: run.pipelineId,
      name: test.name,
      severity: test.severity,
      status: test.isPassed ? 'passed' : 'failed',
      value: test.value,
      duration_ms: test.durationMs,
      error: test.error,
    })),
  )
  if (results.length === 0) return
  await tx`
    insert into quality_result (run_id, pipeline_id, name, severity, status, value, duration_ms, error)
    select q.* from jsonb_to_recordset(${tx.json(results as unknown as JSONValue)})
      as q(run_id uuid, pipeline_id uuid, name text, severity text, status text, value bigint, duration_ms bigint, error text)
    on conflict (run_id, name) do update set severity = excluded.severity, status = excluded.status,
      value = excluded.value, duration_ms = excluded.duration_ms, error = excluded.error, created_at = clock_timestamp()`
}

/** I6: archiving is this fact. A file that another success has taken meanwhile stays that one's. */
async function archiveInputs(tx: SqlTx, runs: LockedRun[], executed: Map<RunId, Executed>, now: Date) {
  const inputs = runs.flatMap((run) => {
    const facts = executed.get(run.id)
    if (run.status !== 'success' || facts === undefined || !facts.archivesLandingZones) return []
    return facts.landingFileIds.map((id) => ({ run_id: run.id, attempt: run.snapshot.context.attempt, id }))
  })
  if (inputs.length === 0) return
  await tx`
    update landing_file f set archived_by_run = i.run_id, archived_at = ${now}
    from jsonb_to_recordset(${tx.json(inputs as unknown as JSONValue)}) as i(run_id uuid, attempt int, id uuid)
    join run_file r on r.run_id = i.run_id and r.attempt = i.attempt and r.landing_file_id = i.id
    where f.id = i.id and f.archived_by_run is null`
}

function closingLine(run: LockedRun): [LogLevel, string] {
  const took = `after ${run.durationMs ?? 0} ms`
  const text: Record<RunStatus, string> = {
    success:
      run.mergedCommit === null
        ? `success ${took}: no table changed`
        : `success ${took}: ${run.rowsWritten ?? 0} rows merged as commit ${run.mergedCommit}`,
    failed: run.error ?? 'failed',
    cancelled: 'cancelled',
    pending: '',
    running: '',
  }
  return [run.status === 'success' ? 'info' : 'error', text[run.status]]
}
