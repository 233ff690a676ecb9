// One tick of the reaper performs every duty in turn and records the result. A failing duty is named, and the others continue.
// The files of the duties describe what each removes and keeps.
import { expireLakeHistory, expireSnapshots, removeUnreferencedFiles } from '../../app/catalog/duties.ts'
import type { Log } from '../../app/core/log.ts'
import { purgeArchivedFiles, queueArchiving } from '../../app/landing-zones/archive-purge.ts'
import {
  pruneAudit,
  pruneEvents,
  pruneHistory,
  pruneIdempotencyKeys,
  pruneLogs,
  pruneQualityResults,
  pruneRuns,
  purgeDeletedPipelines,
  recordTick,
  tickState,
} from '../../app/retention/duties.ts'
import {
  NotLeading,
  nothingReaped,
  type Reaped,
  type ReaperObjects,
  type Reaping,
} from '../../app/retention/reaping.ts'
import { failStuckRuns, type RunCompleted } from '../../app/runs/service.ts'
import type { Fenced, Sql } from '../../drizzle/client.ts'
import { cutoffsAt, isTickDue } from '../../machines/retention.ts'

/** Maximum number of stuck runs that one transaction fails. */
const STUCK_BATCH = 64

export interface TickOptions {
  /** For reads. */
  sql: Sql
  write: Fenced
  objects: ReaperObjects
  newId(): string
  log: Log
  /** A client waits for the tick, so it is performed even if none is due. */
  isAsked: boolean
  pause(ms: number): Promise<void>
  /** Throws if the tick must end early; the next tick continues. */
  checkRunning(): void
  /** Called after the commit with the runs that were failed. */
  onCompleted(runs: RunCompleted[]): void
}

export interface Tick {
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
  'stuck runs': failStuck,
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
}

/** Null: no tick is due, or no longer. Rejects if another replica leads or the tick must end early. */
export async function tick(options: TickOptions): Promise<Tick | null> {
  const { sql, log, isAsked } = options
  const { config, now, lastRunAt } = await tickState(sql)
  if (!isAsked && !isTickDue(now.getTime(), lastRunAt?.getTime() ?? null, config.reaperIntervalMinutes))
    return null
  const since = performance.now()
  const reaped = nothingReaped()
  const cutoffs = cutoffsAt(now.getTime(), config)
  const reaping: Reaping = { ...options, config, now, cutoffs, reaped, linesGone: [] }
  const failures: string[] = []
  for (const [name, perform] of Object.entries(DUTIES)) {
    options.checkRunning()
    try {
      await perform(reaping, options)
    } catch (error) {
      if (error instanceof NotLeading) throw error
      options.checkRunning()
      failures.push(name)
      log.error('reaper duty failed: the next tick retries it', { duty: name, error })
    }
  }
  const isRecorded = await options.write(async (tx) => {
    await recordTick(tx, { at: now, reaped, failures })
    return true
  })
  if (isRecorded === null) throw new NotLeading('another replica leads the reaper')
  const done = Object.fromEntries(Object.entries(reaped).filter(([, count]) => count > 0))
  log.info('reaper tick completed', { ...done, ms: Math.round(performance.now() - since) })
  return { reaped, failures }
}

async function failStuck(reaping: Reaping, { onCompleted }: TickOptions): Promise<void> {
  for (;;) {
    const failed = await reaping.write((tx) =>
      failStuckRuns(tx, { timeoutMinutes: reaping.config.stuckRunTimeoutMinutes, limit: STUCK_BATCH }),
    )
    if (failed === null) throw new NotLeading('another replica leads the reaper')
    reaping.reaped.runsFailed += failed.ids.length
    onCompleted(failed.completed)
    if (failed.ids.length < STUCK_BATCH) return
    reaping.checkRunning()
  }
}
