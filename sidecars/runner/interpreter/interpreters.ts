import { chmod, chown, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import type { Log } from '../../core/log.ts'
import { clearAway, randomName } from '../../core/scratch.ts'
import {
  changesUser,
  chooseSandbox,
  diskBytesOf,
  launchOf,
  type ProcessDirectories,
  type ProcessLimits,
  RESULT,
  type Sandbox,
  type SandboxMode,
  type SandboxStep,
  STEPS_OF,
} from '../../sandbox/ladder.ts'
import { findPythons } from '../../sandbox/python.ts'
import { makeUsers } from '../../sandbox/users.ts'
import { limits } from '../core/limits.ts'
import { type Usage, usageOfFileSystem, usageOfProcess, watchDirectory } from './directory-usage.ts'
import { Interpreter, InterpreterEnded, PYTHON_ARGS } from './interpreter.ts'

// Sandboxed interpreters, each for one run. One spare is kept started and confined, because a start takes 50 ms. A run has its
// interpreter to itself, and the interpreter is discarded after the run.

/** Python cannot run here. The message explains why, for people. */
export class NoPython extends Error {}

/** Limits of every interpreter of this process. The sandbox applies further limits. */
export interface PythonLimits {
  memoryBytes: number
  seconds: number
}

/** An interpreter, with the directories that it shares with its run. */
export interface InterpreterLease {
  interpreter: Interpreter
  sandbox: Sandbox
  /** The directory of the run, in which engines work. The sandbox sees only its subdirectory `inputs`. */
  directory: string
  directories: ProcessDirectories
  /** The most bytes and files that its own directory may hold. */
  disk: Usage
  /** Calls `onFull` once when the directory holds more. Returns the function that ends the watch. */
  watchDisk(onFull: () => void): () => void
  /** Ends the process. Resolves when the process and its directories are gone. */
  release(): Promise<void>
}

export interface Interpreters {
  /** Returns a fresh interpreter. Throws NoPython, InterpreterEnded, and the signal's reason. */
  acquire(signal?: AbortSignal): Promise<InterpreterLease>
  /** The sandbox in use, or the reason why there is none. Null while the sandbox is being chosen. */
  sandbox(): Sandbox | { reason: string } | null
  /** Resolves when the sandbox is chosen. */
  chosen: Promise<unknown>
  stop(): Promise<void>
}

interface InterpretersOptions {
  /** The parent of the directories of the processes. */
  directory: string
  /** Replaces `directory` for processes that reach their files as another user. A result of `walkable`; stop() removes it. */
  walkable?: string
  mode: SandboxMode
  /** Replaces the sandbox steps of the mode. */
  steps?: readonly SandboxStep[]
  /** The interpreter that the configuration names; null: the machine's own. */
  pythonBin: string | null
  processLimits: ProcessLimits
  threads: number
  log: Log
}

/** Python of users is the last to get the processor, after queries and engines. */
const NICENESS = 10
const STOP_MS = 1_000

export function makeInterpreters(options: InterpretersOptions): Interpreters {
  return new InterpreterPool(options)
}

class InterpreterPool implements Interpreters {
  readonly chosen: Promise<void>
  readonly #options: InterpretersOptions
  readonly #all = new Set<InterpreterLease>()
  readonly #users = makeUsers()
  #isStopped = false
  #availability: Sandbox | { reason: string } | null = null
  #spare: Promise<InterpreterLease> | null = null
  #elsewhere: Promise<string> | null = null

  constructor(options: InterpretersOptions) {
    this.#options = options
    this.chosen = this.#choose()
  }

  sandbox(): Sandbox | { reason: string } | null {
    return this.#availability
  }

  async acquire(signal?: AbortSignal): Promise<InterpreterLease> {
    await this.chosen
    signal?.throwIfAborted()
    const sandbox = this.#availability
    if (sandbox === null || 'reason' in sandbox)
      throw new NoPython(refusalOf(this.#options.mode, sandbox?.reason ?? 'unknown'))
    const spare = this.#spare
    // This happens before any wait, so that no other caller takes the same spare.
    this.#spare = null
    const started = await spare?.catch(() => null)
    const isFit = started != null && !started.interpreter.hasEnded
    if (started != null && !isFit) await started.release()
    const lease = isFit ? started : await this.#start(sandbox)
    setTimeout(() => this.#startSpare(sandbox), limits.pythonSpareDelayMs).unref()
    return lease
  }

  async stop(): Promise<void> {
    const { walkable, directory, log } = this.#options
    this.#isStopped = true
    // The search for Python may take longer. In that case, its process ends together with the runner.
    await Promise.race([this.chosen.then(() => this.#spare?.catch(() => {})), Bun.sleep(STOP_MS)])
    await Promise.all([...this.#all].map((lease) => lease.release()))
    const root = walkable ?? (await this.#elsewhere) ?? directory
    if (root !== directory) await clearAway(root, log)
  }

  async #choose(): Promise<void> {
    const { log } = this.#options
    try {
      const found = await this.#findSandbox()
      this.#availability = found
      if ('reason' in found) log.warn('Python pipelines disabled', { reason: found.reason })
      else log.info('Python pipelines enabled', { sandbox: found.step, python: found.python.version })
    } catch (error) {
      this.#availability = { reason: 'sandbox test failed' }
      log.error('sandbox test failed', { error: String(error) })
    }
  }

  async #findSandbox(): Promise<Sandbox | { reason: string }> {
    const { pythonBin, steps, mode } = this.#options
    const { pythons, reasons } = await findPythons(pythonBin)
    if (pythons.length === 0) return { reason: reasons.join('; ') }
    return chooseSandbox(steps ?? STEPS_OF[mode], pythons, async (sandbox) => {
      try {
        const lease = await this.#start(sandbox)
        // The process that has proved the sandbox becomes the spare of the first run.
        this.#spare = Promise.resolve(lease)
        return null
      } catch (error) {
        if (error instanceof InterpreterEnded) return error.why
        throw error
      }
    })
  }

  #startSpare(sandbox: Sandbox): void {
    if (this.#isStopped || this.#spare !== null) return
    const started = this.#start(sandbox)
    this.#spare = started
    started.catch(() => {
      if (this.#spare === started) this.#spare = null
    })
  }

  async #start(sandbox: Sandbox): Promise<InterpreterLease> {
    const user = changesUser(sandbox.step) ? await this.#users.acquire() : null
    const directory = join(await this.#rootFor(sandbox), randomName())
    const cleanUp = async () => {
      const isGone = await clearAway(directory, this.#options.log)
      // A user that still owns files is never given to another process.
      if (user !== null && isGone) this.#users.release(user)
    }
    try {
      return await this.#startIn(directory, sandbox, user, cleanUp)
    } catch (error) {
      await cleanUp()
      throw error
    }
  }

  /**
   * Starts an interpreter; `cleanUp` removes `parent`. After a rejection, the process is gone and the caller calls `cleanUp`.
   */
  async #startIn(
    parent: string,
    sandbox: Sandbox,
    user: number | null,
    cleanUp: () => Promise<void>,
  ): Promise<InterpreterLease> {
    const { processLimits, threads } = this.#options
    const hasOwnDisk = sandbox.step === 'bubblewrap'
    const { directory, directories } = await makeDirectories(parent, user, hasOwnDisk)
    const interpreter = new Interpreter({
      ...launchOf(sandbox, { directories, user, limits: processLimits, args: PYTHON_ARGS }),
      niceness: NICENESS,
      env: environment(directories.own, threads),
    })
    const disk = { bytes: diskBytesOf(sandbox.step, processLimits.disk), files: processLimits.files }
    const usage = () =>
      hasOwnDisk
        ? usageOfFileSystem(interpreter.innerPid, directories.own)
        : usageOfProcess(
            directories.own,
            { pid: interpreter.pid, user, fileBytes: processLimits.fileBytes },
            disk,
          )
    const end = async (why: string) => {
      interpreter.end(why)
      await interpreter.exited
    }
    const removeLease = () => void this.#all.delete(lease)
    let released: Promise<void> | null = null
    const lease: InterpreterLease = {
      interpreter,
      sandbox,
      directory,
      directories,
      disk,
      watchDisk: (onFull) =>
        watchDirectory(usage, { ...disk, everyMs: limits.pythonDirectoryCheckMs }, onFull),
      release: () => (released ??= end('the run has ended').then(cleanUp).then(removeLease)),
    }
    this.#all.add(lease)
    try {
      await interpreter.ready
    } catch (error) {
      await end('start failed')
      removeLease()
      throw error
    }
    return lease
  }

  /**
   * A parent directory that the sandbox's user can reach. With namespaces, the sandbox mounts the directory. Without them, the
   * user must have access to its path.
   */
  #rootFor({ step }: Sandbox): Promise<string> | string {
    const { directory, log } = this.#options
    if (step !== 'landlock' || !changesUser(step)) return directory
    this.#elsewhere ??= Promise.resolve(this.#options.walkable ?? walkable(directory, log))
    return this.#elsewhere
  }
}

/** Makes the directories that an interpreter and its run share. `hasOwnDisk`: the sandbox has its own file system. */
async function makeDirectories(
  parent: string,
  user: number | null,
  hasOwnDisk: boolean,
): Promise<{ directory: string; directories: ProcessDirectories }> {
  const directory = join(parent, 'run')
  const own = join(parent, 'own')
  const result = hasOwnDisk ? join(parent, 'result') : join(own, RESULT)
  const directories = { inputs: join(directory, 'in'), own, result }
  await mkdir(directories.inputs, { recursive: true })
  await mkdir(directories.own)
  if (hasOwnDisk) await writeFile(directories.result, '', { mode: 0o600 })
  if (user === null) return { directory, directories }
  // This user may pass through the parent directories without listing them. No other user may pass.
  await chown(parent, -1, user)
  await chmod(parent, 0o710)
  await chmod(directory, 0o711)
  await chmod(directories.inputs, 0o755)
  // bubblewrap enters the directory before it changes its user.
  await chmod(directories.own, 0o711)
  await chown(directories.own, user, user)
  if (hasOwnDisk) await chown(directories.result, user, user)
  return { directory, directories }
}

function refusalOf(mode: SandboxMode, reason: string): string {
  if (/^no python3|^PYTHON_BIN/.test(reason))
    return `${reason}: install Python, or set PYTHON_BIN to it, where the runner runs`
  if (mode === 'required') return `SANDBOX=required, but bubblewrap does not work on this machine (${reason})`
  return `no sandbox for Python on this machine (${reason}): install bubblewrap, or set SANDBOX=off if all authors of pipelines are trusted`
}

/**
 * Returns the directory, or a new one if the users of root's sandboxes cannot reach it. A file beside the directory names the
 * new one. So the next start can remove the new directory of a process that was killed. Only the owner could list these
 * directories, after changing their modes. Another process that may write there must know the name of a run's directory to find
 * it.
 */
export async function walkable(directory: string, log: Log): Promise<string> {
  const note = `${directory}-elsewhere`
  const earlier = await readFile(note, 'utf8').catch(() => '')
  if (basename(earlier).startsWith(ELSEWHERE)) await clearAway(earlier, log)
  await rm(note, { force: true })
  await chmod(directory, UNLISTED)
  if (!changesUser('landlock') || (await isOpenToAll(directory))) return directory
  const replacement = join(tmpdir(), `${ELSEWHERE}${randomName()}`)
  await writeFile(note, replacement)
  await mkdir(replacement)
  await chmod(replacement, UNLISTED)
  return replacement
}

const ELSEWHERE = 'sluice-python-'
const UNLISTED = 0o311

async function isOpenToAll(directory: string): Promise<boolean> {
  const OTHERS_SEARCH = 0o001
  for (let at = directory; ; at = dirname(at)) {
    if (((await stat(at)).mode & OTHERS_SEARCH) === 0) return false
    if (at === dirname(at)) return true
  }
}

/** Contains no variable of the service's environment. Libraries get the number of their threads. */
function environment(own: string, threads: number): Record<string, string> {
  const count = String(threads)
  return {
    TZ: 'UTC',
    LANG: 'C.UTF-8',
    HOME: own,
    TMPDIR: own,
    MALLOC_ARENA_MAX: '2',
    OMP_NUM_THREADS: count,
    OPENBLAS_NUM_THREADS: count,
    MKL_NUM_THREADS: count,
    NUMEXPR_NUM_THREADS: count,
    POLARS_MAX_THREADS: count,
    RAYON_NUM_THREADS: count,
  }
}
