// The states that must stay readable in the test of kept states: main, branches, tags, runs and queries. A model has their rows.
import { expect } from 'bun:test'
import type { TableMetadata } from '../../lake/iceberg/format/metadata.ts'
import { viewReads, viewSql } from '../../lake/iceberg/views/view.ts'
import { LAKE_GRACE_MS } from '../../machines/retention.ts'
import type { TestCatalog } from '../iceberg/test-catalog.ts'
import type { ForeignEngine } from '../iceberg/test-foreign-engine.ts'
import { headOfMain } from './store/branches.ts'
import { closeUserBranch, deleteTag } from './store/user-branches.ts'
import { type Content, MainModel, type World } from './test-kept-model.ts'

/** Older branches, tags and runs end, so that states also expire. */
const KEPT_MAX = 7

/** A state that must stay readable, and the way to read it. */
interface Kept {
  what: string
  world: () => World
  /** Null: the state has no table with this name. */
  table(name: string): Promise<TableMetadata | null>
  /** How a view is read; null: this reader checks tables only. */
  view: ((name: string) => Promise<unknown>) | null
  end(): Promise<void>
}

/** The SQL of a view over this table. */
export const viewSqlOf = (of: string) => `select a from "default"."gold"."${of}"`
const ordered = (rows: readonly number[]) => rows.toSorted((a, b) => a - b).map((a) => ({ a }))

type Resolved = { name: string; metadata: TableMetadata }

export class KeptStates {
  readonly main = new MainModel()
  readonly #kept: Kept[] = []
  /** Queries of this round: the model of their commits is complete only when all actions of the round are recorded. */
  readonly #newQueries: { head: number; tables: Resolved[] }[] = []
  /** Tables that a query resolved on main and reads now. They need no protection after the grace. */
  #queries: { hours: number; tables: (Resolved & { content: Content })[] }[] = []
  /** States have most files in common, so a check reads each snapshot once. */
  readonly #read = new Map<string, Promise<unknown[]>>()

  constructor(
    readonly catalog: TestCatalog,
    readonly engine: ForeignEngine,
  ) {}

  keep(kept: Kept): void {
    this.#kept.push(kept)
  }

  addQuery(query: { head: number; tables: Resolved[] }): void {
    this.#newQueries.push(query)
  }

  keepWarehouse(what: string, name: string, world: () => World) {
    this.keep({
      what: `${what} (${name})`,
      world,
      ...this.#readerOf(`sluice.${name}`),
      end: async () => {
        const { sql } = this.catalog
        if (!(await deleteTag(sql, name))) await sql.begin((tx) => closeUserBranch(tx, name))
      },
    })
  }

  #readerOf = (warehouse: string): Pick<Kept, 'table' | 'view'> => ({
    table: (name) => this.engine.table(warehouse, name),
    view: async (name) => {
      const view = await this.engine.view(warehouse, name)
      return view && { sql: viewSql(view), reads: viewReads(view) }
    },
  })

  /** Queries get older. States beyond the largest number end. */
  async pass(hours: number, random: (below: number) => number): Promise<void> {
    for (const query of this.#queries) query.hours += hours
    this.#queries = this.#queries.filter((query) => query.hours * 3_600_000 < LAKE_GRACE_MS)
    await this.end(KEPT_MAX, random)
  }

  /** Ends random states until at most `left` are kept. */
  async end(left: number, random: (below: number) => number): Promise<void> {
    while (this.#kept.length > left) await this.#kept.splice(random(this.#kept.length), 1)[0]?.end()
  }

  #rowsOf(metadata: TableMetadata): Promise<unknown[]> {
    const key = `${metadata['table-uuid']} ${metadata['current-snapshot-id']}`
    const found = this.#read.get(key) ?? this.engine.rows(metadata)
    this.#read.set(key, found)
    return found
  }

  /** Compares everything that must be readable with the model. */
  async check(at: object): Promise<void> {
    this.#read.clear()
    for (const { head, tables } of this.#newQueries.splice(0)) {
      const world = this.main.at(head)
      const resolved = tables.flatMap(({ name, metadata }) => {
        const content = world.get(name)
        return content === undefined ? [] : [{ name, metadata, content }]
      })
      expect({ at, head, tables: resolved.length }).toEqual({ at, head, tables: tables.length })
      this.#queries.push({ hours: 0, tables: resolved })
    }
    for (const { tables } of this.#queries)
      for (const { name, metadata, content } of tables) {
        const rows = await this.#rowsOf(metadata)
        const wanted = ordered(content.kind === 'table' ? content.rows : [])
        expect({ at, query: name, rows }).toEqual({ at, query: name, rows: wanted })
      }
    const head = await headOfMain(this.catalog.sql)
    const main = { what: 'main', world: () => this.main.at(head), ...this.#readerOf('sluice') }
    for (const { what, world, table, view } of [main, ...this.#kept]) {
      const all = world()
      for (const [name, content] of all) {
        const about = { at, what, name }
        if (content.kind === 'table') {
          const metadata = await table(name)
          const rows = metadata && (await this.#rowsOf(metadata))
          expect({ ...about, rows }).toEqual({ ...about, rows: ordered(content.rows) })
        } else if (view !== null) {
          const { of } = content
          const stored = { sql: viewSqlOf(of), reads: [`default.gold.${of}`] }
          // The loop also reads the rows of the view's table in this state.
          expect({ ...about, view: await view(name) }).toEqual({ ...about, view: stored })
        }
      }
    }
  }
}
