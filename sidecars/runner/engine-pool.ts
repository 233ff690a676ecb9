import { mkdirSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { EngineSize } from '../../lake/engine/instance.ts'
import { EngineEnded, EngineProcess } from '../engine-process.ts'
import type { Log } from '../log.ts'
import type { Wall } from '../sandbox/wall.ts'
import {
  type AnswerOf,
  type Answers,
  EngineFault,
  type EngineRequest,
  type Fault,
  isAnswerOf,
  isFromEngine,
} from './engine-messages.ts'
import { limits } from './limits.ts'

// Engine processes, kept warm and used by one run at a time. Each holds fresh instances of the engine, prepared while
// nobody waits: one for the pipeline, one for its tests. An instance is used once and thrown away.

/** An engine process, for one run. */
export interface EngineLease {
  pid: number
  /** Of the process alone, absolute: whoever has the lease makes a directory of the run in it, and removes that. */
  directory: string
  /** The number of a fresh instance, not open yet. */
  instance(): Promise<number>
  /** As EngineProcess.call. */
  call<R extends EngineRequest>(request: R, signal?: AbortSignal): Promise<AnswerOf<R['kind']>>
  /** Gives the process back, or ends it if it is not fit for another run. Resolves when nothing of the run is left. */
  release(): Promise<void>
}

/** Every engine is in use, and enough wait for one already. */
export class EnginesBusy extends Error {
  constructor() {
    super('every engine is in use, and many wait for one already')
  }
}

export interface EnginePool {
  /**
   * Waits while every engine is in use, but not for one that starts: its calls do. Throws EnginesBusy, and the signal's
   * reason.
   */
  take(signal?: AbortSignal): Promise<EngineLease>
  /** Whether engines can be started, as far as is known. */
  isServing(): boolean
  stop(): Promise<void>
}

const ENTRY = new URL('./engine.main.ts', import.meta.url)
/** Runs come after queries, and those after the service itself. */
const NICENESS = 10
/** What a process may hold while it works, for each byte its engine may use: beyond 2.6 it is something else. */
const PEAK_SHARE = 3
/** What a process may keep resident between runs, for each byte its engine may use: allocators do not give all back. */
const RESIDENT_SHARE = 1.5
const RESIDENT_BASE_BYTES = 268_435_456
/** One for the pipeline, one for its tests. */
const SPARES = 2
/** When no process can be started, one is tried again after this time. */
const RESTART_MS = 1_000

type RunnerEngine = EngineProcess<EngineRequest, Answers, Fault>

interface Engine {
  process: RunnerEngine
  directory: string
  /** Resolves when the process has ended and its directory is removed. */
  gone: Promise<void>
  spares: Promise<number>[]
  instances: number
  runs: number
  idleSince: number
}

export interface EnginePoolOptions {
  /** Working directories of the processes are made in it. */
  directory: string
  size: EngineSize
  /** Engines in use at once. */
  leasesMax: number
  /** What stands between the engines and the machine. */
  wall: Wall
  log: Log
}

export function makeEnginePool({ directory, size, leasesMax, wall, log }: EnginePoolOptions): EnginePool {
  /** The one used last is at the end: its pages are in memory. */
  const idle: Engine[] = []
  const all = new Set<Engine>()
  /** Each resolves when a process and its directory are gone. */
  const leaving = new Set<Promise<void>>()
  const turns = makeTurns(leasesMax)
  let started = 0
  let isStopped = false
  let isServing = false
  const sweep = setInterval(endIdle, limits.engineIdleMs / 4)
  sweep.unref()
  keepOneWarm()

  async function start(): Promise<Engine> {
    if (isStopped) throw new EngineEnded('the runner stops')
    started += 1
    const own = join(directory, String(started))
    // Nothing comes between this and being known: whoever stops the pool ends it.
    mkdirSync(own, { recursive: true })
    const process: RunnerEngine = new EngineProcess({
      entry: ENTRY,
      directory: own,
      niceness: NICENESS,
      wall,
      residentBytesMax: RESIDENT_BASE_BYTES + PEAK_SHARE * size.memoryLimitBytes,
      isFromEngine,
      isAnswerOf,
      errorOf: (fault) => new EngineFault(fault),
    })
    const gone = process.exited.then(() => rm(own, { recursive: true, force: true }))
    leaving.add(gone)
    void gone.finally(() => leaving.delete(gone))
    const engine: Engine = {
      process,
      directory: own,
      gone,
      spares: [],
      instances: 0,
      runs: 0,
      idleSince: performance.now(),
    }
    all.add(engine)
    void process.exited.then((how) => forget(engine, how))
    process.ready.then(
      () => {
        isServing = true
      },
      () => {
        isServing = false
      },
    )
    prepareSpares(engine)
    return engine
  }

  function prepareSpares(engine: Engine): void {
    while (engine.spares.length < SPARES) {
      // One after the other: the first is there sooner.
      const before = engine.spares.at(-1) ?? Promise.resolve()
      const spare = before.then(() => prepare(engine))
      // Whoever takes it learns of the failure.
      spare.catch(() => {})
      engine.spares.push(spare)
    }
  }

  async function prepare(engine: Engine): Promise<number> {
    engine.instances += 1
    const number = engine.instances
    await engine.process.ready
    await engine.process.call({ kind: 'prepare', number, ...size })
    return number
  }

  function forget(engine: Engine, how: string): void {
    all.delete(engine)
    const place = idle.indexOf(engine)
    if (place >= 0) {
      idle.splice(place, 1)
      if (!isStopped) log.warn('an idle engine process ended', { how, pid: engine.process.pid })
    }
    keepOneWarm()
  }

  function keepOneWarm(): void {
    if (isStopped || all.size > 0) return
    startIdle().catch((error: unknown) => {
      if (isStopped) return
      log.error('an engine process could not be started', { error: String(error) })
      setTimeout(keepOneWarm, RESTART_MS).unref()
    })
  }

  async function startIdle(): Promise<void> {
    const engine = await start()
    await engine.process.ready
    idle.push(engine)
  }

  function endIdle(): void {
    const before = performance.now() - limits.engineIdleMs
    for (const engine of idle.filter(({ idleSince }) => idleSince < before)) {
      if (all.size === 1) return
      leaveIdle(engine)
    }
  }

  function leaveIdle(engine: Engine): void {
    idle.splice(idle.indexOf(engine), 1)
    all.delete(engine)
    engine.process.end('it is not needed')
  }

  function isFit({ process, runs }: Engine): boolean {
    const residentLimit = RESIDENT_BASE_BYTES + RESIDENT_SHARE * size.memoryLimitBytes
    return !process.hasEnded && runs < limits.runsPerEngine && process.residentBytes < residentLimit
  }

  function leaseOf(engine: Engine): EngineLease {
    const { process } = engine
    const used: number[] = []
    let isSpoilt = false
    return {
      pid: process.pid,
      directory: engine.directory,
      async instance() {
        const number = await (engine.spares.shift() ?? prepare(engine))
        used.push(number)
        return number
      },
      async call(request, signal) {
        try {
          return await process.call(request, signal)
        } catch (error) {
          // Memory once used up may be in pieces: the next run gets a process of its own.
          if (error instanceof EngineFault && error.kind === 'out_of_memory') isSpoilt = true
          throw error
        }
      },
      async release() {
        try {
          for (const number of used)
            await process.call({ kind: 'close', number }, AbortSignal.timeout(limits.closeMs))
        } catch {
          // What cannot be closed would live on.
          isSpoilt = true
        }
        if (isSpoilt || !isFit(engine)) {
          process.end('it is not fit for another run')
          await process.exited
        } else {
          engine.idleSince = performance.now()
          prepareSpares(engine)
          idle.push(engine)
        }
        turns.leave()
      },
    }
  }

  return {
    async take(signal) {
      await turns.enter(signal)
      try {
        let engine = idle.pop()
        while (engine?.process.hasEnded) engine = idle.pop()
        engine ??= await start()
        engine.runs += 1
        return leaseOf(engine)
      } catch (error) {
        turns.leave()
        throw error
      }
    },
    isServing: () => isServing && !isStopped,
    async stop() {
      isStopped = true
      clearInterval(sweep)
      for (const { process } of all) process.end('the runner stops')
      await Promise.all(leaving)
    },
  }
}

/** Lets so many in at once; the others wait in the order they came. */
export function makeTurns(max: number) {
  const waiting: (() => void)[] = []
  let inside = 0
  return {
    /** Throws EnginesBusy, and the signal's reason. */
    async enter(signal?: AbortSignal): Promise<void> {
      signal?.throwIfAborted()
      if (inside < max) {
        inside += 1
        return
      }
      if (waiting.length >= limits.enginesAwaited) throw new EnginesBusy()
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      const giveUp = () => {
        const place = waiting.indexOf(resolve)
        if (place < 0) return
        waiting.splice(place, 1)
        reject(signal?.reason)
      }
      waiting.push(resolve)
      signal?.addEventListener('abort', giveUp, { once: true })
      await promise
      signal?.removeEventListener('abort', giveUp)
    },
    /** The place goes to the one who has waited longest. */
    leave(): void {
      const next = waiting.shift()
      if (next === undefined) inside -= 1
      else next()
    },
  }
}
