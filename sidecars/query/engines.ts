import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { isTracing, span } from '../../ground/telemetry/spans.ts'
import type { EngineAccess, EngineSize } from '../../lake/engine/instance.ts'
import { type Log, messageOf } from '../core/log.ts'
import { type Cost, type ProcessUsage, usageAttributes, usedSince } from '../core/process-usage.ts'
import { type EngineMemory, EnginePool, type PooledEngine } from '../engine/engine-pool.ts'
import { EngineProcess } from '../engine/engine-process.ts'
import type { EngineSandbox } from '../sandbox/engine-sandbox.ts'
import {
  type AnswerOf,
  EngineFault,
  type EngineRequest,
  type Fault,
  isAnswerOf,
  isFromEngine,
  type Plan,
  type QueryAnswers,
  type Run,
  type TableView,
  type ViewName,
} from './engine-messages.ts'
import { limits } from './limits.ts'
import { makeQuerySlots, NoSlot } from './turns.ts'

// A pool of warm engine processes. Each executes one query at a time. An engine that cannot be trusted any more is ended.

export type Statement = AnswerOf<'check'>

/** A table in one state. */
export interface DefinedTable extends TableView {
  /** Identifies the state. A table that is already defined in this state is not defined again. */
  state: string
}

/** An engine that is reserved for one query. */
export interface EngineLease {
  check(sql: string, signal: AbortSignal): Promise<Statement>
  /** The filters of a checked statement on each of its tables. Null: every file may be needed. */
  plan(plan: Plan, signal: AbortSignal): Promise<AnswerOf<'plan'>>
  /** Whether this engine has the table in that state. */
  has(view: ViewName, state: string): boolean
  /** The tables of this engine that `isKept` rejects. */
  others(isKept: (key: string) => boolean): ViewName[]
  run(
    query: Omit<Run, 'define'> & { define: readonly DefinedTable[] },
    signal: AbortSignal,
  ): Promise<AnswerOf<'run'>>
  /** The cost since the begin of the lease. The peak of memory is not measured. */
  cost(): Cost
  /** Returns the engine to the pool, or ends an engine that is unfit for another query. */
  release(): void
}

export interface Engines {
  /** Acquires an engine. Callers wait in order of arrival while every engine works. Throws NoSlot. */
  acquire(signal: AbortSignal): Promise<EngineLease>
  /** Whether engines can be started, according to the last attempts. */
  isServing(): boolean
  /** Memory of the processes now. */
  memory(): EngineMemory
  stop(): Promise<void>
}

/** Peak memory of a process per byte that its engine may use, in addition to the base. */
const RESIDENT_SHARE = 2.6
const RESIDENT_BASE_BYTES = 402_653_184

const ENTRY = new URL('./engine.main.ts', import.meta.url)
/** Queries have a lower priority than the service and a higher one than pipelines. */
const NICENESS = 5

type QueryProcess = EngineProcess<EngineRequest, QueryAnswers, Fault>

interface KnownTable {
  view: ViewName
  state: string
  characters: number
}

/** The service's record of one engine. */
interface EngineRecord {
  tables: Map<string, KnownTable>
  characters: number
  queries: number
}

type QueryEngine = PooledEngine<QueryProcess, EngineRecord>
type Pool = EnginePool<QueryProcess, EngineRecord>

interface EnginesOptions {
  /** The directory that contains the working directories of the processes. */
  directory: string
  size: EngineSize
  /** The lake's files, which every engine may read. */
  access: Omit<EngineAccess, 'tempDirectory'>
  concurrency: number
  /** The sandbox between the engines and the machine. */
  sandbox: EngineSandbox
  log: Log
}

/** The key of a table in maps. */
export const viewKey = ({ catalog, schema, name }: ViewName): string => `${catalog}.${schema}.${name}`

export function makeEngines(options: EnginesOptions): Engines {
  const { directory, concurrency, log } = options
  const pool: Pool = new EnginePool({
    directory,
    idleMs: limits.engineIdleMs,
    turns: makeQuerySlots(concurrency),
    start: (own) => startEngine(own, options),
    log,
  })
  return {
    async acquire(signal) {
      const asNoSlot = (error: unknown) =>
        error instanceof NoSlot
          ? error
          : new NoSlot(`query engine not started: ${messageOf(error)}`, { cause: error })
      const engine = await pool.acquire(signal).catch((error: unknown) => {
        throw asNoSlot(error)
      })
      try {
        await engine.ready
        return new Lease(engine, pool)
      } catch (error) {
        await pool.release(engine, false)
        throw asNoSlot(error)
      }
    },
    isServing: () => pool.isServing,
    memory: () => pool.memory(),
    stop: () => pool.stop('the query service is stopping'),
  }
}

function startEngine(
  directory: string,
  { size, access, sandbox }: EnginesOptions,
): Omit<QueryEngine, 'directory'> {
  const process: QueryProcess = new EngineProcess({
    entry: ENTRY,
    directory,
    niceness: NICENESS,
    sandbox,
    residentBytesMax: () => RESIDENT_BASE_BYTES + RESIDENT_SHARE * size.memoryLimitBytes,
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
  return { process, ready: open(), record: { tables: new Map(), characters: 0, queries: 0 } }
}

class Lease implements EngineLease {
  readonly #engine: QueryEngine
  readonly #pool: Pool
  readonly #before: ProcessUsage
  #isFit = true

  constructor(engine: QueryEngine, pool: Pool) {
    this.#engine = engine
    this.#pool = pool
    this.#before = engine.process.usage()
  }

  check(sql: string, signal: AbortSignal): Promise<Statement> {
    return this.#trusted(this.#engine.process.call({ kind: 'check', sql }, signal))
  }

  plan(plan: Plan, signal: AbortSignal): Promise<AnswerOf<'plan'>> {
    return this.#trusted(this.#engine.process.call({ kind: 'plan', ...plan }, signal))
  }

  has(view: ViewName, state: string): boolean {
    return this.#engine.record.tables.get(viewKey(view))?.state === state
  }

  others(isKept: (key: string) => boolean): ViewName[] {
    return [...this.#engine.record.tables].filter(([key]) => !isKept(key)).map(([, { view }]) => view)
  }

  run(
    { define, drop, ...query }: Omit<Run, 'define'> & { define: readonly DefinedTable[] },
    signal: AbortSignal,
  ): Promise<AnswerOf<'run'>> {
    const { record, process } = this.#engine
    record.queries += 1
    for (const view of drop) this.#forget(view)
    for (const { state, ...view } of define) {
      this.#forget(view)
      const characters = view.from.length + (view.byName?.from.length ?? 0)
      record.characters += characters
      record.tables.set(viewKey(view), { view, state, characters })
    }
    const request = { kind: 'run' as const, ...query, drop, define: define.map(viewIn) }
    const attributes = { 'db.system.name': 'duckdb', 'db.operation.name': 'run' }
    const call = span('duckdb run', attributes, async (active) => {
      const before = isTracing() ? process.usage() : null
      const answer = await process.call(request, signal)
      if (before !== null) active.set(usageAttributes(usedSince(before, process.usage())))
      return answer
    })
    return this.#trusted(call).catch((error: unknown) => {
      if (error instanceof EngineFault && error.kind === 'view')
        for (const view of define) if (view.storedView !== undefined) this.#forget(view)
      throw error
    })
  }

  cost(): Cost {
    return { ...usedSince(this.#before, this.#engine.process.usage()), peakMemoryBytes: 0 }
  }

  release(): void {
    const { record, process } = this.#engine
    const isWorn =
      record.queries >= limits.queriesPerEngine || record.characters > limits.tableCharactersPerEngine
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
    const { record } = this.#engine
    record.characters -= record.tables.get(viewKey(view))?.characters ?? 0
    record.tables.delete(viewKey(view))
  }
}

const viewIn = ({ state: _, ...view }: DefinedTable): TableView => view

/** After these faults the engine's definitions are uncertain, or its memory may be corrupt. */
const SPOILING: ReadonlySet<EngineFault['kind']> = new Set(['out_of_memory', 'unprepared', 'broken'])

/** A call that failed in any other way may have stopped anywhere, so the engine's state is unknown. */
const isSpoiling = (error: unknown): boolean => !(error instanceof EngineFault) || SPOILING.has(error.kind)
