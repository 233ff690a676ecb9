// The start of runs. One transaction fixes and opens each attempt's base on main, landing files and branch.

import assert from 'node:assert/strict'
import { alias } from 'drizzle-orm/pg-core'
import type { JSONValue, PendingQuery, Row } from 'postgres'
import { inTransaction, type Sql, type SqlTx } from '../../../drizzle/client.ts'
import { cteStatement } from '../../../drizzle/cte-statement.ts'
import { computed, insertRows, nullable, pick, type RowOf, select } from '../../../drizzle/rows.ts'
import { landingFiles } from '../../../drizzle/schema/landing.ts'
import { pipelines } from '../../../drizzle/schema/pipeline.ts'
import { runAttempts, runs } from '../../../drizzle/schema/run.ts'
import type { Part } from '../../../drizzle/sql.ts'
import { executesAlone, RUN_MACHINE_VERSION } from '../../../machines/run.ts'
import type { RunId } from '../../core/ids.ts'
import { MAIN } from '../../core/lake-version.ts'
import { openedBranchesPart } from '../../versions/store/branches.ts'
import { copiedEntriesPart } from '../../versions/store/nested-branches.ts'
import { asksForRunner, type RunnerSlot, takeSlot } from '../placement.ts'
import { announcedEvents, announcedPart } from './announcements.ts'
import { branchOf, continueLogs, freezeInputs, type OpenAttempt } from './attempts.ts'
import { ATTEMPT_LINES, type LogLevel, type LogLine, loggedPart, seqAfter } from './logs.ts'
import { completedOf, LOCKED, type LockedRun, lockedRuns, moveRun, savedParts } from './moves.ts'
import type { RunCompleted } from './notices.ts'
import { type BranchStart, branchStarts } from './on-branches.ts'

/** The result of one pass over the waiting runs. */
interface Started {
  attempts: OpenAttempt[]
  /** Runs that ended instead of being started. */
  completed: RunCompleted[]
  /** Number of successes among them that a trigger listens for. */
  events: number
  /** Every slot had a run to examine, so more runs may be waiting. */
  isFull: boolean
}

interface StartOptions {
  /** Whether the attempts contain their landing files. */
  includesInputs?: boolean
  /** Runs of one namespace that execute at once (`NAMESPACE_CONCURRENCY`); null: no limit. */
  namespaceLimit?: number | null
}

/**
 * Starts the oldest waiting run of each pipeline and branch, as many as there are free slots, in one transaction. When slots are
 * scarce, namespaces take turns: the run that would give its namespace the fewest executing runs starts first. Within a
 * namespace, priority and then age decide. Some runs end here and take no slot: an earlier success archived their input, their
 * pipeline was deleted, or their branch was closed.
 */
export const startWaiting = (
  sql: Sql,
  slots: readonly RunnerSlot[],
  follower: string,
  { includesInputs = true, namespaceLimit = null }: StartOptions = {},
): Promise<Started> =>
  inTransaction(sql, async (tx) => {
    // Replicas that count at the same time would exceed the limit together.
    if (namespaceLimit !== null) await tx`select pg_advisory_xact_lock(${STARTS_LOCK})`
    // One statement has one snapshot, so the base is at least as new as the end of each pipeline's previous run. The statement
    // finds each pipeline's run between two attempts, or else the oldest waiting run. It probes `run_queue` once per pipeline,
    // for any length of the queue. Subqueries that end after one row leave the planner no other way. The choice skips runs that
    // another replica is starting, so that replicas start different runs at the same time.
    const rows = await select(
      tx,
      WAITING,
      tx`
        with recursive heads as (
          (${headOfQueue(tx, tx`true`)})
          union all
          select next.* from heads h cross join lateral (${headOfQueue(tx, tx`(q.pipeline_id, q.branch) > (h.pipeline_id, h.branch)`)}) next),
        executing as materialized (
          select r.namespace, count(*) as runs from run_attempt a join run r on r.id = a.run_id
          where a.state = 'open' group by r.namespace),
        ready as (
          select h.id, h.created_at, h.priority, coalesce(e.runs, 0) + row_number() over (
            partition by h.namespace order by h.priority desc, h.created_at, h.id) as turn
          from heads h left join executing e on e.namespace = h.namespace
          where (h.not_before is null or h.not_before <= clock_timestamp()) and h.machine_version <= ${RUN_MACHINE_VERSION}
            and (select a.attempt from run_attempt a
              where a.pipeline_id = h.pipeline_id and a.run_branch = h.branch and a.state = 'open') is null
            and (h.placement is null or ${isOfferedBy(tx, slots)})),
        chosen as materialized (
          select locked.id from (
            select id from ready where turn <= ${namespaceLimit ?? UNLIMITED}::int8
            order by turn, priority desc, created_at, id) first
          cross join lateral (select r.id from run r where r.id = first.id and r.waiting for update skip locked) locked
          limit ${slots.length}),
        inputs as materialized (
          select id, filename, archived_by_run from landing_file
          where id = any(array(select landing_file_id from run where id = any(array(select id from chosen))))
          order by id for share)`,
    )`
      from run r
      left join inputs i on i.id = r.landing_file_id
      left join lateral (
        select p.id, p.published_version, p.draft_dirty from pipeline p where p.id = r.pipeline_id and p.deleted_at is null limit 1) p on true
      where r.id = any(array(select id from chosen)) and r.waiting
      order by r.created_at, r.id for update of r`
    const [first] = rows
    if (first === undefined) return { attempts: [], completed: [], events: 0, isFull: false }
    const { now } = first
    const waiting = lockedRuns(rows)
    const starts = await branchStarts(tx, waiting.values())
    const lines: LogLine[] = []
    const opened: OpenAttempt[] = []
    const free = [...slots]
    for (const row of rows) {
      const run = waiting.get(row.id as RunId)
      if (run === undefined) continue
      const start = run.branch === MAIN ? startOnMain(row) : starts.get(run.id)
      const ended = endUnstarted(run, row, now, start)
      if (ended !== null) lines.push(ended)
      if (ended !== null || start === undefined) continue
      // The next pass starts a run whose slot went to another run.
      const slot = takeSlot(free, row.placement)
      if (slot === undefined) continue
      if (!moveRun(run, { type: 'start' }, 'dispatcher', now)) continue
      run.follower = follower
      run.baseCommit = start.base
      run.notBefore = null
      opened.push({ ...attemptOf(run, row, slot.url), tableMetadata: start.tableMetadata })
    }
    const rowOf = new Map(rows.map((row) => [row.id as RunId, row]))
    await freezeInputs(tx, opened, first.watermark, (id) => rowOf.get(id)?.landingZones ?? [], includesInputs)
    await continueLogs(tx, opened)
    for (const attempt of opened)
      lines.push(...openingLines(attempt, rowOf.get(attempt.runId), waiting.get(attempt.runId), now))
    const branches = opened.map((attempt) => newBranchOf(attempt, waiting))
    const announced = announcedPart(tx, waiting.values())
    const statement = cteStatement(
      tx,
      [
        ...openedPart(tx, opened, first, waiting),
        ...openedBranchesPart(tx, branches),
        ...copiedEntriesPart(tx, branches),
        ...loggedPart(tx, lines),
        ...savedParts(tx, waiting.values(), now),
        ...announced,
      ],
      tx`select ${announcedEvents(tx, announced)}`,
    )
    const started = ([answer]: readonly Row[]): Started => ({
      attempts: opened,
      completed: completedOf(waiting.values()),
      events: answer?.events,
      isFull: rows.length === slots.length,
    })
    return started(await statement)
  })

/** The first run in the queue of the first pipeline and branch that meet the condition. */
const headOfQueue = (tx: SqlTx, condition: PendingQuery<Row[]>) => tx`
  select q.pipeline_id, q.branch, q.id, q.created_at, q.not_before, q.machine_version, q.namespace, q.placement,
    coalesce((q.placement->>'priority')::int, 0) as priority
  from run q
  where q.waiting and ${condition}
  order by q.pipeline_id, q.branch, q.status desc nulls last, q.created_at, q.id limit 1`

/** The key of the advisory lock under which replicas count the runs of a namespace. */
const STARTS_LOCK = 1_817_004_211
/** More runs than any installation executes. */
const UNLIMITED = Number.MAX_SAFE_INTEGER

/** Whether one of the slots has the labels and the memory that the run `h` demands. */
const isOfferedBy = (tx: SqlTx, slots: readonly RunnerSlot[]) => {
  const offers = [
    ...new Map(slots.map(({ url, labels, memoryBytes }) => [url, { labels, memoryBytes }])).values(),
  ]
  return tx`exists (
    select from jsonb_to_recordset(${tx.json(offers as unknown as JSONValue)}) o(labels jsonb, "memoryBytes" int8)
    where h.placement->'runsOn' <@ o.labels
      and coalesce((h.placement->>'memoryBytes')::int8, 0) <= o."memoryBytes")`
}

const r = alias(runs, 'r')
const p = alias(pipelines, 'p')
const i = alias(landingFiles, 'i')
const WAITING = {
  ...LOCKED,
  ...pick(
    r,
    'pipelineType',
    'trigger',
    'versionNumber',
    'isDraft',
    'pins',
    'landingZones',
    'placement',
    'traceparent',
    'tracestate',
  ),
  now: computed<Date>('clock_timestamp()'),
  /** Head of main, and the greatest number of a landing file. Both are int8, as text. */
  base: computed<string>("(select number from lake_ref where name = 'main')"),
  watermark: computed<string>('coalesce((select max(seq) from landing_file), 0)'),
  /** Null if the pipeline is unpublished or deleted. */
  publishedVersion: nullable(p.publishedVersion),
  isDraftDirty: nullable(p.draftDirty),
  isLive: computed<boolean>('p.id is not null'),
  /** Metadata of the written table on main at `base`: one statement has one snapshot of both. */
  tableMetadata: computed<string>(`coalesce((
    select c.metadata_location from main_entry e join lake_content c on c.id = e.content_id
    where e.namespace = r.namespace and e.layer = r.layer and e.name = r.pipeline and e.to_commit is null
      and c.kind = 'table' limit 1), '')`),
  /**
   * The name of the upload that requested the run, and the run that archived this upload. A row lock keeps others from
   * archiving it until this transaction ends. So the upload is still active when the run's input is frozen.
   */
  inputFilename: nullable(i.filename),
  inputArchivedBy: nullable(i.archivedByRun),
}
type WaitingRow = RowOf<typeof WAITING>

/** Ends a run that has nothing left to do, and returns its last log line; null: the run must start. */
function endUnstarted(
  run: LockedRun,
  row: WaitingRow,
  now: Date,
  start: BranchStart | undefined,
): LogLine | null {
  const line = (level: LogLevel, message: string): LogLine => ({
    runId: run.id,
    seq: seqAfter(run.snapshot.context.attempt, 9),
    at: now,
    level,
    message,
  })
  const cancelled = (cause: string) => moveRun(run, { type: 'cancelRequested' }, cause, now)
  if (!row.isLive) return cancelled('pipeline deleted') ? line('warn', 'cancelled: pipeline deleted') : null
  const { branch } = run
  if (start === undefined)
    return cancelled('branch closed') ? line('warn', `cancelled: branch ${branch} is not open`) : null
  const { inputFilename: filename, inputArchivedBy: archivedBy } = row
  if (archivedBy === null) return null
  run.startedAt ??= now
  run.rowsWritten = 0
  run.notBefore = null
  return moveRun(run, { type: 'inputTaken' }, `run ${archivedBy}`, now)
    ? line(
        'info',
        `success: nothing to do, because run ${archivedBy} has already archived ${filename}, the upload that requested this run`,
      )
    : null
}

const startOnMain = ({ base, tableMetadata }: WaitingRow): BranchStart => ({
  base: Number(base),
  tableMetadata,
})

function newBranchOf(
  { runId, branch, attempt }: OpenAttempt,
  started: Map<RunId, LockedRun>,
): Parameters<typeof copiedEntriesPart>[1][number] {
  const run = started.get(runId)
  assert(run !== undefined && run.baseCommit !== null, 'a started run has a base')
  const opening = { branch, base: run.baseCommit, runId, attempt }
  return run.branch === MAIN ? opening : { ...opening, parent: run.branch }
}

const attemptOf = (
  run: LockedRun,
  row: WaitingRow,
  runnerUrl: string,
): Omit<OpenAttempt, 'tableMetadata'> => {
  const { attempt } = run.snapshot.context
  return {
    runId: run.id,
    attempt,
    branch: branchOf(run.id, attempt),
    runnerUrl,
    runnerBoot: null,
    status: run.status,
    isAlone: executesAlone(run.snapshot.context) || asksForRunner(row.placement),
    namespace: run.namespace,
    layer: run.layer,
    pipeline: run.pipeline,
    pipelineType: row.pipelineType,
    trigger: row.trigger,
    traceparent: row.traceparent,
    tracestate: row.tracestate,
    pins: row.pins,
    createdAt: run.createdAt,
    runStartedAt: row.now,
    lastSeq: 0,
    logLines: 0,
    logBytes: 0,
    landing: [],
  }
}

/** The opening log lines of an attempt. They are added to the attempt's counts of lines and bytes. */
function openingLines(
  attempt: OpenAttempt,
  row: WaitingRow | undefined,
  run: LockedRun | undefined,
  now: Date,
): LogLine[] {
  if (row === undefined || run === undefined) return []
  const { versionNumber: version, publishedVersion: published, isDraftDirty } = row
  const files = attempt.landing.reduce((sum, zone) => sum + zone.files.length, 0)
  const { branch, baseCommit: base } = run
  const code = version === null ? 'the draft' : `version ${version}`
  const inputs = files > 0 ? `, landing files: ${files}` : ''
  const messages: [LogLevel, string | null][] = [
    [
      'info',
      branch === MAIN
        ? `attempt ${attempt.attempt}: ${code} on main at commit ${base}${inputs}`
        : `attempt ${attempt.attempt}: ${code} on branch ${branch} at base commit ${base}${inputs}`,
    ],
    [
      'info',
      attempt.isAlone
        ? `this attempt executes alone on its runner: ${asksForRunner(row.placement) ? 'its configuration demands memory' : 'earlier attempts lost their runners'}`
        : null,
    ],
    [
      'warn',
      version === null && !row.isDraft
        ? 'the pipeline has never been published: this run executes its draft'
        : null,
    ],
    [
      'info',
      version !== null && published !== null && published > version
        ? `version ${published} has been published since this run was requested`
        : null,
    ],
    [
      'info',
      version !== null && isDraftDirty
        ? `the draft differs from version ${version}, which this run executes: publish to run the draft`
        : null,
    ],
  ]
  const lines = messages.flatMap(([level, message], number): LogLine[] => {
    const seq = attempt.attempt * ATTEMPT_LINES + number + 1
    return message === null ? [] : [{ runId: attempt.runId, seq, at: now, level, message }]
  })
  attempt.lastSeq = lines.at(-1)?.seq ?? attempt.lastSeq
  attempt.logLines += lines.length
  attempt.logBytes += lines.reduce((sum, line) => sum + Buffer.byteLength(line.message), 0)
  return lines
}

function openedPart(
  tx: SqlTx,
  opened: readonly OpenAttempt[],
  { now, watermark }: WaitingRow,
  started: Map<RunId, LockedRun>,
): Part[] {
  if (opened.length === 0) return []
  const rows = opened.map(({ runId, attempt, branch, runnerUrl }) => ({
    runId,
    attempt,
    pipelineId: started.get(runId)?.pipelineId,
    branch,
    runBranch: started.get(runId)?.branch,
    runnerUrl,
    baseCommit: started.get(runId)?.baseCommit,
    landingWatermark: Number(watermark),
    openedAt: now,
  }))
  return [
    tx`opened_attempts as (${insertRows(
      tx,
      runAttempts,
      [
        'runId',
        'attempt',
        'pipelineId',
        'branch',
        'runBranch',
        'runnerUrl',
        'baseCommit',
        'landingWatermark',
        'openedAt',
      ],
      rows,
    )})`,
  ]
}
