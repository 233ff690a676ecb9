import { insisting } from './installing.ts'
import { run } from './run.ts'

const LIMIT_MS = 5 * 60_000

/** Installs a Debian package and returns the result of `find`. Throws with the reason when `find` returns nothing. */
export async function installed<T>(name: string, find: () => T | Promise<T>): Promise<NonNullable<T>> {
  console.log(`  installing ${name} ...`)
  const sudo = process.getuid?.() === 0 ? [] : ['sudo', '-n']
  const env = { DEBIAN_FRONTEND: 'noninteractive' }
  const commands = [
    ['apt-get', 'update'],
    // Another process may hold apt's lock.
    ['apt-get', 'install', '-y', '-o', 'DPkg::Lock::Timeout=120', '--no-install-recommends', name],
  ]
  for (const command of commands)
    await insisting(command.join(' '), async () => {
      const { code, output } = await run({ command: [...sudo, ...command], env, limitMs: LIMIT_MS })
      if (code !== 0) throw new Error(`${command.join(' ')} ended with code ${code}\n${output}`)
    })
  const found = await find()
  if (found === undefined || found === null)
    throw new Error(`${name} was installed, but not found in the usual places`)
  return found
}
