/**
 * A temporary Postgres for a test run. Prints its address as the first line, serves until its stdin ends, and then removes its
 * data. It is a separate process, because `bun test` offers no hook at its exit.
 */
import { chmod, mkdtemp, rm, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startPostgres } from '../../sidecars/supervisor/postgres.ts'
import { endWith } from './scratch.ts'

/** Linux keeps files of this directory in memory. A database is copied there in 40 ms, and on a disk in up to 600 ms. */
const MEMORY = '/dev/shm'
/** Far more than the databases of all tests that run at once. Containers often have 64 MB. */
const MEMORY_BYTES = 2_147_483_648

export type TestPostgres = { url: string; stop: () => Promise<void> }

/** Starts this file as a process. The process ends at `stop()` or with the caller, whichever comes first. */
export async function startTestPostgres(): Promise<TestPostgres> {
  const child = Bun.spawn([process.execPath, import.meta.path], {
    env: process.env,
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'inherit',
    // Ctrl-C must end only the tests. The process then ends because its stdin closes.
    detached: true,
  })
  child.unref()
  const stop = async () => {
    cancelCleanup()
    child.stdin.end()
    await child.exited
  }
  const cancelCleanup = endWith(stop)
  let output = ''
  for await (const chunk of child.stdout) {
    output += new TextDecoder().decode(chunk)
    if (output.includes('\n')) break
  }
  if (!output.startsWith('postgres://')) throw new Error('the test Postgres did not start')
  return { url: output.trim(), stop }
}

/** The directory for data that no test needs on a disk. */
async function parentDirectory() {
  const found = await statfs(MEMORY).catch(() => null)
  return found !== null && found.bavail * found.bsize >= MEMORY_BYTES ? MEMORY : tmpdir()
}

if (import.meta.main) {
  const dataDir = await mkdtemp(join(await parentDirectory(), 'sluice-test-'))
  // When root runs the tests, Postgres runs as another user, who must be able to create its socket here.
  await chmod(dataDir, 0o755)
  const lines: string[] = []
  try {
    const log = (line: string) => lines.push(line)
    const server = await startPostgres({ dataDir, durable: false, hasSocket: true, log })
    console.log(server.url)
    for await (const _ of Bun.stdin.stream()) {
      // The content is ignored; only the end of stdin matters.
    }
    await server.stop()
  } catch (error) {
    console.error(error instanceof Error ? error.message : error, lines.join('\n'))
    process.exitCode = 1
  } finally {
    await rm(dataDir, { recursive: true, force: true })
  }
}
