import { chmod, chown, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import type { Log } from '../../log.ts'
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
import { clearAway, randomName } from '../../scratch.ts'
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
  const { log, mode } = options
  const all = new Set<InterpreterLease>()
  const users = makeUsers()
  let isStopped = false
  let known: Sandbox | { reason: string } | null = null
  let spare: Promise<InterpreterLease> | null = null
  let elsewhere: Promise<string> | null = null

  async function start(sandbox: Sandbox): Promise<InterpreterLease> {
    const user = changesUser(sandbox.step) ? await users.acquire() : null
    const place = join(await rootFor(sandbox), randomName())
    const leave = async () => {
      const isGone = await clearAway(place, log)
      // A user that still owns files is never given to another process.
      if (user !== null && isGone) users.release(user)
    }
    try {
      return await startIn(place, sandbox, user, leave)
    } catch (error) {
      await leave()
      throw error
    }
  }

  /** `leave` removes the place. Rejects when the process is gone; the place is the caller's then. */
  async function startIn(
    place: string,
    sandbox: Sandbox,
    user: number | null,
    leave: () => Promise<void>,
  ): Promise<InterpreterLease> {
    const directory = join(place, 'run')
    const own = join(place, 'own')
    const hasOwnDisk = sandbox.step === 'bubblewrap'
    const result = hasOwnDisk ? join(place, 'result') : join(own, RESULT)
    const rooms = { inputs: join(directory, 'in'), own, result }
    await mkdir(rooms.inputs, { recursive: true })
    await mkdir(rooms.own)
    if (hasOwnDisk) await writeFile(rooms.result, '', { mode: 0o600 })
    if (user !== null) {
      // On its way to the rooms this user may pass, and see nothing; nobody else may pass.
      await chown(place, -1, user)
      await chmod(place, 0o710)
      await chmod(directory, 0o711)
      await chmod(rooms.inputs, 0o755)
      // bubblewrap enters it before it changes its user.
      await chmod(rooms.own, 0o711)
      await chown(rooms.own, user, user)
      if (hasOwnDisk) await chown(rooms.result, user, user)
    }
    const interpreter = new Interpreter({
      ...launchOf(sandbox, { rooms, user, limits: options.processLimits, args: PYTHON_ARGS }),
      niceness: NICENESS,
      env: environment(rooms.own, options.threads),
    })
    const disk = {
      bytes: diskBytesOf(sandbox.step, options.processLimits.disk),
      files: options.processLimits.files,
    }
    let released: Promise<void> | null = null
    const end = async () => {
      interpreter.end('its run is over')
      await interpreter.exited
      await leave()
      all.delete(lease)
    }
    const lease: InterpreterLease = {
      interpreter,
      sandbox,
      directory,
      rooms,
      disk,
      watchDisk: (onFull) =>
        watchRoom(
          () =>
            hasOwnDisk
              ? usageOfFileSystem(interpreter.innerPid, own)
              : usageOfProcess(
                  own,
                  { pid: interpreter.pid, user, fileBytes: options.processLimits.fileBytes },
                  disk,
                ),
          { ...disk, everyMs: limits.pythonDirectoryCheckMs },
          onFull,
        ),
      release: () => (released ??= end()),
    }
    all.add(lease)
    try {
      await interpreter.ready
    } catch (error) {
      interpreter.end('it did not start')
      await interpreter.exited
      all.delete(lease)
      throw error
    }
    return lease
  }

  /** A directory that the sandbox's user can reach, too: with namespaces it is put before it, without them it walks there. */
  function rootFor({ step }: Sandbox): Promise<string> | string {
    if (step !== 'landlock' || !changesUser(step)) return options.directory
    elsewhere ??=
      options.walkable === undefined ? walkable(options.directory, log) : Promise.resolve(options.walkable)
    return elsewhere
  }

  async function choose(): Promise<Sandbox | { reason: string }> {
    const { pythons, reasons } = await findPythons(options.pythonBin)
    if (pythons.length === 0) return { reason: reasons.join('; ') }
    return chooseSandbox(options.steps ?? STEPS_OF[mode], pythons, async (sandbox) => {
      try {
        const lease = await start(sandbox)
        // It is as good as any other: the first run will have it.
        spare = Promise.resolve(lease)
        return null
      } catch (error) {
        if (error instanceof InterpreterEnded) return error.why
        throw error
      }
    })
  }

  const chosen = choose().then(
    (found) => {
      known = found
      if ('reason' in found) log.warn('pipelines in Python cannot run here', { reason: found.reason })
      else log.info(`pipelines in Python run in: ${found.step}`, { python: found.python.version })
    },
    (error: unknown) => {
      known = { reason: 'the sandbox could not be tried' }
      log.error('the sandbox could not be tried', { error: String(error) })
    },
  )

  function startSpare(sandbox: Sandbox): void {
    if (isStopped || spare !== null) return
    const started = start(sandbox)
    spare = started
    started.catch(() => {
      if (spare === started) spare = null
    })
  }

  return {
    chosen,
    sandbox: () => known,
    async take(signal) {
      await chosen
      signal?.throwIfAborted()
      if (known === null || 'reason' in known) throw new NoPython(refusalOf(mode, known?.reason ?? 'unknown'))
      const own = spare
      // Before anything is waited for: it is nobody else's.
      spare = null
      const kept = await own?.catch(() => null)
      const isFit = kept != null && !kept.interpreter.hasEnded
      if (kept != null && !isFit) await kept.release()
      const lease = isFit ? kept : await start(known)
      const sandbox = known
      setTimeout(() => startSpare(sandbox), limits.pythonSpareDelayMs).unref()
      return lease
    },
    async stop() {
      isStopped = true
      // Whoever looks for Python may have to wait for it; then the process ends with us.
      await Promise.race([chosen.then(() => spare?.catch(() => {})), Bun.sleep(STOP_MS)])
      await Promise.all([...all].map((lease) => lease.release()))
      const made = options.walkable ?? (await elsewhere) ?? options.directory
      if (made !== options.directory) await clearAway(made, log)
    },
  }
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
