import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { type Log, messageOf } from '../log.ts'
import { clearAway, randomName } from '../scratch.ts'
import { EngineEnded } from './engine-process.ts'

// Engine processes that are kept from one piece of work to the next: one is always warm, more are started when they are
// asked for and end when they have been idle for a while. What works in them, and whether it may go on, is their owner's.

/** As far as its keeper looks at it; EngineProcess is one. */
interface Ending {
  readonly pid: number
  readonly exited: Promise<string>
  readonly hasEnded: boolean
  end(why: string): void
}

/** An engine process, and what its owner knows of it. */
export interface KeptEngine<Process extends Ending, Known> {
  readonly process: Process
  /** Of this process alone. */
  readonly directory: string
  /** Resolves when it can be used; rejects when it never will. */
  readonly ready: Promise<void>
  readonly known: Known
}

export interface KeeperOptions<Process extends Ending, Known> {
  /** Working directories of the processes are made in it. */
  directory: string
  /** Beyond the one kept warm. */
  idleMs: number
  /** Starts a process in its directory, which is there. */
  start(directory: string): { process: Process; ready: Promise<void>; known: Known }
  log: Log
}

export interface Keeper<Process extends Ending, Known> {
  /** The engine used last that is idle, or one that starts now. Its directory goes with it when it ends. Throws EngineEnded. */
  take(): KeptEngine<Process, Known>
  /** It may be used again. */
  putBack(engine: KeptEngine<Process, Known>): void
  /** Whether engines can be started, as far as is known. */
  isServing(): boolean
  /** Resolves when the processes are gone, and their directories. `why` completes "engine process ended (...)". */
  stop(why: string): Promise<void>
}

/** When no process can be started, one is tried again after this time. */
const RESTART_MS = 1_000

export function makeEngineKeeper<Process extends Ending, Known>(
  options: KeeperOptions<Process, Known>,
): Keeper<Process, Known> {
  type Engine = KeptEngine<Process, Known>
  const { directory, idleMs, log } = options
  /** The one used last is at the end: its pages are in memory. */
  const idle: { engine: Engine; since: number }[] = []
  const all = new Set<Engine>()
  /** Each resolves when a process and its directory are gone. */
  const leaving = new Set<Promise<unknown>>()
  let stopped: string | null = null
  let isServing = false
  let isAgain = false
  const sweep = setInterval(endIdle, idleMs / 4)
  sweep.unref()
  warm()

  function start(): Engine {
    if (stopped !== null) throw new EngineEnded(stopped)
    const own = join(directory, randomName())
    // Nothing comes between this and being known: whoever stops the keeper ends it.
    mkdirSync(own, { recursive: true })
    const engine: Engine = { ...options.start(own), directory: own }
    const { process, ready } = engine
    all.add(engine)
    const gone = process.exited.then(() => clearAway(own, log))
    leaving.add(gone)
    void gone.finally(() => leaving.delete(gone))
    let wasReady = false
    ready.then(
      () => {
        wasReady = true
        isServing = true
      },
      () => {
        isServing = false
        process.end('it could not be started')
      },
    )
    void process.exited.then((how) => {
      all.delete(engine)
      const place = idle.findIndex((one) => one.engine === engine)
      if (place >= 0) {
        idle.splice(place, 1)
        if (stopped === null) log.warn('an idle engine process ended', { how, pid: process.pid })
      }
      if (wasReady) warm()
      else again()
    })
    return engine
  }

  /** Also beside others that live: while none is known to start, nobody asks for one, and nothing else would find out. */
  function warm(): void {
    if (stopped !== null || (all.size > 0 && isServing)) return
    try {
      const engine = start()
      engine.ready.then(() => putBack(engine), complain)
    } catch (error) {
      complain(error)
      again()
    }
  }

  function complain(error: unknown): void {
    if (stopped === null) log.error('an engine process could not be started', { error: messageOf(error) })
  }

  function again(): void {
    if (stopped !== null || isAgain) return
    isAgain = true
    setTimeout(() => {
      isAgain = false
      warm()
    }, RESTART_MS).unref()
  }

  function putBack(engine: Engine): void {
    if (!engine.process.hasEnded) idle.push({ engine, since: performance.now() })
  }

  function endIdle(): void {
    const before = performance.now() - idleMs
    for (const { engine } of idle.filter(({ since }) => since < before)) {
      if (all.size === 1) return
      idle.splice(
        idle.findIndex((one) => one.engine === engine),
        1,
      )
      all.delete(engine)
      engine.process.end('it is not needed')
    }
  }

  return {
    take() {
      let engine = idle.pop()?.engine
      while (engine?.process.hasEnded) engine = idle.pop()?.engine
      if (engine !== undefined) return engine
      try {
        return start()
      } catch (error) {
        again()
        throw error
      }
    },
    putBack,
    isServing: () => isServing && stopped === null,
    async stop(why) {
      stopped = why
      clearInterval(sweep)
      for (const { process } of all) process.end(why)
      await Promise.all(leaving)
    },
  }
}
