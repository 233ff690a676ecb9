import { randomBytes } from 'node:crypto'
import { arrowBytes } from '../../lake/engine/arrow.ts'
import { type Engine, openLocked } from '../../lake/engine/instance.ts'
import { checkReadOnly } from '../../lake/engine/statement.ts'
import { quoteIdentifier } from '../../lake/pipeline/sql.ts'
import type { AnswerOf, EngineRequest, Run, ViewName } from './engine-messages.ts'

// One locked DuckDB instance that answers one query after the other. Only statements that read come here, so that all
// a query can leave behind is what `clear` takes away; tables stay defined, because the next query asks for the same.

/** The tables of a query could not be defined: what is defined is uncertain now. */
export class Unprepared extends Error {}

/** The engine's own catalog, which holds nothing. */
const NOWHERE = 'memory'

export class QueryEngine {
  readonly #engine: Engine
  readonly #schemas = new Set<string>()
  readonly #catalogs = new Set<string>()
  #inUse = NOWHERE

  private constructor(engine: Engine) {
    this.#engine = engine
  }

  static async open(request: Extract<EngineRequest, { kind: 'open' }>): Promise<QueryEngine> {
    return new QueryEngine(await openLocked(request))
  }

  check(sql: string): Promise<AnswerOf<'check'>> {
    return checkReadOnly(this.#engine.connection, sql)
  }

  async run({ sql, catalog, define, drop, rowsLimit, bytesLimit }: Run): Promise<AnswerOf<'run'>> {
    const statements = [
      ...drop.map((view) => `DROP VIEW IF EXISTS ${nameOf(view)}`),
      ...define.flatMap((view) => [
        ...this.#placeFor(view),
        `CREATE OR REPLACE VIEW ${nameOf(view)} AS SELECT * FROM ${view.from}`,
      ]),
      ...this.#use(catalog ?? NOWHERE),
    ]
    if (statements.length > 0)
      await this.#engine.run(statements.join(';')).catch((error: unknown) => {
        throw new Unprepared(error instanceof Error ? error.message : String(error), { cause: error })
      })
    const { bytes, rows, truncated } = await arrowBytes(await this.#engine.stream(sql), {
      rowsLimit,
      bytesLimit,
    })
    return { arrow: bytes, rows, truncated }
  }

  /** Any statement ends the stream of the last one, which may not have been read to its end; this one ends its seed too. */
  async clear(): Promise<void> {
    const seed = randomBytes(4).readUInt32LE() / 2 ** 32
    await this.#engine.run(`SELECT setseed(${seed})`)
  }

  interrupt(): void {
    this.#engine.interrupt()
  }

  #placeFor({ catalog, schema }: ViewName): string[] {
    const statements: string[] = []
    if (!this.#catalogs.has(catalog)) statements.push(`ATTACH ':memory:' AS ${quoteIdentifier(catalog)}`)
    this.#catalogs.add(catalog)
    const path = `${quoteIdentifier(catalog)}.${quoteIdentifier(schema)}`
    if (!this.#schemas.has(path)) statements.push(`CREATE SCHEMA ${path}`)
    this.#schemas.add(path)
    return statements
  }

  #use(catalog: string): string[] {
    if (catalog === this.#inUse) return []
    this.#inUse = catalog
    return [`USE ${quoteIdentifier(catalog)}`]
  }
}

const nameOf = ({ catalog, schema, name }: ViewName) => [catalog, schema, name].map(quoteIdentifier).join('.')
