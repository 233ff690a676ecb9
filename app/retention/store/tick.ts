// What a tick of the reaper needs to know before it begins, and what it leaves to be read. Raw SQL: it is the thread's.
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import type { RetentionConfig } from '../../../machines/retention.ts'
import type { Reaped } from './reaping.ts'

export interface TickState {
  config: RetentionConfig
  /** The database's time. */
  now: Date
  lastRunAt: Date | null
}

export async function tickState(sql: Sql): Promise<TickState> {
  const [row] = await sql<(RetentionConfig & { now: Date; lastRunAt: Date | null })[]>`
    select runs_max_per_pipeline as "runsMaxPerPipeline", runs_max_age_days as "runsMaxAgeDays",
      logs_max_age_days as "logsMaxAgeDays", quality_results_max_per_test as "qualityResultsMaxPerTest",
      soft_delete_purge_days as "softDeletePurgeDays", stuck_run_timeout_minutes as "stuckRunTimeoutMinutes",
      audit_log_max_age_days as "auditLogMaxAgeDays",
      nessie_orphan_branch_max_age_hours as "nessieOrphanBranchMaxAgeHours",
      reaper_interval_minutes as "reaperIntervalMinutes", iceberg_snapshot_max_age_days as "icebergSnapshotMaxAgeDays",
      iceberg_orphan_file_max_age_days as "icebergOrphanFileMaxAgeDays",
      clock_timestamp() as now, (select last_run_at from reaper_status) as "lastRunAt"
    from retention_config`
  if (row === undefined) throw new Error('the database holds no retention settings')
  const { now, lastRunAt, ...config } = row
  return { config, now, lastRunAt }
}

/** `at` is when the tick began. */
export async function recordTick(
  tx: SqlTx,
  { at, reaped, failures }: { at: Date; reaped: Reaped; failures: readonly string[] },
): Promise<void> {
  await tx`
    update reaper_status set last_run_at = ${at}, runs_pruned = ${reaped.runsPruned}, logs_pruned = ${reaped.logsPruned},
      quality_pruned = ${reaped.qualityPruned}, pipelines_purged = ${reaped.pipelinesPurged},
      runs_failed = ${reaped.runsFailed}, branches_cleaned = ${reaped.branchesCleaned},
      lz_files_cleaned = ${reaped.lzFilesCleaned}, audit_pruned = ${reaped.auditPruned},
      history_pruned = ${reaped.historyPruned}, snapshots_expired = ${reaped.snapshotsExpired},
      lake_files_removed = ${reaped.lakeFilesRemoved}, failures = ${tx.json([...failures])}, updated_at = clock_timestamp()`
}
