// A database whose clock stands still until the simulator moves it. Its schema `sim` comes before `pg_catalog`, so that
// the product's unaltered statements and column defaults find `sim.clock_timestamp()`.
import { randomUUID } from 'node:crypto'
import postgres from 'postgres'
import { migrate, type Sql } from '../../drizzle/client.ts'

export interface SimulatedDatabase {
  url: string
  /** Under no fault: the simulator's own. */
  admin: Sql
  /** Milliseconds since 1970. */
  setTime(ms: number): Promise<void>
  /** Everything as it was after the migrations, in every table and sequence. */
  reset(): Promise<void>
  /** Ends backends and waits until what they held is free. */
  endBackends(pids: readonly number[]): Promise<void>
  drop(): Promise<void>
}

/** A session waits this long for a lock that only a paused process holds: one that is running would have gone on. */
export const LOCK_TIMEOUT_MS = 20

/** Tables whose rows the migrations have written. */
const SEEDED = ['lake_ref', 'namespace', 'secret', 'retention_config', 'reaper_status']

export async function openSimulatedDatabase(serverUrl: string): Promise<SimulatedDatabase> {
  const name = `simulation_${randomUUID().replaceAll('-', '')}`
  const address = new URL(serverUrl)
  address.pathname = `/${name}`
  address.username = name
  address.password = name
  const url = address.href
  const server = postgres(serverUrl, { max: 1, onnotice: () => {} })
  // Simulated processes connect often: a password that takes one round to check instead of thousands.
  await server.unsafe(`
    set scram_iterations = 1;
    create role ${name} login superuser password '${name}';
    reset scram_iterations;`)
  await server.unsafe(`create database ${name} owner ${name}`)
  // What a replay must find again: the same plans over the same pages.
  for (const setting of [
    `search_path = 'public, sim, pg_catalog'`,
    `synchronous_commit = off`,
    `plan_cache_mode = force_custom_plan`,
    `max_parallel_workers_per_gather = 0`,
    `jit = off`,
  ])
    await server.unsafe(`alter database ${name} set ${setting.replace(/'(.*)'/, '$1')}`)
  const admin = postgres(url, {
    max: 1,
    max_lifetime: null,
    onnotice: () => {},
    // It asks the same again and again.
    connection: { plan_cache_mode: 'force_generic_plan' },
  })
  await admin.unsafe(`
    create schema sim;
    create unlogged sequence sim.clock minvalue 0;
    create function sim.clock_timestamp() returns timestamptz language sql volatile
      as 'select pg_catalog.to_timestamp(last_value / 1000.0) from sim.clock';
    create function sim.now() returns timestamptz language sql stable
      as 'select pg_catalog.to_timestamp(last_value / 1000.0) from sim.clock';`)
  await migrate(url)
  const tables = (
    await admin<{ name: string }[]>`
      select quote_ident(tablename) as name from pg_tables where schemaname = 'public' order by tablename`
  ).map((row) => row.name)
  // Cleaning up by itself would move rows, and with them the order in which they are found.
  for (const table of tables) await admin.unsafe(`alter table ${table} set (autovacuum_enabled = off)`)
  for (const table of SEEDED) await admin.unsafe(`create table sim.${table} as table public.${table}`)
  const restore = SEEDED.map((table) => `insert into public.${table} select * from sim.${table};`).join('\n')
  const sequences = (
    await admin<{ name: string }[]>`
      select quote_ident(sequencename) as name from pg_sequences where schemaname = 'public'`
  ).map((row) => row.name)
  // A fraction of what truncating takes. Emptied pages are given back, so that rows are laid as in a new database.
  const empty = `
    set session_replication_role = replica;
    ${tables.map((table) => `delete from ${table};`).join('\n')}
    set session_replication_role = origin;
    ${sequences.map((sequence) => `alter sequence ${sequence} restart;`).join('\n')}`
  const giveBack = `vacuum (process_toast false) ${tables.join(', ')}`

  return {
    url,
    admin,
    setTime: async (ms) => {
      await admin`select setval('sim.clock', ${ms})`
    },
    reset: async () => {
      await admin.unsafe(empty)
      await admin.unsafe(giveBack)
      const [{ pages } = { pages: -1 }] = await admin<{ pages: number }[]>`
        select (sum(pg_relation_size(oid)) / 8192)::int as pages from pg_class
        where relkind = 'r' and relnamespace = 'public'::regnamespace`
      if (pages !== 0) throw new Error(`${pages} pages of the last seed are still there`)
      await admin.unsafe(restore)
    },
    async endBackends(pids) {
      if (pids.length === 0) return
      const gone = pids as number[]
      await admin`select pg_terminate_backend(pid) from pg_stat_activity where pid = any(${gone}::int[])`
      // Postgres itself would look every 100 ms.
      while ((await admin`select from pg_stat_activity where pid = any(${gone}::int[])`).length > 0);
    },
    async drop() {
      await admin.end({ timeout: 1 })
      await server.unsafe(`drop database if exists ${name} with (force)`)
      await server.unsafe(`drop role ${name}`)
      await server.end({ timeout: 1 })
    },
  }
}
