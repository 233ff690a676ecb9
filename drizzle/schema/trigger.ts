import { sql } from 'drizzle-orm'
import { check, index, pgTable, primaryKey, uniqueIndex } from 'drizzle-orm/pg-core'
import type { Stored } from '../../machines/advance.ts'
import type { TriggerState } from '../../machines/trigger.ts'
import { createdAt, instant, updatedAt } from './columns.ts'
import { pipelines } from './pipeline.ts'

/** What starts runs of a pipeline by itself. */
export const triggers = pgTable(
  'trigger',
  (pg) => ({
    id: pg.uuid('id').primaryKey(),
    pipelineId: pg
      .uuid('pipeline_id')
      .notNull()
      .references(() => pipelines.id, { onDelete: 'cascade' }),
    type: pg.text('type').notNull(),
    /** As clients see it; of a webhook only the hash of its token. */
    config: pg.jsonb('config').$type<Record<string, unknown>>().notNull(),
    cooldownSeconds: pg.integer('cooldown_seconds').notNull().default(0),

    /** The trigger statechart; `state` and `coolingUntil` are written from it in the same UPDATE. */
    snapshot: pg.jsonb('snapshot').$type<Stored>().notNull(),
    machineVersion: pg.integer('machine_version').notNull(),
    state: pg.text('state').$type<TriggerState>().notNull(),
    coolingUntil: instant('cooling_until'),

    /** Whose events it hears: `zone:ns.name` or `pipeline:ns.layer.name`. Null for cron and webhook. */
    source: pg.text('source'),
    /** cron and cron_dependency: when it is due next; stays in the past until it has fired. */
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

/** What a cron_dependency trigger waits for, and the success of each that its last firing used. */
export const triggerDependencies = pgTable(
  'trigger_dependency',
  (pg) => ({
    triggerId: pg
      .uuid('trigger_id')
      .notNull()
      .references(() => triggers.id, { onDelete: 'cascade' }),
    /** `pipeline:ns.layer.name` */
    source: pg.text('source').notNull(),
    /** Run that was the dependency's latest success at the last firing: it is news when that is another one. */
    usedRun: pg.uuid('used_run'),
  }),
  (t) => [primaryKey({ columns: [t.triggerId, t.source] }), index('trigger_dependency_source').on(t.source)],
)

/**
 * What happened and some trigger hears: written in the transaction of the fact itself (an upload's row, a run's success),
 * removed in the transaction that fires for it.
 */
export const triggerEvents = pgTable(
  'trigger_event',
  (pg) => ({
    id: pg.bigserial('id', { mode: 'number' }).primaryKey(),
    kind: pg.text('kind').$type<'fileUploaded' | 'runSucceeded'>().notNull(),
    /** `zone:ns.name` or `pipeline:ns.layer.name`: matched with `trigger.source`. */
    source: pg.text('source').notNull(),
    /** The landing file or the run: with the trigger's id, the key against double firing. */
    subject: pg.uuid('subject').notNull(),
    /** fileUploaded: the original file name. */
    filename: pg.text('filename'),
    /** Of the runs it starts. */
    chainDepth: pg.integer('chain_depth').notNull().default(0),
    /** What those runs belong to: the trace of the upload, or that of the run which succeeded. */
    traceparent: pg.text('traceparent'),
    tracestate: pg.text('tracestate'),
    /** Triggers up to this id have been asked already: an event with very many of them takes several transactions. */
    afterTrigger: pg.uuid('after_trigger'),
    createdAt: createdAt(),
  }),
  (t) => [check('trigger_event_kind', sql`${t.kind} in ('fileUploaded', 'runSucceeded')`)],
)

/** The legacy mechanism: one cron text per row. */
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
    /** Null until the first tick, which only sets it. */
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
