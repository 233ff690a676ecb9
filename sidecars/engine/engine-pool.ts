import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Slots } from '../../ground/process/slots.ts'
import { type Log, messageOf } from '../core/log.ts'
import { clearAway, randomName } from '../core/scratch.ts'
import { EngineEnded } from './engine-process.ts'

// One pool implementation serves runs and queries. One engine process is always warm. Others start on demand and end after an
// idle time. A process belongs to one piece of work at a time.

/** The part of EngineProcess that the pool uses. */
interface EngineHandle {
  readonly pid: number
  readonly exited: Promise<string>
  readonly hasEnded: boolean
  readonly residentBytes: number
  /** The process is ended when it holds more memory. */
  readonly residentBytesMax: number
  end(why: string): void
}

/** An engine process, with the facts that its owner stores about it. */
export interface PooledEngine<Process extends EngineHandle, Known> {
  readonly process: Process
  /** A directory that only this process uses. The pool removes it after the process has ended. */
  readonly directory: string
  /** Resolves when the process is usable; rejects when its start fails. */
  readonly ready: Promise<void>
  readonly record: Known
}

interface EnginePoolOptions<Process extends EngineHandle, Known> {
  /** The parent of the working directories of the processes. */
  directory: string
  /** Processes beyond the warm one end after this idle time. */
  idleMs: number
  /** Limits how many engines are in use at once. */
  turns: Slots
  /** Starts a process in its directory, which exists already. */
  start(directory: string): Omit<PooledEngine<Process, Known>, 'directory'>
  log: Log
}

/** Memory of the processes of a pool now. */
export interface EngineMemory {
  bytes: number
  /** The sum of the limits of the processes. */
  limitBytes: number
  /** The largest share of its limit that a process holds. */
  fullest: number
}

/** Delay before the pool tries again after a failed start. */
const RESTART_MS = 1_000
/** Closing the instances of a run takes some milliseconds; starting a process takes 400. */
const RETURN_WAIT_MS = 200

export class EnginePool<Process extends EngineHandle, Known> {
  readonly #options: EnginePoolOptions<Process, Known>
  /** The engine used last is at the end and is taken first, because its pages are in memory. */
  readonly #idle: { engine: PooledEngine<Process, Known>; since: number }[] = []
  readonly #all = new Set<PooledEngine<Process, Known>>()
  /** For each engine in use, the function that releases its slot. */
  readonly #slotReleases = new Map<PooledEngine<Process, Known>, () => void>()
  /** Engines that are being cleared for other work. */
  readonly #returning = new Set<Promise<void>>()
  /** Each promise resolves when a process and its directory are gone. */
  readonly #leaving = new Set<Promise<unknown>>()
  readonly #sweep: ReturnType<typeof setInterval>
  #stopped: string | null = null
  #isServing = false
  #isRestartPlanned = false

  constructor(options: EnginePoolOptions<Process, Known>) {
    this.#options = options
    this.#sweep = setInterval(() => this.#endIdle(), options.idleMs / 4)
    this.#sweep.unref()
    this.#keepWarm()
  }

  /**
   * Waits for a slot. Then takes an idle engine, an engine released within 200 ms, or a new process. Await its `ready` before
   * use. Throws EngineEnded, and the errors of `turns.take`.
   */
  async acquire(signal?: AbortSignal): Promise<PooledEngine<Process, Known>> {
    const releaseSlot = await this.#options.turns.acquire(signal)
    if (this.#idle.length === 0 && this.#returning.size > 0)
      await Promise.race([...this.#returning, Bun.sleep(RETURN_WAIT_MS)])
    return this.#leaseOf(releaseSlot)
  }

  /**
   * Releases the slot once `isFit` is settled. An unfit engine is ended first. Resolves when the engine is idle again or its
   * process is gone.
   */
  async release(engine: PooledEngine<Process, Known>, isFit: boolean | Promise<boolean>): Promise<void> {
    const release = this.#turnOf(engine)
    const returned = Promise.resolve(isFit).then((fit) => this.#putBack(engine, fit))
    this.#returning.add(returned)
    await returned.finally(() => this.#returning.delete(returned))
    release()
  }

  /** Starts a process in advance, to replace one that ends soon, so that no caller waits for the start. */
  startAhead(): void {
    this.#startIdle(() => {})
  }

  /** Releases an engine and takes another within the same slot. Throws EngineEnded after releasing the slot. */
  async exchange(
    engine: PooledEngine<Process, Known>,
    isFit: boolean,
  ): Promise<PooledEngine<Process, Known>> {
    const releaseSlot = this.#turnOf(engine)
    await this.#putBack(engine, isFit)
    return this.#leaseOf(releaseSlot)
  }

  /** True when the last completed start of an engine succeeded and the pool is not stopped. */
  get isServing(): boolean {
    return this.#isServing && this.#stopped === null
  }

  memory(): EngineMemory {
    const processes = Array.from(this.#all, ({ process: { residentBytes, residentBytesMax } }) => ({
      bytes: residentBytes,
      limitBytes: residentBytesMax,
    }))
    return {
      bytes: processes.reduce((sum, { bytes }) => sum + bytes, 0),
      limitBytes: processes.reduce((sum, { limitBytes }) => sum + limitBytes, 0),
      fullest: Math.max(0, ...processes.map(({ bytes, limitBytes }) => bytes / limitBytes)),
    }
  }

  /** Ends all processes. Resolves when they and their directories are gone. `why` completes "engine process ended (...)". */
  async stop(why: string): Promise<void> {
    this.#stopped = why
    clearInterval(this.#sweep)
    for (const { process } of this.#all) process.end(why)
    await Promise.all(this.#leaving)
  }

  #leaseOf(releaseSlot: () => void): PooledEngine<Process, Known> {
    let engine = this.#idle.pop()?.engine
    while (engine?.process.hasEnded) engine = this.#idle.pop()?.engine
    try {
      engine ??= this.#start()
      this.#slotReleases.set(engine, releaseSlot)
      return engine
    } catch (error) {
      releaseSlot()
      this.#planRestart()
      throw error
    }
  }

  /** Marks the engine as no longer in use, and returns the function that releases its slot. */
  #turnOf(engine: PooledEngine<Process, Known>): () => void {
    const releaseSlot = this.#slotReleases.get(engine)
    assert(releaseSlot !== undefined, 'engine released twice')
    this.#slotReleases.delete(engine)
    return releaseSlot
  }

  async #putBack(engine: PooledEngine<Process, Known>, isFit: boolean): Promise<void> {
    const { process } = engine
    if (!isFit) process.end('unfit for reuse')
    if (process.hasEnded) await process.exited
    else this.#idle.push({ engine, since: performance.now() })
  }

  #start(): PooledEngine<Process, Known> {
    if (this.#stopped !== null) throw new EngineEnded(this.#stopped)
    const { start, log } = this.#options
    const directory = join(this.#options.directory, randomName())
    // This is synchronous up to `#all.add`, so that stop() finds every started process.
    mkdirSync(directory, { recursive: true })
    const engine = { ...start(directory), directory }
    this.#all.add(engine)
    const gone = engine.process.exited.then(() => clearAway(directory, log))
    this.#leaving.add(gone)
    void gone.finally(() => this.#leaving.delete(gone))
    this.#watch(engine)
    return engine
  }

  #watch(engine: PooledEngine<Process, Known>): void {
    const { process, ready } = engine
    let wasReady = false
    ready.then(
      () => {
        wasReady = true
        this.#isServing = true
      },
      () => {
        this.#isServing = false
        process.end('start failed')
      },
    )
    void process.exited.then((how) => {
      this.#all.delete(engine)
      if (this.#removeIdle(engine) && this.#stopped === null)
        this.#options.log.warn('idle engine process ended', { how, pid: process.pid })
      if (wasReady) this.#keepWarm()
      else this.#planRestart()
    })
  }

  /** Starts a process when none lives, or when the last start failed. No other code would notice that starts succeed again. */
  #keepWarm(): void {
    if (this.#stopped !== null || (this.#all.size > 0 && this.#isServing)) return
    this.#startIdle(() => this.#planRestart())
  }

  /** The new process is taken only when no other engine is idle. */
  #startIdle(onFailure: () => void): void {
    const logFailure = (error: unknown) => {
      if (this.#stopped === null)
        this.#options.log.error('engine process not started', { error: messageOf(error) })
    }
    try {
      const engine = this.#start()
      engine.ready.then(() => {
        if (!engine.process.hasEnded) this.#idle.unshift({ engine, since: performance.now() })
      }, logFailure)
    } catch (error) {
      logFailure(error)
      onFailure()
    }
  }

  #planRestart(): void {
    if (this.#stopped !== null || this.#isRestartPlanned) return
    this.#isRestartPlanned = true
    setTimeout(() => {
      this.#isRestartPlanned = false
      this.#keepWarm()
    }, RESTART_MS).unref()
  }

  #endIdle(): void {
    const before = performance.now() - this.#options.idleMs
    for (const { engine } of this.#idle.filter(({ since }) => since < before)) {
      if (this.#all.size === 1) return
      this.#removeIdle(engine)
      this.#all.delete(engine)
      engine.process.end('idle for too long')
    }
  }

  /** Returns false when the engine was not idle. */
  #removeIdle(engine: PooledEngine<Process, Known>): boolean {
    const index = this.#idle.findIndex((one) => one.engine === engine)
    if (index >= 0) this.#idle.splice(index, 1)
    return index >= 0
  }
}
