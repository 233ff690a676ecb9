// Applies outcomes of attempts, many in one transaction. Success and merge are the same transaction (I3).
import type { Row } from 'postgres'
import { inTransaction, type Sql, type SqlTx } from '../../../drizzle/client.ts'
import { cteStatement } from '../../../drizzle/cte-statement.ts'
import { isTerminal, MAX_LOST_ALONE, type RunEvent, runColumns } from '../../../machines/run.ts'
import type { PipelineId, RunId } from '../../core/ids.ts'
import { MAIN } from '../../core/lake-version.ts'
import { limits } from '../../core/limits.ts'
import type { Executed, Outcome, TestResult } from '../outcome.ts'
import { announcedEvents, announcedPart } from './announcements.ts'
import { branchOf } from './attempts.ts'
import { type LogLine, loggedPart, seqAfter, storableText } from './logs.ts'
import { type AppendLine, closingLine, mergeTested, rowsText } from './merging.ts'
import { completedOf, type LockedRun, lockRuns, moveRun, savedParts } from './moves.ts'
import { notifying, type RunCompleted } from './notices.ts'
import { notedStaleInputs, openedReviews, openedReviewsPart, rulesOfRuns, withReview } from './reviews.ts'
import { type Boot, settledParts } from './settle.ts'

export interface Applied {
  /** The commit sends the notices of these runs and of the completed runs. */
  changed: RunId[]
  completed: RunCompleted[]
  /** Attempts that a runner accepted after their runs had moved on; no run needs them. */
  unwanted: { runId: RunId; attempt: number }[]
  /** Pipelines that may start another run, because their runs have ended here or earlier, or are in review. */
  freed: PipelineId[]
  /** A freed pipeline had another run waiting when the statement began. */
  isAwaited: boolean
  /** Number of successes that a trigger listens for. */
  events: number
  /** Milliseconds until the first of these runs may start its next attempt; null: no run waits for an attempt. */
  nextStartMs: number | null
}

const NOTHING: Applied = {
  changed: [],
  completed: [],
  unwanted: [],
  freed: [],
  isAwaited: false,
  events: 0,
  nextStartMs: null,
}

/** Applies outcomes in order. Outcomes of another attempt, or after the run's end, change nothing. */
export const applyOutcomes = (
  sql: Sql,
  reported: readonly Outcome[],
  lines: readonly LogLine[],
): Promise<Applied> =>
  inTransaction(sql, async (tx) => {
    const changed = new Set(lines.map((line) => line.runId))
    if (reported.length === 0) {
      await cteStatement(tx, loggedPart(tx, lines), tx`select ${notifying(tx, changed)} as notified`)
      return { ...NOTHING, changed: [...changed] }
    }
    const { runs, now, outcomes } = await lockReported(tx, reported)
    const accompanied = await accompaniedRuns(tx, outcomes)
    const newLines: LogLine[] = []
    const appendLine: AppendLine = (run, line, level, message) =>
      newLines.push({
        runId: run.id,
        seq: seqAfter(run.snapshot.context.attempt, line),
        at: now,
        level,
        message,
      })

    const executed = new Map<RunId, Executed>()
    const unwanted: Applied['unwanted'] = []
    const boots: Boot[] = []
    for (const outcome of outcomes) {
      const run = runs.get(outcome.runId)
      if (
        run?.status === 'pending' &&
        impliesAcceptance(outcome) &&
        moveRun(run, { type: 'accepted', attempt: outcome.attempt }, 'runner', now) &&
        outcome.runnerBoot !== undefined
      )
        boots.push({ run_id: run.id, attempt: outcome.attempt, boot: outcome.runnerBoot })
      if (run === undefined || !moveRun(run, eventOf(outcome, run, accompanied), 'runner', now)) {
        if (outcome.kind === 'accepted' && !isCurrentAttempt(run, outcome.attempt)) unwanted.push(outcome)
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
          if (run.status === 'failed') {
            run.error = storableText(gateError(outcome.tests))
            run.keepBranchHours = outcome.keepFailedHours
            if (run.keepBranchHours > 0) appendLine(run, 1, 'info', keptLine(run))
          } else run.rowsWritten = outcome.rowsWritten
          if (run.effects.includes('openReview')) appendLine(run, 2, 'info', inReviewLine(outcome))
          break
        case 'failed':
          if (isTerminal(run.status) || outcome.retry === undefined) run.error = storableText(outcome.error)
          else {
            const { max, delaySeconds } = outcome.retry
            const { retries } = run.snapshot.context
            appendLine(run, 1, 'warn', `attempt ${outcome.attempt} failed: ${outcome.error}`)
            appendLine(run, 2, 'info', `next attempt in ${delaySeconds} s: retry ${retries} of ${max}`)
            run.notBefore = new Date(now.getTime() + delaySeconds * 1_000)
          }
          break
        case 'lost':
          appendLine(run, 1, 'warn', `runner lost in attempt ${outcome.attempt}: ${outcome.why}`)
          if (isTerminal(run.status)) run.error = lossError(run, outcome.why)
          break
        case 'engineLost':
          appendLine(run, 1, 'warn', `engine lost in attempt ${outcome.attempt}: ${outcome.why}`)
          if (isTerminal(run.status))
            run.error = storableText(`engine lost ${run.snapshot.context.lostEngines} times: ${outcome.why}`)
          else run.notBefore = new Date(now.getTime() + ENGINE_LOST_DELAY_MS)
          break
      }
    }

    await mergeTested(tx, runs, executed, now, appendLine)
    await notedStaleInputs(tx, runs, executed, appendLine)
    for (const run of runs.values()) {
      if (run.moves.length > 0) changed.add(run.id)
      if (run.moves.length > 0 && isTerminal(run.status)) appendLine(run, 9, ...closingLine(run))
    }
    const completed = completedOf(runs.values())
    const freed = [...runs.values()].flatMap((run) =>
      isTerminal(run.status) || run.effects.includes('openReview') ? run.pipelineId : [],
    )
    const announced = announcedPart(tx, runs.values())
    const isRepeatable = lines.length === 0 && outcomes.every(({ kind }) => REPEATED.has(kind))
    const statement = cteStatement(
      tx,
      [
        ...settledParts(tx, runs, executed, boots, now),
        ...openedReviewsPart(tx, openedReviews(runs, executed, now)),
        ...loggedPart(tx, [...lines, ...newLines]),
        ...savedParts(tx, runs.values(), now),
        ...announced,
      ],
      tx`
        select ${isAnyWaiting(tx, freed)} as "isAwaited", ${announcedEvents(tx, announced)},
          ${notifying(tx, changed, completed)} as notified,
          ${isRepeatable ? tx`set_config('synchronous_commit', 'off', true)` : null} as quick`,
    )
    const applied = ([answer]: readonly Row[]): Applied => ({
      changed: [...changed],
      completed,
      unwanted,
      freed,
      isAwaited: answer?.isAwaited,
      events: answer?.events,
      nextStartMs: nextStartOf(runs.values(), now),
    })
    return applied(await statement)
  })

/** A crash of the database may undo these, because each later outcome implies them. So their commit does not wait for the disk. */
const REPEATED: ReadonlySet<Outcome['kind']> = new Set(['accepted', 'entered'])

/** Locks the runs of outcomes, and adds the reviews that the rules for their tables demand. */
async function lockReported(tx: SqlTx, reported: readonly Outcome[]) {
  const changes = reported.filter((outcome) => outcome.kind === 'executed' && outcome.testedCommit !== null)
  // Pipelined, so the rules cost no round trip.
  const [locked, rules] = await Promise.all([
    lockRuns(
      tx,
      reported.map(({ runId }) => runId),
    ),
    rulesOfRuns(
      tx,
      changes.map(({ runId }) => runId),
    ),
  ])
  const outcomes = reported.map((outcome) =>
    outcome.kind === 'executed' ? withReview(outcome, rules.get(outcome.runId) ?? []) : outcome,
  )
  return { ...locked, outcomes }
}

/** An expression: whether any of these freed pipelines has a waiting run. */
const isAnyWaiting = (tx: SqlTx, pipelines: readonly PipelineId[]) => tx`
  exists (select 1 from unnest(${pipelines as PipelineId[]}::uuid[]) p(id)
    where (select q.id from run q where q.waiting and q.pipeline_id = p.id limit 1) is not null)`

function nextStartOf(runs: Iterable<LockedRun>, now: Date): number | null {
  const delays = [...runs]
    .filter((run) => run.moves.length > 0 && runColumns(run.snapshot).waiting)
    .map(({ notBefore }) => Math.max(0, (notBefore ?? now).getTime() - now.getTime()))
  return delays.length === 0 ? null : Math.min(...delays)
}

function eventOf(outcome: Outcome, run: LockedRun, accompanied: ReadonlySet<RunId>): RunEvent {
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
        // On another branch, the merge of the branch is the review.
        change: run.branch === MAIN ? outcome.review?.change : null,
      }
    case 'failed':
      return { type: 'executionFailed', attempt, maxRetries: outcome.retry?.max }
    case 'lost':
      return {
        type: 'runnerLost',
        attempt,
        hasBegun: outcome.hasBegun,
        hasCompany: accompanied.has(outcome.runId),
      }
    case 'engineLost':
      return { type: 'engineLost', attempt }
  }
}

/**
 * Finds runs that lose their runner now and had company there. The company still executes on that runner, or lost the same
 * runner a moment ago. Other replicas may follow these runs or may have started them elsewhere, so the database decides.
 */
async function accompaniedRuns(tx: SqlTx, outcomes: readonly Outcome[]): Promise<Set<RunId>> {
  const lost = outcomes.filter(({ kind }) => kind === 'lost')
  if (lost.length === 0) return new Set()
  const rows = await tx<{ id: RunId }[]>`
    select l.run_id as id
    from unnest(${lost.map(({ runId }) => runId)}::uuid[], ${lost.map(({ attempt }) => attempt)}::int[]) l(run_id, attempt)
    join run_attempt a on a.run_id = l.run_id and a.attempt = l.attempt
    where exists (
      select 1 from run r join run_attempt o on o.run_id = r.id
      where r.status = 'running' and r.id <> a.run_id and o.runner_url = a.runner_url
        and (o.closed_at is null or o.closed_at > clock_timestamp() - ${COMPANY_MS} * interval '1 millisecond'))`
  return new Set(rows.map(({ id }) => id))
}

/** Two replicas notice a lost runner at most one silence period apart; twice that time is safe. */
const COMPANY_MS = 2 * limits.runnerSilenceMs

/** A delay for a machine that may just have killed the engine process because of its memory. */
const ENGINE_LOST_DELAY_MS = 500

function lossError({ snapshot }: LockedRun, why: string): string {
  const { lostRunners, lostAlone } = snapshot.context
  return lostAlone >= MAX_LOST_ALONE
    ? `runner lost ${lostAlone} times while this run executed alone on it: ${why}`
    : `runner lost ${lostRunners} times: ${why}`
}

/**
 * Only a runner that accepted the attempt can report these outcomes. A crash of the database may have undone the acceptance.
 */
const impliesAcceptance = (outcome: Outcome) =>
  outcome.kind === 'entered' ||
  outcome.kind === 'executed' ||
  outcome.kind === 'engineLost' ||
  (outcome.kind === 'failed' && outcome.retry !== undefined)

/**
 * Whether an acceptance is a repeat. The follower that started the attempt and its successor may both report the acceptance.
 */
const isCurrentAttempt = (run: LockedRun | undefined, attempt: number) =>
  run !== undefined &&
  !isTerminal(run.status) &&
  run.snapshot.context.attempt === attempt &&
  !runColumns(run.snapshot).waiting

const blocks = (result: TestResult) => !result.isPassed && result.severity === 'error'

function gateError(tests: readonly TestResult[]): string {
  const failed = tests.filter(blocks)
  const shown = failed.slice(0, FAILED_TESTS_SHOWN).map((test) => `${test.name} (${whyFailed(test)})`)
  const more = failed.length > shown.length ? `, and ${failed.length - shown.length} more` : ''
  return `testing: ${failed.length} quality ${failed.length === 1 ? 'test' : 'tests'} failed: ${shown.join(', ')}${more}`
}

const keptLine = ({ id, snapshot, keepBranchHours }: LockedRun) =>
  `branch ${branchOf(id, snapshot.context.attempt)} stays readable for ${keepBranchHours} ${keepBranchHours === 1 ? 'hour' : 'hours'}: send its name as branch of a query`

const inReviewLine = ({ review }: Executed) =>
  `in review: approve or reject the run within ${review?.timeoutHours} ${review?.timeoutHours === 1 ? 'hour' : 'hours'}`

/** Maximum number of failed tests in the error text. The run's results contain all of them. */
const FAILED_TESTS_SHOWN = 20

function whyFailed({ error, value, samples = [] }: TestResult): string {
  if (error !== null) return error
  const count = value < 0 ? `value ${value}` : rowsText(value)
  return samples.length === 0 ? count : `${count}: ${samples.join('; ')}`
}
