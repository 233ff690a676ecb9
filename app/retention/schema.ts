import { Type as t } from '@sinclair/typebox'
import { Instant, nullable } from '../core/names.ts'

/** A hundred years, in the units of the settings. */
const DAYS_MAX = 36_500
const HOURS_MAX = DAYS_MAX * 24
const MINUTES_MAX = HOURS_MAX * 60
const COUNT_MAX = 10_000_000

const count = (minimum: number, fallback: number) =>
  t.Integer({ minimum, maximum: COUNT_MAX, examples: [fallback] })
const age = (maximum: number, fallback: number, minimum = 0) =>
  t.Integer({ minimum, maximum, examples: [fallback] })

const OVERRIDABLE = {
  runs_max_per_pipeline: count(1, 100),
  runs_max_age_days: age(DAYS_MAX, 90),
  logs_max_age_days: age(DAYS_MAX, 30),
  quality_results_max_per_test: count(0, 100),
}

export const RetentionConfig = t.Object(
  {
    ...OVERRIDABLE,
    soft_delete_purge_days: age(DAYS_MAX, 30),
    stuck_run_timeout_minutes: age(MINUTES_MAX, 120),
    audit_log_max_age_days: age(DAYS_MAX, 365),
    nessie_orphan_branch_max_age_hours: age(HOURS_MAX, 6),
    reaper_interval_minutes: age(MINUTES_MAX, 60, 1),
    iceberg_snapshot_max_age_days: age(DAYS_MAX, 7),
    iceberg_orphan_file_max_age_days: age(DAYS_MAX, 3),
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
      description: 'What the pipeline does differently; null: nothing',
    }),
    effective: RetentionConfig,
  },
  { title: 'PipelineRetention' },
)
export type PipelineRetention = typeof PipelineRetention.static

const counter = (description: string) => t.Integer({ description })

export const ReaperStatus = t.Object(
  {
    last_run_at: nullable(Instant, { description: 'When the last tick began; null before the first one' }),
    runs_pruned: counter('Runs removed by count or age'),
    logs_pruned: counter('Log lines removed, those of removed runs too'),
    quality_pruned: counter('Quality results removed by count'),
    pipelines_purged: counter('Deleted pipelines removed for good'),
    runs_failed: counter('Runs failed because they had been running for too long'),
    branches_cleaned: counter('Branches of the catalog removed'),
    lz_files_cleaned: counter('Archived landing files removed'),
    audit_pruned: counter('Audit entries removed'),
    history_pruned: counter('Rows of history, events and remembered answers removed'),
    snapshots_expired: counter('Snapshots of lake tables expired'),
    lake_files_removed: counter('Files of the lake removed'),
    failures: t.Array(t.String(), { description: 'Duties of the last tick that failed; the log says why' }),
    updated_at: Instant,
  },
  { title: 'ReaperStatus' },
)
export type ReaperStatus = typeof ReaperStatus.static
