// One tick of the reaper: every duty in turn, and what they did is written down. A duty that fails is named, and the
// others go on. What each of them does, and what it must keep, is told where it is.
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

/** Stuck runs one transaction fails. */
const STUCK_BATCH = 64

export interface TickOptions {
  /** Reads. */
  sql: Sql
  write: Fenced
  objects: ReaperObjects
  newId(): string
  log: Log
  /** A person waits for it: the tick is made whether or not it is due. */
  isAsked: boolean
  pause(ms: number): Promise<void>
  /** Throws when the tick is to end early; what is left is for the next one. */
  checkRunning(): void
  /** Runs that were failed, after the commit. */
  onCompleted(runs: RunCompleted[]): void
}

export interface Tick {
  reaped: Reaped
  /** Names of the duties that failed. */
  failures: string[]
}

/** The tick was asked to end before its time: what is left is for the next one. */
export class TickEnded extends Error {
  override readonly name = 'TickEnded'
}

/** Whether it is time for a tick that nobody asked for, by the database's clock. */
export async function lookAtTime(sql: Sql): Promise<{ isDue: boolean; now: Date; lastRunAt: Date | null }> {
  const { config, now, lastRunAt } = await tickState(sql)
  const isDue = isTickDue(now.getTime(), lastRunAt?.getTime() ?? null, config.reaperIntervalMinutes)
  return { isDue, now, lastRunAt }
}

type Duty = (reaping: Reaping, options: TickOptions) => Promise<void>

/**
 * In this order: what ends or removes something comes before what clears up after it. Log lines go before runs: by themselves
 * they go in the order in which they lie, and what is dead and not yet vacuumed is not looked at again: where all lines have
 * gone, runs look for none.
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

/** Null: no tick is due (any more). Rejects when another replica leads, or when it is to end early. */
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
      log.error(`the reaper could not finish: ${name}`, { error })
    }
  }
  const isRecorded = await options.write(async (tx) => {
    await recordTick(tx, { at: now, reaped, failures })
    return true
  })
  if (isRecorded === null) throw new NotLeading('another replica leads the reaper')
  const done = Object.fromEntries(Object.entries(reaped).filter(([, count]) => count > 0))
  log.info('the reaper has cleared up', { ...done, ms: Math.round(performance.now() - since) })
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
