import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync } from 'node:fs'
import { link, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { makeSlots, type Slots } from '../../../ground/process/slots.ts'
import { isTracing, span } from '../../../ground/telemetry/spans.ts'
import type { EngineSize } from '../../../lake/engine/instance.ts'
import type { Log } from '../../core/log.ts'
import {
  type Cost,
  NO_COST,
  type ProcessUsage,
  usageAttributes,
  usedSince,
} from '../../core/process-usage.ts'
import { clearAway, removeTree } from '../../core/scratch.ts'
import { EnginePool, type PooledEngine } from '../../engine/engine-pool.ts'
import { EngineProcess } from '../../engine/engine-process.ts'
import type { Share, Shares } from '../../engine/shares.ts'
import type { EngineSandbox } from '../../sandbox/engine-sandbox.ts'
import { limits } from '../core/limits.ts'
import { type EngineLease, EnginesBusy, type RunEngines, type SharedInstance } from './engine-lease.ts'
import {
  type AnswerOf,
  EngineFault,
  type EngineRequest,
  type Fault,
  isAnswerOf,
  isFromEngine,
  NO_INSTANCE,
  type RunnerAnswers,
} from './engine-messages.ts'

// Engine processes for runs. Each process prepares fresh instances of the engine in advance, each for a single run. Runs whose
// texts leave nothing behind share one more instance.

const ENTRY = new URL('./engine.main.ts', import.meta.url)
/** The service itself has the highest priority, then queries, then runs. */
const NICENESS = 10
/** Memory limit of a working process, per byte that its engine may use. The peak is 2.6 times a small limit. */
const PEAK_SHARE = 3
/** The replacement of a worn process starts this many runs ahead. It is ready before they are done. */
const RUNS_AHEAD = 20
/** Memory limit of a process between runs, per byte that its engine may use. Allocators hold on to some memory. */
const RESIDENT_SHARE = 1.5
const RESIDENT_BASE_BYTES = 268_435_456
/** One instance for the pipeline, one for its tests. */
const SPARES = 2
/** Instances of a run that hold rows at once: the pipeline's, and the one that merges its rows. */
const INSTANCES = 2

export interface RunEnginesOptions {
  /** The parent of the working directories of the processes. */
  directory: string
  /** The parent of the directories whose files the processes can only read. */
  inputs: string
  /** The least size of an instance. Instances that runs share have this size. */
  size: EngineSize
  /** Divides the machine among the leased engines. */
  shares: Shares
  /** Engines in use at once. */
  leasesMax: number
  /** The sandbox of the processes. */
  sandbox: EngineSandbox
  /** Time for a cancelled call to stop. Tests may set a longer time. */
  cancelGraceMs?: number
  log: Log
}

/** Makes the engines for runs. */
export function makeRunEngines(options: RunEnginesOptions): RunEngines {
  const { directory, leasesMax, log } = options
  const pool: Pool = new EnginePool({
    directory,
    idleMs: limits.engineIdleMs,
    turns: makeRunSlots(leasesMax),
    start: (own) => startEngine(own, options),
    log,
  })
  return {
    acquire: async (signal) => new Lease(await pool.acquire(signal), pool, options),
    isServing: () => pool.isServing,
    memory: () => pool.memory(),
    stop: () => pool.stop('the runner stops'),
  }
}

type RunProcess = EngineProcess<EngineRequest, RunnerAnswers, Fault>
type Engine = PooledEngine<RunProcess, Instances>
type Pool = EnginePool<RunProcess, Instances>

function startEngine(
  directory: string,
  { inputs, size, sandbox, cancelGraceMs, log }: RunEnginesOptions,
): Omit<Engine, 'directory'> {
  const process: RunProcess = new EngineProcess({
    entry: ENTRY,
    directory,
    niceness: NICENESS,
    sandbox,
    residentBytesMax: () => RESIDENT_BASE_BYTES + PEAK_SHARE * size.memoryLimitBytes + record.grownBytes,
    cancelGraceMs,
    isFromEngine,
    isAnswerOf,
    errorOf: (fault) => new EngineFault(fault),
  })
  const record = new Instances(process, size, directory, join(inputs, basename(directory)))
  void process.exited.then(() => clearAway(record.inputs, log))
  return { process, ready: process.ready, record }
}

/** The instances that one engine process has prepared in advance. */
class Instances {
  /** Leases so far. */
  runs = 0
  /** Memory of the current lease beyond the least size. */
  grownBytes = 0
  /** The process cannot write to this directory. */
  readonly inputs: string
  readonly #process: RunProcess
  readonly #size: EngineSize
  readonly #directory: string
  readonly #spares: Promise<number>[] = []
  #sharedNumber: Promise<number> | null = null
  #count = 0

  constructor(process: RunProcess, size: EngineSize, directory: string, inputs: string) {
    this.#process = process
    this.#size = size
    this.#directory = directory
    this.inputs = inputs
    mkdirSync(inputs, { recursive: true })
    this.prepareAhead()
  }

  /** Prepares the instances for the next run. A failure reaches the caller that takes the instance. */
  prepareAhead(): void {
    if (this.#sharedNumber === null) this.shared().catch(() => {})
    while (this.#spares.length < SPARES) {
      // Preparing one after the other makes the first ready sooner.
      const before = this.#spares.at(-1) ?? this.#sharedNumber
      const spare = Promise.resolve(before).then(() => this.#prepare())
      spare.catch(() => {})
      this.#spares.push(spare)
    }
  }

  /** Returns the number of a fresh instance. */
  fresh(): Promise<number> {
    return this.#spares.shift() ?? this.#prepare()
  }

  /** Returns the number of the instance that runs share. */
  shared(): Promise<number> {
    this.#sharedNumber ??= this.#prepareShared()
    return this.#sharedNumber
  }

  /** The next run that needs the shared instance gets a new one. */
  dropShared(): void {
    this.#sharedNumber = null
  }

  /** The directory that the shared instance spills to. */
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
  onProgress?: NonNullable<EngineLease['onProgress']>
  readonly #engine: Engine
  readonly #pool: Pool
  readonly #options: RunEnginesOptions
  readonly #share: Share
  readonly #used = new Set<number>()
  /** Links in the directory of inputs, each with its file. */
  readonly #links = new Map<string, string>()
  /** The number of the shared instance, once the run has used it. */
  #sharedInstance: number | null = null
  #isKeptSpoilt = false
  #isReleased = false
  #isSpoilt = false
  /** The usage of the process at the begin of the lease, and at the end of its last traced call. Null: it is not ready yet. */
  #usage: { before: ProcessUsage; last: ProcessUsage } | null = null

  constructor(engine: Engine, pool: Pool, options: RunEnginesOptions) {
    this.#engine = engine
    this.#pool = pool
    this.#options = options
    this.#share = options.shares.join()
    this.pid = engine.process.pid
    this.directory = engine.directory
    engine.record.runs += 1
    // The start of a process is no work of its first run.
    engine.ready.then(
      () => {
        const before = engine.process.usage()
        this.#usage = { before, last: before }
        engine.process.beginPeak()
      },
      () => {},
    )
  }

  async instance(): Promise<number> {
    const number = await this.#created(this.#engine.record.fresh())
    this.#used.add(number)
    return number
  }

  async shared(): Promise<SharedInstance> {
    const { record } = this.#engine
    const number = await this.#created(record.shared())
    this.#sharedInstance = number
    return {
      number,
      link: async (path) => {
        // Each link gets a new name, so that the engine has nothing cached under that name.
        const linkPath = join(record.inputs, `in-${randomUUID()}.parquet`)
        this.#links.set(linkPath, path)
        await link(path, linkPath)
        return linkPath
      },
    }
  }

  share(): Pick<EngineSize, 'memoryLimitBytes' | 'threads'> {
    const { memoryLimitBytes } = this.#options.size
    const { memoryBytes, threads } = this.#share.size()
    this.#engine.record.grownBytes = Math.max(0, memoryBytes - memoryLimitBytes)
    return { memoryLimitBytes: Math.max(memoryLimitBytes, Math.floor(memoryBytes / INSTANCES)), threads }
  }

  async call<R extends EngineRequest>(request: R, signal?: AbortSignal): Promise<AnswerOf<R['kind']>> {
    if (this.#isReleased)
      throw new Error('call to an engine after its release: another run may use the engine')
    try {
      // All other requests have the number of an instance, which a process has when it is ready.
      if (request.number === NO_INSTANCE) await this.#engine.ready
      const attributes = { 'db.system.name': 'duckdb', 'db.operation.name': request.kind }
      return await span(`duckdb ${request.kind}`, attributes, async (active) => {
        const answer = await this.#engine.process.call(request, signal, ({ percent }) =>
          this.onProgress?.({ ...this.cost(), percent }),
        )
        if (isTracing()) active.set(usageAttributes(this.#usedByCall()))
        return answer
      })
    } catch (error) {
      // After a lack of memory or an internal fault, the heap may be damaged. The next run gets another process.
      if (error instanceof EngineFault && error.hasSpoilt) this.#isSpoilt = true
      if (request.number === this.#sharedInstance && !isBeforeWork(error)) this.#isKeptSpoilt = true
      throw error instanceof EngineFault ? withoutLinkPaths(error, this.#links) : error
    }
  }

  cost(): Cost {
    if (this.#usage === null) return NO_COST
    const now = this.#engine.process.usage()
    return { ...usedSince(this.#usage.before, now), peakMemoryBytes: this.#engine.process.peakBytes }
  }

  /** The usage since the last traced call. */
  #usedByCall(): ProcessUsage {
    if (this.#usage === null) return NO_COST
    const { last } = this.#usage
    this.#usage.last = this.#engine.process.usage()
    return usedSince(last, this.#usage.last)
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
    return new Lease(next, this.#pool, this.#options)
  }

  /** A process that cannot prepare an instance is not used again. */
  async #created(number: Promise<number>): Promise<number> {
    try {
      return await number
    } catch (error) {
      this.#isSpoilt = true
      throw error
    }
  }

  /** Removes everything of the run. Returns whether the process is fit for another run. */
  async #isFitAfter(clear?: () => Promise<void>): Promise<boolean> {
    const { process, record } = this.#engine
    this.#isReleased = true
    try {
      if (this.#sharedInstance !== null) await this.#releaseShared(this.#sharedInstance)
      for (const number of this.#used) await this.close(number)
      await Promise.all(Array.from(this.#links.keys(), (linkPath) => rm(linkPath, { force: true })))
    } catch {
      // An instance that cannot be closed would stay alive.
      this.#isSpoilt = true
    }
    await clear?.().catch(() => {
      this.#isSpoilt = true
    })
    record.grownBytes = 0
    this.#share.leave()
    const residentLimit = RESIDENT_BASE_BYTES + RESIDENT_SHARE * this.#options.size.memoryLimitBytes
    const isWorn = record.runs >= limits.runsPerEngine || process.residentBytes >= residentLimit
    if (this.#isSpoilt || process.hasEnded || isWorn) return false
    if (record.runs === limits.runsPerEngine - RUNS_AHEAD) this.#pool.startAhead()
    record.prepareAhead()
    return true
  }

  async #releaseShared(number: number): Promise<void> {
    const { process, record } = this.#engine
    const spill = record.spillOf(number)
    // An instance that has spilled may hold more resources than it needs.
    if (!this.#isKeptSpoilt && !existsSync(spill)) {
      await process.call({ kind: 'leave', number }, AbortSignal.timeout(limits.closeMs))
      return
    }
    record.dropShared()
    await this.close(number)
    await removeTree(spill)
  }
}

/** True when the engine did not accept the text, so that the text had no effect. */
const isBeforeWork = (error: unknown): boolean =>
  error instanceof EngineFault &&
  (error.kind === 'refused' || error.kind === 'syntax' || error.kind === 'binder')

/** Replaces the name of a link in an engine's fault by the name of its file. */
function withoutLinkPaths(
  { kind, message, line }: EngineFault,
  links: ReadonlyMap<string, string>,
): EngineFault {
  let text = message
  for (const [linkPath, path] of links) text = text.replaceAll(linkPath, () => path)
  return new EngineFault({ kind, message: text, ...(line !== undefined && { line }) })
}

/** Limits the work at one time. Taking a slot throws EnginesBusy, and the signal's reason. */
export const makeRunSlots = (max: number): Slots =>
  makeSlots(max, limits.enginesAwaited, () => new EnginesBusy())
