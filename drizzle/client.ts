import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { drizzle as drizzleOver } from 'drizzle-orm/pg-proxy'
import { drizzle, type PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import { migrate as applyMigrations } from 'drizzle-orm/postgres-js/migrator'
import postgres from 'postgres'
import type { Sql, SqlTx } from './sql.ts'
import { type Patience, type Supervisor, startSupervisor } from './supervisor.ts'
import { withTransactions } from './transaction.ts'

export type { Sql, SqlTx } from './sql.ts'
export { inTransaction } from './transaction.ts'

export type Db = PostgresJsDatabase
/** A transaction of the typed pool. `Queryable` is a transaction or the pool itself. */
export type Tx = Parameters<Parameters<Db['transaction']>[0]>[0]
export type Queryable = Db | Tx

/**
 * Typed queries in a raw transaction, for changes that commit together with raw statements. The transaction keeps the codecs of
 * the driver, so JSON parameters are parsed again. The typed pool has a Tx of its own.
 */
export const typedIn = (tx: SqlTx): Tx =>
  drizzleOver(async (text, params, _method, typings) => ({
    rows: await tx
      .unsafe(
        text,
        params.map((value, at) =>
          typings?.[at] === 'json' && typeof value === 'string' ? tx.json(JSON.parse(value)) : value,
        ),
      )
      .values(),
  })) as unknown as Tx

/**
 * A transaction that commits only while its caller is the leader. Returns null and changes nothing when the caller no longer
 * leads. workers/leadership/leadership.ts creates one. A test may pass `(work) => sql.begin(work)`.
 */
export type Fenced = <T>(work: (tx: SqlTx) => Promise<T>) => Promise<T | null>

export interface Database {
  /** Typed queries. */
  db: Db
  /** Raw SQL with the driver's own codecs. Drizzle replaces the codecs of the client it is given. */
  sql: Sql
  /** A pool for one task, with one connection for statements and one for transactions. `close` closes it too. */
  session(task: string): Sql
  close(): Promise<void>
}

interface DatabaseOptions {
  /** Connections of the typed pool: this number for statements, and the same number for transactions. */
  connections: number
  /** Connections of the raw pool, counted in the same way. */
  rawConnections: number
  /** Shown in pg_stat_activity. */
  application: string
  /** Session settings such as lock_timeout, in milliseconds. */
  settings?: Record<string, string | number>
  /** How long a silent connection may take; tests shorten these times. */
  patience?: Patience
}

const migrationsFolder = join(import.meta.dirname, 'migrations')
/** Replicas that start at the same time migrate one after the other. */
const MIGRATION_LOCK = 7_340_921_001
/**
 * Lock timeout of a migration step. Requests of other processes wait behind a waiting step, so a pause between two tries lets
 * them proceed.
 */
const MIGRATION_LOCK_MS = 2_000
const MIGRATION_PAUSE_MS = 1_000
const MIGRATION_TRIES = 100

export function openDatabase(
  url: string,
  { connections, rawConnections, application, settings = {}, patience }: DatabaseOptions,
): Database {
  const statementMs = settings.statement_timeout
  const supervisor = startSupervisor(
    url,
    statementMs === undefined ? undefined : Number(statementMs),
    patience,
  )
  const pools: Sql[] = []
  const open = (max: number, name: string, prepared?: (client: Sql) => void) => {
    const pool = openPool(url, supervisor, { max, application: name, settings, prepared })
    pools.push(pool)
    return pool
  }
  return {
    // Drizzle replaces the codecs of its client, so the typed pool has its own client.
    db: drizzle(open(connections, application, drizzle)),
    sql: open(rawConnections, application),
    session: (does) => open(1, `${application} ${does}`),
    async close() {
      await Promise.all(pools.map((pool) => pool.end({ timeout: 2 })))
      supervisor.stop()
    },
  }
}

interface PoolOptions {
  /** Connections for statements, and the same number for transactions. */
  max: number
  /** Shown in pg_stat_activity. */
  application: string
  settings: Record<string, string | number>
  /** Called when a connection has ended or could not be opened. */
  onclose?(): void
  /** Called with both clients before their first statement. */
  prepared?: ((client: Sql) => void) | undefined
}

/** A pool with supervised connections. A transaction that loses its connection rejects once and does not end the process. */
export function openPool(
  url: string,
  supervisor: Supervisor,
  { max, application, settings, onclose, prepared = () => {} }: PoolOptions,
): Sql {
  const open = () => {
    const client = postgres(url, {
      max,
      onnotice: () => {},
      ...(onclose && { onclose }),
      connect_timeout: 10,
      // A statement shares its connection with at most one other statement. So it waits for at most one, and is lost with at
      // most one. The option is missing in the types.
      ...{ max_pipeline: 1 },
      ...supervisor.options,
      connection: { application_name: application, ...settings, ...STARTUP_PADDING },
    })
    prepared(client)
    return client
  }
  return withTransactions(open(), open())
}

/**
 * Makes the startup message longer than the write buffer of postgres.js 3.4.9, so that the message is sent at once. The timer
 * that flushes the buffer never starts again after a connection was lost with buffered data.
 */
export const STARTUP_PADDING = { options: ' '.repeat(1_024) }

interface MigrationOptions {
  folder?: string
  /** Lock timeout of a step in milliseconds. */
  lockMs?: number
}

/**
 * Migrates a database to this program's schema. Several processes may call this at the same time, also while an older program
 * runs. A step that waits for a table blocks all other users of that table. So each step has a short lock timeout and is tried
 * again after a pause.
 */
export async function migrate(
  url: string,
  { folder = migrationsFolder, lockMs = MIGRATION_LOCK_MS }: MigrationOptions = {},
): Promise<void> {
  const client = postgres(url, { max: 1, onnotice: () => {}, connect_timeout: 10 })
  try {
    await client`select pg_advisory_lock(${MIGRATION_LOCK})`
    await requireKnownHistory(client)
    await client`select set_config('lock_timeout', ${String(lockMs)}, false)`
    for (let tries = 1; ; tries++) {
      try {
        return await applyMigrations(drizzle(client), { migrationsFolder: folder })
      } catch (error) {
        if (!isLocked(error)) throw error
        if (tries === MIGRATION_TRIES)
          throw new Error(
            `database migration blocked by locks after ${tries} attempts: end long transactions, such as a dump`,
            { cause: error },
          )
        await new Promise((resolve) => setTimeout(resolve, MIGRATION_PAUSE_MS))
      }
    }
  } finally {
    await client.end({ timeout: 2 })
  }
}

/** The database was created by migrations that do not belong to this program's history. */
export class UnknownHistory extends Error {
  constructor() {
    super(
      'the database was created by an unreleased version of Sluice and cannot be upgraded: set DATA_DIR to a new directory, or DATABASE_URL to an empty database',
    )
  }
}

/** A database of a newer version passes, because its history starts with the same migration. */
async function requireKnownHistory(client: Sql): Promise<void> {
  const [table] = await client`select to_regclass('drizzle.__drizzle_migrations') as name`
  if (table?.name == null) return
  const [first] = await client<{ at: number | null }[]>`
    select min(created_at)::float8 as at from drizzle.__drizzle_migrations`
  const journal = await readFile(join(migrationsFolder, 'meta', '_journal.json'), 'utf8')
  const { entries } = JSON.parse(journal) as { entries: { when: number }[] }
  if (first?.at != null && first.at !== entries[0]?.when) throw new UnknownHistory()
}

/**
 * Whether a migration failed because of a lock timeout or a deadlock. Drizzle wraps the driver's error, so causes are checked
 * too.
 */
const isLocked = (error: unknown): boolean =>
  error instanceof Error &&
  (('code' in error && (error.code === '55P03' || error.code === '40P01')) || isLocked(error.cause))
