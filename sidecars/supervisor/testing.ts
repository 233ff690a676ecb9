/** Helpers of the tests in this folder. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { kernelStartTime } from './registry.ts'

/** Whether a process is alive. A zombie is not. */
export const isAlive = (pid: number) => kernelStartTime(pid) !== null

/** Creates a directory that is closed to other users, like a data directory. */
export async function temporaryDirectory() {
  const path = await mkdtemp(join(tmpdir(), 'sluice-test-'))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}
