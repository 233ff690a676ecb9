/** What the tests of this folder share. */
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { kernelStartTime } from './registry.ts'

/** A process that has ended but that nobody has buried yet is not alive. */
export const isAlive = (pid: number) => kernelStartTime(pid) !== null

/** A directory another user may pass through, as embedded Postgres needs when the tests run as root. */
export async function temporaryDirectory() {
  const path = await mkdtemp(join(tmpdir(), 'sluice-test-'))
  await chmod(path, 0o755)
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}
