// Messages between the API process and its worker threads. Messages are hints: a lost message costs a moment, never a run.
import { type Static, type TSchema, Type as t } from '@sinclair/typebox'
import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler'
import { DryRunResult } from '../../app/core/removals.ts'
import { EngineCost, MaintenanceOutcome } from './counted.ts'
import { ObjectAnswer, ObjectCall } from './object-calls.ts'

/** Settings that every thread gets at its start. */
export const ThreadSettings = t.Object({
  /** Unique per start of the API process, so a new thread can take over what earlier threads of the process held. */
  processId: t.String(),
  databaseUrl: t.String(),
  logFormat: t.Union([t.Literal('text'), t.Literal('json')]),
  /** The export of spans; null: nothing is recorded. */
  tracing: t.Union([
    t.Object({
      url: t.String(),
      headers: t.Record(t.String(), t.String()),
      resource: t.Record(t.String(), t.String()),
      service: t.Union([t.String(), t.Null()]),
      ratio: t.Number(),
    }),
    t.Null(),
  ]),
})
export type ThreadSettings = Static<typeof ThreadSettings>

export const DispatcherSettings = t.Composite([
  ThreadSettings,
  t.Object({
    runnerUrls: t.Array(t.String()),
    /** The address where runners reach the catalog and the object gateway. */
    publicUrl: t.String(),
    /** The start of every location in the lake's metadata. */
    lakeRoot: t.String(),
    /** The token that runners accept from this API; null: calls carry no token. */
    sidecarToken: t.Union([t.String(), t.Null()]),
    /** The only addresses that get the token; null: all addresses. */
    sidecarTokenUrls: t.Union([t.Array(t.String()), t.Null()]),
    /**
     * Whether submissions list the landing files of an attempt. Otherwise the runner asks the catalog, which applies the
     * visibility of zones.
     */
    includesInputs: t.Boolean(),
    /** Runs of one namespace that execute at once; null: no limit. */
    namespaceLimit: t.Union([t.Integer({ minimum: 1 }), t.Null()]),
  }),
])
export type DispatcherSettings = Static<typeof DispatcherSettings>

const count = t.Integer({ minimum: 0 })

const start = <Settings extends TSchema>(settings: Settings) =>
  t.Object({ type: t.Literal('start'), settings })
const Stop = t.Object({ type: t.Literal('stop') })

export const ToDispatcher = t.Union([
  start(DispatcherSettings),
  t.Object({ type: t.Literal('nudge'), about: t.Union([t.Literal('runRequested'), t.Literal('outbox')]) }),
  Stop,
])
export type ToDispatcher = Static<typeof ToDispatcher>

export const ToTriggers = t.Union([
  start(ThreadSettings),
  /** An event with a listening trigger was recorded, or triggers have changed. */
  t.Object({
    type: t.Literal('nudge'),
    about: t.Union([t.Literal('eventRecorded'), t.Literal('triggersChanged')]),
  }),
  Stop,
])
export type ToTriggers = Static<typeof ToTriggers>

export const ToScheduler = t.Union([start(ThreadSettings), Stop])
export type ToScheduler = Static<typeof ToScheduler>

/** The settings with which the reaper maintains tables through runners. */
export const MaintenanceMeans = t.Composite([
  t.Pick(DispatcherSettings, ['runnerUrls', 'publicUrl', 'lakeRoot', 'sidecarToken', 'sidecarTokenUrls']),
  t.Object({ tableBytes: count, tickBytes: count }),
])
export type MaintenanceMeans = Static<typeof MaintenanceMeans>

export const ReaperSettings = t.Composite([
  ThreadSettings,
  t.Object({
    /** A client waits for this tick, so it is performed even if none is due. */
    isRequested: t.Boolean(),
    branchMaxIdleDays: t.Union([count, t.Null()]),
    task: t.Union([
      t.Object({ kind: t.Literal('tick') }),
      /** The tick only lists what it would remove. */
      t.Object({ kind: t.Literal('dryRun') }),
      /** Tables are maintained after a tick, in a thread of its own. */
      t.Object({ kind: t.Literal('maintenance'), means: MaintenanceMeans }),
    ]),
  }),
])
export type ReaperSettings = Static<typeof ReaperSettings>

/** A thread of the reaper lives for one task. It reaches objects through the process that has the store's client. */
export const ToReaper = t.Union([
  start(ReaperSettings),
  t.Object({ type: t.Literal('objectAnswer'), id: t.Integer(), answer: ObjectAnswer }),
  Stop,
])
export type ToReaper = Static<typeof ToReaper>

export type ToWorker = ToDispatcher | ToTriggers | ToScheduler | ToReaper

export const FromWorker = t.Union([
  t.Object({ type: t.Literal('ready') }),
  /** Sent every second; a thread that is silent for long counts as hung. */
  t.Object({ type: t.Literal('alive') }),
  t.Object({
    type: t.Literal('runsEnded'),
    status: t.Union([t.Literal('success'), t.Literal('failed'), t.Literal('cancelled')]),
    count,
  }),
  /** A hint for the evaluator: successes with a listening trigger were recorded. */
  t.Object({ type: t.Literal('eventRecorded') }),
  t.Object({ type: t.Literal('rpcEnded'), method: t.String(), code: t.String(), seconds: t.Number() }),
  /** The cost of an attempt that has ended. */
  t.Object({ type: t.Literal('attemptCost'), cost: EngineCost }),
  /** A hint for the dispatcher: pending rows were inserted. */
  t.Object({ type: t.Literal('runsRequested'), count }),
  /** The scheduler has checked for due schedules. */
  t.Object({ type: t.Literal('ticked'), runsRequested: count }),
  /** This thread has gained or lost leadership of its role. */
  t.Object({ type: t.Literal('led'), isLeading: t.Boolean() }),
  /** The reaper's tick is over; its result is in the database. `failures` names the failed duties. */
  t.Object({ type: t.Literal('reaped'), failures: t.Array(t.String()) }),
  /** The maintenance after a tick is over. */
  t.Object({ type: t.Literal('maintenanceDone') }),
  /** The reaper has tried to maintain a table. */
  t.Object({ type: t.Literal('maintained'), outcome: MaintenanceOutcome, bytes: count }),
  /** A dry run of the reaper is over. */
  t.Object({ type: t.Literal('dryRunDone'), result: DryRunResult }),
  /** A call of the reaper to the object store. */
  t.Object({ type: t.Literal('objectCall'), id: t.Integer(), call: ObjectCall }),
  t.Object({ type: t.Literal('stopped') }),
])
export type FromWorker = Static<typeof FromWorker>

const checks = new Map<TSchema, TypeCheck<TSchema>>()

/**
 * Returns the message with its type. Throws an error that shows an invalid message, because threads of different versions must
 * not guess.
 */
export function parseMessage<Schema extends TSchema>(schema: Schema, data: unknown): Static<Schema> {
  const check = checks.get(schema) ?? TypeCompiler.Compile<TSchema>(schema)
  checks.set(schema, check)
  if (!check.Check(data)) throw new Error(`invalid message: ${shown(data)}`)
  return data as Static<Schema>
}

/** Hides settings, which contain the database's password, and bytes of files, which may be large. */
const shown = (data: unknown) =>
  JSON.stringify(data, (key, value) =>
    key === 'settings' || value instanceof Uint8Array ? '...' : value,
  )?.slice(0, 200)

/** For the default branch of a switch over messages, so that an unhandled variant does not compile. */
export function assertNever(message: never): never {
  throw new Error(`unhandled message ${JSON.stringify(message)}`)
}
