// One simulated API process with all that it does: the product's services and ticks over the process's own connections,
// and the memory of its dispatcher, which is lost with it.
import { expireLakeHistory } from '../../app/catalog/duties.ts'
import type { Clock } from '../../app/core/clock.ts'
import type { NewId } from '../../app/core/ids.ts'
import type { Log } from '../../app/core/log.ts'
import { makeFileService } from '../../app/files/service.ts'
import { purgeArchivedFiles, queueArchiving } from '../../app/landing-zones/archive-purge.ts'
import { makeArchive } from '../../app/landing-zones/effects.ts'
import { makeLandingZoneService } from '../../app/landing-zones/service.ts'
import type { PipelineDeleted } from '../../app/pipelines/deletion.ts'
import { makePipelineService } from '../../app/pipelines/service.ts'
import {
  pruneIdempotencyKeys,
  pruneLogs,
  pruneQualityResults,
  pruneRuns,
  purgeDeletedPipelines,
  tickState,
} from '../../app/retention/duties.ts'
import { NotLeading, nothingReaped, type Reaping } from '../../app/retention/reaping.ts'
import type { Outcome } from '../../app/runs/outcome.ts'
import {
  applyOutcomes,
  failStuckRuns,
  handleOf,
  type LogLine,
  makeRunService,
  type OpenAttempt,
  queueCancels,
  type RunService,
  startWaiting,
} from '../../app/runs/service.ts'
import { makeScheduleService } from '../../app/schedules/service.ts'
import { makeTriggerService } from '../../app/triggers/service.ts'
import { makeWebhookService } from '../../app/webhooks/service.ts'
import type { Fenced } from '../../drizzle/client.ts'
import { isPassing } from '../../drizzle/errors.ts'
import { cutoffsAt } from '../../machines/retention.ts'
import { performDue } from '../dispatcher/outbox.ts'
import { makeOutcomeQueue } from '../dispatcher/outcome-queue.ts'
import { makePresence } from '../dispatcher/presence.ts'
import { type Lease, lockLease } from '../leadership/store.ts'
import { tickSchedules } from '../scheduler.ts'
import { Evaluator } from '../triggers.ts'
import type { SimulatedProcess } from './process.ts'
import type { Runner } from './runner.ts'

/** `stuck_run_timeout_minutes` */
const STUCK_MINUTES = 120

/** The reaper's duties, each a step of its own, by the names of workers/reaper/reaper.ts. That which moves runs is `failStuck`. */
export const DUTIES = {
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

/** An attempt that this replica follows, and what it has heard of it so far. */
export interface Followed {
  attempt: OpenAttempt
  boot: string | null
  heard: Set<string>
}

export interface ReplicaOptions {
  name: string
  process: SimulatedProcess
  runner: Runner
  clock: Clock
  newId: NewId
  /** What the product would have logged as an error or a warning. */
  complain(message: string, error: unknown): void
  /** The outcome as it reaches the database: a mutation may change it on its way. */
  applied(outcome: Outcome): Outcome
}

export type Replica = ReturnType<typeof makeReplica>
export type Role = 'triggers' | 'scheduler' | 'reaper'

export function makeReplica({ name, process, runner, clock, newId, complain, applied }: ReplicaOptions) {
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
    runnable: (path) => pipelines.runnable(path),
    nudge: nothing,
  })
  const triggers = makeTriggerService({ sql, newId })
  const pipelines = makePipelineService({
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

  /** Its lease of each role, as far as it knows. */
  const seats = new Map<Role, Lease>()
  const writeAs =
    (role: Role): Fenced =>
    async (work) => {
      const lease = seats.get(role)
      if (lease === undefined) return null
      const done = await sql.begin(async (tx) => {
        // As workers/leadership/leadership.ts begins every transaction of a leader.
        if (!(await lockLease(tx, lease))) return null
        const value = await work(tx)
        // By the fence's lock nobody can have taken the role until this transaction ends.
        const [leader] = await tx<{ epoch: number }[]>`
          select epoch::float8 as epoch from leader where role = ${role}`
        if (leader?.epoch !== lease.epoch)
          complain(
            `${name} writes as the ${role}`,
            new Error(`in epoch ${lease.epoch}, and it is ${leader?.epoch}`),
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
    following.set(handle, { attempt, boot: attempt.runnerBoot, heard: new Set() })
  }

  const live = makePresence({
    sql,
    replica: name,
    follower: { follow, isFollowed: (handle) => following.has(handle) },
    ender: queue,
    tellsInputs: true,
    log,
  })

  async function start(places: readonly string[]) {
    const { attempts, completed } = await startWaiting(sql, places, name)
    for (const attempt of attempts) follow(attempt)
    return {
      started: attempts.map(({ runId, attempt }) => handleOf(runId, attempt)),
      ended: completed.length,
    }
  }

  async function apply() {
    const { outcomes, lines } = queue.take()
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

  /** What the API process performs and what its dispatcher does, as app/main.ts and workers/dispatcher/dispatcher.ts say. */
  const effects = {
    cancelAttempt: async ({ handle }: Record<string, unknown>) => runner.cancel(String(handle)),
    pipelineDeleted: (payload: unknown) => pipelines.finishDeletion(payload as PipelineDeleted),
    archivedInputs: (payload: unknown) => archive.moveInputs(payload as { runId: string }),
    movedObject: (payload: unknown) => archive.removeMoved(payload as { key: string; versionId: string }),
  }

  /** One kind at a time: effects of one batch are performed together, and together they would come in any order. */
  const perform = (kind: keyof typeof effects) =>
    performDue(sql, { [kind]: effects[kind] }, (_, error) => {
      if (!isPassing(error) && !/still being read/.test(String(error)))
        complain(`effect ${kind} failed`, error)
    })

  /** As a tick performs it. Answers what was removed, or null where another one leads. */
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
      reaped: nothingReaped(),
      linesGone: [],
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
    webhooks: makeWebhookService({ sql, newId, nudge: nothing }),
    schedules: makeScheduleService({ db, clock, newId }),
    files: makeFileService({ sql, objects, fileWritten: pipelines.fileWritten }),
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
    /** Of the reaper's duties the one that moves runs, as workers/reaper/reaper.ts performs it. */
    failStuck: () =>
      writeAs('reaper')((tx) => failStuckRuns(tx, { timeoutMinutes: STUCK_MINUTES, limit: 64 })),
    reap,
    live,
    start,
    apply,
    perform,
    report: (outcome: Outcome) => queue.add(outcome),
    tell: (line: LogLine) => queue.tell(line),
  }
}
