// Finds the filters of a statement on its tables, in an instance of its own with empty tables. The engine resolves names, types
// and casts there as it will do for the real tables.
import { join } from 'node:path'
import { type Engine, openLocked } from '../../lake/engine/instance.ts'
import { limited } from '../../lake/engine/statement.ts'
import { type ScanFilter, scanFilters } from '../../lake/iceberg/read/scan-filter.ts'
import { quoteIdentifier, quoteLiteral } from '../../lake/quote.ts'
import type { Plan, TableView } from './engine-messages.ts'
import { limits } from './limits.ts'

/** Optimizers that move filters to tables. The others could conclude something from the tables being empty. */
const OPTIMIZERS = [
  'expression_rewriter',
  'filter_pullup',
  'filter_pushdown',
  'cte_inlining',
  'cte_filter_pusher',
]

/** The planner starts with its first statement, so an engine that plans nothing has no second instance. */
export class ScanPlanner {
  readonly #tempDirectory: string
  #engine: Engine | null = null
  /** Statements that define the existing catalogs, schemas and tables. */
  readonly #defined = new Map<string, string>()

  constructor(tempDirectory: string) {
    this.#tempDirectory = tempDirectory
  }

  /** The filter on each table, in order. Null: every file may be needed. */
  async plan({ statement, catalog, tables, rowsLimit }: Plan): Promise<(ScanFilter | null)[]> {
    try {
      if (this.#defined.size > limits.plannedTables) this.close()
      const engine = await this.#opened()
      // A stored view is bound in the catalog of the statement, as in the engine that executes the statement.
      await this.#define(engine, tables.flatMap(placesOf))
      await engine.run(`USE ${quoteIdentifier(catalog ?? 'memory')}`)
      await this.#define(engine, tables.map(definitionOf))
      const text = quoteLiteral(limited(statement, rowsLimit))
      const reader = await engine.read(
        `SELECT CAST(json_serialize_plan(${text}, skip_null := true, optimize := true) AS VARCHAR)`,
      )
      const plan = String(reader.value(0, 0))
      return scanFilters(plan, tables).map((filter) => (isShort(filter) ? filter : null))
    } catch {
      // The engine that executes the statement reports its errors. This instance may be unusable.
      this.close()
      return tables.map(() => null)
    }
  }

  interrupt(): void {
    this.#engine?.interrupt()
  }

  async #opened(): Promise<Engine> {
    this.#engine ??= await openLocked({
      memoryLimitBytes: limits.plannerBytes,
      tempLimitBytes: 0,
      threads: 1,
      tempDirectory: join(this.#tempDirectory, 'planner'),
      allowedDirectories: [],
      allowedPaths: [],
      optimizers: OPTIMIZERS,
    })
    return this.#engine
  }

  /** Runs the definitions that are not in effect yet. */
  async #define(engine: Engine, definitions: readonly Definition[]): Promise<void> {
    const missing = definitions.filter(([key, sql]) => this.#defined.get(key) !== sql)
    if (missing.length === 0) return
    await engine.run(missing.map(([, sql]) => sql).join(';'))
    for (const [key, sql] of missing) this.#defined.set(key, sql)
  }

  close(): void {
    this.#engine?.close()
    this.#engine = null
    this.#defined.clear()
  }
}

type Definition = readonly [name: string, sql: string]

const schemaNameOf = ({ catalog, schema }: TableView) =>
  `${quoteIdentifier(catalog)}.${quoteIdentifier(schema)}`

function placesOf(table: TableView): Definition[] {
  const [catalog, schema] = [quoteIdentifier(table.catalog), schemaNameOf(table)]
  return [
    [catalog, `ATTACH IF NOT EXISTS ':memory:' AS ${catalog}`],
    [schema, `CREATE SCHEMA IF NOT EXISTS ${schema}`],
  ]
}

function definitionOf(table: TableView): Definition {
  const name = `${schemaNameOf(table)}.${quoteIdentifier(table.name)}`
  const kind = table.storedView === undefined ? 'TABLE' : 'VIEW'
  return [name, `CREATE OR REPLACE ${kind} ${name} AS SELECT * FROM ${table.from}`]
}

const isShort = (filter: ScanFilter | null): boolean =>
  filter !== null &&
  filter.length <= limits.filterSteps &&
  filter.every((step) => step.op !== 'in' || step.values.length <= limits.filterValues)
