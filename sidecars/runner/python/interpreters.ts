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
  type ProcessLimits,
  RESULT,
  type Rooms,
  type Sandbox,
  type SandboxMode,
  type SandboxStep,
  STEPS_OF,
} from '../../sandbox/ladder.ts'
import { findPythons } from '../../sandbox/python.ts'
import { makeUsers } from '../../sandbox/users.ts'
import { limits } from '../limits.ts'
import { Interpreter, InterpreterEnded, PYTHON_ARGS } from './interpreter.ts'
import { type Usage, usageOfFileSystem, usageOfProcess, watchRoom } from './room.ts'

// Sandboxed interpreters, each for one run. One is kept started and confined, because a start takes 50 ms; whoever
// takes it has it to himself, and it is thrown away afterwards.

/** Python cannot run here; the message says why, for people. */
export class NoPython extends Error {}

/** What every interpreter of this process may use; the sandbox has the rest. */
export interface PythonLimits {
  memoryBytes: number
  seconds: number
}

/** An interpreter with the directories it and the run share. */
export interface InterpreterLease {
  interpreter: Interpreter
  sandbox: Sandbox
  /** Of the run: engines work in it. The sandbox sees no more of it than `inputs`. */
  directory: string
  rooms: Rooms
  /** Most bytes and files in its own directory. */
  disk: Usage
  /** Calls `onFull` once, when it holds more. Answers what ends the watch. */
  watchDisk(onFull: () => void): () => void
  /** Ends the process. Resolves when nothing of it is left, directories included. */
  release(): Promise<void>
}

export interface Interpreters {
  /** A fresh interpreter. Throws NoPython, InterpreterEnded, and the signal's reason. */
  take(signal?: AbortSignal): Promise<InterpreterLease>
  /** What is known of the sandbox; null while it is being looked for. */
  sandbox(): Sandbox | { reason: string } | null
  /** Resolves when it is known. */
  chosen: Promise<unknown>
  stop(): Promise<void>
}

export interface InterpretersOptions {
  /** Directories of processes are made in it. */
  directory: string
  /** Instead of it for processes that walk there as another user: what `walkable` answered for it. Removed at the end. */
  walkable?: string
  mode: SandboxMode
  /** Other steps than those of the mode. */
  steps?: readonly SandboxStep[]
  /** The interpreter the configuration names; null: the machine's. */
  pythonBin: string | null
  processLimits: ProcessLimits
  threads: number
  log: Log
}

/** After queries, and after engines: people's Python is the last to get the processor. */
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
  #known: Sandbox | { reason: string } | null = null
  #spare: Promise<InterpreterLease> | null = null
  #elsewhere: Promise<string> | null = null

  constructor(options: InterpretersOptions) {
    this.#options = options
    this.chosen = this.#choose()
  }

  sandbox(): Sandbox | { reason: string } | null {
    return this.#known
  }

  async take(signal?: AbortSignal): Promise<InterpreterLease> {
    await this.chosen
    signal?.throwIfAborted()
    const known = this.#known
    if (known === null || 'reason' in known)
      throw new NoPython(refusalOf(this.#options.mode, known?.reason ?? 'unknown'))
    const own = this.#spare
    // Before anything is waited for: it is nobody else's.
    this.#spare = null
    const kept = await own?.catch(() => null)
    const isFit = kept != null && !kept.interpreter.hasEnded
    if (kept != null && !isFit) await kept.release()
    const lease = isFit ? kept : await this.#start(known)
    setTimeout(() => this.#startSpare(known), limits.pythonSpareDelayMs).unref()
    return lease
  }

  async stop(): Promise<void> {
    const { walkable, directory, log } = this.#options
    this.#isStopped = true
    // Whoever looks for Python may have to wait for it; then the process ends with us.
    await Promise.race([this.chosen.then(() => this.#spare?.catch(() => {})), Bun.sleep(STOP_MS)])
    await Promise.all([...this.#all].map((lease) => lease.release()))
    const made = walkable ?? (await this.#elsewhere) ?? directory
    if (made !== directory) await clearAway(made, log)
  }

  async #choose(): Promise<void> {
    const { log } = this.#options
    try {
      const found = await this.#findSandbox()
      this.#known = found
      if ('reason' in found) log.warn('pipelines in Python cannot run here', { reason: found.reason })
      else log.info(`pipelines in Python run in: ${found.step}`, { python: found.python.version })
    } catch (error) {
      this.#known = { reason: 'the sandbox could not be tried' }
      log.error('the sandbox could not be tried', { error: String(error) })
    }
  }

  async #findSandbox(): Promise<Sandbox | { reason: string }> {
    const { pythonBin, steps, mode } = this.#options
    const { pythons, reasons } = await findPythons(pythonBin)
    if (pythons.length === 0) return { reason: reasons.join('; ') }
    return chooseSandbox(steps ?? STEPS_OF[mode], pythons, async (sandbox) => {
      try {
        const lease = await this.#start(sandbox)
        // It is as good as any other: the first run will have it.
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
    const place = join(await this.#rootFor(sandbox), randomName())
    const leave = async () => {
      const isGone = await clearAway(place, this.#options.log)
      // A user that still owns files is never given to another process.
      if (user !== null && isGone) this.#users.release(user)
    }
    try {
      return await this.#startIn(place, sandbox, user, leave)
    } catch (error) {
      await leave()
      throw error
    }
  }

  /** `leave` removes the place. Rejects when the process is gone; the place is the caller's then. */
  async #startIn(
    place: string,
    sandbox: Sandbox,
    user: number | null,
    leave: () => Promise<void>,
  ): Promise<InterpreterLease> {
    const { processLimits, threads } = this.#options
    const hasOwnDisk = sandbox.step === 'bubblewrap'
    const { directory, rooms } = await makeRooms(place, user, hasOwnDisk)
    const interpreter = new Interpreter({
      ...launchOf(sandbox, { rooms, user, limits: processLimits, args: PYTHON_ARGS }),
      niceness: NICENESS,
      env: environment(rooms.own, threads),
    })
    const disk = { bytes: diskBytesOf(sandbox.step, processLimits.disk), files: processLimits.files }
    const usage = () =>
      hasOwnDisk
        ? usageOfFileSystem(interpreter.innerPid, rooms.own)
        : usageOfProcess(rooms.own, { pid: interpreter.pid, user, fileBytes: processLimits.fileBytes }, disk)
    const end = async (why: string) => {
      interpreter.end(why)
      await interpreter.exited
    }
    const forget = () => void this.#all.delete(lease)
    let released: Promise<void> | null = null
    const lease: InterpreterLease = {
      interpreter,
      sandbox,
      directory,
      rooms,
      disk,
      watchDisk: (onFull) => watchRoom(usage, { ...disk, everyMs: limits.pythonDirectoryCheckMs }, onFull),
      release: () => (released ??= end('its run is over').then(leave).then(forget)),
    }
    this.#all.add(lease)
    try {
      await interpreter.ready
    } catch (error) {
      await end('it did not start')
      forget()
      throw error
    }
    return lease
  }

  /** A directory that the sandbox's user can reach, too: with namespaces it is put before it, without them it walks there. */
  #rootFor({ step }: Sandbox): Promise<string> | string {
    const { directory, log } = this.#options
    if (step !== 'landlock' || !changesUser(step)) return directory
    this.#elsewhere ??= Promise.resolve(this.#options.walkable ?? walkable(directory, log))
    return this.#elsewhere
  }
}

/** Makes the directories that an interpreter and its run share. `hasOwnDisk`: the sandbox gives it a disk of its own. */
async function makeRooms(
  place: string,
  user: number | null,
  hasOwnDisk: boolean,
): Promise<{ directory: string; rooms: Rooms }> {
  const directory = join(place, 'run')
  const own = join(place, 'own')
  const result = hasOwnDisk ? join(place, 'result') : join(own, RESULT)
  const rooms = { inputs: join(directory, 'in'), own, result }
  await mkdir(rooms.inputs, { recursive: true })
  await mkdir(rooms.own)
  if (hasOwnDisk) await writeFile(rooms.result, '', { mode: 0o600 })
  if (user === null) return { directory, rooms }
  // On its way to the rooms this user may pass, and see nothing; nobody else may pass.
  await chown(place, -1, user)
  await chmod(place, 0o710)
  await chmod(directory, 0o711)
  await chmod(rooms.inputs, 0o755)
  // bubblewrap enters it before it changes its user.
  await chmod(rooms.own, 0o711)
  await chown(rooms.own, user, user)
  if (hasOwnDisk) await chown(rooms.result, user, user)
  return { directory, rooms }
}

function refusalOf(mode: SandboxMode, reason: string): string {
  if (/^no python3|^PYTHON_BIN/.test(reason))
    return `${reason}: install Python, or set PYTHON_BIN to it, where the runner runs`
  if (mode === 'required') return `SANDBOX=required, and bubblewrap does not work here (${reason})`
  return `there is no sandbox for Python here (${reason}): install bubblewrap, or set SANDBOX=off where every author of pipelines is trusted with this machine`
}

/**
 * The directory, or a new one where the users that root's sandboxes become cannot reach it. Removes the new one of an
 * earlier process that was killed: a file beside the directory names it. Neither can be listed without its owner's rights
 * over modes: who may write there finds no room whose name he does not know.
 */
export async function walkable(directory: string, log: Log): Promise<string> {
  const note = `${directory}-elsewhere`
  const earlier = await readFile(note, 'utf8').catch(() => '')
  if (basename(earlier).startsWith(ELSEWHERE)) await clearAway(earlier, log)
  await rm(note, { force: true })
  await chmod(directory, UNLISTED)
  if (!changesUser('landlock') || (await isOpenToAll(directory))) return directory
  const made = join(tmpdir(), `${ELSEWHERE}${randomName()}`)
  await writeFile(note, made)
  await mkdir(made)
  await chmod(made, UNLISTED)
  return made
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

/** Nothing of the service's own environment; libraries are told how many threads they have. */
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
