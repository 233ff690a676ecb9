import { join } from 'node:path'
import { drizzle, type PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import { migrate as applyMigrations } from 'drizzle-orm/postgres-js/migrator'
import postgres from 'postgres'
import { AT_ONCE, survivingLostConnections } from './lost-connections.ts'
import { withPlaces } from './places.ts'
import * as schema from './schema/index.ts'
import { openSession, type Session } from './session.ts'
import type { Sql, SqlTx } from './sql.ts'
import { type Pulse, silenceOf, watched } from './watched-socket.ts'

export type { Sql, SqlTx } from './sql.ts'

export type Db = PostgresJsDatabase<typeof schema>
/** The transaction a query runs in, or the pool itself. */
export type Tx = Parameters<Parameters<Db['transaction']>[0]>[0]
export type Queryable = Db | Tx

/**
 * A transaction that holds only while its caller leads: null when it does not (any more), and then nothing was done.
 * workers/leadership/leadership.ts makes one; a test may pass `(work) => sql.begin(work)`.
 */
export type Fenced = <T>(work: (tx: SqlTx) => Promise<T>) => Promise<T | null>

export interface Database {
  /** Typed queries. */
  db: Db
  /** Raw SQL with the driver's own codecs: drizzle replaces those of the client it is given. */
  sql: Sql
  /** A connection of its own for what is asked often, one after the other; it is closed with the others. */
  session(does: string): Session
  close(): Promise<void>
}

export interface DatabaseOptions {
  /** Connections of the typed pool. */
  connections: number
  /** Connections of the raw pool. */
  rawConnections: number
  /** Shown in pg_stat_activity. */
  application: string
  /** Session settings such as lock_timeout, in milliseconds. */
  settings?: Record<string, string | number>
  /** Shared by all that is open to one database: long statements end early where no other connection hears anything. */
  pulse?: Pulse
}

const migrationsFolder = join(import.meta.dirname, 'migrations')
/** Longer than any transaction may take. */
const TURN_MS = 120_000
/** Two replicas starting at once migrate one after the other. */
const MIGRATION_LOCK = 7_340_921_001
/** Requests of a program beside wait for as long as a step waits for their table; between two tries they have their turn. */
const MIGRATION_LOCK_MS = 2_000
const MIGRATION_PAUSE_MS = 1_000
const MIGRATION_TRIES = 100

export function openDatabase(url: string, options: DatabaseOptions): Database {
  const common = {
    onnotice: () => {},
    connect_timeout: 10,
    // Seconds between tries to reach a database that is starting again.
    backoff: (tries: number) => Math.min(1, 0.05 * 2 ** tries),
    connection: { application_name: options.application, ...options.settings, ...AT_ONCE },
  }
  const pool = (max: number) =>
    withPlaces(
      survivingLostConnections(
        postgres(url, {
          ...common,
          ...watched({ silenceMs: silenceOf(options.settings), pulse: options.pulse }),
          max,
        }),
      ),
      max,
    )
  const typed = pool(options.connections)
  const sql = pool(options.rawConnections)
  const sessions: Session[] = []
  return {
    db: drizzle(typed, { schema }),
    sql,
    session(does) {
      const session = openSession(url, {
        application: `${options.application} ${does}`,
        settings: options.settings,
        pulse: options.pulse,
        turnMs: TURN_MS,
      })
      sessions.push(session)
      return session
    },
    close: async () => {
      await Promise.all([
        ...sessions.map((session) => session.close()),
        typed.end({ timeout: 2 }),
        sql.end({ timeout: 2 }),
      ])
    },
  }
}

export interface MigrationOptions {
  folder?: string
  /** Milliseconds a step waits for a table. */
  lockMs?: number
}

/**
 * Brings a database to this program's schema. Safe to call from several processes at once, and beside an older program: a
 * step that waits for a table keeps everybody else from it, so it gives up soon and tries again a while later.
 */
export async function migrate(
  url: string,
  { folder = migrationsFolder, lockMs = MIGRATION_LOCK_MS }: MigrationOptions = {},
): Promise<void> {
  const client = postgres(url, { max: 1, onnotice: () => {}, connect_timeout: 10 })
  try {
    await client`select pg_advisory_lock(${MIGRATION_LOCK})`
    await client`select set_config('lock_timeout', ${String(lockMs)}, false)`
    for (let tries = 1; ; tries++) {
      try {
        return await applyMigrations(drizzle(client), { migrationsFolder: folder })
      } catch (error) {
        if (!isLocked(error)) throw error
        if (tries === MIGRATION_TRIES)
          throw new Error(
            'the database is not of this version yet, and what uses it lets nobody change it: end long transactions (a dump?)',
            { cause: error },
          )
        await new Promise((resolve) => setTimeout(resolve, MIGRATION_PAUSE_MS))
      }
    }
  } finally {
    await client.end({ timeout: 2 })
  }
}

/** Of the driver, or of drizzle that wraps it: somebody has what the migration wants, or each of the two waits for the other. */
const isLocked = (error: unknown): boolean =>
  error instanceof Error &&
  (('code' in error && (error.code === '55P03' || error.code === '40P01')) || isLocked(error.cause))
