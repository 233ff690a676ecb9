// How long things are kept, and the way to the reaper. What the reaper does is in workers/reaper/reaper.ts.
import type { Db } from '../../drizzle/client.ts'
import {
  effectiveRetention,
  type RetentionConfig,
  type RetentionOverrides,
} from '../../machines/retention.ts'
import { unavailable } from '../core/errors.ts'
import { noPipeline, type PipelineRef } from '../core/pipeline-ref.ts'
import type * as Wire from './schema.ts'
import {
  changeRetention,
  lastTick,
  overridesOf,
  replaceOverrides,
  systemRetention,
} from './store/settings.ts'

export interface RetentionDeps {
  db: Db
  /** `run` makes it tick and waits for the end of that; it rejects when the tick could not be made. Null: it is switched off. */
  reaper: { run(): Promise<void> } | null
}

export type RetentionService = ReturnType<typeof makeRetentionService>

export function makeRetentionService({ db, reaper }: RetentionDeps) {
  async function status(): Promise<Wire.ReaperStatus> {
    const tick = await lastTick(db)
    return {
      last_run_at: tick.lastRunAt?.toISOString() ?? null,
      runs_pruned: tick.runsPruned,
      logs_pruned: tick.logsPruned,
      quality_pruned: tick.qualityPruned,
      pipelines_purged: tick.pipelinesPurged,
      runs_failed: tick.runsFailed,
      branches_cleaned: tick.branchesCleaned,
      lz_files_cleaned: tick.lzFilesCleaned,
      audit_pruned: tick.auditPruned,
      history_pruned: tick.historyPruned,
      snapshots_expired: tick.snapshotsExpired,
      lake_files_removed: tick.lakeFilesRemoved,
      failures: tick.failures,
      updated_at: tick.updatedAt.toISOString(),
    }
  }

  return {
    config: async () => onWire(await systemRetention(db)),

    async update(change: Wire.UpdateRetentionConfig) {
      const config = onWire(await changeRetention(db, fromWire(change)))
      return { ...config, config }
    },

    status,

    /** A tick of the reaper, from its beginning to its end: one that is under way already does not count. */
    async run(): Promise<Wire.ReaperStatus> {
      if (reaper === null) throw unavailable('the reaper')
      await reaper.run().catch((cause) => {
        throw unavailable('the reaper', cause)
      })
      return status()
    },

    async ofPipeline(ref: PipelineRef): Promise<Wire.PipelineRetention> {
      const [system, overrides] = await Promise.all([systemRetention(db), overridesOf(db, ref)])
      if (overrides === undefined) throw noPipeline(ref)
      return {
        system: onWire(system),
        overrides: overrides && overridesOnWire(overrides),
        effective: onWire(effectiveRetention(system, overrides)),
      }
    },

    /** All overrides at once: what is not given is as the system has it. */
    async replaceOverrides(
      ref: PipelineRef,
      {
        runs_max_per_pipeline,
        runs_max_age_days,
        logs_max_age_days,
        quality_results_max_per_test,
      }: Wire.RetentionOverrides,
    ): Promise<void> {
      const overrides = {
        runsMaxPerPipeline: runs_max_per_pipeline,
        runsMaxAgeDays: runs_max_age_days,
        logsMaxAgeDays: logs_max_age_days,
        qualityResultsMaxPerTest: quality_results_max_per_test,
      }
      if (!(await db.transaction((tx) => replaceOverrides(tx, ref, overrides)))) throw noPipeline(ref)
    },
  }
}

const onWire = (config: RetentionConfig): Wire.RetentionConfig => ({
  runs_max_per_pipeline: config.runsMaxPerPipeline,
  runs_max_age_days: config.runsMaxAgeDays,
  logs_max_age_days: config.logsMaxAgeDays,
  quality_results_max_per_test: config.qualityResultsMaxPerTest,
  soft_delete_purge_days: config.softDeletePurgeDays,
  stuck_run_timeout_minutes: config.stuckRunTimeoutMinutes,
  audit_log_max_age_days: config.auditLogMaxAgeDays,
  nessie_orphan_branch_max_age_hours: config.nessieOrphanBranchMaxAgeHours,
  reaper_interval_minutes: config.reaperIntervalMinutes,
  iceberg_snapshot_max_age_days: config.icebergSnapshotMaxAgeDays,
  iceberg_orphan_file_max_age_days: config.icebergOrphanFileMaxAgeDays,
})

/** What is undefined stays as it is. */
const fromWire = (change: Wire.UpdateRetentionConfig): Partial<RetentionConfig> => ({
  runsMaxPerPipeline: change.runs_max_per_pipeline,
  runsMaxAgeDays: change.runs_max_age_days,
  logsMaxAgeDays: change.logs_max_age_days,
  qualityResultsMaxPerTest: change.quality_results_max_per_test,
  softDeletePurgeDays: change.soft_delete_purge_days,
  stuckRunTimeoutMinutes: change.stuck_run_timeout_minutes,
  auditLogMaxAgeDays: change.audit_log_max_age_days,
  nessieOrphanBranchMaxAgeHours: change.nessie_orphan_branch_max_age_hours,
  reaperIntervalMinutes: change.reaper_interval_minutes,
  icebergSnapshotMaxAgeDays: change.iceberg_snapshot_max_age_days,
  icebergOrphanFileMaxAgeDays: change.iceberg_orphan_file_max_age_days,
})

const overridesOnWire = (overrides: RetentionOverrides): Wire.RetentionOverrides => ({
  ...(overrides.runsMaxPerPipeline != null && { runs_max_per_pipeline: overrides.runsMaxPerPipeline }),
  ...(overrides.runsMaxAgeDays != null && { runs_max_age_days: overrides.runsMaxAgeDays }),
  ...(overrides.logsMaxAgeDays != null && { logs_max_age_days: overrides.logsMaxAgeDays }),
  ...(overrides.qualityResultsMaxPerTest != null && {
    quality_results_max_per_test: overrides.qualityResultsMaxPerTest,
  }),
})
