import { sql } from 'drizzle-orm'
import { check, index, pgTable, primaryKey, uniqueIndex } from 'drizzle-orm/pg-core'
import type { Stored } from '../../machines/advance.ts'
import type { TriggerState } from '../../machines/trigger.ts'
import { createdAt, instant, updatedAt } from './columns.ts'
import { pipelines } from './pipeline.ts'

/** Rules that start runs of a pipeline automatically. */
export const triggers = pgTable(
  'trigger',
  (pg) => ({
    id: pg.uuid('id').primaryKey(),
    pipelineId: pg
      .uuid('pipeline_id')
      .notNull()
      .references(() => pipelines.id, { onDelete: 'cascade' }),
    type: pg.text('type').notNull(),
    /** The configuration that clients see. A webhook's configuration contains only the hash of its token. */
    config: pg.jsonb('config').$type<Record<string, unknown>>().notNull(),
    cooldownSeconds: pg.integer('cooldown_seconds').notNull().default(0),

    /** Snapshot of the trigger statechart. The same UPDATE writes `state` and `coolingUntil` from it. */
    snapshot: pg.jsonb('snapshot').$type<Stored>().notNull(),
    machineVersion: pg.integer('machine_version').notNull(),
    state: pg.text('state').$type<TriggerState>().notNull(),
    coolingUntil: instant('cooling_until'),

    /** The source of its events: `zone:ns.name` or `pipeline:ns.layer.name`. Null for cron and webhook. */
    source: pg.text('source'),
    /** cron and cron_dependency: the next due time, which stays in the past until the trigger has fired. */
    dueAt: instant('due_at'),
    /** webhook: SHA-256 of the token, hex. */
    tokenHash: pg.text('token_hash'),

    lastTriggeredAt: instant('last_triggered_at'),
    lastRunId: pg.uuid('last_run_id'),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
  }),
  (t) => [
    index('trigger_of_pipeline').on(t.pipelineId, t.createdAt, t.id),
    index('trigger_source').on(t.source, t.id).where(sql`state <> 'disabled'`),
    index('trigger_due').on(t.dueAt, t.id).where(sql`due_at is not null and state <> 'disabled'`),
    index('trigger_cooling').on(t.coolingUntil).where(sql`state = 'cooling'`),
    uniqueIndex('trigger_token').on(t.tokenHash).where(sql`token_hash is not null`),
    check('trigger_state', sql`${t.state} in ('armed', 'cooling', 'disabled')`),
    check(
      'trigger_type',
      sql`${t.type} in ('landing_zone_upload', 'cron', 'pipeline_success', 'webhook', 'file_pattern', 'cron_dependency')`,
    ),
  ],
)

/** The dependencies of a cron_dependency trigger, each with its latest successful run at the trigger's last firing. */
export const triggerDependencies = pgTable(
  'trigger_dependency',
  (pg) => ({
    triggerId: pg
      .uuid('trigger_id')
      .notNull()
      .references(() => triggers.id, { onDelete: 'cascade' }),
    /** `pipeline:ns.layer.name` */
    source: pg.text('source').notNull(),
    /** The dependency's latest successful run at the last firing. A different latest run means a new success. */
    usedRun: pg.uuid('used_run'),
  }),
  (t) => [primaryKey({ columns: [t.triggerId, t.source] }), index('trigger_dependency_source').on(t.source)],
)

/**
 * Events that some trigger consumes. The transaction of an upload's row or of a run's success inserts the event. The
 * transaction that fires for the event deletes it.
 */
export const triggerEvents = pgTable(
  'trigger_event',
  (pg) => ({
    id: pg.bigserial('id', { mode: 'number' }).primaryKey(),
    kind: pg.text('kind').$type<'fileUploaded' | 'runSucceeded'>().notNull(),
    /** `zone:ns.name` or `pipeline:ns.layer.name`, compared with `trigger.source`. */
    source: pg.text('source').notNull(),
    /** The landing file or the run. With the trigger's id, this key prevents a second firing. */
    subject: pg.uuid('subject').notNull(),
    /** fileUploaded: the original file name. */
    filename: pg.text('filename'),
    /** The chain depth of the runs that the event starts. */
    chainDepth: pg.integer('chain_depth').notNull().default(0),
    /** The trace for those runs: the trace of the upload or of the successful run. */
    traceparent: pg.text('traceparent'),
    tracestate: pg.text('tracestate'),
    /** Triggers up to this id are already evaluated. An event with many triggers takes several transactions. */
    afterTrigger: pg.uuid('after_trigger'),
    createdAt: createdAt(),
  }),
  (t) => [check('trigger_event_kind', sql`${t.kind} in ('fileUploaded', 'runSucceeded')`)],
)

/** The legacy mechanism: one cron expression per row. */
export const schedules = pgTable(
  'schedule',
  (pg) => ({
    id: pg.uuid('id').primaryKey(),
    pipelineId: pg
      .uuid('pipeline_id')
      .notNull()
      .references(() => pipelines.id, { onDelete: 'cascade' }),
    cron: pg.text('cron').notNull(),
    enabled: pg.boolean('enabled').notNull().default(true),
    /** Null until the first tick, which only sets this value. */
    nextRunAt: instant('next_run_at'),
    lastRunAt: instant('last_run_at'),
    lastRunId: pg.uuid('last_run_id'),
    createdAt: createdAt(),
    updatedAt: updatedAt(),
  }),
  (t) => [
    index('schedule_of_pipeline').on(t.pipelineId),
    index('schedule_created').on(t.createdAt, t.id),
    index('schedule_due').on(t.nextRunAt, t.id).where(sql`enabled and next_run_at is not null`),
    index('schedule_new').on(t.id).where(sql`enabled and next_run_at is null`),
  ],
)
