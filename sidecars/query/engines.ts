import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { EngineAccess, EngineSize } from '../../lake/engine/instance.ts'
import { type Log, messageOf } from '../core/log.ts'
import { EnginePool, type PooledEngine } from '../engine/engine-pool.ts'
import { EngineProcess } from '../engine/engine-process.ts'
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

const ENTRY = new URL('./engine.main.ts', import.meta.url)
/** Queries come after the service itself, and before pipelines. */
const NICENESS = 5

type QueryProcess = EngineProcess<EngineRequest, Answers, Fault>

interface KnownTable {
  view: ViewName
  state: string
  characters: number
}

/** What is known of an engine. */
interface Known {
  tables: Map<string, KnownTable>
  characters: number
  queries: number
}

type QueryEngine = PooledEngine<QueryProcess, Known>
type Pool = EnginePool<QueryProcess, Known>

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

export function makeEngines(options: EnginesOptions): Engines {
  const { directory, concurrency, log } = options
  const pool: Pool = new EnginePool({
    directory,
    idleMs: limits.engineIdleMs,
    turns: makeTurns(concurrency),
    start: (own) => startEngine(own, options),
    log,
  })
  return {
    async take(signal) {
      const unstarted = (error: unknown) =>
        error instanceof NoTurn
          ? error
          : new NoTurn(`an engine could not be started: ${messageOf(error)}`, { cause: error })
      const engine = await pool.take(signal).catch((error: unknown) => {
        throw unstarted(error)
      })
      try {
        await engine.ready
        return new Lease(engine, pool)
      } catch (error) {
        await pool.release(engine, false)
        throw unstarted(error)
      }
    },
    isServing: () => pool.isServing,
    stop: () => pool.stop('the service stops'),
  }
}

function startEngine(
  directory: string,
  { size, access, wall }: EnginesOptions,
): Omit<QueryEngine, 'directory'> {
  const process: QueryProcess = new EngineProcess({
    entry: ENTRY,
    directory,
    niceness: NICENESS,
    wall,
    residentBytesMax: RESIDENT_BASE_BYTES + RESIDENT_SHARE * size.memoryLimitBytes,
    isFromEngine,
    isAnswerOf,
    errorOf: (fault) => new EngineFault(fault),
  })
  const open = async () => {
    const tempDirectory = join(directory, 'temp')
    mkdirSync(tempDirectory)
    await process.ready
    const late = AbortSignal.timeout(limits.engineStartMs)
    await process.call({ kind: 'open', ...size, ...access, tempDirectory }, late)
  }
  return { process, ready: open(), known: { tables: new Map(), characters: 0, queries: 0 } }
}

class Lease implements EngineLease {
  readonly #engine: QueryEngine
  readonly #pool: Pool
  #isFit = true

  constructor(engine: QueryEngine, pool: Pool) {
    this.#engine = engine
    this.#pool = pool
  }

  check(sql: string, signal: AbortSignal): Promise<Statement> {
    return this.#trusted(this.#engine.process.call({ kind: 'check', sql }, signal))
  }

  has(view: ViewName, state: string): boolean {
    return this.#engine.known.tables.get(viewKey(view))?.state === state
  }

  others(isKept: (key: string) => boolean): ViewName[] {
    return [...this.#engine.known.tables].filter(([key]) => !isKept(key)).map(([, { view }]) => view)
  }

  run(
    { define, drop, ...query }: Omit<Run, 'define'> & { define: readonly DefinedTable[] },
    signal: AbortSignal,
  ): Promise<AnswerOf<'run'>> {
    const { known, process } = this.#engine
    known.queries += 1
    for (const view of drop) this.#forget(view)
    for (const { state, ...view } of define) {
      this.#forget(view)
      const characters = view.from.length
      known.characters += characters
      known.tables.set(viewKey(view), { view, state, characters })
    }
    return this.#trusted(process.call({ kind: 'run', ...query, drop, define: define.map(viewIn) }, signal))
  }

  release(): void {
    const { known, process } = this.#engine
    const isWorn =
      known.queries >= limits.queriesPerEngine || known.characters > limits.tableCharactersPerEngine
    void this.#pool.release(this.#engine, this.#isFit && !isWorn && !process.hasEnded)
  }

  async #trusted<T>(call: Promise<T>): Promise<T> {
    try {
      return await call
    } catch (error) {
      if (isSpoiling(error)) this.#isFit = false
      throw error
    }
  }

  #forget(view: ViewName): void {
    const { known } = this.#engine
    known.characters -= known.tables.get(viewKey(view))?.characters ?? 0
    known.tables.delete(viewKey(view))
  }
}

const viewIn = ({ state: _, ...view }: DefinedTable): TableView => view

/** What the engine knows is uncertain after these, or its memory in pieces. */
const SPOILING: ReadonlySet<EngineFault['kind']> = new Set(['out_of_memory', 'unprepared', 'broken'])

/** What was stopped, nobody knows how far it went. */
const isSpoiling = (error: unknown): boolean => !(error instanceof EngineFault) || SPOILING.has(error.kind)
