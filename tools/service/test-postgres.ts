/**
 * A temporary Postgres for a test run. Prints its address as the first line, serves until its stdin ends, and then removes its
 * data. It is a separate process, because `bun test` offers no hook at its exit.
 */
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startPostgres } from '../../sidecars/supervisor/postgres.ts'
import { endWith } from '../kit/scratch.ts'

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

if (import.meta.main) {
  const dataDir = await mkdtemp(join(tmpdir(), 'sluice-test-'))
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
