// One tick of the reaper performs every duty in turn and records the result. A failing duty is named, and the others continue.
// The files of the duties describe what each removes and keeps.

import type { Log } from '../../app/core/log.ts'
import type { DryRunResult } from '../../app/core/removals.ts'
import { purgeArchivedFiles, queueArchiving } from '../../app/landing-zones/archive-purge.ts'
import { DryRun, undone } from '../../app/retention/dry-run.ts'
import { purgeDeletedPipelines } from '../../app/retention/purge-pipelines.ts'
import {
  pruneAudit,
  pruneEvents,
  pruneHistory,
  pruneIdempotencyKeys,
} from '../../app/retention/store/history.ts'
import { pruneLogs } from '../../app/retention/store/logs.ts'
import {
  NotLeading,
  nothingReaped,
  type Reaped,
  type ReaperObjects,
  type Reaping,
} from '../../app/retention/store/reaping.ts'
import { pruneQualityResults } from '../../app/retention/store/results.ts'
import { pruneRuns } from '../../app/retention/store/runs.ts'
import { recordTick, tickState } from '../../app/retention/store/tick.ts'
import { failExpiredReviews, failStuckRuns, type RunCompleted } from '../../app/runs/service.ts'
import { removeAbandonedUploads } from '../../app/s3/uploads.ts'
import { expireSnapshots } from '../../app/versions/snapshot-expiry.ts'
import { expireLakeHistory } from '../../app/versions/store/history.ts'
import { removeUnreferencedFiles, STORE_CLOCK } from '../../app/versions/unreferenced-files.ts'
import type { Fenced, Sql, SqlTx } from '../../drizzle/client.ts'
import { cutoffsAt, isTickDue } from '../../machines/retention.ts'
import { type MaintenanceOptions, maintainTables } from './maintenance.ts'

/** Maximum number of runs that one transaction fails. */
const STUCK_BATCH = 64

export interface TickOptions {
  /** For reads. */
  sql: Sql
  write: Fenced
  objects: ReaperObjects
  newId(): string
  log: Log
  branchMaxIdleDays: number | null
  /** A client waits for the tick, so it is performed even if none is due. */
  isRequested: boolean
  pause(ms: number): Promise<void>
  /** Throws if the tick must end early; the next tick continues. */
  checkRunning(): void
  /** Called after the commit with the runs that were failed. */
  onCompleted(runs: RunCompleted[]): void
}

interface Tick {
  reaped: Reaped
  /** Names of the duties that failed. */
  failures: string[]
}

/** The tick was stopped early; the next tick continues. */
export class TickEnded extends Error {
  override readonly name = 'TickEnded'
}

/** Returns whether an automatic tick is due by the database's clock. */
export async function lookAtTime(sql: Sql): Promise<{ isDue: boolean; now: Date; lastRunAt: Date | null }> {
  const { config, now, lastRunAt } = await tickState(sql)
  const isDue = isTickDue(now.getTime(), lastRunAt?.getTime() ?? null, config.reaperIntervalMinutes)
  return { isDue, now, lastRunAt }
}

type Duty = (reaping: Reaping, options: TickOptions) => Promise<void>

/**
 * In this order: duties that end or remove something come before duties that clean up after them. Log lines are pruned before
 * runs. Alone, lines are deleted in their physical order, and dead rows that are not yet vacuumed are not read again. Runs
 * whose lines are all gone then skip the search for lines.
 */
const DUTIES: Readonly<Record<string, Duty>> = {
  'stuck runs': (reaping, options) =>
    failRuns(reaping, options, (tx) =>
      failStuckRuns(tx, { timeoutMinutes: reaping.config.stuckRunTimeoutMinutes, limit: STUCK_BATCH }),
    ),
  'expired reviews': (reaping, options) =>
    failRuns(reaping, options, (tx) => failExpiredReviews(tx, STUCK_BATCH)),
  logs: pruneLogs,
  runs: pruneRuns,
  'quality results': pruneQualityResults,
  'deleted pipelines': purgeDeletedPipelines,
  'archived landing files': purgeArchivedFiles,
  'landing files to move': queueArchiving,
  'audit entries': pruneAudit,
  'idempotency keys': pruneIdempotencyKeys,
  'trigger events': pruneEvents,
  history: pruneHistory,
  'lake snapshots': (reaping, { newId }) => expireSnapshots(reaping, newId),
  'lake branches': expireLakeHistory,
  'lake files': removeUnreferencedFiles,
  'lake uploads': removeAbandonedUploads,
}

/** Null: no tick is due, or no longer. Rejects if another replica leads or the tick must end early. */
export async function tick(options: TickOptions): Promise<Tick | null> {
  const { sql, log, isRequested } = options
  const { config, now, lastRunAt } = await tickState(sql)
  if (!isRequested && !isTickDue(now.getTime(), lastRunAt?.getTime() ?? null, config.reaperIntervalMinutes))
    return null
  const since = performance.now()
  const reaping = reapingOf(options, { config, now })
  const { reaped } = reaping
  const failures = await performDuties(reaping, options, (duty, error) =>
    log.error('reaper duty failed: the next tick retries it', { duty, error }),
  )
  const isRecorded = await options.write(async (tx) => {
    await recordTick(tx, { at: now, reaped, failures })
    return true
  })
  if (isRecorded === null) throw new NotLeading('another replica leads the reaper')
  const done = Object.fromEntries(Object.entries(reaped).filter(([, count]) => count > 0))
  log.info('reaper tick completed', { ...done, ms: Math.round(performance.now() - since) })
  return { reaped, failures }
}

const reapingOf = (options: TickOptions, { config, now }: Pick<Reaping, 'config' | 'now'>): Reaping => ({
  ...options,
  config,
  now,
  cutoffs: cutoffsAt(now.getTime(), config),
  reaped: nothingReaped(),
  busyTables: null,
  linesGone: [],
  dryRun: null,
})

/** Maintains tables. Each table takes up to minutes and nothing is removed, so no tick waits for this. */
export async function maintain(options: TickOptions, maintenance: MaintenanceOptions): Promise<void> {
  await maintainTables(reapingOf(options, await tickState(options.sql)), maintenance)
}

/** Performs the duties of a tick without their writes, and returns what they would remove. */
export async function dryRun(options: TickOptions): Promise<DryRunResult> {
  const since = performance.now()
  const { config, now } = await tickState(options.sql)
  const dryRun = new DryRun()
  const reaping: Reaping = {
    ...reapingOf(options, { config, now }),
    write: undone(options.write),
    objects: unchanged(options.objects, STORE_CLOCK),
    dryRun,
    pause: async () => {},
  }
  const dry = { ...options, onCompleted: () => {} }
  const failures = await performDuties(reaping, dry, (duty, error) =>
    options.log.warn('reaper duty failed in a dry run: its list is incomplete', { duty, error }),
  )
  options.log.info('reaper dry run completed', { ms: Math.round(performance.now() - since) })
  return { would_remove: dryRun.removals, incomplete: [...new Set([...dryRun.incomplete, ...failures])] }
}

/** The store without its removals and writes, except of the object `scratch`. */
const unchanged = (objects: ReaperObjects, scratch: string): ReaperObjects => ({
  ...objects,
  put: async (key, bytes) => (key === scratch ? objects.put(key, bytes) : undefined),
  remove: async (key) => (key === scratch ? objects.remove(key) : undefined),
  removeVersion: async () => {},
})

/** Returns the names of the duties that failed. */
async function performDuties(
  reaping: Reaping,
  options: TickOptions,
  onFailure: (duty: string, error: unknown) => void,
): Promise<string[]> {
  const failures: string[] = []
  for (const [duty, perform] of Object.entries(DUTIES)) {
    options.checkRunning()
    reaping.dryRun?.begin(duty)
    try {
      await perform(reaping, options)
    } catch (error) {
      if (error instanceof NotLeading) throw error
      options.checkRunning()
      failures.push(duty)
      onFailure(duty, error)
    }
  }
  return failures
}

async function failRuns(
  reaping: Reaping,
  { onCompleted }: TickOptions,
  fail: (tx: SqlTx) => ReturnType<typeof failStuckRuns>,
): Promise<void> {
  for (;;) {
    const failed = await reaping.write(fail)
    if (failed === null) throw new NotLeading('another replica leads the reaper')
    reaping.reaped.runsFailed += failed.ids.length
    reaping.dryRun?.add('stuck_runs', failed.ids)
    onCompleted(failed.completed)
    if (failed.ids.length < STUCK_BATCH) return
    if (reaping.dryRun !== null) return reaping.dryRun.stopEarly()
    reaping.checkRunning()
  }
}
