import { sql } from 'drizzle-orm'
import { check, index, pgTable, primaryKey, uniqueIndex } from 'drizzle-orm/pg-core'
import type { Stored } from '../../machines/advance.ts'
import type { RunStatus } from '../../machines/run.ts'
import { createdAt, instant } from './columns.ts'
import type { LandingZoneNames, PinnedFiles, Placement } from './pipeline.ts'

/**
 * A run. The row is also its place in the queue: dispatchers find waiting runs through the partial index. Code is fixed at the
 * request (`pins`); data is fixed at the start of each attempt.
 */
export const runs = pgTable(
  'run',
  (pg) => ({
    id: pg.uuid('id').primaryKey(),
    /**
     * No foreign key, because its check would lock the pipeline's row for every run. A run that is requested during the
     * deletion of its pipeline is cancelled at its start.
     */
    pipelineId: pg.uuid('pipeline_id').notNull(),
    namespace: pg.text('namespace').notNull(),
    layer: pg.text('layer').notNull(),
    pipeline: pg.text('pipeline').notNull(),
    pipelineType: pg.text('pipeline_type').notNull(),
    trigger: pg.text('trigger').notNull(),
    /** The branch that the run reads and merges into: `main` or a branch of a user. */
    branch: pg.text('branch').notNull().default('main'),
    /** True when the request asked for the draft. */
    isDraft: pg.boolean('draft').notNull().default(false),
    /** Null when the run executes the draft. */
    versionNumber: pg.integer('version_number'),
    pins: pg.jsonb('pins').$type<PinnedFiles>().notNull(),
    landingZones: pg.jsonb('landing_zones').$type<LandingZoneNames>().notNull(),
    /** Null: any runner is enough, and the priority is 0. */
    placement: pg.jsonb('placement').$type<Placement>(),

    /**
     * Snapshot of the run statechart: `{value, context, status}`. The same UPDATE writes `status`, `phase`, `attempt` and
     * `waiting` from it.
     */
    snapshot: pg.jsonb('snapshot').$type<Stored>().notNull(),
    machineVersion: pg.integer('machine_version').notNull(),
    status: pg.text('status').$type<RunStatus>().notNull(),
    phase: pg.text('phase'),
    attempt: pg.integer('attempt').notNull().default(0),
    /** True while the run waits for the start of an attempt. */
    waiting: pg.boolean('waiting').notNull().default(true),
    /** Why no runner can take the waiting run; null while the run is not known to lack a runner. */
    waitingReason: pg.text('waiting_reason'),
    /** No attempt starts before this time (backoff). */
    notBefore: instant('not_before'),
    /** The replica that follows the open attempt. */
    follower: pg.text('follower'),

    startedAt: instant('started_at'),
    finishedAt: instant('finished_at'),
    durationMs: pg.bigint('duration_ms', { mode: 'number' }),
    rowsWritten: pg.bigint('rows_written', { mode: 'number' }),
    error: pg.text('error'),
    /** The commit of main from which this run's success was computed. `mergedCommit` is the commit of its merge. */
    baseCommit: pg.bigint('base_commit', { mode: 'number' }),
    mergedCommit: pg.bigint('merged_commit', { mode: 'number' }),

    /** The trigger or schedule that requested the run, if any. The unique indexes on these columns enforce invariant I2. */
    triggerId: pg.uuid('trigger_id'),
    /** The subject of the event, or the due time of a cron trigger. */
    triggerEvent: pg.text('trigger_event'),
    scheduleId: pg.uuid('schedule_id'),
    scheduleDue: instant('schedule_due'),
    /** The number of firings between a person or a clock and this run. */
    chainDepth: pg.integer('chain_depth').notNull().default(0),
    /** The upload that requested the run. If an earlier success has archived that file, the run has nothing left to do. */
    landingFileId: pg.uuid('landing_file_id'),
    /** The user or API key that requested the run; null for the service's own requests and without a credential. */
    requestedBy: pg.text('requested_by'),
    /** The trace of the run's cause; the run's attempts belong to the same trace. */
    traceparent: pg.text('traceparent'),
    tracestate: pg.text('tracestate'),
    createdAt: createdAt(),
  }),
  (t) => [
    uniqueIndex('run_of_trigger_event').on(t.triggerId, t.triggerEvent).where(sql`trigger_id is not null`),
    uniqueIndex('run_of_schedule').on(t.scheduleId, t.scheduleDue).where(sql`schedule_id is not null`),
    /** For the latest success of a pipeline on main. Dependencies are compared with it, and it is never pruned. */
    index('run_success')
      .on(t.pipelineId, t.finishedAt, t.id)
      .where(sql`status = 'success' and branch = 'main'`),
    /**
     * The order of a pipeline's waiting runs on one branch: a run between two attempts (`running`) comes before all `pending`
     * runs.
     */
    index('run_queue').on(t.pipelineId, t.branch, t.status.desc(), t.createdAt, t.id).where(sql`waiting`),
    index('run_active').on(t.pipelineId).where(sql`status in ('pending', 'running')`),
    /** A run in review does not hold the queue. An approved run may wait for its next attempt while another run executes. */
    uniqueIndex('run_one_running')
      .on(t.pipelineId, t.branch)
      .where(sql`status = 'running' and phase not in ('review', 'waiting')`),
    index('run_in_review').on(t.id).where(sql`status = 'running' and phase = 'review'`),
    /** For lists of the runs of one branch. Almost all runs are on main. */
    index('run_on_branch').on(t.branch, t.createdAt, t.id).where(sql`branch <> 'main'`),
    /** A branch of a user stays open while it has such runs. */
    index('run_of_branch').on(t.branch).where(sql`status in ('pending', 'running') and branch <> 'main'`),
    index('run_followed').on(t.follower).where(sql`follower is not null`),
    // Indexes for lists: first the sort column, then the filter columns, so that Postgres skips runs without reading them.
    index('run_created').on(t.createdAt, t.id, t.status, t.namespace, t.layer),
    index('run_of_pipeline').on(t.pipelineId, t.createdAt, t.id, t.status),
    index('run_status').on(t.status, t.createdAt, t.id, t.namespace, t.layer),
    /** Only runs that have ended: a run's row enters these indexes once, with its last change. */
    index('run_duration').on(t.durationMs, t.id).where(sql`duration_ms is not null`),
    index('run_finished').on(t.finishedAt, t.id).where(sql`finished_at is not null`),
    check('run_status_known', sql`${t.status} in ('pending', 'running', 'success', 'failed', 'cancelled')`),
  ],
)

// The tables below have no foreign key to `run`. A check would lock the run's row for every log line. A cascade would take a
// query per run and table. So a deletion of runs deletes these rows first, as the reaper does in batches.

/** One execution of a run on a branch of its own, computed from one state of the run's branch. */
export const runAttempts = pgTable(
  'run_attempt',
  (pg) => ({
    runId: pg.uuid('run_id').notNull(),
    attempt: pg.integer('attempt').notNull(),
    pipelineId: pg.uuid('pipeline_id').notNull(),
    branch: pg.text('branch').notNull(),
    /** The branch into which `branch` merges. */
    runBranch: pg.text('run_branch').notNull().default('main'),
    baseCommit: pg.bigint('base_commit', { mode: 'number' }).notNull(),
    /** The greatest landing file sequence when the attempt started. Later files are not its input. */
    landingWatermark: pg.bigint('landing_watermark', { mode: 'number' }).notNull(),
    runnerUrl: pg.text('runner_url').notNull(),
    /** Null until the runner has accepted the attempt. Another boot id means that the attempt is lost. */
    runnerBoot: pg.text('runner_boot'),
    state: pg.text('state').notNull().default('open'),
    outcome: pg.text('outcome'),
    openedAt: instant('opened_at').notNull().default(sql`clock_timestamp()`),
    closedAt: instant('closed_at'),
  }),
  (t) => [
    primaryKey({ columns: [t.runId, t.attempt] }),
    uniqueIndex('run_attempt_one_open').on(t.pipelineId, t.runBranch).where(sql`state = 'open'`),
    check('run_attempt_state', sql`${t.state} in ('open', 'closed')`),
  ],
)

/** The landing files that an attempt reads, frozen for it. */
export const runFiles = pgTable(
  'run_file',
  (pg) => ({
    runId: pg.uuid('run_id').notNull(),
    attempt: pg.integer('attempt').notNull(),
    landingFileId: pg.uuid('landing_file_id').notNull(),
    zoneId: pg.uuid('zone_id').notNull(),
    /** False when the owner of the run may read the zone but not write it; the file then stays active. */
    mayArchive: pg.boolean('may_archive').default(true).notNull(),
  }),
  (t) => [
    primaryKey({ columns: [t.runId, t.attempt, t.landingFileId] }),
    /** The order of the list of a zone's reads. */
    index('run_file_of_zone').on(t.zoneId, t.runId, t.landingFileId),
  ],
)

/** An input table that main changed after the run had read it. */
export interface StaleInput {
  table: string
  /** The commits of main that made the read state and the state at the merge. */
  read_commit: number
  latest_commit: number
}

/** The review of a run: the facts of the attempt that waits for a reviewer, or was reviewed last. */
export const runReviews = pgTable('run_review', (pg) => ({
  runId: pg.uuid('run_id').primaryKey(),
  attempt: pg.integer('attempt').notNull(),
  enteredAt: instant('entered_at').notNull(),
  /** The run fails if nobody has decided by then. */
  expiresAt: instant('expires_at').notNull(),
  timeoutHours: pg.integer('timeout_hours').notNull(),
  /** The requester of the run may not approve it (Pro). */
  fourEyes: pg.boolean('four_eyes').notNull(),
  /** Milliseconds of earlier reviews of this run, which do not count as time of the run. */
  reviewedMs: pg.bigint('reviewed_ms', { mode: 'number' }).notNull().default(0),
  testedCommit: pg.uuid('tested_commit').notNull(),
  rowsWritten: pg.bigint('rows_written', { mode: 'number' }).notNull(),
  landingFileIds: pg.uuid('landing_file_ids').array().notNull(),
  archivesLandingZones: pg.boolean('archives_landing_zones').notNull(),
  /** The tables and views that the attempt read, as `namespace.layer.name`. */
  inputTables: pg.text('input_tables').array().notNull().default(sql`'{}'::text[]`),
  /** The inputs that main had changed before the approved merge; null before the merge. */
  staleInputs: pg.jsonb('stale_inputs').$type<StaleInput[]>(),
}))

/** The diff of a run: as a client read it first, or as the reaper stored it before it deleted the states. */
export const runDiffs = pgTable('run_diff', (pg) => ({
  runId: pg.uuid('run_id').primaryKey(),
  diff: pg.jsonb('diff').notNull(),
}))

/** `seq` is attempt * 1,000,000 + line, so a repeated line is dropped by its number. */
export const runLogs = pgTable(
  'run_log',
  (pg) => ({
    runId: pg.uuid('run_id').notNull(),
    seq: pg.bigint('seq', { mode: 'number' }).notNull(),
    at: instant('at').notNull(),
    level: pg.text('level').$type<'debug' | 'info' | 'warn' | 'error'>().notNull(),
    message: pg.text('message').notNull(),
  }),
  (t) => [primaryKey({ columns: [t.runId, t.seq] })],
)

export const qualityResults = pgTable(
  'quality_result',
  (pg) => ({
    runId: pg.uuid('run_id').notNull(),
    pipelineId: pg.uuid('pipeline_id').notNull(),
    name: pg.text('name').notNull(),
    severity: pg.text('severity').notNull(),
    status: pg.text('status').notNull(),
    value: pg.bigint('value', { mode: 'number' }).notNull(),
    durationMs: pg.bigint('duration_ms', { mode: 'number' }).notNull(),
    error: pg.text('error'),
    /** The first failing rows as text, if the test selects rows. */
    samples: pg.text('samples').array().notNull().default(sql`'{}'::text[]`),
    createdAt: createdAt(),
  }),
  (t) => [
    primaryKey({ columns: [t.runId, t.name] }),
    index('quality_result_of_test').on(t.pipelineId, t.name, t.createdAt),
    /** For failing tests that no later run has settled. */
    index('quality_result_failed').on(t.pipelineId).where(sql`status = 'failed'`),
  ],
)
