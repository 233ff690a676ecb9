import { sql } from 'drizzle-orm'
import { check, pgTable } from 'drizzle-orm/pg-core'
import { instant, updatedAt } from './columns.ts'
import { pipelines } from './pipeline.ts'

/** One row with the retention settings. Names, units and defaults are those of the specification. */
export const retentionConfig = pgTable(
  'retention_config',
  (pg) => ({
    isOnly: pg.boolean('is_only').primaryKey().default(true),
    runsMaxPerPipeline: pg.integer('runs_max_per_pipeline').notNull().default(100),
    runsMaxAgeDays: pg.integer('runs_max_age_days').notNull().default(90),
    logsMaxAgeDays: pg.integer('logs_max_age_days').notNull().default(30),
    qualityResultsMaxPerTest: pg.integer('quality_results_max_per_test').notNull().default(100),
    softDeletePurgeDays: pg.integer('soft_delete_purge_days').notNull().default(30),
    stuckRunTimeoutMinutes: pg.integer('stuck_run_timeout_minutes').notNull().default(120),
    auditLogMaxAgeDays: pg.integer('audit_log_max_age_days').notNull().default(365),
    nessieOrphanBranchMaxAgeHours: pg.integer('nessie_orphan_branch_max_age_hours').notNull().default(6),
    reaperIntervalMinutes: pg.integer('reaper_interval_minutes').notNull().default(60),
    icebergSnapshotMaxAgeDays: pg.integer('iceberg_snapshot_max_age_days').notNull().default(7),
    icebergOrphanFileMaxAgeDays: pg.integer('iceberg_orphan_file_max_age_days').notNull().default(3),
    updatedAt: updatedAt(),
  }),
  (t) => [check('retention_config_one', sql`${t.isOnly}`)],
)

/** Settings of one pipeline that differ from the system's; null means the system's value. */
export const retentionOverrides = pgTable('retention_override', (pg) => ({
  pipelineId: pg
    .uuid('pipeline_id')
    .primaryKey()
    .references(() => pipelines.id, { onDelete: 'cascade' }),
  runsMaxPerPipeline: pg.integer('runs_max_per_pipeline'),
  runsMaxAgeDays: pg.integer('runs_max_age_days'),
  logsMaxAgeDays: pg.integer('logs_max_age_days'),
  qualityResultsMaxPerTest: pg.integer('quality_results_max_per_test'),
}))

/** One row with the results of the reaper's last tick. */
export const reaperStatus = pgTable(
  'reaper_status',
  (pg) => ({
    isOnly: pg.boolean('is_only').primaryKey().default(true),
    lastRunAt: instant('last_run_at'),
    runsPruned: pg.bigint('runs_pruned', { mode: 'number' }).notNull().default(0),
    logsPruned: pg.bigint('logs_pruned', { mode: 'number' }).notNull().default(0),
    qualityPruned: pg.bigint('quality_pruned', { mode: 'number' }).notNull().default(0),
    pipelinesPurged: pg.bigint('pipelines_purged', { mode: 'number' }).notNull().default(0),
    runsFailed: pg.bigint('runs_failed', { mode: 'number' }).notNull().default(0),
    branchesCleaned: pg.bigint('branches_cleaned', { mode: 'number' }).notNull().default(0),
    lzFilesCleaned: pg.bigint('lz_files_cleaned', { mode: 'number' }).notNull().default(0),
    auditPruned: pg.bigint('audit_pruned', { mode: 'number' }).notNull().default(0),
    historyPruned: pg.bigint('history_pruned', { mode: 'number' }).notNull().default(0),
    snapshotsExpired: pg.bigint('snapshots_expired', { mode: 'number' }).notNull().default(0),
    lakeFilesRemoved: pg.bigint('lake_files_removed', { mode: 'number' }).notNull().default(0),
    /** Names of the duties that failed in that tick. */
    failures: pg.jsonb('failures').$type<string[]>().notNull().default([]),
    updatedAt: updatedAt(),
  }),
  (t) => [check('reaper_status_one', sql`${t.isOnly}`)],
)
