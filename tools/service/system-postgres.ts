/** An external Postgres, as an operator would provide it: the system's newest version, with a new data directory. */
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, chown, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../../sidecars/supervisor/ports.ts'
import { unprivilegedAccount } from '../../sidecars/supervisor/postgres-binaries.ts'
import { installed } from '../install/apt.ts'
import { endWith } from '../kit/scratch.ts'

const HOME = '/usr/lib/postgresql'
const OLDEST_MAJOR = 15
const READY_LIMIT_MS = 120_000

type SystemPostgres = { url: string; version: string; stop: () => Promise<void> }

/**
 * Starts the system's newest Postgres with these further settings. Installs Postgres when the system has no version from
 * `OLDEST_MAJOR` on.
 */
export async function startSystemPostgres(further: readonly string[] = []): Promise<SystemPostgres> {
  const major = (await newestMajor()) ?? (await installed('postgresql', newestMajor))
  const binaries = join(HOME, String(major), 'bin')
  const directory = await mkdtemp(join(tmpdir(), 'sluice-interop-'))
  await chmod(directory, 0o755)
  const account = unprivilegedAccount([binaries, directory])
  const password = randomBytes(16).toString('hex')
  const passwordFile = join(directory, 'password')
  await writeFile(passwordFile, password)
  for (const path of [directory, passwordFile]) await chown(path, account.owner.uid, account.owner.gid)

  const data = join(directory, 'data')
  const initdb = [join(binaries, 'initdb'), '-D', data, '-U', 'sluice', '-E', 'UTF8', '--no-sync']
  const initialised = Bun.spawnSync(
    account.command([...initdb, '-A', 'scram-sha-256', `--pwfile=${passwordFile}`]),
    {
      ...account.spawn,
      cwd: '/',
    },
  )
  if (!initialised.success)
    throw new Error(`initdb failed with exit code ${initialised.exitCode}: ${initialised.stderr}`)

  const port = await freePort()
  const settings = [
    `port=${port}`,
    'listen_addresses=127.0.0.1',
    'unix_socket_directories=',
    'fsync=off',
    ...further,
  ]
  const server = Bun.spawn(
    account.command([
      join(binaries, 'postgres'),
      '-D',
      data,
      ...settings.flatMap((setting) => ['-c', setting]),
    ]),
    { ...account.spawn, cwd: '/', detached: true, stdin: 'ignore', stdout: 'ignore', stderr: 'pipe' },
  )
  const stop = async () => {
    cancelCleanup()
    server.kill('SIGINT')
    await server.exited
    await rm(directory, { recursive: true, force: true })
  }
  const cancelCleanup = endWith(stop)
  const limit = setTimeout(() => server.kill('SIGKILL'), READY_LIMIT_MS)
  let errorOutput = ''
  for await (const chunk of server.stderr) {
    errorOutput += new TextDecoder().decode(chunk)
    if (errorOutput.includes('ready to accept connections')) break
  }
  clearTimeout(limit)
  if (server.exitCode !== null || server.signalCode !== null) {
    await stop()
    throw new Error(`PostgreSQL ${major} did not start: ${errorOutput}`)
  }
  return { url: `postgres://sluice:${password}@127.0.0.1:${port}/postgres`, version: String(major), stop }
}

async function newestMajor(): Promise<number | undefined> {
  if (!existsSync(HOME)) return undefined
  const majors = (await readdir(HOME))
    .map(Number)
    .filter((major) => existsSync(join(HOME, String(major), 'bin', 'initdb')))
  return majors.filter((major) => major >= OLDEST_MAJOR).sort((a, b) => b - a)[0]
}
