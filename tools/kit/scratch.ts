/**
 * Directory and cleanup of a test command. The command and all its child processes use one temporary directory. However the
 * command ends, its registered cleanups run, and no process and no file is left.
 */
import { chmodSync, mkdtempSync, realpathSync, statfsSync } from 'node:fs'
import { readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

type End = () => Promise<unknown> | undefined

/** The exit code that shells use after Ctrl-C. */
const INTERRUPTED = 130
/** Services whose parent was killed need time to shut down cleanly. */
const FAREWELL_MS = 10_000
const POLL_MS = 50
/** Linux keeps the files of this directory in memory. */
const MEMORY = '/dev/shm'
/** Far more than the tests keep at once. Containers often have 64 MB. */
const MEMORY_BYTES = 4_294_967_296

const cleanups: End[] = []
let ending: Promise<void> | undefined

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => void endAll().then(() => process.exit(INTERRUPTED)))
}

/** True while the command is cleaning up, for example after an interrupt. Nothing new should start then. */
export const isEnding = () => ending !== undefined

/**
 * Registers a cleanup for the end or the interrupt of the command. Cleanups run in reverse order of registration. Returns a
 * function that removes the cleanup.
 */
export function endWith(end: End): () => void {
  cleanups.push(end)
  return () => {
    const at = cleanups.indexOf(end)
    if (at >= 0) cleanups.splice(at, 1)
  }
}

/**
 * The parent of a directory for tests that need no real disk: in memory if there is room. On a slow disk the copy of one test
 * database takes 600 ms, in memory 40 ms.
 */
export function memoryDirectory(): string {
  try {
    const { bavail, bsize } = statfsSync(MEMORY)
    return bavail * bsize >= MEMORY_BYTES ? MEMORY : tmpdir()
  } catch {
    return tmpdir()
  }
}

interface Scratch {
  /** The parent of the directory. Without it, the system's temporary directory. */
  parent?: string
  farewellMs?: number
}

/**
 * Runs a test command and exits with the code that `work` returns. `TMPDIR` names the directory, also for all child processes.
 */
export async function inScratch(
  work: () => Promise<number>,
  { parent = tmpdir(), farewellMs = FAREWELL_MS }: Scratch = {},
): Promise<void> {
  const directory = realpathSync(mkdtempSync(join(parent, 'sluice-tests-')))
  // When root runs the tests, Postgres runs as another user, who must be able to reach its directory.
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
    for (const end of [...cleanups].reverse()) await end()?.catch((error: unknown) => console.error(error))
  })()
  return ending
}

async function clear(directory: string, farewellMs: number) {
  while ((await killAllIn(directory, farewellMs)) > 0) await Bun.sleep(POLL_MS)
  await rm(directory, { recursive: true, force: true })
}

/**
 * Waits up to `farewellMs` until all processes that use the directory have ended, since they may be shutting down. Then kills
 * the rest, and resolves with their number.
 */
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
      // ESRCH: the process has ended in the meantime.
    }
  }
  return pids.length
}

/** Ids of processes whose command line or environment names the directory. Only Linux provides this, through `/proc`. */
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
