import { sql } from 'drizzle-orm'
import { bigint, boolean, check, integer, jsonb, pgTable, uuid } from 'drizzle-orm/pg-core'
import { instant, updatedAt } from './columns.ts'
import { pipelines } from './pipeline.ts'

/** One row: how long things are kept. Names, units and defaults are those of the specification. */
export const retentionConfig = pgTable(
  'retention_config',
  {
    isOnly: boolean('is_only').primaryKey().default(true),
    runsMaxPerPipeline: integer('runs_max_per_pipeline').notNull().default(100),
    runsMaxAgeDays: integer('runs_max_age_days').notNull().default(90),
    logsMaxAgeDays: integer('logs_max_age_days').notNull().default(30),
    qualityResultsMaxPerTest: integer('quality_results_max_per_test').notNull().default(100),
    softDeletePurgeDays: integer('soft_delete_purge_days').notNull().default(30),
    stuckRunTimeoutMinutes: integer('stuck_run_timeout_minutes').notNull().default(120),
    auditLogMaxAgeDays: integer('audit_log_max_age_days').notNull().default(365),
    nessieOrphanBranchMaxAgeHours: integer('nessie_orphan_branch_max_age_hours').notNull().default(6),
    reaperIntervalMinutes: integer('reaper_interval_minutes').notNull().default(60),
    icebergSnapshotMaxAgeDays: integer('iceberg_snapshot_max_age_days').notNull().default(7),
    icebergOrphanFileMaxAgeDays: integer('iceberg_orphan_file_max_age_days').notNull().default(3),
    updatedAt: updatedAt(),
  },
  (t) => [check('retention_config_one', sql`${t.isOnly}`)],
)

/** What a pipeline does differently; null: as the system. */
export const retentionOverrides = pgTable('retention_override', {
  pipelineId: uuid('pipeline_id')
    .primaryKey()
    .references(() => pipelines.id, { onDelete: 'cascade' }),
  runsMaxPerPipeline: integer('runs_max_per_pipeline'),
  runsMaxAgeDays: integer('runs_max_age_days'),
  logsMaxAgeDays: integer('logs_max_age_days'),
  qualityResultsMaxPerTest: integer('quality_results_max_per_test'),
})

/** One row: what the last tick of the reaper did. */
export const reaperStatus = pgTable(
  'reaper_status',
  {
    isOnly: boolean('is_only').primaryKey().default(true),
    lastRunAt: instant('last_run_at'),
    runsPruned: bigint('runs_pruned', { mode: 'number' }).notNull().default(0),
    logsPruned: bigint('logs_pruned', { mode: 'number' }).notNull().default(0),
    qualityPruned: bigint('quality_pruned', { mode: 'number' }).notNull().default(0),
    pipelinesPurged: bigint('pipelines_purged', { mode: 'number' }).notNull().default(0),
    runsFailed: bigint('runs_failed', { mode: 'number' }).notNull().default(0),
    branchesCleaned: bigint('branches_cleaned', { mode: 'number' }).notNull().default(0),
    lzFilesCleaned: bigint('lz_files_cleaned', { mode: 'number' }).notNull().default(0),
    auditPruned: bigint('audit_pruned', { mode: 'number' }).notNull().default(0),
    historyPruned: bigint('history_pruned', { mode: 'number' }).notNull().default(0),
    snapshotsExpired: bigint('snapshots_expired', { mode: 'number' }).notNull().default(0),
    lakeFilesRemoved: bigint('lake_files_removed', { mode: 'number' }).notNull().default(0),
    /** Duties of that tick that failed, by name. */
    failures: jsonb('failures').$type<string[]>().notNull().default([]),
    updatedAt: updatedAt(),
  },
  (t) => [check('reaper_status_one', sql`${t.isOnly}`)],
)
