// Retention decisions without a clock. Times are milliseconds since 1970 on the database's clock.

/**
 * Ages use the unit at the end of their names. Counts may be exceeded, because active runs and latest successes always stay.
 * The specification sets names and defaults.
 */
export interface RetentionConfig {
  runsMaxPerPipeline: number
  runsMaxAgeDays: number
  logsMaxAgeDays: number
  qualityResultsMaxPerTest: number
  softDeletePurgeDays: number
  stuckRunTimeoutMinutes: number
  auditLogMaxAgeDays: number
  nessieOrphanBranchMaxAgeHours: number
  reaperIntervalMinutes: number
  icebergSnapshotMaxAgeDays: number
  icebergOrphanFileMaxAgeDays: number
}

/** Settings that a pipeline may override. */
export const OVERRIDABLE = [
  'runsMaxPerPipeline',
  'runsMaxAgeDays',
  'logsMaxAgeDays',
  'qualityResultsMaxPerTest',
] as const
export type Overridable = (typeof OVERRIDABLE)[number]
/** A null or missing override means the system's setting. */
export type RetentionOverrides = { [Name in Overridable]?: number | null }

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS

/**
 * Minimum age of removable lake data, whatever the settings say. The grace is longer than an attempt of a run (6 h) and a
 * query. So a reader that has resolved a table still finds its files.
 */
export const LAKE_GRACE_MS = 7 * HOUR_MS
/** Longest time from the write of a file to the close of its branch: an attempt and its tests. */
export const ATTEMPT_MS = 7 * HOUR_MS

/** The system's settings, replaced by a pipeline's overrides. */
export function effectiveRetention<Config extends Pick<RetentionConfig, Overridable>>(
  system: Config,
  overrides: RetentionOverrides | null,
): Config {
  const effective = { ...system }
  for (const name of OVERRIDABLE) effective[name] = overrides?.[name] ?? system[name]
  return effective
}

/** Data that ended before its cutoff may be removed. */
export interface Cutoffs {
  runs: number
  logs: number
  softDeleted: number
  audit: number
  orphanBranches: number
  /** For table snapshots of main, compared with the time of their replacement. */
  snapshots: number
  /** For records of reachable files. A record must stay while the age of a file counts from that record. */
  lakeHistory: number
  /** For lake files, compared with the time of their write. Their branch closes at most `ATTEMPT_MS` later. */
  lakeFiles: number
}

export function cutoffsAt(now: number, config: RetentionConfig): Cutoffs {
  const snapshotAgeMs = Math.max(config.icebergSnapshotMaxAgeDays * DAY_MS, LAKE_GRACE_MS)
  const fileAgeMs = Math.max(config.icebergOrphanFileMaxAgeDays * DAY_MS, LAKE_GRACE_MS)
  const branchAgeMs = config.nessieOrphanBranchMaxAgeHours * HOUR_MS
  return {
    runs: now - config.runsMaxAgeDays * DAY_MS,
    logs: now - config.logsMaxAgeDays * DAY_MS,
    softDeleted: now - config.softDeletePurgeDays * DAY_MS,
    audit: now - config.auditLogMaxAgeDays * DAY_MS,
    orphanBranches: now - branchAgeMs,
    snapshots: now - snapshotAgeMs,
    lakeHistory: now - Math.max(snapshotAgeMs, fileAgeMs, branchAgeMs),
    lakeFiles: now - fileAgeMs - ATTEMPT_MS,
  }
}

/** Whether a tick is due. The first tick always is, and so is a tick after the clock was set back. */
export const isTickDue = (now: number, lastRunAt: number | null, intervalMinutes: number): boolean =>
  lastRunAt === null || lastRunAt > now || now - lastRunAt >= intervalMinutes * MINUTE_MS

/** One snapshot of a table, as the table's metadata lists it. */
interface ListedSnapshot {
  id: bigint
  /** Creation time by the writer's clock. */
  createdAt: number
}

/**
 * Returns the snapshots that a table's metadata no longer needs. The current snapshot stays, and so do snapshots named by a
 * branch or tag, and recent ones of main (`retained`). Snapshots since `cutoff` stay too, because main cannot have replaced
 * them long enough ago.
 */
export function expiredSnapshots(
  snapshots: readonly ListedSnapshot[],
  {
    current,
    named,
    retained,
    cutoff,
  }: {
    current: bigint | undefined
    named: ReadonlySet<bigint>
    retained: ReadonlySet<bigint>
    cutoff: number
  },
): bigint[] {
  return snapshots
    .filter(
      ({ id, createdAt }) => id !== current && !named.has(id) && !retained.has(id) && createdAt < cutoff,
    )
    .map(({ id }) => id)
}

/** Pause after a batch: the batch's duration times `share`, at least 1 ms and at most `maxMs`. */
export const breathMs = (tookMs: number, share: number, maxMs: number): number =>
  Math.min(maxMs, Math.max(1, Math.ceil(tookMs * share)))
