import { randomBytes } from 'node:crypto'
import { type ArrowSummary, arrowBytes } from '../../lake/engine/arrow.ts'
import { EngineError } from '../../lake/engine/error.ts'
import { type Engine, openLocked } from '../../lake/engine/instance.ts'
import { plannedTreeOn, type SyntaxTree } from '../../lake/engine/parser.ts'
import { BrokenStream } from '../../lake/engine/rows.ts'
import { checkReadOnly, limited, withOwnLines } from '../../lake/engine/statement.ts'
import { sourceIn } from '../../lake/iceberg/read/by-name.ts'
import { quoteIdentifier } from '../../lake/quote.ts'
import type {
  AnswerOf,
  EngineRequest,
  Plan,
  Run,
  SchemaPath,
  TableView,
  ViewName,
} from './engine-messages.ts'
import { ScanPlanner } from './scan-planner.ts'

// A locked DuckDB instance that answers one query after another. It receives only read-only statements, so `clear` removes
// every trace of a query. Tables stay defined, because the next query is likely to use the same ones.

/** The tables of a query could not be defined, so the engine's definitions are uncertain. */
export class Unprepared extends Error {}

/** A stored view does not bind to its tables. The message is for the author of the query. */
export class UnboundView extends Error {}

/** The number of rows that the engine computes at a time. */
const CHUNK_ROWS = 2_048

/** The engine's own catalog, which is empty. */
const NOWHERE = 'memory'

export class QueryEngine {
  readonly #engine: Engine
  readonly #tree: SyntaxTree
  readonly #planner: ScanPlanner
  readonly #schemas = new Map<string, SchemaPath>()
  readonly #catalogs = new Set<string>()
  #inUse = NOWHERE

  private constructor(engine: Engine, tree: SyntaxTree, planner: ScanPlanner) {
    this.#engine = engine
    this.#tree = tree
    this.#planner = planner
  }

  static async open(request: Extract<EngineRequest, { kind: 'open' }>): Promise<QueryEngine> {
    const engine = await openLocked(request)
    const planner = new ScanPlanner(request.tempDirectory)
    return new QueryEngine(engine, await plannedTreeOn(engine.connection), planner)
  }

  check(sql: string): Promise<AnswerOf<'check'>> {
    return checkReadOnly(this.#tree, sql)
  }

  plan(request: Plan): Promise<AnswerOf<'plan'>> {
    return this.#planner.plan(request)
  }

  async run({ statement, catalog, define, drop, places, ...size }: Run): Promise<AnswerOf<'run'>> {
    const tables: TableView[] = []
    for (const view of define)
      if (view.storedView === undefined) tables.push({ ...view, from: await sourceIn(this.#engine, view) })
    const statements = [
      ...drop.map((view) => `DROP VIEW IF EXISTS ${nameOf(view)}`),
      ...this.#detachUnused(places),
      ...define.flatMap((view) => this.#schemaStatements(view)),
      ...tables.map(definitionOf),
      ...this.#use(catalog ?? NOWHERE),
    ]
    await this.#prepare(statements)
    await this.#defineViews(define.filter(({ storedView }) => storedView !== undefined))
    return this.#answer(statement, size)
  }

  async #prepare(statements: readonly string[]): Promise<void> {
    if (statements.length === 0) return
    await this.#engine.run(statements.join(';')).catch((error: unknown) => {
      throw new Unprepared(error instanceof Error ? error.message : String(error), { cause: error })
    })
  }

  /** Defines stored views in order. Removes all of them when one does not bind. */
  async #defineViews(views: readonly TableView[]): Promise<void> {
    for (const view of views) {
      try {
        await this.#engine.run(definitionOf(view))
      } catch (error) {
        if (!(error instanceof EngineError) || error.kind !== 'binder')
          throw new Unprepared(error instanceof Error ? error.message : String(error), { cause: error })
        await this.#prepare(views.map((each) => `DROP VIEW IF EXISTS ${nameOf(each)}`))
        throw new UnboundView(`view ${view.storedView} cannot be read: ${error.message}`, { cause: error })
      }
    }
  }

  /** Removes the only state that a query can leave: the seed of random numbers. */
  async clear({ setsSeed }: { setsSeed: boolean }): Promise<void> {
    if (!setsSeed) return
    const seed = randomBytes(4).readUInt32LE() / 2 ** 32
    await this.#engine.run(`SELECT setseed(${seed})`)
  }

  interrupt(): void {
    this.#engine.interrupt()
    this.#planner.interrupt()
  }

  /**
   * Returns the rows of a statement. Few rows are computed in one call. Many rows are streamed, because the engine's memory
   * limit does not cover a materialized result. A broken stream does not report its cause, so the statement is executed once
   * more to learn it.
   */
  async #answer(
    statement: Run['statement'],
    size: Pick<Run, 'rowsLimit' | 'bytesLimit' | 'jsonBytesMax'>,
  ): Promise<AnswerOf<'run'>> {
    // One more row shows whether the result was truncated.
    const sql = limited(statement, size.rowsLimit + 1)
    try {
      if (size.rowsLimit < CHUNK_ROWS) return answerOf(await arrowBytes(await this.#engine.run(sql), size))
      const stream = await this.#engine.stream(sql)
      return answerOf(
        await arrowBytes(stream, size).catch(async (error: unknown) => {
          if (error instanceof BrokenStream) await this.#engine.run(sql)
          throw error
        }),
      )
    } catch (error) {
      throw withOwnLines(error, statement)
    }
  }

  #schemaStatements({ catalog, schema }: ViewName): string[] {
    const statements: string[] = []
    if (!this.#catalogs.has(catalog)) statements.push(`ATTACH ':memory:' AS ${quoteIdentifier(catalog)}`)
    this.#catalogs.add(catalog)
    const path = pathOf({ catalog, schema })
    if (!this.#schemas.has(path)) statements.push(`CREATE SCHEMA ${path}`)
    this.#schemas.set(path, { catalog, schema })
    return statements
  }

  /** Removes the catalogs and schemas that are not in this list. */
  #detachUnused(used: readonly SchemaPath[] | null): string[] {
    if (used === null) return []
    const catalogs = new Set(used.map(({ catalog }) => catalog))
    const schemas = new Set(used.map(pathOf))
    const unusedCatalogs = [...this.#catalogs].filter((catalog) => !catalogs.has(catalog))
    const statements = unusedCatalogs.includes(this.#inUse) ? this.#use(NOWHERE) : []
    for (const catalog of unusedCatalogs) {
      statements.push(`DETACH ${quoteIdentifier(catalog)}`)
      this.#catalogs.delete(catalog)
    }
    for (const [path, { catalog }] of this.#schemas) {
      if (schemas.has(path)) continue
      if (this.#catalogs.has(catalog)) statements.push(`DROP SCHEMA ${path} CASCADE`)
      this.#schemas.delete(path)
    }
    return statements
  }

  #use(catalog: string): string[] {
    if (catalog === this.#inUse) return []
    this.#inUse = catalog
    return [`USE ${quoteIdentifier(catalog)}`]
  }
}

const answerOf = ({ bytes, rows, truncated }: ArrowSummary & { bytes: Uint8Array }): AnswerOf<'run'> => ({
  arrow: bytes,
  rows,
  truncated,
})

const definitionOf = (view: TableView) =>
  `CREATE OR REPLACE VIEW ${nameOf(view)} AS SELECT * FROM ${view.from}`
const pathOf = ({ catalog, schema }: SchemaPath) => `${quoteIdentifier(catalog)}.${quoteIdentifier(schema)}`
const nameOf = ({ catalog, schema, name }: ViewName) => [catalog, schema, name].map(quoteIdentifier).join('.')
