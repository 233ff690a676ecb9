import { mkdtemp, readdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from '../kit/run.ts'
import { insisting } from './installing.ts'

const LIMIT_MS = 5 * 60_000

/** Installs a Debian package and returns the result of `find`. Throws with the reason when `find` returns nothing. */
export async function installed<T>(name: string, find: () => T | Promise<T>): Promise<NonNullable<T>> {
  console.log(`  installing ${name} ...`)
  const sudo = process.getuid?.() === 0 ? [] : ['sudo', '-n']
  await perform([...sudo, 'apt-get', 'update'])
  // Another process may hold apt's lock.
  const options = ['-y', '-o', 'DPkg::Lock::Timeout=120', '--no-install-recommends']
  await perform([...sudo, 'apt-get', 'install', ...options, name])
  const found = await find()
  if (found === undefined || found === null)
    throw new Error(`${name} was installed, but not found in the usual places`)
  return found
}

/** Unpacks a Debian package without installing it, because its installation would start a server. Returns the directory. */
export async function unpacked(name: string): Promise<string> {
  console.log(`  unpacking ${name} ...`)
  const sudo = process.getuid?.() === 0 ? [] : ['sudo', '-n']
  const directory = await mkdtemp(join(tmpdir(), 'sluice-package-'))
  await perform([...sudo, 'apt-get', 'update'])
  await perform(['apt-get', 'download', name], directory)
  const [file = ''] = await readdir(directory)
  await perform(['dpkg-deb', '-x', file, '.'], directory)
  return directory
}

const perform = (command: string[], cwd?: string) =>
  insisting(command.join(' '), async () => {
    const env = { DEBIAN_FRONTEND: 'noninteractive' }
    const { code, output } = await run({ command, env, cwd, limitMs: LIMIT_MS })
    if (code !== 0) throw new Error(`${command.join(' ')} ended with code ${code}\n${output}`)
  })
