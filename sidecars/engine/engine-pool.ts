import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Slots } from '../../app/core/process/slots.ts'
import { type Log, messageOf } from '../core/log.ts'
import { clearAway, randomName } from '../core/scratch.ts'
import { EngineEnded } from './engine-process.ts'

// The one pool of engine processes, for runs and for queries. One process is always warm, more are started on demand, and
// those end after some idle time. A process belongs to one piece of work at a time.

/** The part of EngineProcess that the pool uses. */
interface Ending {
  readonly pid: number
  readonly exited: Promise<string>
  readonly hasEnded: boolean
  end(why: string): void
}

/** An engine process, and the facts that its owner keeps about it. */
export interface PooledEngine<Process extends Ending, Known> {
  readonly process: Process
  /** A directory of this process alone. It is removed after the process has ended. */
  readonly directory: string
  /** Resolves when the process can be used; rejects when it never will. */
  readonly ready: Promise<void>
  readonly known: Known
}

export interface EnginePoolOptions<Process extends Ending, Known> {
  /** Working directories of the processes are made in it. */
  directory: string
  /** Processes beyond the warm one end after this idle time. */
  idleMs: number
  /** Limits how many engines are in use at once. */
  turns: Slots
  /** Starts a process in its directory, which exists already. */
  start(directory: string): Omit<PooledEngine<Process, Known>, 'directory'>
  log: Log
}

/** When no process can be started, the pool tries again after this time. */
const RESTART_MS = 1_000
/** Closing the instances of a run takes some milliseconds; a start takes 400. */
const RETURN_WAIT_MS = 200

export class EnginePool<Process extends Ending, Known> {
  readonly #options: EnginePoolOptions<Process, Known>
  /** The engine used last is at the end: its pages are in memory. */
  readonly #idle: { engine: PooledEngine<Process, Known>; since: number }[] = []
  readonly #all = new Set<PooledEngine<Process, Known>>()
  /** What ends the turn of an engine in use. */
  readonly #turns = new Map<PooledEngine<Process, Known>, () => void>()
  /** Engines that are being cleared for other work. */
  readonly #returning = new Set<Promise<void>>()
  /** Each resolves when a process and its directory are gone. */
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
   * Waits for a turn and takes an idle engine, one that is released within 200 ms, or one that starts now: wait for its
   * `ready`. Throws what `turns.take` throws, and EngineEnded.
   */
  async take(signal?: AbortSignal): Promise<PooledEngine<Process, Known>> {
    const leave = await this.#options.turns.take(signal)
    if (this.#idle.length === 0 && this.#returning.size > 0)
      await Promise.race([...this.#returning, Bun.sleep(RETURN_WAIT_MS)])
    return this.#taken(leave)
  }

  /**
   * Ends the turn once it is known whether the engine is fit for other work. An engine that is not is ended; resolves when
   * its process is gone.
   */
  async release(engine: PooledEngine<Process, Known>, isFit: boolean | Promise<boolean>): Promise<void> {
    const leave = this.#turnOf(engine)
    const returned = Promise.resolve(isFit).then((fit) => this.#putBack(engine, fit))
    this.#returning.add(returned)
    await returned.finally(() => this.#returning.delete(returned))
    leave()
  }

  /** Starts a process for the time after one that is soon to be ended: nobody waits for its start. */
  startAhead(): void {
    this.#startIdle(() => {})
  }

  /** Releases an engine and takes another within the same turn. Throws EngineEnded; the turn has ended then. */
  async exchange(
    engine: PooledEngine<Process, Known>,
    isFit: boolean,
  ): Promise<PooledEngine<Process, Known>> {
    const leave = this.#turnOf(engine)
    await this.#putBack(engine, isFit)
    return this.#taken(leave)
  }

  /** Whether engines can be started, as far as is known. */
  get isServing(): boolean {
    return this.#isServing && this.#stopped === null
  }

  /** Resolves when the processes and their directories are gone. `why` completes "engine process ended (...)". */
  async stop(why: string): Promise<void> {
    this.#stopped = why
    clearInterval(this.#sweep)
    for (const { process } of this.#all) process.end(why)
    await Promise.all(this.#leaving)
  }

  #taken(leave: () => void): PooledEngine<Process, Known> {
    let engine = this.#idle.pop()?.engine
    while (engine?.process.hasEnded) engine = this.#idle.pop()?.engine
    try {
      engine ??= this.#start()
      this.#turns.set(engine, leave)
      return engine
    } catch (error) {
      leave()
      this.#planRestart()
      throw error
    }
  }

  /** What ends the turn of an engine, which is no longer in use. */
  #turnOf(engine: PooledEngine<Process, Known>): () => void {
    const leave = this.#turns.get(engine)
    assert(leave !== undefined, 'an engine is given back once')
    this.#turns.delete(engine)
    return leave
  }

  async #putBack(engine: PooledEngine<Process, Known>, isFit: boolean): Promise<void> {
    const { process } = engine
    if (!isFit) process.end('it is not fit for other work')
    if (process.hasEnded) await process.exited
    else this.#idle.push({ engine, since: performance.now() })
  }

  #start(): PooledEngine<Process, Known> {
    if (this.#stopped !== null) throw new EngineEnded(this.#stopped)
    const { start, log } = this.#options
    const directory = join(this.#options.directory, randomName())
    // Synchronous up to `#all.add`: stop() must find every process that was started.
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
        process.end('it could not be started')
      },
    )
    void process.exited.then((how) => {
      this.#all.delete(engine)
      if (this.#removeIdle(engine) && this.#stopped === null)
        this.#options.log.warn('an idle engine process ended', { how, pid: process.pid })
      if (wasReady) this.#keepWarm()
      else this.#planRestart()
    })
  }

  /** Starts a process when none lives, or when none is known to start: nothing else would find out that one can. */
  #keepWarm(): void {
    if (this.#stopped !== null || (this.#all.size > 0 && this.#isServing)) return
    this.#startIdle(() => this.#planRestart())
  }

  /** The process waits behind those that are in use already. */
  #startIdle(onFailure: () => void): void {
    const complain = (error: unknown) => {
      if (this.#stopped === null)
        this.#options.log.error('an engine process could not be started', { error: messageOf(error) })
    }
    try {
      const engine = this.#start()
      engine.ready.then(() => {
        if (!engine.process.hasEnded) this.#idle.unshift({ engine, since: performance.now() })
      }, complain)
    } catch (error) {
      complain(error)
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
      engine.process.end('it is not needed')
    }
  }

  /** False: it was not idle. */
  #removeIdle(engine: PooledEngine<Process, Known>): boolean {
    const place = this.#idle.findIndex((one) => one.engine === engine)
    if (place >= 0) this.#idle.splice(place, 1)
    return place >= 0
  }
}
