import { Type as t } from '@sinclair/typebox'
import { Instant, nullable } from '../core/names.ts'
import { DryRunResult } from '../core/removals.ts'

/** A hundred years, in the units of the settings. */
const DAYS_MAX = 36_500
const HOURS_MAX = DAYS_MAX * 24
const MINUTES_MAX = HOURS_MAX * 60
const COUNT_MAX = 10_000_000

const setting = (meaning: string, minimum: number, maximum: number, fallback: number) =>
  t.Integer({ minimum, maximum, description: `${meaning}; default ${fallback}`, examples: [fallback] })

const OVERRIDABLE = {
  runs_max_per_pipeline: setting('Number of runs to keep per pipeline', 1, COUNT_MAX, 100),
  runs_max_age_days: setting('Days to keep a run', 0, DAYS_MAX, 90),
  logs_max_age_days: setting('Days to keep a log line', 0, DAYS_MAX, 30),
  quality_results_max_per_test: setting('Number of results to keep per quality test', 0, COUNT_MAX, 100),
}

export const RetentionConfig = t.Object(
  {
    ...OVERRIDABLE,
    soft_delete_purge_days: setting('Days to keep a deleted pipeline', 0, DAYS_MAX, 30),
    stuck_run_timeout_minutes: setting('Minutes after which a running run fails', 0, MINUTES_MAX, 120),
    audit_log_max_age_days: setting('Days to keep an audit entry', 0, DAYS_MAX, 365),
    nessie_orphan_branch_max_age_hours: setting('Hours to keep an orphan branch', 0, HOURS_MAX, 6),
    reaper_interval_minutes: setting('Minutes between two ticks of the reaper', 1, MINUTES_MAX, 60),
    iceberg_snapshot_max_age_days: setting('Days to keep an older snapshot of a table', 0, DAYS_MAX, 7),
    iceberg_orphan_file_max_age_days: setting('Days to keep an unreferenced lake file', 0, DAYS_MAX, 3),
  },
  { title: 'RetentionConfig' },
)
export type RetentionConfig = typeof RetentionConfig.static

export const RetentionConfigBody = t.Object({ config: RetentionConfig }, { title: 'RetentionConfigBody' })
export const UpdateRetentionConfig = t.Partial(RetentionConfig, { title: 'UpdateRetentionConfig' })
export type UpdateRetentionConfig = typeof UpdateRetentionConfig.static
/** The specification can be read in two ways, so the answer has the settings both at the top and under `config`. */
export const RetentionConfigUpdated = t.Composite([RetentionConfig, RetentionConfigBody], {
  title: 'RetentionConfigUpdated',
})

export const RetentionOverrides = t.Partial(t.Object(OVERRIDABLE), { title: 'RetentionOverrides' })
export type RetentionOverrides = typeof RetentionOverrides.static

export const PipelineRetention = t.Object(
  {
    system: RetentionConfig,
    overrides: nullable(RetentionOverrides, {
      description: 'Settings that differ for this pipeline; null if there are none',
    }),
    effective: RetentionConfig,
  },
  { title: 'PipelineRetention' },
)
export type PipelineRetention = typeof PipelineRetention.static

const counter = (description: string) => t.Integer({ description })

export const ReaperStatus = t.Object(
  {
    last_run_at: nullable(Instant, { description: 'Start of the last tick; null before the first tick' }),
    runs_pruned: counter('Runs removed by count or age'),
    logs_pruned: counter('Log lines removed, including the lines of removed runs'),
    quality_pruned: counter('Quality results removed by count'),
    pipelines_purged: counter('Deleted pipelines removed permanently'),
    runs_failed: counter('Runs failed because they exceeded stuck_run_timeout_minutes'),
    branches_cleaned: counter('Branches of the catalog removed'),
    lz_files_cleaned: counter('Archived landing files removed'),
    audit_pruned: counter('Audit entries removed'),
    history_pruned: counter('Rows of history, unprocessed events and idempotency keys removed'),
    snapshots_expired: counter('Snapshots of lake tables expired'),
    lake_files_removed: counter('Files of the lake removed'),
    failures: t.Array(t.String(), {
      description: 'Failed duties of the last tick; the log of the service contains the errors',
    }),
    updated_at: Instant,
  },
  { title: 'ReaperStatus' },
)
export type ReaperStatus = typeof ReaperStatus.static

export const RunReaper = t.Object({
  dry_run: t.Optional(
    t.Boolean({
      default: false,
      description: 'Whether to list the removals instead of performing them',
    }),
  ),
})

/** A dry run adds its removals to the status, whose counters are those of the last real tick. */
export const ReaperRun = t.Composite([ReaperStatus, t.Partial(DryRunResult)], { title: 'ReaperRun' })
export type ReaperRun = typeof ReaperRun.static
