import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync } from 'node:fs'
import { link, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { EngineSize } from '../../../lake/engine/instance.ts'
import { type KeptEngine, makeEngineKeeper } from '../../engine/engine-keeper.ts'
import { EngineProcess } from '../../engine/engine-process.ts'
import { makeTurns as makeAnyTurns, type Turns } from '../../engine/turns.ts'
import type { Log } from '../../log.ts'
import type { Wall } from '../../sandbox/wall.ts'
import { clearAway, removeTree } from '../../scratch.ts'
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

// Engine processes, kept warm and used by one run at a time. Each holds fresh instances of the engine, prepared while
// nobody waits, which are used once and thrown away; and one that is kept for runs whose texts leave nothing behind.

/** An engine process, for one run. */
export interface EngineLease {
  pid: number
  /** Of the process alone, absolute: whoever has the lease makes a directory of the run in it, and removes that. */
  directory: string
  /** The number of a fresh instance, not open yet. */
  instance(): Promise<number>
  /** The instance that is kept from run to run. What goes wrong in it, other than before it works, ends it with the lease. */
  kept(): Promise<KeptInstance>
  /** As EngineProcess.call. */
  call<R extends EngineRequest>(request: R, signal?: AbortSignal): Promise<AnswerOf<R['kind']>>
  /** Closes an instance before the others are. Throws as EngineProcess.call: giving the process back tries it again. */
  close(number: number): Promise<void>
  /**
   * Gives the process back, or ends it if it is not fit for another run. Resolves when nothing of the run is left. `clear`
   * takes away its files: nothing works on them any more, and nobody else has the process yet.
   */
  release(clear?: () => Promise<void>): Promise<void>
  /**
   * As `release`, and takes a process that is fit in its place, before anybody who waits for one. Throws EngineEnded; then it
   * was released.
   */
  exchange(clear?: () => Promise<void>): Promise<EngineLease>
}

export interface KeptInstance {
  number: number
  /** Gives it another file to read, until the lease ends. Answers where it finds it. Throws where that cannot be. */
  link(path: string): Promise<string>
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
  /** The number of the instance that is kept; null: the last one was ended. */
  kept: Promise<number> | null
  /** Where that one finds files which are not the process's own; it cannot write there. */
  inputs: string
  spares: Promise<number>[]
  instances: number
  runs: number
}
type Engine = KeptEngine<RunnerEngine, Known>

export interface EnginePoolOptions {
  /** Working directories of the processes are made in it. */
  directory: string
  /** Directories of what they only read are made in it. */
  inputs: string
  size: EngineSize
  /** Engines in use at once. */
  leasesMax: number
  /** What stands between the engines and the machine. */
  wall: Wall
  /** Tests may give what is cancelled more time to stop. */
  cancelGraceMs?: number
  log: Log
}

export function makeEnginePool({
  directory,
  inputs,
  size,
  leasesMax,
  wall,
  cancelGraceMs,
  log,
}: EnginePoolOptions): EnginePool {
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
        cancelGraceMs,
        isFromEngine,
        isAnswerOf,
        errorOf: (fault) => new EngineFault(fault),
      })
      const known: Known = {
        kept: null,
        inputs: join(inputs, basename(own)),
        spares: [],
        instances: 0,
        runs: 0,
      }
      mkdirSync(known.inputs, { recursive: true })
      void process.exited.then(() => clearAway(known.inputs, log))
      prepareAhead({ process, known, directory: own })
      return { process, ready: process.ready, known }
    },
    log,
  })

  function prepareAhead(engine: Omit<Engine, 'ready'>): void {
    const { spares } = engine.known
    if (engine.known.kept === null) {
      engine.known.kept = prepareKept(engine)
      engine.known.kept.catch(() => {})
    }
    while (spares.length < SPARES) {
      // One after the other: the first is there sooner.
      const before = spares.at(-1) ?? engine.known.kept
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

  async function prepareKept({ process, known, directory }: Omit<Engine, 'ready'>): Promise<number> {
    const number = await prepare({ process, known })
    await process.call({
      kind: 'open',
      number,
      tempDirectory: spillOf({ directory }, number),
      allowedDirectories: [directory, known.inputs],
      allowedPaths: [],
      keepsNoFiles: true,
      tables: [],
    })
    return number
  }

  function isFit({ process, known }: Engine): boolean {
    const residentLimit = RESIDENT_BASE_BYTES + RESIDENT_SHARE * size.memoryLimitBytes
    return !process.hasEnded && known.runs < limits.runsPerEngine && process.residentBytes < residentLimit
  }

  function leaseOf(engine: Engine): EngineLease {
    const { process, known } = engine
    const used = new Set<number>()
    /** What stands for a file that is not the process's own. */
    const links = new Map<string, string>()
    /** The one that is kept, once it was asked for. */
    let kept: number | null = null
    let isKeptSpoilt = false
    let isReleased = false
    let isSpoilt = false

    /** A process that cannot make one is for nobody else. */
    const made = (number: Promise<number>): Promise<number> =>
      number.catch((error: unknown) => {
        isSpoilt = true
        throw error
      })

    async function close(number: number): Promise<void> {
      await process.call({ kind: 'close', number }, AbortSignal.timeout(limits.closeMs))
      used.delete(number)
    }

    async function leave(number: number): Promise<void> {
      // One that has spilled may hold on to more than it needs.
      if (!isKeptSpoilt && !existsSync(spillOf(engine, number))) {
        await process.call({ kind: 'leave', number }, AbortSignal.timeout(limits.closeMs))
        return
      }
      known.kept = null
      await close(number)
      await removeTree(spillOf(engine, number))
    }

    async function giveBack(clear?: () => Promise<void>): Promise<void> {
      isReleased = true
      try {
        if (kept !== null) await leave(kept)
        for (const number of used) await close(number)
        await Promise.all(Array.from(links.keys(), (place) => rm(place, { force: true })))
      } catch {
        // What cannot be closed would live on.
        isSpoilt = true
      }
      await clear?.().catch(() => {
        isSpoilt = true
      })
      if (isSpoilt || !isFit(engine)) {
        process.end('it is not fit for another run')
        await process.exited
      } else {
        prepareAhead(engine)
        keeper.putBack(engine)
      }
    }

    return {
      pid: process.pid,
      directory: engine.directory,
      async instance() {
        const number = await made(engine.known.spares.shift() ?? prepare(engine))
        used.add(number)
        return number
      },
      async kept() {
        known.kept ??= prepareKept(engine)
        const number = await made(known.kept)
        kept = number
        return {
          number,
          async link(path) {
            // What was said of a name before is never about this file.
            const place = join(known.inputs, `in-${randomUUID()}.parquet`)
            links.set(place, path)
            await link(path, place)
            return place
          },
        }
      },
      async call(request, signal) {
        if (isReleased) throw new Error('the engine has been given back: another run may have it')
        try {
          return await process.call(request, signal)
        } catch (error) {
          // Memory once used up may be in pieces, as may what a mistake of the engine leaves: the next run gets a process of its own.
          if (error instanceof EngineFault && error.hasSpoilt) isSpoilt = true
          if (request.number === kept && !isBeforeWork(error)) isKeptSpoilt = true
          throw error instanceof EngineFault ? withOwnPlaces(error, links) : error
        }
      },
      close,
      async release(clear) {
        await giveBack(clear)
        turns.leave()
      },
      async exchange(clear) {
        await giveBack(clear)
        return taken()
      },
    }
  }

  /** For whoever has a turn, which ends where there is none. */
  function taken(): EngineLease {
    try {
      const engine = keeper.take()
      engine.known.runs += 1
      return leaseOf(engine)
    } catch (error) {
      turns.leave()
      throw error
    }
  }

  return {
    async take(signal) {
      await turns.enter(signal)
      return taken()
    },
    isServing: keeper.isServing,
    stop: () => keeper.stop('the runner stops'),
  }
}

/** Where an instance that is kept spills. */
const spillOf = ({ directory }: Pick<Engine, 'directory'>, number: number) =>
  join(directory, `spill-${number}`)

/** The text was not taken, so nothing has come of it. */
const isBeforeWork = (error: unknown): boolean =>
  error instanceof EngineFault &&
  (error.kind === 'refused' || error.kind === 'syntax' || error.kind === 'binder')

/** What an engine says of links is about the files that they stand for. */
function withOwnPlaces(
  { kind, message, line }: EngineFault,
  links: ReadonlyMap<string, string>,
): EngineFault {
  let told = message
  for (const [place, path] of links) told = told.replaceAll(place, () => path)
  return new EngineFault({ kind, message: told, ...(line !== undefined && { line }) })
}

/** Work takes turns: so much at once. Entering throws EnginesBusy, and the signal's reason. */
export const makeTurns = (max: number): Turns =>
  makeAnyTurns({
    max,
    waitingMax: limits.enginesAwaited,
    full: () => new EnginesBusy(),
    gaveUp: (signal) => signal.reason,
  })
