import { sql } from 'drizzle-orm'
import { check, index, pgTable, primaryKey, uniqueIndex } from 'drizzle-orm/pg-core'
import type { Stored } from '../../machines/advance.ts'
import type { RunStatus } from '../../machines/run.ts'
import { createdAt, instant } from './columns.ts'
import type { LandingZoneNames, PinnedFiles } from './pipeline.ts'

/**
 * A run. The row is also its place in the queue: dispatchers take what waits through the partial index.
 * Code is fixed here, at the request (`pins`); data is fixed per attempt, at its start.
 */
export const runs = pgTable(
  'run',
  (pg) => ({
    id: pg.uuid('id').primaryKey(),
    /** No foreign key: checking one locks the pipeline's row for every run. What is asked for while it is deleted is cancelled at its start. */
    pipelineId: pg.uuid('pipeline_id').notNull(),
    namespace: pg.text('namespace').notNull(),
    layer: pg.text('layer').notNull(),
    pipeline: pg.text('pipeline').notNull(),
    pipelineType: pg.text('pipeline_type').notNull(),
    trigger: pg.text('trigger').notNull(),
    /** Null when the draft was run. */
    versionNumber: pg.integer('version_number'),
    pins: pg.jsonb('pins').$type<PinnedFiles>().notNull(),
    landingZones: pg.jsonb('landing_zones').$type<LandingZoneNames>().notNull(),

    /** The run statechart: `{value, context, status}`; `status`, `phase`, `attempt`, `waiting` are written from it in the same UPDATE. */
    snapshot: pg.jsonb('snapshot').$type<Stored>().notNull(),
    machineVersion: pg.integer('machine_version').notNull(),
    status: pg.text('status').$type<RunStatus>().notNull(),
    phase: pg.text('phase'),
    attempt: pg.integer('attempt').notNull().default(0),
    /** True while the run waits for an attempt to be started. */
    waiting: pg.boolean('waiting').notNull().default(true),
    /** An attempt is not started before this time (back-off). */
    notBefore: instant('not_before'),
    /** The replica that follows the open attempt. */
    follower: pg.text('follower'),

    startedAt: instant('started_at'),
    finishedAt: instant('finished_at'),
    durationMs: pg.bigint('duration_ms', { mode: 'number' }),
    rowsWritten: pg.bigint('rows_written', { mode: 'number' }),
    error: pg.text('error'),
    /** The commit of main this run's success was computed from, and the one that it became. */
    baseCommit: pg.bigint('base_commit', { mode: 'number' }),
    mergedCommit: pg.bigint('merged_commit', { mode: 'number' }),

    /** What asked for it, if not a person: I2 holds by the unique indexes on these. */
    triggerId: pg.uuid('trigger_id'),
    /** The subject of the event, or the due time of a cron. */
    triggerEvent: pg.text('trigger_event'),
    scheduleId: pg.uuid('schedule_id'),
    scheduleDue: instant('schedule_due'),
    /** Firings between a person or a clock and this run. */
    chainDepth: pg.integer('chain_depth').notNull().default(0),
    /** The upload that asked for it: if an earlier success has archived that file, nothing is left to do. */
    landingFileId: pg.uuid('landing_file_id'),
    /** The trace of what has led to it, which its attempts belong to. */
    traceparent: pg.text('traceparent'),
    tracestate: pg.text('tracestate'),
    createdAt: createdAt(),
  }),
  (t) => [
    uniqueIndex('run_of_trigger_event').on(t.triggerId, t.triggerEvent).where(sql`trigger_id is not null`),
    uniqueIndex('run_of_schedule').on(t.scheduleId, t.scheduleDue).where(sql`schedule_id is not null`),
    /** The latest success of a pipeline: what dependencies are compared with, and what is never pruned. */
    index('run_success').on(t.pipelineId, t.finishedAt, t.id).where(sql`status = 'success'`),
    /** The order in which a pipeline's runs go: the one between two attempts (`running`) before all that are `pending`. */
    index('run_queue').on(t.pipelineId, t.status.desc(), t.createdAt, t.id).where(sql`waiting`),
    index('run_active').on(t.pipelineId).where(sql`status in ('pending', 'running')`),
    uniqueIndex('run_one_running').on(t.pipelineId).where(sql`status = 'running'`),
    index('run_followed').on(t.follower).where(sql`follower is not null`),
    // For lists: an order, and behind it what is filtered by, so that runs are passed over without being read.
    index('run_created').on(t.createdAt, t.id, t.status, t.namespace, t.layer),
    index('run_of_pipeline').on(t.pipelineId, t.createdAt, t.id, t.status),
    index('run_status').on(t.status, t.createdAt, t.id, t.namespace, t.layer),
    check('run_status_known', sql`${t.status} in ('pending', 'running', 'success', 'failed', 'cancelled')`),
  ],
)

// The tables below have no foreign key to `run`: checking one locks the run's row for every line of a log, and a cascade
// takes a query per run and table. Whoever deletes a run deletes these first (the reaper does, in batches).

/** One execution of a run on a branch of its own, computed from one commit of main. */
export const runAttempts = pgTable(
  'run_attempt',
  (pg) => ({
    runId: pg.uuid('run_id').notNull(),
    attempt: pg.integer('attempt').notNull(),
    pipelineId: pg.uuid('pipeline_id').notNull(),
    branch: pg.text('branch').notNull(),
    baseCommit: pg.bigint('base_commit', { mode: 'number' }).notNull(),
    /** The greatest landing file sequence when the attempt started: files that arrive later are not its input. */
    landingWatermark: pg.bigint('landing_watermark', { mode: 'number' }).notNull(),
    runnerUrl: pg.text('runner_url').notNull(),
    /** Known once the runner has accepted; another boot id means the attempt is lost. */
    runnerBoot: pg.text('runner_boot'),
    state: pg.text('state').notNull().default('open'),
    outcome: pg.text('outcome'),
    openedAt: instant('opened_at').notNull().default(sql`clock_timestamp()`),
    closedAt: instant('closed_at'),
  }),
  (t) => [
    primaryKey({ columns: [t.runId, t.attempt] }),
    uniqueIndex('run_attempt_one_open').on(t.pipelineId).where(sql`state = 'open'`),
    check('run_attempt_state', sql`${t.state} in ('open', 'closed')`),
  ],
)

/** The landing files an attempt reads, frozen at its start. */
export const runFiles = pgTable(
  'run_file',
  (pg) => ({
    runId: pg.uuid('run_id').notNull(),
    attempt: pg.integer('attempt').notNull(),
    landingFileId: pg.uuid('landing_file_id').notNull(),
    zoneId: pg.uuid('zone_id').notNull(),
    /** False: whoever the attempt works for may read the zone and not write it, so the file stays active. */
    mayArchive: pg.boolean('may_archive').default(true).notNull(),
  }),
  (t) => [primaryKey({ columns: [t.runId, t.attempt, t.landingFileId] })],
)

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
    createdAt: createdAt(),
  }),
  (t) => [
    primaryKey({ columns: [t.runId, t.name] }),
    index('quality_result_of_test').on(t.pipelineId, t.name, t.createdAt),
  ],
)
