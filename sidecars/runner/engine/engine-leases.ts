import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync } from 'node:fs'
import { link, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { makeSlots, type Slots } from '../../../app/core/process/slots.ts'
import type { EngineSize } from '../../../lake/engine/instance.ts'
import type { Log } from '../../core/log.ts'
import { clearAway, removeTree } from '../../core/scratch.ts'
import { EnginePool, type PooledEngine } from '../../engine/engine-pool.ts'
import { EngineProcess } from '../../engine/engine-process.ts'
import type { Wall } from '../../sandbox/wall.ts'
import { limits } from '../limits.ts'
import {
  type AnswerOf,
  type Answers,
  EngineFault,
  type EngineRequest,
  type Fault,
  isAnswerOf,
  isFromEngine,
} from './engine-messages.ts'

// Engine processes for runs. Each process prepares fresh instances of the engine ahead of their use; every one serves a single
// run. One more instance is shared by runs whose texts leave nothing behind.

/** An engine process, leased to one run. */
export interface EngineLease {
  pid: number
  /** Absolute, of the process alone. The lessee makes a directory for the run in it, and removes that. */
  directory: string
  /** The number of a fresh instance, not open yet. */
  instance(): Promise<number>
  /** The instance shared by runs. It ends with the lease when anything fails in it, except that a text was not accepted. */
  kept(): Promise<KeptInstance>
  /** As EngineProcess.call. */
  call<R extends EngineRequest>(request: R, signal?: AbortSignal): Promise<AnswerOf<R['kind']>>
  /** Closes an instance before the others are. Throws as EngineProcess.call; releasing the process tries again. */
  close(number: number): Promise<void>
  /**
   * Gives the process back, or ends it if it is not fit for another run. Resolves when nothing of the run is left. `clear`
   * removes the run's files: nothing uses them any more, and no other run has the process yet.
   */
  release(clear?: () => Promise<void>): Promise<void>
  /**
   * As `release`, and leases a fit process instead, before anyone who waits for one. Throws EngineEnded; then the turn is over.
   */
  exchange(clear?: () => Promise<void>): Promise<EngineLease>
}

export interface KeptInstance {
  number: number
  /** Lets the instance read one more file until the lease ends. Answers the path to use. Throws where no link can be made. */
  link(path: string): Promise<string>
}

/** Every engine is in use, and enough callers wait for one already. */
export class EnginesBusy extends Error {
  constructor() {
    super('every engine is in use, and many wait for one already')
  }
}

export interface RunEngines {
  /**
   * Waits while every engine is in use. Does not wait for a process to start: calls do. Throws EnginesBusy, and the signal's
   * reason.
   */
  take(signal?: AbortSignal): Promise<EngineLease>
  /** Whether engines can be started, as far as is known. */
  isServing(): boolean
  stop(): Promise<void>
}

const ENTRY = new URL('./engine.main.ts', import.meta.url)
/** Runs come after queries, and queries after the service itself. */
const NICENESS = 10
/** A working process may hold this much for each byte its engine may use: its peak is 2.6 times a small limit. */
const PEAK_SHARE = 3
/** The next process is started so many runs before one is worn: it is ready in less time than they take. */
const RUNS_AHEAD = 20
/** A process may stay resident with this much between runs, for each byte its engine may use: allocators keep some. */
const RESIDENT_SHARE = 1.5
const RESIDENT_BASE_BYTES = 268_435_456
/** One for the pipeline, one for its tests. */
const SPARES = 2

export interface RunEnginesOptions {
  /** Working directories of the processes are made in it. */
  directory: string
  /** Directories of files that processes only read are made in it. */
  inputs: string
  size: EngineSize
  /** Engines in use at once. */
  leasesMax: number
  /** The confinement of the processes. */
  wall: Wall
  /** Tests may give a cancelled call more time to stop. */
  cancelGraceMs?: number
  log: Log
}

/** Makes the engines for runs. */
export function makeRunEngines(options: RunEnginesOptions): RunEngines {
  const { directory, size, leasesMax, log } = options
  const pool: Pool = new EnginePool({
    directory,
    idleMs: limits.engineIdleMs,
    turns: makeTurns(leasesMax),
    start: (own) => startEngine(own, options),
    log,
  })
  return {
    take: async (signal) => new Lease(await pool.take(signal), pool, size),
    isServing: () => pool.isServing,
    stop: () => pool.stop('the runner stops'),
  }
}

type RunProcess = EngineProcess<EngineRequest, Answers, Fault>
type Engine = PooledEngine<RunProcess, Instances>
type Pool = EnginePool<RunProcess, Instances>

function startEngine(
  directory: string,
  { inputs, size, wall, cancelGraceMs, log }: RunEnginesOptions,
): Omit<Engine, 'directory'> {
  const process: RunProcess = new EngineProcess({
    entry: ENTRY,
    directory,
    niceness: NICENESS,
    wall,
    residentBytesMax: RESIDENT_BASE_BYTES + PEAK_SHARE * size.memoryLimitBytes,
    cancelGraceMs,
    isFromEngine,
    isAnswerOf,
    errorOf: (fault) => new EngineFault(fault),
  })
  const known = new Instances(process, size, directory, join(inputs, basename(directory)))
  void process.exited.then(() => clearAway(known.inputs, log))
  return { process, ready: process.ready, known }
}

/** The instances of one engine process that are prepared ahead. */
class Instances {
  /** Leases so far. */
  runs = 0
  /** The process cannot write in this directory. */
  readonly inputs: string
  readonly #process: RunProcess
  readonly #size: EngineSize
  readonly #directory: string
  readonly #spares: Promise<number>[] = []
  #kept: Promise<number> | null = null
  #count = 0

  constructor(process: RunProcess, size: EngineSize, directory: string, inputs: string) {
    this.#process = process
    this.#size = size
    this.#directory = directory
    this.inputs = inputs
    mkdirSync(inputs, { recursive: true })
    this.prepareAhead()
  }

  /** Prepares the instances that the next run will take. Failures reach the one who takes an instance. */
  prepareAhead(): void {
    if (this.#kept === null) this.shared().catch(() => {})
    while (this.#spares.length < SPARES) {
      // One after the other: the first is ready sooner.
      const before = this.#spares.at(-1) ?? this.#kept
      const spare = Promise.resolve(before).then(() => this.#prepare())
      spare.catch(() => {})
      this.#spares.push(spare)
    }
  }

  /** The number of a fresh instance. */
  fresh(): Promise<number> {
    return this.#spares.shift() ?? this.#prepare()
  }

  /** The number of the instance that runs share. */
  shared(): Promise<number> {
    this.#kept ??= this.#prepareShared()
    return this.#kept
  }

  /** The next run that shares an instance gets another. */
  dropShared(): void {
    this.#kept = null
  }

  /** Where the shared instance spills. */
  spillOf(number: number): string {
    return join(this.#directory, `spill-${number}`)
  }

  async #prepare(): Promise<number> {
    this.#count += 1
    const number = this.#count
    await this.#process.ready
    await this.#process.call({ kind: 'prepare', number, ...this.#size })
    return number
  }

  async #prepareShared(): Promise<number> {
    const number = await this.#prepare()
    await this.#process.call({
      kind: 'open',
      number,
      tempDirectory: this.spillOf(number),
      allowedDirectories: [this.#directory, this.inputs],
      allowedPaths: [],
      keepsNoFiles: true,
      tables: [],
    })
    return number
  }
}

class Lease implements EngineLease {
  readonly pid: number
  readonly directory: string
  readonly #engine: Engine
  readonly #pool: Pool
  readonly #size: EngineSize
  readonly #used = new Set<number>()
  /** Links in the directory of inputs, with the files they stand for. */
  readonly #links = new Map<string, string>()
  /** The shared instance, once the run has asked for it. */
  #kept: number | null = null
  #isKeptSpoilt = false
  #isReleased = false
  #isSpoilt = false

  constructor(engine: Engine, pool: Pool, size: EngineSize) {
    this.#engine = engine
    this.#pool = pool
    this.#size = size
    this.pid = engine.process.pid
    this.directory = engine.directory
    engine.known.runs += 1
  }

  async instance(): Promise<number> {
    const number = await this.#made(this.#engine.known.fresh())
    this.#used.add(number)
    return number
  }

  async kept(): Promise<KeptInstance> {
    const { known } = this.#engine
    const number = await this.#made(known.shared())
    this.#kept = number
    return {
      number,
      link: async (path) => {
        // A new name each time: nothing that the engine remembers of a name is about this file.
        const place = join(known.inputs, `in-${randomUUID()}.parquet`)
        this.#links.set(place, path)
        await link(path, place)
        return place
      },
    }
  }

  async call<R extends EngineRequest>(request: R, signal?: AbortSignal): Promise<AnswerOf<R['kind']>> {
    if (this.#isReleased) throw new Error('the engine has been given back: another run may have it')
    try {
      return await this.#engine.process.call(request, signal)
    } catch (error) {
      // Memory may be in pieces after it ran out, or after a fault of the engine: the next run gets another process.
      if (error instanceof EngineFault && error.hasSpoilt) this.#isSpoilt = true
      if (request.number === this.#kept && !isBeforeWork(error)) this.#isKeptSpoilt = true
      throw error instanceof EngineFault ? withOwnPlaces(error, this.#links) : error
    }
  }

  async close(number: number): Promise<void> {
    await this.#engine.process.call({ kind: 'close', number }, AbortSignal.timeout(limits.closeMs))
    this.#used.delete(number)
  }

  async release(clear?: () => Promise<void>): Promise<void> {
    await this.#pool.release(this.#engine, this.#isFitAfter(clear))
  }

  async exchange(clear?: () => Promise<void>): Promise<EngineLease> {
    const next = await this.#pool.exchange(this.#engine, await this.#isFitAfter(clear))
    return new Lease(next, this.#pool, this.#size)
  }

  /** A process that cannot make an instance is not used again. */
  async #made(number: Promise<number>): Promise<number> {
    try {
      return await number
    } catch (error) {
      this.#isSpoilt = true
      throw error
    }
  }

  /** Removes everything of the run. Answers whether the process is fit for another. */
  async #isFitAfter(clear?: () => Promise<void>): Promise<boolean> {
    const { process, known } = this.#engine
    this.#isReleased = true
    try {
      if (this.#kept !== null) await this.#leave(this.#kept)
      for (const number of this.#used) await this.close(number)
      await Promise.all(Array.from(this.#links.keys(), (place) => rm(place, { force: true })))
    } catch {
      // An instance that cannot be closed would live on.
      this.#isSpoilt = true
    }
    await clear?.().catch(() => {
      this.#isSpoilt = true
    })
    const residentLimit = RESIDENT_BASE_BYTES + RESIDENT_SHARE * this.#size.memoryLimitBytes
    const isWorn = known.runs >= limits.runsPerEngine || process.residentBytes >= residentLimit
    if (this.#isSpoilt || process.hasEnded || isWorn) return false
    if (known.runs === limits.runsPerEngine - RUNS_AHEAD) this.#pool.startAhead()
    known.prepareAhead()
    return true
  }

  async #leave(number: number): Promise<void> {
    const { process, known } = this.#engine
    const spill = known.spillOf(number)
    // An instance that has spilled may hold on to more than it needs.
    if (!this.#isKeptSpoilt && !existsSync(spill)) {
      await process.call({ kind: 'leave', number }, AbortSignal.timeout(limits.closeMs))
      return
    }
    known.dropShared()
    await this.close(number)
    await removeTree(spill)
  }
}

/** The text was not accepted, so nothing has come of it. */
const isBeforeWork = (error: unknown): boolean =>
  error instanceof EngineFault &&
  (error.kind === 'refused' || error.kind === 'syntax' || error.kind === 'binder')

/** An engine's fault about a link is about the file that the link stands for. */
function withOwnPlaces(
  { kind, message, line }: EngineFault,
  links: ReadonlyMap<string, string>,
): EngineFault {
  let said = message
  for (const [place, path] of links) said = said.replaceAll(place, () => path)
  return new EngineFault({ kind, message: said, ...(line !== undefined && { line }) })
}

/** So many pieces of work at once. Taking a turn throws EnginesBusy, and the signal's reason. */
export const makeTurns = (max: number): Slots =>
  makeSlots(max, limits.enginesAwaited, () => new EnginesBusy())
