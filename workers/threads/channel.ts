// What the API process and its worker threads say to each other. Messages are hints: losing one costs a moment, never a run.
import { type Static, type TSchema, Type as t } from '@sinclair/typebox'
import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler'
import { ObjectAnswer, ObjectCall } from '../runtime/object-calls.ts'

/** What every thread is told at its start. */
export const ThreadSettings = t.Object({
  /** Unique to this start of the API process: what its earlier threads held is its own. */
  processId: t.String(),
  databaseUrl: t.String(),
  logFormat: t.Union([t.Literal('text'), t.Literal('json')]),
})
export type ThreadSettings = Static<typeof ThreadSettings>

export const DispatcherSettings = t.Composite([
  ThreadSettings,
  t.Object({
    runnerUrls: t.Array(t.String()),
    /** Where runners reach the catalog and the object gateway. */
    publicUrl: t.String(),
    /** The token that runners accept from this API; null: calls carry none. */
    sidecarToken: t.Union([t.String(), t.Null()]),
    /** The only addresses that get it; null: all. */
    sidecarTokenUrls: t.Union([t.Array(t.String()), t.Null()]),
    /** Whether attempts are told their landing files; else their runner asks the catalog, which knows who sees which zone. */
    tellsInputs: t.Boolean(),
  }),
])
export type DispatcherSettings = Static<typeof DispatcherSettings>

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
  /** An event that some trigger hears was recorded, or triggers have changed. */
  t.Object({
    type: t.Literal('nudge'),
    about: t.Union([t.Literal('eventRecorded'), t.Literal('triggersChanged')]),
  }),
  Stop,
])
export type ToTriggers = Static<typeof ToTriggers>

export const ToScheduler = t.Union([start(ThreadSettings), Stop])
export type ToScheduler = Static<typeof ToScheduler>

export const ReaperSettings = t.Composite([
  ThreadSettings,
  /** Somebody waits for this tick: it is made whether or not one is due. */
  t.Object({ isAsked: t.Boolean() }),
])
export type ReaperSettings = Static<typeof ReaperSettings>

/** The reaper's thread lives for one tick. Objects are reached through the process that holds the store's client. */
export const ToReaper = t.Union([
  start(ReaperSettings),
  t.Object({ type: t.Literal('objectAnswer'), id: t.Integer(), answer: ObjectAnswer }),
  Stop,
])
export type ToReaper = Static<typeof ToReaper>

export type ToWorker = ToDispatcher | ToTriggers | ToScheduler | ToReaper

const count = t.Integer({ minimum: 0 })

export const FromWorker = t.Union([
  t.Object({ type: t.Literal('ready') }),
  /** Sent every second: a thread that is silent for long hangs. */
  t.Object({ type: t.Literal('alive') }),
  t.Object({
    type: t.Literal('runsEnded'),
    status: t.Union([t.Literal('success'), t.Literal('failed'), t.Literal('cancelled')]),
    count,
  }),
  /** Successes that some trigger hears: a hint for the evaluator. */
  t.Object({ type: t.Literal('eventRecorded') }),
  t.Object({ type: t.Literal('rpcEnded'), method: t.String(), code: t.String(), seconds: t.Number() }),
  /** Pending rows were inserted: a hint for the dispatcher. */
  t.Object({ type: t.Literal('runsRequested'), count }),
  /** The scheduler has looked for due schedules. */
  t.Object({ type: t.Literal('ticked'), runsRequested: count }),
  /** This thread does, or does no longer, what only one replica may do. */
  t.Object({ type: t.Literal('led'), isLeading: t.Boolean() }),
  /** The reaper's tick is over; what it did is in the database. Duties that failed are named. */
  t.Object({ type: t.Literal('reaped'), failures: t.Array(t.String()) }),
  /** The reaper asks for something of the object store. */
  t.Object({ type: t.Literal('objectCall'), id: t.Integer(), call: ObjectCall }),
  t.Object({ type: t.Literal('stopped') }),
])
export type FromWorker = Static<typeof FromWorker>

const checks = new Map<TSchema, TypeCheck<TSchema>>()

/** A message as its type says it is, or an error naming what is wrong: threads of two versions must not guess. */
export function parseMessage<Schema extends TSchema>(schema: Schema, data: unknown): Static<Schema> {
  const check = checks.get(schema) ?? TypeCompiler.Compile<TSchema>(schema)
  checks.set(schema, check)
  if (!check.Check(data)) throw new Error(`no such message: ${shown(data)}`)
  return data as Static<Schema>
}

/** Settings hold the database's password, and files may be large: neither is for logs. */
const shown = (data: unknown) =>
  JSON.stringify(data, (key, value) =>
    key === 'settings' || value instanceof Uint8Array ? '...' : value,
  )?.slice(0, 200)

/** For the default branch of a switch over messages: a variant that is not handled does not compile. */
export function assertNever(message: never): never {
  throw new Error(`unhandled message ${JSON.stringify(message)}`)
}
