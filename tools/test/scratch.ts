/**
 * The one place and the one end of a test command: a temporary directory in which everything happens that it starts, and
 * what has to be stopped when somebody interrupts it. It leaves no process and no file, however it ends.
 */
import { chmodSync, mkdtempSync, realpathSync } from 'node:fs'
import { readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

type End = () => Promise<unknown> | undefined

/** What a shell calls an end by Ctrl-C. */
const INTERRUPTED = 130
/** Services whose parent was killed need a moment to end in order. */
const FAREWELL_MS = 10_000
const POLL_MS = 50

const ends: End[] = []
let ending: Promise<void> | undefined

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => void endAll().then(() => process.exit(INTERRUPTED)))
}

/** Whether the command has been interrupted: nothing new should be started. */
export const isEnding = () => ending !== undefined

/** Registers what to stop when the command is interrupted; what was registered last is stopped first. Returns how to take it back. */
export function endWith(end: End): () => void {
  ends.push(end)
  return () => {
    const at = ends.indexOf(end)
    if (at >= 0) ends.splice(at, 1)
  }
}

/** Runs a whole command and exits with the code it answers. `TMPDIR` is its directory, for it and for all it starts. */
export async function inScratch(work: () => Promise<number>, farewellMs = FAREWELL_MS): Promise<void> {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), 'sluice-tests-')))
  // As root, Postgres runs as another user, which must be able to reach its directory.
  chmodSync(directory, 0o755)
  process.env.TMPDIR = directory
  endWith(() => clear(directory, farewellMs))
  const code = await work().catch((error: unknown) => {
    console.error(error)
    return 1
  })
  const wasInterrupted = isEnding()
  await endAll()
  process.exit(wasInterrupted ? INTERRUPTED : code)
}

function endAll(): Promise<void> {
  ending ??= (async () => {
    for (const end of [...ends].reverse()) await end()?.catch((error: unknown) => console.error(error))
  })()
  return ending
}

async function clear(directory: string, farewellMs: number) {
  while ((await killAllIn(directory, farewellMs)) > 0) await Bun.sleep(POLL_MS)
  await rm(directory, { recursive: true, force: true })
}

/** Those that have not ended by themselves within a time: what has been told to end still needs its turn. Resolves with how many. */
export async function killAllIn(directory: string, farewellMs: number): Promise<number> {
  for (let waitedMs = 0; waitedMs < farewellMs; waitedMs += POLL_MS) {
    if ((await processesIn(directory)).length === 0) return 0
    await Bun.sleep(POLL_MS)
  }
  const pids = await processesIn(directory)
  for (const pid of pids) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // ESRCH: it has ended meanwhile.
    }
  }
  return pids.length
}

/** Processes whose command line or environment names the directory; only Linux tells. */
async function processesIn(directory: string): Promise<number[]> {
  if (process.platform !== 'linux') return []
  const pids = (await readdir('/proc')).map(Number).filter((pid) => pid > 0 && pid !== process.pid)
  const namesIt = async (path: string) => (await readFile(path, 'utf8').catch(() => '')).includes(directory)
  const found = await Promise.all(
    pids.map(async (pid) =>
      (await namesIt(`/proc/${pid}/cmdline`)) || (await namesIt(`/proc/${pid}/environ`)) ? [pid] : [],
    ),
  )
  return found.flat()
}
