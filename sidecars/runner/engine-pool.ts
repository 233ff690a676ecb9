import type { EngineSize } from '../../lake/engine/instance.ts'
import { type KeptEngine, makeEngineKeeper } from '../engine-keeper.ts'
import { EngineProcess } from '../engine-process.ts'
import type { Log } from '../log.ts'
import type { Wall } from '../sandbox/wall.ts'
import { makeTurns as makeAnyTurns, type Turns } from '../turns.ts'
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
  /** Closes an instance before the others are. Throws as EngineProcess.call: giving the process back tries it again. */
  close(number: number): Promise<void>
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
type RunnerEngine = EngineProcess<EngineRequest, Answers, Fault>

/** What is known of an engine. */
interface Known {
  spares: Promise<number>[]
  instances: number
  runs: number
}
type Engine = KeptEngine<RunnerEngine, Known>

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
  const turns = makeTurns(leasesMax)
  const keeper = makeEngineKeeper<RunnerEngine, Known>({
    directory,
    idleMs: limits.engineIdleMs,
    start(own) {
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
      const known: Known = { spares: [], instances: 0, runs: 0 }
      prepareSpares({ process, known })
      return { process, ready: process.ready, known }
    },
    log,
  })

  function prepareSpares(engine: Pick<Engine, 'process' | 'known'>): void {
    const { spares } = engine.known
    while (spares.length < SPARES) {
      // One after the other: the first is there sooner.
      const before = spares.at(-1) ?? Promise.resolve()
      const spare = before.then(() => prepare(engine))
      // Whoever takes it learns of the failure.
      spare.catch(() => {})
      spares.push(spare)
    }
  }

  async function prepare({ process, known }: Pick<Engine, 'process' | 'known'>): Promise<number> {
    known.instances += 1
    const number = known.instances
    await process.ready
    await process.call({ kind: 'prepare', number, ...size })
    return number
  }

  function isFit({ process, known }: Engine): boolean {
    const residentLimit = RESIDENT_BASE_BYTES + RESIDENT_SHARE * size.memoryLimitBytes
    return !process.hasEnded && known.runs < limits.runsPerEngine && process.residentBytes < residentLimit
  }

  function leaseOf(engine: Engine): EngineLease {
    const { process } = engine
    const used = new Set<number>()
    let isSpoilt = false

    async function close(number: number): Promise<void> {
      await process.call({ kind: 'close', number }, AbortSignal.timeout(limits.closeMs))
      used.delete(number)
    }

    return {
      pid: process.pid,
      directory: engine.directory,
      async instance() {
        const number = await (engine.known.spares.shift() ?? prepare(engine))
        used.add(number)
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
      close,
      async release() {
        try {
          for (const number of used) await close(number)
        } catch {
          // What cannot be closed would live on.
          isSpoilt = true
        }
        if (isSpoilt || !isFit(engine)) {
          process.end('it is not fit for another run')
          await process.exited
        } else {
          prepareSpares(engine)
          keeper.putBack(engine)
        }
        turns.leave()
      },
    }
  }

  return {
    async take(signal) {
      await turns.enter(signal)
      try {
        const engine = keeper.take()
        engine.known.runs += 1
        return leaseOf(engine)
      } catch (error) {
        turns.leave()
        throw error
      }
    },
    isServing: keeper.isServing,
    stop: () => keeper.stop('the runner stops'),
  }
}

/** Work takes turns: so much at once. Entering throws EnginesBusy, and the signal's reason. */
export const makeTurns = (max: number): Turns =>
  makeAnyTurns({
    max,
    waitingMax: limits.enginesAwaited,
    full: () => new EnginesBusy(),
    gaveUp: (signal) => signal.reason,
  })
