/** What the tests of this folder share. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { kernelStartTime } from './registry.ts'

/** A process that has ended but that nobody has buried yet is not alive. */
export const isAlive = (pid: number) => kernelStartTime(pid) !== null

/** A directory that is closed to other users, as a data directory is. */
export async function temporaryDirectory() {
  const path = await mkdtemp(join(tmpdir(), 'sluice-test-'))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}
