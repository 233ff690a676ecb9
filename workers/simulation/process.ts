// A simulated API process: connections and an object store that fail where chance says so, and an end after which
// nothing that it had begun goes on.
import { drizzle } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import type { ObjectStore } from '../../app/objects/port.ts'
import { type Db, type Sql, STARTUP_PADDING } from '../../drizzle/client.ts'
import * as schema from '../../drizzle/schema/index.ts'
import { withTransactions } from '../../drizzle/transaction.ts'
import { LOCK_TIMEOUT_MS, type SimulatedDatabase } from './database.ts'
import { type Fault, type Holder, Wire } from './wire.ts'

/** A fault, and at which statement (or call of the object store) of one operation it happens, counted from 1. */
export interface Plan {
  at: number
  fault: Fault
}

/** One connection for each of the product's two pools: what an operation does comes in one order. */
export interface Connections {
  sql: Sql
  db: Db
  wires: Set<Wire>
  /** Whose connections they are from now on. */
  hold(holder: Holder): void
  /** As they were when they were new, for the next seed: plans depend on what the tables held when they were made. */
  forgetPlans(): Promise<void>
  close(): Promise<void>
}

export type Rewrite = (statement: string) => string

export async function openConnections(database: SimulatedDatabase): Promise<Connections> {
  const { server } = database
  const wires = new Set<Wire>()
  let holder: Holder = IDLE
  const delegate: Holder = {
    faultAt: (statement) => holder.faultAt(statement),
    rewritten: (statement) => holder.rewritten(statement),
    paused: (proceed) => holder.paused(proceed),
    crashed: () => holder.crashed(),
    disconnected: async (wire) => {
      wires.delete(wire)
      await database.endBackends(wire.pid === null ? [] : [wire.pid])
    },
    opened: (wire) => void wires.add(wire),
    asked: () => holder.asked(),
  }
  const options = {
    max: 1,
    max_lifetime: null,
    idle_timeout: 0,
    backoff: () => 0,
    onnotice: () => {},
    connection: { application_name: 'simulated', lock_timeout: LOCK_TIMEOUT_MS, ...STARTUP_PADDING },
    // Understood by postgres.js, and missing from its types.
    socket: () => new Wire(server, delegate),
  }
  const open = () => {
    const pool = postgres(database.url, options)
    return withTransactions(pool, pool)
  }
  const typed = open()
  const sql = open()
  await Promise.all([typed`select 1`, sql`select 1`])
  return {
    sql,
    db: drizzle(typed, { schema }),
    wires,
    hold: (next) => {
      holder = next
    },
    forgetPlans: async () => {
      await Promise.all([typed.unsafe('discard plans'), sql.unsafe('discard plans')])
    },
    close: async () => {
      await Promise.all([typed.end({ timeout: 1 }), sql.end({ timeout: 1 })])
    },
  }
}

const IDLE: Holder = {
  faultAt: () => null,
  rewritten: (statement) => statement,
  paused: () => {},
  crashed: () => {},
  disconnected: async () => {},
  opened: () => {},
  asked: () => {},
}

/** What has become of an operation. `paused`: it goes on with the next `proceed`. */
export type Ending =
  | { kind: 'done'; value: unknown }
  | { kind: 'failed'; error: unknown }
  | { kind: 'crashed' }
  | { kind: 'paused' }

export interface SimulatedProcess {
  readonly isDead: boolean
  readonly isPaused: boolean
  /** Where the planned fault of the latest operation has happened, for the story. */
  readonly faultedAt: string | null
  readonly connections: Connections
  readonly objects: ObjectStore
  /** Performs an operation, with or without a fault on its way, until it ends, is paused, or the process dies of it. */
  perform(operation: () => Promise<unknown>, plan: Plan | null): Promise<Ending>
  /** Lets a paused operation go on. */
  proceed(): Promise<Ending>
  /** Kills it where it stands. */
  kill(): Promise<void>
}

/** `asked`: whenever something is on its way to Postgres. */
export function makeProcess(
  database: SimulatedDatabase,
  connections: Connections,
  store: ObjectStore,
  rewrite: Rewrite,
  asked: () => void,
): SimulatedProcess {
  let isDead = false
  let plan: Plan | null = null
  let count = 0
  let faultedAt: string | null = null
  let goOn: (() => void) | null = null
  let underWay: Promise<Ending> | null = null
  let stopped = Promise.withResolvers<Ending>()

  connections.hold({
    faultAt,
    rewritten: rewrite,
    paused: pause,
    crashed: die,
    disconnected: async () => {},
    opened: () => {},
    asked,
  })

  function faultAt(statement: string): Fault | null {
    if (plan === null) return null
    count += 1
    if (count !== plan.at) return null
    const { fault } = plan
    plan = null
    faultedAt = statement.replace(/\s+/g, ' ').slice(0, 100)
    return fault
  }

  function pause(proceed: () => void) {
    goOn = proceed
    stopped.resolve({ kind: 'paused' })
  }

  function die() {
    if (isDead) return
    isDead = true
    for (const wire of connections.wires) wire.sever()
    stopped.resolve({ kind: 'crashed' })
  }

  /** What a dead process held is free once its backends have noticed. */
  async function settle(): Promise<Ending> {
    const ending = await Promise.race([
      underWay ?? Promise.reject(new Error('nothing is under way')),
      stopped.promise,
    ])
    if (isDead) await buried()
    if (ending.kind === 'done' || ending.kind === 'failed') underWay = null
    return isDead ? { kind: 'crashed' } : ending
  }

  const buried = () =>
    database.endBackends([...connections.wires].flatMap(({ pid }) => (pid === null ? [] : [pid])))

  const guarded =
    <Args extends unknown[], Result>(name: string, call: (...args: Args) => Promise<Result>) =>
    async (...args: Args): Promise<Result> => {
      if (isDead) return never
      const fault = faultAt(`${name} ${String(args[0])}`)
      if (fault?.kind === 'pause') await new Promise<void>(pause)
      if (isDead) return never
      if (fault?.kind === 'crash' && fault.when === 'before') {
        die()
        return never
      }
      if (fault?.kind === 'disconnect' && fault.when === 'before') throw unreachable()
      const result = await call(...args)
      if (fault?.kind === 'crash') {
        die()
        return never
      }
      if (fault?.kind === 'disconnect') throw unreachable()
      return result
    }

  return {
    get isDead() {
      return isDead
    },
    get isPaused() {
      return goOn !== null
    },
    get faultedAt() {
      return faultedAt
    },
    connections,
    objects: {
      put: guarded('put', store.put),
      async stage(body, options) {
        // A staged object is visible nowhere: only its commit can go wrong.
        const staged = await store.stage(body, options)
        return { ...staged, commit: guarded('put', staged.commit) }
      },
      get: guarded('get', store.get),
      head: guarded('head', store.head),
      text: guarded('text', store.text),
      delete: guarded('delete', store.delete),
      deleteVersion: guarded('deleteVersion', store.deleteVersion),
      list: guarded('list', store.list),
      versions: guarded('versions', store.versions),
      removeAll: guarded('removeAll', store.removeAll),
      ping: store.ping,
      close: store.close,
    },
    perform(operation, planned) {
      plan = planned
      count = 0
      faultedAt = null
      stopped = Promise.withResolvers<Ending>()
      underWay = operation().then(
        (value): Ending => ({ kind: 'done', value }),
        (error: unknown): Ending => ({ kind: 'failed', error }),
      )
      return settle()
    },
    proceed() {
      const go = goOn
      goOn = null
      stopped = Promise.withResolvers<Ending>()
      go?.()
      return settle()
    },
    async kill() {
      goOn = null
      die()
      await buried()
    },
  }
}

/** What a process that is gone never learns. */
const never = new Promise<never>(() => {})

const unreachable = () => Object.assign(new Error('the object store does not answer'), { code: 'ECONNRESET' })
