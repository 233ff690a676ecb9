import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { EngineAccess, EngineSize } from '../../lake/engine/instance.ts'
import { EngineProcess } from '../engine-process.ts'
import { type Log, messageOf } from '../log.ts'
import type { Wall } from '../sandbox/wall.ts'
import {
  type AnswerOf,
  type Answers,
  EngineFault,
  type EngineRequest,
  type Fault,
  isAnswerOf,
  isFromEngine,
  type Run,
  type TableView,
  type ViewName,
} from './engine-messages.ts'
import { limits } from './limits.ts'
import { makeTurns, NoTurn } from './turns.ts'

// Engine processes, kept warm, each working on one query at a time. An engine that cannot be trusted any more is ended.

export type Statement = AnswerOf<'check'>

/** A table as of one state of it. */
export interface DefinedTable extends TableView {
  /** Names the state: a table whose state is defined already is not defined again. */
  state: string
}

/** An engine, for one query. */
export interface EngineLease {
  check(sql: string, signal: AbortSignal): Promise<Statement>
  /** Whether this engine has the table in that state. */
  has(view: ViewName, state: string): boolean
  /** What it has and `isKept` does not want. */
  others(isKept: (key: string) => boolean): ViewName[]
  run(
    query: Omit<Run, 'define'> & { define: readonly DefinedTable[] },
    signal: AbortSignal,
  ): Promise<AnswerOf<'run'>>
  /** Gives the engine back, or ends it if it is not fit for another query. */
  release(): void
}

export interface Engines {
  /** Waits, in the order of asking, while every engine is at work. Throws NoTurn. */
  take(signal: AbortSignal): Promise<EngineLease>
  /** Whether engines can be started, as far as is known. */
  isServing(): boolean
  stop(): Promise<void>
}

/** Peak memory of a process for each byte its engine may use, over what it needs anyway. */
const RESIDENT_SHARE = 2.6
const RESIDENT_BASE_BYTES = 402_653_184
/** When no process can be started, one is tried again after this time. */
const RESTART_MS = 1_000

const ENTRY = new URL('./engine.main.ts', import.meta.url)
/** Queries come after the service itself, and before pipelines. */
const NICENESS = 5

type QueryProcess = EngineProcess<EngineRequest, Answers, Fault>

interface Engine {
  process: QueryProcess
  tables: Map<string, { view: ViewName; state: string; characters: number }>
  characters: number
  queries: number
  idleSince: number
  isOpen: boolean
}

export interface EnginesOptions {
  /** Working directories of the processes are made in it. */
  directory: string
  size: EngineSize
  /** What every engine may read: the lake's files. */
  access: Omit<EngineAccess, 'tempDirectory'>
  concurrency: number
  /** What stands between the engines and the machine. */
  wall: Wall
  log: Log
}

/** One name for a table, to key maps with. */
export const viewKey = ({ catalog, schema, name }: ViewName): string => `${catalog}.${schema}.${name}`

export function makeEngines({ directory, size, access, concurrency, wall, log }: EnginesOptions): Engines {
  /** The one used last is at the end: its pages are in memory. */
  const idle: Engine[] = []
  const all = new Set<Engine>()
  const turns = makeTurns(concurrency)
  let started = 0
  let isStopped = false
  let isServing = false
  const sweep = setInterval(endIdle, limits.engineIdleMs / 4)
  sweep.unref()
  keepOneWarm()

  async function start(): Promise<Engine> {
    started += 1
    const own = join(directory, String(started))
    const tempDirectory = join(own, 'temp')
    await mkdir(tempDirectory, { recursive: true })
    const process: QueryProcess = new EngineProcess({
      entry: ENTRY,
      directory: own,
      niceness: NICENESS,
      wall,
      residentBytesMax: RESIDENT_BASE_BYTES + RESIDENT_SHARE * size.memoryLimitBytes,
      isFromEngine,
      isAnswerOf,
      errorOf: (fault) => new EngineFault(fault),
    })
    const engine: Engine = {
      process,
      tables: new Map(),
      characters: 0,
      queries: 0,
      idleSince: 0,
      isOpen: false,
    }
    all.add(engine)
    void process.exited.then(async (how) => {
      forget(engine, how)
      await rm(own, { recursive: true, force: true })
    })
    try {
      await process.ready
      await process.call(
        { kind: 'open', ...size, ...access, tempDirectory },
        AbortSignal.timeout(limits.engineStartMs),
      )
      engine.isOpen = true
      isServing = true
    } catch (error) {
      isServing = false
      process.end('it could not be opened')
      throw error
    }
    return engine
  }

  function forget(engine: Engine, how: string): void {
    all.delete(engine)
    const place = idle.indexOf(engine)
    if (place >= 0) {
      idle.splice(place, 1)
      if (!isStopped) log.warn('an idle engine process ended', { how, pid: engine.process.pid })
    }
    // One that could not be opened is tried again by whoever started it.
    if (engine.isOpen) keepOneWarm()
  }

  function keepOneWarm(): void {
    if (isStopped || all.size > 0) return
    start().then(putBack, (error: unknown) => {
      if (isStopped) return
      log.error('an engine process could not be started', { error: messageOf(error) })
      setTimeout(keepOneWarm, RESTART_MS).unref()
    })
  }

  function putBack(engine: Engine): void {
    engine.idleSince = performance.now()
    idle.push(engine)
  }

  function endIdle(): void {
    const before = performance.now() - limits.engineIdleMs
    for (const engine of idle.filter(({ idleSince }) => idleSince < before)) {
      if (all.size === 1) return
      idle.splice(idle.indexOf(engine), 1)
      all.delete(engine)
      engine.process.end('it was idle')
    }
  }

  function leaseOf(engine: Engine): EngineLease {
    const { process, tables } = engine
    let isFit = true

    /** What was stopped, nobody knows how far it went. */
    async function trusted<T>(call: Promise<T>): Promise<T> {
      try {
        return await call
      } catch (error) {
        if (!(error instanceof EngineFault) || SPOILING.has(error.kind)) isFit = false
        throw error
      }
    }

    return {
      check: (sql, signal) => trusted(process.call({ kind: 'check', sql }, signal)),
      has: (view, state) => tables.get(viewKey(view))?.state === state,
      others: (isKept) => [...tables].filter(([key]) => !isKept(key)).map(([, { view }]) => view),
      async run({ define, drop, ...query }, signal) {
        engine.queries += 1
        for (const view of drop) {
          engine.characters -= tables.get(viewKey(view))?.characters ?? 0
          tables.delete(viewKey(view))
        }
        for (const { state, ...view } of define) {
          const characters = view.from.length
          engine.characters += characters - (tables.get(viewKey(view))?.characters ?? 0)
          tables.set(viewKey(view), { view, state, characters })
        }
        const views = define.map(({ state: _, ...view }) => view)
        return trusted(process.call({ kind: 'run', ...query, drop, define: views }, signal))
      },
      release() {
        const isWorn =
          engine.queries >= limits.queriesPerEngine || engine.characters > limits.tableCharactersPerEngine
        if (isFit && !isWorn && !process.hasEnded) putBack(engine)
        else process.end('it has done its work')
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
        return leaseOf(engine ?? (await start()))
      } catch (error) {
        turns.leave()
        setTimeout(keepOneWarm, RESTART_MS).unref()
        throw new NoTurn(`an engine could not be started: ${messageOf(error)}`, { cause: error })
      }
    },
    isServing: () => isServing && !isStopped,
    async stop() {
      isStopped = true
      clearInterval(sweep)
      const processes = Array.from(all, ({ process }) => process)
      for (const process of processes) process.end('the service stops')
      await Promise.all(processes.map(({ exited }) => exited))
    },
  }
}

/** What the engine knows is uncertain after these, or its memory in pieces. */
const SPOILING: ReadonlySet<EngineFault['kind']> = new Set(['out_of_memory', 'unprepared', 'broken'])
