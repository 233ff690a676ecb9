// A database whose clock stands still until the simulator moves it. Its schema `sim` comes before `pg_catalog`. So the
// product's unchanged statements find `sim.clock_timestamp()`; column defaults are bound to it.
import { randomUUID } from 'node:crypto'
import postgres from 'postgres'
import { migrate, type Sql } from '../drizzle/client.ts'
import type { Address } from './wire.ts'

export interface SimulatedDatabase {
  url: string
  /** The address of the server: its Unix socket if it has one, which costs less than TCP. */
  server: Address
  /** The simulator's own connection, without faults. */
  admin: Sql
  /** Milliseconds since 1970. */
  setTime(ms: number): Promise<void>
  /** Copies the content of every table and sequence, for the lifetime of the database. */
  snapshot(): Promise<DatabaseSnapshot>
  /** Restores every table and sequence to the kept state, or to the state after the migrations. */
  reset(kept?: DatabaseSnapshot): Promise<void>
  /** Ends backends and waits until their locks are free. */
  endBackends(pids: readonly number[]): Promise<void>
  drop(): Promise<void>
}

/** Lock timeout of sessions. Only a paused process holds a lock this long; a running one would have finished. */
export const LOCK_TIMEOUT_MS = 20

const VACUUM_TRIES = 200

/** Rows and sequence numbers at some time; `reset` can restore them. */
export interface DatabaseSnapshot {
  /** Statements that restore the rows and numbers. */
  restore: string
}

export async function openSimulatedDatabase(serverUrl: string): Promise<SimulatedDatabase> {
  const name = `simulation_${randomUUID().replaceAll('-', '')}`
  const address = new URL(serverUrl)
  address.pathname = `/${name}`
  address.username = name
  address.password = name
  const url = address.href
  const server = postgres(serverUrl, { max: 1, onnotice: () => {} })
  const [{ directory } = { directory: '' }] = await server<{ directory: string }[]>`
    select current_setting('unix_socket_directories') as directory`
  const path = directory === '' ? null : `${directory}/.s.PGSQL.${address.port}`
  // Simulated processes connect often, so the password check takes one round instead of thousands.
  await server.unsafe(`
    set scram_iterations = 1;
    create role ${name} login superuser password '${name}';
    reset scram_iterations;`)
  await server.unsafe(`create database ${name} owner ${name}`)
  // A replay needs the same plans. Each connection plans a statement once per seed; planning at every execution would take a
  // third of Postgres's time. Plans ignore the cost of reading pages, because indexes keep the pages that earlier seeds filled.
  for (const setting of [
    `synchronous_commit = off`,
    `plan_cache_mode = force_generic_plan`,
    `seq_page_cost = 0`,
    `random_page_cost = 0`,
    `cpu_operator_cost = 0`,
    `max_parallel_workers_per_gather = 0`,
    `jit = off`,
  ])
    await server.unsafe(`alter database ${name} set ${setting}`)
  // The migrations use the product's search path: in it, `trigger` is the type of trigger functions, not of the table.
  await migrate(url)
  await server.unsafe(`alter database ${name} set search_path = public, sim, pg_catalog`)
  const admin = postgres(url, {
    ...(path === null ? {} : { path }),
    max: 1,
    max_lifetime: null,
    onnotice: () => {},
  })
  await admin.unsafe(`
    create schema sim;
    create unlogged sequence sim.clock minvalue 0;
    create function sim.clock_timestamp() returns timestamptz language sql volatile
      as 'select pg_catalog.to_timestamp(last_value / 1000.0) from sim.clock';
    create function sim.now() returns timestamptz language sql stable
      as 'select pg_catalog.to_timestamp(last_value / 1000.0) from sim.clock';`)
  const defaults = await admin<{ statement: string }[]>`
    select format('alter table %s alter %I set default %s', adrelid::regclass, attname,
      replace(pg_get_expr(adbin, adrelid), 'pg_catalog.', 'sim.')) as statement
    from pg_attrdef join pg_attribute on attrelid = adrelid and attnum = adnum
    where pg_get_expr(adbin, adrelid) ~ '(clock_timestamp|now)\\(\\)'`
  for (const { statement } of defaults) await admin.unsafe(statement)
  const tables = (
    await admin<{ name: string }[]>`
      select quote_ident(tablename) as name from pg_tables where schemaname = 'public' order by tablename`
  ).map((row) => row.name)
  // Autovacuum would move rows, and with them the order in which queries find them.
  for (const table of tables) await admin.unsafe(`alter table ${table} set (autovacuum_enabled = off)`)
  /** Resets the sizes that the planner uses, so that plans do not depend on earlier vacuums. */
  const forgetSizes = `
    update pg_class set relpages = 0, reltuples = 0
    where relnamespace = 'public'::regnamespace and relkind in ('r', 'i') and (relpages <> 0 or reltuples <> 0)`
  /** Tables with pages. */
  const filled = () => admin<{ name: string }[]>`
    select quote_ident(relname) as name from pg_class
    where relkind = 'r' and relnamespace = 'public'::regnamespace and pg_relation_size(oid) > 0 order by relname`

  let keptTimes = 0
  async function snapshot(): Promise<DatabaseSnapshot> {
    keptTimes += 1
    const statements: string[] = []
    for (const { name: table } of await filled()) {
      const copy = `sim.kept_${keptTimes}_${table.replaceAll('"', '')}`
      await admin.unsafe(`create table ${copy} as table public.${table}`)
      statements.push(`insert into public.${table} select * from ${copy};`)
    }
    const numbers = await admin<{ statement: string }[]>`
      select format('select setval(%L, %s, %L);', seqrelid::regclass,
        coalesce(pg_sequence_last_value(seqrelid), seqstart), pg_sequence_last_value(seqrelid) is not null) as statement
      from pg_sequence join pg_class on pg_class.oid = seqrelid where relnamespace = 'public'::regnamespace`
    // Restarting a sequence would be a schema change, which invalidates the catalog cache of every connection.
    return { restore: [...statements, ...numbers.map(({ statement }) => statement)].join('\n') }
  }
  const blank = await snapshot()

  return {
    url,
    server: path === null ? { host: address.hostname, port: Number(address.port) } : { path },
    admin,
    setTime: async (ms) => {
      await admin`select setval('sim.clock', ${ms})`
    },
    snapshot,
    reset: async (kept = blank) => {
      const names = (await filled()).map(({ name }) => name)
      if (names.length > 0) {
        // Deleting takes a fraction of the time of truncating. Vacuum then frees the emptied pages, so rows are stored as in a
        // new database.
        await admin.unsafe(`
          set session_replication_role = replica;
          ${names.map((name) => `delete from ${name};`).join('\n')}
          set session_replication_role = origin;`)
        // Postgres may briefly read its own catalogs. Vacuum keeps rows that such a read could still see. So the vacuum is
        // repeated until all pages are free.
        let left = names
        for (let tries = 0; left.length > 0; tries++) {
          if (tries === VACUUM_TRIES)
            throw new Error(`tables not empty after ${VACUUM_TRIES} vacuums: ${left.join(', ')}`)
          await admin.unsafe(`vacuum (process_toast false) ${left.join(', ')}`)
          left = (await filled()).map(({ name }) => name)
        }
      }
      await admin.unsafe(forgetSizes)
      await admin.unsafe(`
        set session_replication_role = replica;
        ${kept.restore}
        set session_replication_role = origin;`)
    },
    async endBackends(pids) {
      if (pids.length === 0) return
      const backends = pids as number[]
      await admin`select pg_terminate_backend(pid) from pg_stat_activity where pid = any(${backends}::int[])`
      // Polls without a pause, because Postgres itself would check only every 100 ms.
      while ((await admin`select from pg_stat_activity where pid = any(${backends}::int[])`).length > 0);
    },
    async drop() {
      await admin.end({ timeout: 1 })
      await server.unsafe(`drop database if exists ${name} with (force)`)
      await server.unsafe(`drop role ${name}`)
      await server.end({ timeout: 1 })
    },
  }
}
