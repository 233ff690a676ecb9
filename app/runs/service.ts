// Requests, cancels, lists and logs for callers. The re-exports are statements for workers and other slices.

import { Value } from '@sinclair/typebox/value'
import type { Sql } from '../../drizzle/client.ts'
import { clientTrace } from '../../ground/telemetry/trace.ts'
import { EVERYTHING } from '../core/access.ts'
import { AppError, alreadyEnded, failedPrecondition, forbidden, invalid, notFound } from '../core/errors.ts'
import type { NewId, PipelineId, RunId } from '../core/ids.ts'
import { instantOf } from '../core/instants.ts'
import { MAIN } from '../core/lake-version.ts'
import { limits } from '../core/limits.ts'
import { makeMicroBatcher } from '../core/micro-batcher.ts'
import { type Page, pageOf, sortOf } from '../core/pagination.ts'
import { answerOnce, type IdempotencyKey } from '../http/idempotency.ts'
import { openBranchNamed } from '../versions/store/user-branches.ts'
import { noOpenBranch } from '../versions/views.ts'
import { refusalOfValue } from '../wire/validation.ts'
import {
  type Approve,
  type CreateRun,
  type Reject,
  type RunAccepted,
  type RunQuery,
  RunQueryNames,
} from './schema.ts'
import { inputsOf, resultsOf } from './store/details.ts'
import { cancelRuns, rejectRun } from './store/endings.ts'
import { foldRunTotal, listRuns } from './store/list.ts'
import { completedOf } from './store/moves.ts'
import type { Notices } from './store/notices.ts'
import { insertRun, type NamedRequest, type NewRun, requestNamed } from './store/requests.ts'
import { approveRun } from './store/reviews.ts'
import { activeRunsOf, countActiveRuns, findRun, tailOf } from './store/runs.ts'

export {
  adoptOrphans,
  attemptsFollowedBy,
  handleOf,
  type OpenAttempt,
  openAttemptsOf,
  renewReplica,
} from './store/attempts.ts'

/** Maximum number of requests that one statement stores. */
export const REQUEST_BATCH = 256
export { anySlot, type RunnerSlot } from './placement.ts'
export { failExpiredReviews, failStuckRuns } from './store/endings.ts'
export { type LogLevel, type LogLine, loggedPart, runnerLine, seqAfter, seqOfRunner } from './store/logs.ts'
export { type Announcement, listen, makeNotices, type Notices, type RunCompleted } from './store/notices.ts'
export { type Applied, applyOutcomes } from './store/outcomes.ts'
export { notePlacements } from './store/placements.ts'
export { outcomesOf, type RequestOutcome, type RunRequest, requestedRuns } from './store/requests.ts'
export { queueCancels } from './store/settle.ts'
export { startWaiting } from './store/start.ts'

/** The code that runs of a pipeline execute now. */
type Runnable = Pick<
  NewRun,
  'pipelineId' | 'pipelineType' | 'versionNumber' | 'pins' | 'landingZones' | 'placement'
>

export interface RunDeps {
  sql: Sql
  /** Connections for lists, which may take long; by default `sql`. */
  lists?: Sql
  /** Connections for requests without a key; by default `sql`. */
  requests?: Sql
  notices: Notices
  newId: NewId
  /**
   * The files of the published version. A draft, or a pipeline that was never published, has the files of the draft. 404 if the
   * pipeline does not exist.
   */
  runnable(
    path: { namespace: string; layer: string; name: string },
    isDraft: boolean,
    isIntoMain?: boolean,
  ): Promise<Runnable>
  /** Hints for the dispatcher of this replica. A sweep finds work whose hint was lost. */
  nudge(about: 'runRequested' | 'outbox'): void
}

export type RunService = ReturnType<typeof makeRunService>

export function makeRunService(deps: RunDeps) {
  const { sql, lists = sql, notices, nudge } = deps

  /** Between a cancel and a merge, the first commit wins; the other transaction sees its result. */
  async function cancel(id: string) {
    const runs = await sql.begin((tx) => cancelRuns(tx, [id as RunId], 'requested'))
    if (runs.size === 0) {
      await get(id)
      throw alreadyEnded(id as RunId)
    }
    ended(runs)
    return { run_id: id, status: 'cancelled' as const }
  }

  /** Merges a run in review. Between two approvals, a rejection and a cancel, the first commit wins. */
  async function approve(id: string, { message }: Approve, by: string | null, person: string | null = null) {
    const approval = { by, message: message ?? null, person }
    const approved = await sql.begin((tx) => approveRun(tx, id as RunId, approval))
    if (approved === 'refused')
      throw forbidden(
        'another user must approve the run: its pipeline or namespace says reviewers: four-eyes',
      )
    if (approved === null) throw await notInReview(id)
    const { run, staleInputs } = approved
    ended(new Map([[run.id, run]]))
    return { run_id: id, status: run.status, stale_inputs: staleInputs }
  }

  /** Fails a run in review. */
  async function reject(id: string, { message }: Reject, by: string | null) {
    const runs = await sql.begin((tx) => rejectRun(tx, id as RunId, { by, message }))
    if (runs === null) throw await notInReview(id)
    ended(runs)
    return { run_id: id, status: 'failed' as const }
  }

  async function notInReview(id: string) {
    const { status, phase } = await get(id)
    return failedPrecondition(`run ${id} is not in review: it is ${phase ?? status}`)
  }

  /** Cancels all pending and running runs of a pipeline. */
  async function cancelAllOf(pipelineId: PipelineId, cause: string) {
    for (;;) {
      const ids = await activeRunsOf(sql, pipelineId)
      if (ids.length === 0) return
      const cancelled = await sql.begin((tx) => cancelRuns(tx, ids, cause))
      ended(cancelled)
      if (ids.length < limits.cancelBatch || cancelled.size === 0) return
    }
  }

  function ended(runs: Awaited<ReturnType<typeof cancelRuns>>) {
    notices.changed(runs.keys())
    notices.completed(completedOf(runs.values()))
    nudge('outbox')
    // The pipelines of these runs can now start their next run.
    nudge('runRequested')
  }

  async function get(id: string) {
    const run = await findRun(sql, id)
    if (run === null) throw notFound(`run ${id}`)
    return run
  }

  /** Lists the runs of pipelines that are visible to the caller. */
  async function list(query: RunQuery, visible = EVERYTHING) {
    const { namespace, layer, pipeline, status, branch } = query
    const misnamed = Value.Errors(RunQueryNames, query).First()
    if (misnamed) throw refusalOfValue(misnamed, '')
    const page: Page = pageOf(query)
    const filter = {
      namespace,
      layer,
      pipeline,
      status,
      branch,
      from: query.from === undefined ? undefined : instantOf('from', query.from),
      to: query.to === undefined ? undefined : instantOf('to', query.to),
      visible: visible.pipelines,
    }
    return { ...(await listRuns(lists, filter, sortOf(query, 'created_at'), page)), page }
  }

  async function logs(id: string) {
    const tail = await tailOf(sql, id, 0, 2 * limits.logLinesPerRun)
    if (tail === null) throw notFound(`run ${id}`)
    return {
      logs: tail.lines.map(({ timestamp, level, message }) => ({ timestamp, level, message })),
      status: tail.state.status,
    }
  }

  return {
    /** Counts pending and running runs, and those in review among them. */
    countActive: () => countActiveRuns(sql),
    /** Keeps the total of all runs fast to read. Call it about every second. */
    foldTotal: () => foldRunTotal(lists),
    request: makeRequest(deps),
    cancel,
    approve,
    reject,
    cancelAllOf,
    get,
    list,
    logs,
    ...makeDetails(sql),
    /** The run's state and at most `linesMax` lines after number `seq`; null: the run does not exist. */
    tail: (id: string, seq: number, linesMax: number) => tailOf(sql, id, seq, linesMax),
  }
}

function makeDetails(sql: Sql) {
  const noRun = (id: string) => notFound(`run ${id}`)
  return {
    async tests(id: string) {
      const results = await resultsOf(sql, id)
      if (results.length === 0 && (await findRun(sql, id)) === null) throw noRun(id)
      const passed = results.filter(({ status }) => status === 'passed').length
      return { results, passed, failed: results.length - passed, total: results.length }
    },

    async inputs(id: string) {
      const found = await inputsOf(sql, id)
      if (found === null) throw noRun(id)
      return found
    },
  }
}

function makeRequest({ sql, requests = sql, newId, runnable, nudge }: RunDeps) {
  const intake = makeIntake(requests, () => nudge('runRequested'))

  const wantedRun = (
    { namespace, layer, pipeline, trigger, branch = MAIN, draft = false }: CreateRun,
    requestedBy: string | null,
  ) => {
    const id = newId() as RunId
    return { id, namespace, layer, pipeline, trigger, branch, isDraft: draft, requestedBy, ...clientTrace() }
  }

  /**
   * Pins the code now; the start fixes the data. Resolves once the pending row is durable. A repeated key gets the answer of
   * its first request.
   */
  async function request(
    body: CreateRun,
    key: IdempotencyKey | null = null,
    requestedBy: string | null = null,
  ): Promise<RunAccepted> {
    const wanted = wantedRun(body, requestedBy)
    if (wanted.isDraft && wanted.branch === MAIN)
      throw invalid('draft', 'needs a branch other than main: publish the draft, or send branch')
    if (key !== null) return (await requestOnce(body, key, requestedBy)) ?? refuse(body)
    const outcome = wanted.branch === MAIN ? await intake(wanted) : 'onBranch'
    if (outcome === 'full') return refuse(body)
    if (outcome !== 'requested') {
      // An unpublished pipeline runs its draft. If the pipeline does not exist, `runnable` throws 404.
      const target = await runnable(refOf(body), wanted.isDraft, wanted.branch === MAIN)
      if (!(await insertRun(sql, { ...wanted, ...target }))) return refuse(body)
      nudge('runRequested')
    }
    return { run_id: wanted.id, status: 'pending' }
  }

  /** Inserts the run and the row of the key in one transaction. Null: the pipeline accepts no run now. */
  async function requestOnce(
    body: CreateRun,
    key: IdempotencyKey,
    requestedBy: string | null,
  ): Promise<RunAccepted | null> {
    const outcome = await answerOnce(sql, key, {
      prepare: () => runnable(refOf(body), body.draft === true, (body.branch ?? MAIN) === MAIN),
      async perform(tx, target) {
        const run = { ...wantedRun(body, requestedBy), ...target }
        return (await insertRun(tx, run))
          ? { status: 202, body: { run_id: run.id, status: 'pending' as const } }
          : null
      },
    })
    if (outcome === null) return null
    if (!outcome.isRepeat) nudge('runRequested')
    return outcome.answer.body
  }

  async function refuse(body: CreateRun): Promise<never> {
    const { namespace, layer, pipeline, branch = MAIN } = body
    // If the pipeline was deleted meanwhile, `runnable` throws 404.
    await runnable(refOf(body), false)
    if (branch !== MAIN && (await openBranchNamed(sql, branch)) === null) throw noOpenBranch(branch)
    throw new AppError(
      429,
      'RATE_LIMITED',
      `pipeline ${namespace}.${layer}.${pipeline} has ${limits.waitingRunsPerPipeline} waiting runs, the limit: retry in 60 s`,
      { headers: { 'retry-after': '60' } },
    )
  }

  return request
}

const refOf = ({ namespace, layer, pipeline }: CreateRun) => ({ namespace, layer, name: pipeline })

/**
 * Stores concurrent requests in one statement, and answers when they are durable. Before the answers, `stored` is called once
 * per statement that stored a request.
 */
export const makeIntake = (sql: Sql, stored: () => void) =>
  makeMicroBatcher(REQUEST_BATCH, async (requests: readonly NamedRequest[]) => {
    const outcomes = await requestNamed(sql, requests)
    if ([...outcomes.values()].includes('requested')) stored()
    return requests.map(({ id }) => outcomes.get(id) ?? 'gone')
  }).add
