/** What the tests of this folder share. */
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { kernelStartTime } from './registry.ts'

const DEADLINE_MS = 15_000

/** Waits for a fact instead of sleeping; fails when it does not come true. */
export async function until(fact: () => boolean | Promise<boolean>, what: string) {
  const startedMs = performance.now()
  while (!(await fact())) {
    if (performance.now() - startedMs > DEADLINE_MS) throw new Error(`never came true: ${what}`)
    await Bun.sleep(10)
  }
}

/** A process that has ended but that nobody has buried yet is not alive. */
export const isAlive = (pid: number) => kernelStartTime(pid) !== null

/** A directory another user may pass through, as embedded Postgres needs when the tests run as root. */
export async function temporaryDirectory() {
  const path = await mkdtemp(join(tmpdir(), 'sluice-test-'))
  await chmod(path, 0o755)
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}
