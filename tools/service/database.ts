/** Fresh, migrated databases for slice tests. Each is copied from a template in about 40 ms. */
import { createHash, randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import postgres from 'postgres'
import { type Database, migrate, openDatabase } from '../../drizzle/client.ts'
import { duringTests } from '../kit/during.ts'
import { startTestPostgres } from './test-postgres.ts'

export type TestDatabase = {
  url: string
  /** Ends every connection to the database and removes it. */
  drop: () => Promise<void>
}

/**
 * Creates a database on the server of `TEST_DATABASE_URL`. When the variable is unset, starts a server that ends with this
 * process. Call this function in `beforeAll`, and `drop()` in `afterAll`.
 */
export async function testDatabase(): Promise<TestDatabase> {
  server ??= openServer()
  const { url, template } = await server
  const name = `test_${randomUUID().replaceAll('-', '')}`
  // `file_copy` takes a quarter of the time of the default strategy, which writes each page to the WAL.
  await onServer(url, (sql) => sql`create database ${sql(name)} template ${sql(template)} strategy file_copy`)
  const drop = () => onServer(url, (sql) => sql`drop database if exists ${sql(name)} with (force)`)
  return { url: withDatabase(url, name), drop: async () => void (await drop()) }
}

/** A database for the tests of one file. Its pools are open from the first test of the file to the last. */
export function useDatabase(pools: {
  connections?: number
  rawConnections: number
}): Database & { url: string } {
  return duringTests(async () => {
    const { url, drop } = await testDatabase()
    const database = openDatabase(url, { connections: 1, ...pools, application: 'test' })
    return { ...database, url, close: () => database.close().then(drop) }
  })
}

let server: Promise<{ url: string; template: string }> | undefined

/** Key of the advisory lock. Any number works, as long as all processes that share the server use the same number. */
const TEMPLATE_LOCK = 7_340_921_900

async function openServer() {
  const url = process.env.TEST_DATABASE_URL || (await startTestPostgres()).url
  const template = `template_${await migrationsHash()}`
  await onServer(url, async (sql) => {
    await sql`select pg_advisory_lock(${TEMPLATE_LOCK})`
    const [existing] = await sql`select 1 from pg_database where datname = ${template}`
    if (existing) return
    const unfinished = `${template}_new`
    await sql`drop database if exists ${sql(unfinished)} with (force)`
    await sql`create database ${sql(unfinished)}`
    await migrate(withDatabase(url, unfinished))
    await sql`alter database ${sql(unfinished)} rename to ${sql(template)}`
  })
  return { url, template }
}

async function onServer<T>(url: string, work: (sql: postgres.Sql) => Promise<T>) {
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  try {
    return await work(sql)
  } finally {
    await sql.end()
  }
}

function withDatabase(url: string, name: string) {
  const address = new URL(url)
  address.pathname = `/${name}`
  return address.href
}

async function migrationsHash() {
  const directory = join(import.meta.dirname, '..', '..', 'drizzle', 'migrations')
  const hash = createHash('sha256')
  for (const file of (await readdir(directory)).filter((name) => name.endsWith('.sql')).sort()) {
    hash.update(file).update(await readFile(join(directory, file)))
  }
  return hash.digest('hex').slice(0, 16)
}
