// One simulated API process: the product's services and ticks on the process's own connections, and its dispatcher's memory.
// The memory is lost with the process.
import { makeMergeService } from '../app/branches/merges.ts'
import { makeBranchService } from '../app/branches/service.ts'
import type { Clock } from '../app/core/clock.ts'
import type { NewId } from '../app/core/ids.ts'
import type { Log } from '../app/core/log.ts'
import { makeFileService } from '../app/files/service.ts'
import { purgeArchivedFiles, queueArchiving } from '../app/landing-zones/archive-purge.ts'
import { makeArchive } from '../app/landing-zones/effects.ts'
import { makeLandingZoneService } from '../app/landing-zones/service.ts'
import type { PipelineDeleted } from '../app/pipelines/deletion.ts'
import { makePipelineService } from '../app/pipelines/service.ts'
import type { Gate } from '../app/quality-tests/gate.ts'
import { purgeDeletedPipelines } from '../app/retention/purge-pipelines.ts'
import { pruneIdempotencyKeys } from '../app/retention/store/history.ts'
import { pruneLogs } from '../app/retention/store/logs.ts'
import { NotLeading, nothingReaped, type Reaping } from '../app/retention/store/reaping.ts'
import { pruneQualityResults } from '../app/retention/store/results.ts'
import { pruneRuns } from '../app/retention/store/runs.ts'
import { tickState } from '../app/retention/store/tick.ts'
import type { Outcome } from '../app/runs/outcome.ts'
import {
  anySlot,
  applyOutcomes,
  failExpiredReviews,
  failStuckRuns,
  handleOf,
  type LogLine,
  makeRunService,
  type OpenAttempt,
  queueCancels,
  type RunService,
  startWaiting,
} from '../app/runs/service.ts'
import { makeScheduleService } from '../app/schedules/service.ts'
import { makeTriggerService } from '../app/triggers/service.ts'
import { expireLakeHistory } from '../app/versions/store/history.ts'
import { makeWebhookService } from '../app/webhooks/service.ts'
import type { Fenced } from '../drizzle/client.ts'
import { isPassing } from '../drizzle/errors.ts'
import { cutoffsAt } from '../machines/retention.ts'
import { performDue } from '../workers/dispatcher/outbox.ts'
import { makeOutcomeQueue } from '../workers/dispatcher/outcome-queue.ts'
import { makePresence } from '../workers/dispatcher/presence.ts'
import { type Lease, lockLease } from '../workers/leadership/store.ts'
import { tickSchedules } from '../workers/scheduler.ts'
import { Evaluator } from '../workers/triggers.ts'
import type { SimulatedProcess } from './process.ts'
import type { Runner } from './runner.ts'

/** The setting `stuck_run_timeout_minutes`. */
const STUCK_MINUTES = 120

/**
 * The reaper's duties, each a separate step, with the names of workers/reaper/reaper.ts. `failStuck` and `failReviews` are the
 * duties that move runs.
 */
const DUTIES = {
  logs: pruneLogs,
  runs: pruneRuns,
  'quality results': pruneQualityResults,
  'deleted pipelines': purgeDeletedPipelines,
  'archived landing files': purgeArchivedFiles,
  'landing files to move': queueArchiving,
  'idempotency keys': pruneIdempotencyKeys,
  'lake branches': expireLakeHistory,
}
export type Duty = keyof typeof DUTIES

/** An attempt that this replica follows, and the news it got so far. */
export interface Followed {
  attempt: OpenAttempt
  boot: string | null
  receivedPhases: Set<string>
}

interface ReplicaOptions {
  name: string
  process: SimulatedProcess
  runner: Runner
  clock: Clock
  newId: NewId
  /** Called with errors and warnings that the product would have logged. */
  complain(message: string, error: unknown): void
  /** Evaluates the tests of a merge. */
  judgeMerge: Gate
  /** The outcome as it reaches the database; a mutation may change it. */
  applied(outcome: Outcome): Outcome
}

export type Replica = ReturnType<typeof makeReplica>
export type Role = 'triggers' | 'scheduler' | 'reaper'

export function makeReplica(options: ReplicaOptions) {
  const { name, process, runner, clock, newId, complain, applied, judgeMerge } = options
  const { objects } = process
  const { db, sql } = process.connections
  const nothing = () => {}
  const log: Log = {
    info: nothing,
    warn: (message, fields) => complain(message, fields?.error),
    error: (message, fields) => complain(message, fields?.error),
    named: () => log,
  }
  const notices = { changed: nothing, completed: nothing, recorded: nothing }
  const runs: RunService = makeRunService({
    sql,
    newId,
    notices,
    runnable: (path, isDraft) => pipelines.runnable(path, isDraft),
    nudge: nothing,
  })
  const triggers = makeTriggerService({ sql, newId })
  const pipelines = makePipelineService({
    restore: () => Promise.reject(new Error('the simulation restores no table')),
    db,
    sql,
    objects,
    newId,
    log,
    runs,
    triggers,
    requireNamespace: async () => {},
    validate: async () => null,
  })
  const archive = makeArchive({ sql, objects })

  /** The leases of this replica, as far as it knows. */
  const seats = new Map<Role, Lease>()
  const writeAs =
    (role: Role): Fenced =>
    async (work) => {
      const lease = seats.get(role)
      if (lease === undefined) return null
      const done = await sql.begin(async (tx) => {
        // Every transaction of a leader begins like this in workers/leadership/leadership.ts.
        if (!(await lockLease(tx, lease))) return null
        const value = await work(tx)
        // The fence's lock keeps other replicas from taking the role until this transaction ends.
        const [leader] = await tx<{ epoch: number }[]>`
          select epoch::float8 as epoch from leader where role = ${role}`
        if (leader?.epoch !== lease.epoch)
          complain(
            `${name} writes as the ${role} without its lease`,
            new Error(`epoch ${lease.epoch} instead of ${leader?.epoch}`),
          )
        return { value }
      })
      if (done === null) seats.delete(role)
      return done === null ? null : done.value
    }

  const queue = makeOutcomeQueue()
  const following = new Map<string, Followed>()

  function follow(attempt: OpenAttempt) {
    const handle = handleOf(attempt.runId, attempt.attempt)
    if (following.has(handle)) return
    following.set(handle, { attempt, boot: attempt.runnerBoot, receivedPhases: new Set() })
  }

  const live = makePresence({
    sql,
    replica: name,
    follower: { follow, isFollowed: (handle) => following.has(handle) },
    ender: queue,
    includesInputs: true,
    log,
  })

  async function start(slotUrls: readonly string[]) {
    const { attempts, completed } = await startWaiting(sql, slotUrls.map(anySlot), name)
    for (const attempt of attempts) follow(attempt)
    return {
      started: attempts.map(({ runId, attempt }) => handleOf(runId, attempt)),
      ended: completed.length,
    }
  }

  async function apply() {
    const { outcomes, lines } = queue.drain()
    try {
      const { unwanted, completed } = await applyOutcomes(sql, outcomes.map(applied), lines)
      if (unwanted.length > 0) await queueCancels(sql, unwanted)
      return {
        outcomes: outcomes.length,
        ended: completed.map(({ run_id, status }) => `${run_id} ${status}`),
      }
    } catch (error) {
      queue.putBack({ outcomes, lines })
      throw error
    }
  }

  /** The effects of the API process and of its dispatcher, as in app/entry/main.ts and workers/dispatcher/dispatcher.ts. */
  const effects = {
    cancelAttempt: async ({ handle }: Record<string, unknown>) => runner.cancel(String(handle)),
    pipelineDeleted: (payload: unknown) => pipelines.finishDeletion(payload as PipelineDeleted),
    archivedInputs: (payload: unknown) => archive.moveInputs(payload as { runId: string }),
    movedObject: (payload: unknown) => archive.removeMoved(payload as { key: string; versionId: string }),
  }

  /** Performs one kind at a time. Effects of one batch run concurrently, so a replay could not reproduce their order. */
  const perform = (kind: keyof typeof effects) =>
    performDue(sql, { [kind]: effects[kind] }, (_, error) => {
      if (!isPassing(error) && !/still reads them/.test(String(error)))
        complain(`effect ${kind} failed`, error)
    })

  /** Performs a duty as a tick does. Returns the counts of removed rows; null: another replica leads. */
  async function reap(duty: Duty): Promise<Record<string, number> | null> {
    const { config, now } = await tickState(sql)
    const reaping: Reaping = {
      sql,
      write: writeAs('reaper'),
      objects: {
        list: objects.list,
        versions: objects.versions,
        read: async (key) => {
          const object = await objects.get(key)
          return object && new Uint8Array(await new Response(object.body).arrayBuffer())
        },
        put: async (key, bytes) => void (await objects.put(key, bytes)),
        remove: objects.delete,
        removeVersion: objects.deleteVersion,
      },
      config,
      now,
      cutoffs: cutoffsAt(now.getTime(), config),
      branchMaxIdleDays: null,
      reaped: nothingReaped(),
      busyTables: null,
      linesGone: [],
      dryRun: null,
      pause: async () => {},
      checkRunning: nothing,
    }
    try {
      await DUTIES[duty](reaping)
    } catch (error) {
      if (error instanceof NotLeading) return null
      throw error
    }
    return Object.fromEntries(Object.entries(reaping.reaped).filter(([, count]) => count > 0))
  }

  return {
    name,
    process,
    sql,
    seats,
    queue,
    following,
    runs,
    pipelines,
    triggers,
    branches: makeBranchService({ sql }),
    merges: makeMergeService({
      sql,
      newId,
      gate: judgeMerge,
      pipelines,
      resources: undefined,
    }),
    webhooks: makeWebhookService({ sql, newId, nudge: nothing }),
    schedules: makeScheduleService({ db, clock, newId }),
    files: makeFileService({
      sql,
      objects,
      takesFiles: async () => true,
      fileWritten: pipelines.fileWritten,
    }),
    zones: makeLandingZoneService({
      db,
      sql,
      objects,
      clock,
      newId,
      eventRecorded: nothing,
      requireNamespace: async () => {},
    }),
    evaluator: new Evaluator({ sql, write: writeAs('triggers'), newId, log, post: nothing }),
    tickSchedules: () =>
      tickSchedules({ write: writeAs('scheduler'), newId, log: { ...log, info: nothing } }),
    /** The reaper's duties that move runs, as in workers/reaper/reaper.ts. */
    failStuck: () =>
      writeAs('reaper')((tx) => failStuckRuns(tx, { timeoutMinutes: STUCK_MINUTES, limit: 64 })),
    failReviews: () => writeAs('reaper')((tx) => failExpiredReviews(tx, 64)),
    reap,
    live,
    start,
    apply,
    perform,
    report: (outcome: Outcome) => queue.add(outcome),
    appendLine: (line: LogLine) => queue.appendLine(line),
  }
}
