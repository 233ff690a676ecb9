/** Checks before Sluice starts. Each check throws a Refusal with the problem and the remedy. */
import { Database } from 'bun:sqlite'
import { accessSync, chmodSync, constants, mkdirSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import postgres from 'postgres'
import { type HeldPort, holdPort } from './ports.ts'
import { messageOf, Refusal } from './refusal.ts'
import { majorVersionOf } from './store.ts'

const POSTGRES_MAJOR = 15
/**
 * The time limit for the database's answer. A firewall, or a program with another protocol, may accept the connection and never
 * answer.
 */
const DATABASE_ANSWER_MS = 5_000

/**
 * Claims a data directory until this process ends in any way. The lock is SQLite's, because it is the only lock of the
 * operating system that Bun can reach. The operating system releases the lock when its owner ends.
 */
export function claimDataDirectory(
  dataDir: string,
  describeOwner: () => string,
): { release: () => void; openBecause: string | null } {
  const run = join(dataDir, 'run')
  let lock: Database
  let openBecause: string | null
  try {
    mkdirSync(dataDir, { recursive: true, mode: CLOSED })
    openBecause = closeToOthers(dataDir)
    mkdirSync(run, { recursive: true })
    for (const directory of [dataDir, run]) accessSync(directory, constants.W_OK)
    lock = new Database(join(run, 'lock'), { create: true })
  } catch (error) {
    throw new Refusal(`the data directory ${dataDir} cannot be written (${messageOf(error)}): set DATA_DIR`)
  }
  try {
    lock.run('PRAGMA locking_mode = EXCLUSIVE')
    lock.run('BEGIN EXCLUSIVE')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'SQLITE_BUSY') {
      throw new Refusal(`${describeOwner()} is running on ${dataDir}: stop it, or set DATA_DIR`)
    }
    if (error instanceof Error && 'code' in error && error.code === 'SQLITE_NOTADB')
      throw new Refusal(
        `the lock file ${join(run, 'lock')} is damaged: check that Sluice is not running on ${dataDir}, then remove the file`,
      )
    throw new Refusal(`the data directory ${dataDir} cannot be written (${messageOf(error)}): set DATA_DIR`)
  }
  return { release: () => lock.close(), openBecause }
}

const CLOSED = 0o700
const OTHERS = 0o077
const STICKY = 0o1000

/** Entries of a data directory, and entries that file systems and shells create anywhere. */
const OWN_ENTRIES = /^(\.|lost\+found$|postgres(\.new)?$|objects$|run$|scratch)/

/**
 * Closes a data directory to all other users, even if a user or an earlier version created it. A directory with foreign entries
 * keeps its mode, since others may need it (`/`, `/tmp`). Returns the reason why the directory stays open, or null.
 */
function closeToOthers(dataDir: string): string | null {
  const { uid, mode } = statSync(dataDir)
  if ((mode & OTHERS) === 0) return null
  if (uid !== process.getuid?.()) return 'owned by another user'
  if ((mode & STICKY) !== 0) return 'shared, with the sticky bit'
  const foreign = readdirSync(dataDir).find((name) => !OWN_ENTRIES.test(name))
  if (foreign !== undefined) return `foreign entry '${foreign}'`
  chmodSync(dataDir, CLOSED)
  return null
}

/** Holds the address of the service until the API process starts. */
export const holdServicePort = (host: string, port: number): Promise<HeldPort> =>
  holdPort(host, port).catch((error: NodeJS.ErrnoException) => {
    throw new Refusal(portProblem(error, host, port))
  })

function portProblem(error: NodeJS.ErrnoException, host: string, port: number) {
  if (error.code === 'EADDRINUSE')
    return `port ${port} on ${host} is in use: stop the program that uses it, or set PORT`
  if (error.code === 'EACCES') return `no permission to listen on port ${port}: set PORT to 1024 or above`
  return `HOST ${host} is not an address of this machine (${error.code})`
}

/** Connects once. Messages contain host and user, never the password. */
export async function checkDatabase(url: string, answerMs = DATABASE_ANSWER_MS) {
  if (!/^postgres(ql)?:\/\//.test(url) || !URL.canParse(url) || new URL(url).hostname === '') {
    throw new Refusal('DATABASE_URL must look like postgres://user:password@host:5432/database')
  }
  const { host, username, pathname } = new URL(url)
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  const silence = Promise.withResolvers<never>()
  const limit = setTimeout(
    () => silence.reject(new Error(`no answer within ${answerMs / 1_000} s`)),
    answerMs,
  )
  try {
    const major = await Promise.race([majorVersionOf(sql), silence.promise])
    if (major < POSTGRES_MAJOR)
      throw new Refusal(`DATABASE_URL: PostgreSQL ${major} is too old, ${POSTGRES_MAJOR} or newer is needed`)
  } catch (error) {
    if (error instanceof Refusal) throw error
    throw new Refusal(
      `DATABASE_URL: ${databaseProblem(error, { host, user: username, database: pathname.slice(1) })}`,
    )
  } finally {
    clearTimeout(limit)
    void sql.end({ timeout: 0 })
  }
}

function databaseProblem(error: unknown, at: { host: string; user: string; database: string }) {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === '28P01' || code === '28000')
    return `${at.host} refuses user '${at.user}' (${messageOf(error)})`
  if (code === '3D000') return `${at.host} has no database '${at.database}'`
  if (error instanceof postgres.PostgresError) return `error from ${at.host}: ${error.message}`
  return `no Postgres answers at ${at.host} (${code ?? messageOf(error)})`
}
