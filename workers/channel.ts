// What the API process and its worker threads say to each other. Messages are hints: losing one costs a moment, never a run.
import { type Static, type TSchema, Type as t } from '@sinclair/typebox'
import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler'

export const DispatcherSettings = t.Object({
  /** Unique to this start of the API process: what its earlier threads followed is its own. */
  processId: t.String(),
  databaseUrl: t.String(),
  runnerUrls: t.Array(t.String()),
  /** Where runners reach the catalog and the object gateway. */
  publicUrl: t.String(),
  logFormat: t.Union([t.Literal('text'), t.Literal('json')]),
})
export type DispatcherSettings = Static<typeof DispatcherSettings>

export const ToDispatcher = t.Union([
  t.Object({ type: t.Literal('start'), settings: DispatcherSettings }),
  t.Object({ type: t.Literal('nudge'), about: t.Union([t.Literal('runRequested'), t.Literal('outbox')]) }),
  t.Object({ type: t.Literal('stop') }),
])
export type ToDispatcher = Static<typeof ToDispatcher>

export const FromWorker = t.Union([
  t.Object({ type: t.Literal('ready') }),
  /** Sent every second: a thread that is silent for long hangs. */
  t.Object({ type: t.Literal('alive') }),
  t.Object({
    type: t.Literal('runsEnded'),
    status: t.Union([t.Literal('success'), t.Literal('failed'), t.Literal('cancelled')]),
    count: t.Integer(),
  }),
  t.Object({ type: t.Literal('rpcEnded'), method: t.String(), code: t.String(), seconds: t.Number() }),
  t.Object({ type: t.Literal('stopped') }),
])
export type FromWorker = Static<typeof FromWorker>

const checks = new Map<TSchema, TypeCheck<TSchema>>()

/** A message as its type says it is, or an error naming what is wrong: threads of two versions must not guess. */
export function parseMessage<Schema extends TSchema>(schema: Schema, data: unknown): Static<Schema> {
  const check = checks.get(schema) ?? TypeCompiler.Compile<TSchema>(schema)
  checks.set(schema, check)
  if (!check.Check(data)) throw new Error(`no such message: ${JSON.stringify(data)?.slice(0, 200)}`)
  return data as Static<Schema>
}

/** For the default branch of a switch over messages: a variant that is not handled does not compile. */
export function assertNever(message: never): never {
  throw new Error(`unhandled message ${JSON.stringify(message)}`)
}
