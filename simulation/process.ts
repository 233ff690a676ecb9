// A simulated API process. Its connections and object store fail as planned; after its death, nothing that it began continues.
import { drizzle } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import type { ObjectStore } from '../app/objects/port.ts'
import { type Db, type Sql, STARTUP_PADDING } from '../drizzle/client.ts'
import { withTransactions } from '../drizzle/transaction.ts'
import { LOCK_TIMEOUT_MS, type SimulatedDatabase } from './database.ts'
import { type Fault, type Holder, Wire } from './wire.ts'

/** A fault, and the number of the statement or store call of one operation at which it happens, counted from 1. */
export interface Plan {
  at: number
  fault: Fault
}

/** One connection for each of the product's two pools, so that an operation's statements come in one order. */
export interface Connections {
  sql: Sql
  db: Db
  wires: Set<Wire>
  /** Assigns the connections to another holder. */
  hold(holder: Holder): void
  /** Discards plans before the next seed, because plans depend on the content of the tables when they were made. */
  forgetPlans(): Promise<void>
  close(): Promise<void>
}

type Rewrite = (statement: string) => string

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
    // postgres.js supports this option, but its types lack it.
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
    db: drizzle(typed),
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

/** The result of an operation. `paused`: the operation continues with the next `proceed`. */
type Ending =
  | { kind: 'done'; value: unknown }
  | { kind: 'failed'; error: unknown }
  | { kind: 'crashed' }
  | { kind: 'paused' }

export interface SimulatedProcess {
  readonly isDead: boolean
  readonly isPaused: boolean
  /** The statement at which the latest operation's fault happened, for the story. */
  readonly faultedAt: string | null
  readonly connections: Connections
  readonly objects: ObjectStore
  /** Performs an operation, with or without a planned fault, until it ends, is paused, or the process dies. */
  perform(operation: () => Promise<unknown>, plan: Plan | null): Promise<Ending>
  /** Continues a paused operation. */
  proceed(): Promise<Ending>
  /** Kills the process at its present statement. */
  kill(): Promise<void>
}

/** `asked` is called whenever data is sent to Postgres. */
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
  let resumePaused: (() => void) | null = null
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
    resumePaused = proceed
    stopped.resolve({ kind: 'paused' })
  }

  function die() {
    if (isDead) return
    isDead = true
    for (const wire of connections.wires) wire.sever()
    stopped.resolve({ kind: 'crashed' })
  }

  /** Waits for the end of the operation. After a death, also ends the backends, so that their locks are free. */
  async function settle(): Promise<Ending> {
    const ending = await Promise.race([
      underWay ?? Promise.reject(new Error('no operation is under way')),
      stopped.promise,
    ])
    if (isDead) await endBackends()
    if (ending.kind === 'done' || ending.kind === 'failed') underWay = null
    return isDead ? { kind: 'crashed' } : ending
  }

  const endBackends = () =>
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
      return resumePaused !== null
    },
    get faultedAt() {
      return faultedAt
    },
    connections,
    objects: {
      put: guarded('put', store.put),
      async stage(body, options) {
        // A staged object is invisible, so only its commit can fail.
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
      const resume = resumePaused
      resumePaused = null
      stopped = Promise.withResolvers<Ending>()
      resume?.()
      return settle()
    },
    async kill() {
      resumePaused = null
      die()
      await endBackends()
    },
  }
}

/** A promise that never settles: a dead process gets no answer. */
const never = new Promise<never>(() => {})

const unreachable = () => Object.assign(new Error('the object store does not answer'), { code: 'ECONNRESET' })
