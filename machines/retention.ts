// How long things are kept, as decisions without a clock: times are milliseconds since 1970 on the database's clock.

/** Ages in the unit their names end in; counts are at least what their names say. Names and defaults: the specification. */
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

/** What a pipeline may do differently. */
export const OVERRIDABLE = [
  'runsMaxPerPipeline',
  'runsMaxAgeDays',
  'logsMaxAgeDays',
  'qualityResultsMaxPerTest',
] as const
export type Overridable = (typeof OVERRIDABLE)[number]
/** Null, like a missing one, is as the system has it. */
export type RetentionOverrides = { [Name in Overridable]?: number | null }

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS

/**
 * What the lake keeps whatever the settings say: longer than an attempt of a run may take (6 h) and than a query, so that
 * whoever has resolved a table still finds its files.
 */
export const LAKE_GRACE_MS = 7 * HOUR_MS
/** A file may have been written this long before its branch was closed: an attempt and its tests. */
export const ATTEMPT_MS = 7 * HOUR_MS

/** The system's settings with a pipeline's own on top. */
export function effectiveRetention<Config extends Pick<RetentionConfig, Overridable>>(
  system: Config,
  overrides: RetentionOverrides | null,
): Config {
  const effective = { ...system }
  for (const name of OVERRIDABLE) effective[name] = overrides?.[name] ?? system[name]
  return effective
}

/** Whatever ended before one of these may go. */
export interface Cutoffs {
  runs: number
  logs: number
  softDeleted: number
  audit: number
  orphanBranches: number
  /** Of states of main's tables: since they were replaced. */
  snapshots: number
  /** Of bookkeeping about what was reachable: nothing may be forgotten while a file's age is still counted from it. */
  lakeHistory: number
  /** Of the time a file of the lake was written: its branch was closed, at the latest, an attempt's time later. */
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

/** Whether a tick is due; the first one always is, and one after the clock was set back before the last. */
export const isTickDue = (now: number, lastRunAt: number | null, intervalMinutes: number): boolean =>
  lastRunAt === null || lastRunAt > now || now - lastRunAt >= intervalMinutes * MINUTE_MS

/** One state of a table, as its metadata lists it. */
export interface ListedSnapshot {
  id: bigint
  /** When it was made, by the clock of who made it. */
  madeAt: number
}

/**
 * The snapshots that a table's metadata need list no longer: not the current one, none that a branch or tag names, none
 * that main had until lately (`retained`), and none so young that main cannot have replaced it for long enough.
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
    .filter(({ id, madeAt }) => id !== current && !named.has(id) && !retained.has(id) && madeAt < cutoff)
    .map(({ id }) => id)
}

/** The pause after a batch, so that batches and pauses share the time: at least the batch's own time times `share`. */
export const breathMs = (tookMs: number, share: number, maxMs: number): number =>
  Math.min(maxMs, Math.max(1, Math.ceil(tookMs * share)))
