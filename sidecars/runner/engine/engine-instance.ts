import type { DuckDBDataChunk, DuckDBPreparedStatement, DuckDBValue } from '@duckdb/node-api'
import { EngineError, mapped } from '../../../lake/engine/error.ts'
import { type Engine, type PreparedEngine, prepareEngine } from '../../../lake/engine/instance.ts'
import { treeOn } from '../../../lake/engine/parser.ts'
import { readQueryText } from '../../../lake/engine/query-text.ts'
import { nextChunk } from '../../../lake/engine/rows.ts'
import { readStatement, StatementRefused } from '../../../lake/engine/statement.ts'
import { isOneOf, isTraceless } from '../../../lake/engine/traceless.ts'
import { parseDuckType, renderDuckType } from '../../../lake/iceberg/format/duckdb-type.ts'
import { sourceIn } from '../../../lake/iceberg/read/by-name.ts'
import { quoteIdentifier, quoteLiteral } from '../../../lake/quote.ts'
import { limits } from '../core/limits.ts'
import type { Changes } from '../readers/calls.ts'
import { lookAtAll } from '../readers/look-at-all.ts'
import {
  type AnswerOf,
  RESULT,
  type RequestKind,
  type RequestOf,
  type SqlParameter,
  type SqlParameters,
  type TableView,
} from './engine-messages.ts'
import { previewSelect } from './preview-select.ts'
import { columnsOf, namesOf, Refused, refuseParameters, refuseTwins, selectOf } from './select.ts'

// One DuckDB instance, prepared in advance. It gets its input and is locked for good before it sees any text of a user. A fresh
// instance serves one run. The shared instance serves one run after the other, if their texts leave nothing behind.

const SAMPLE_CHARACTERS = 200

type Input<K extends RequestKind> = Omit<RequestOf<K>, 'kind' | 'number'>

export class EngineInstance {
  #prepared: PreparedEngine
  #engine: Engine | null = null
  /** Schemas of the tables that are shown. */
  readonly #schemas = new Set<string>()
  /** The arguments found for the readers in texts of this instance. */
  readonly #looked = new Map<string, Changes>()
  /** The lines of the result's view; null while there is no result. */
  #author: LineOffsets | null = null

  private constructor(prepared: PreparedEngine) {
    this.#prepared = prepared
  }

  static async prepare(size: Input<'prepare'>): Promise<EngineInstance> {
    return new EngineInstance(await prepareEngine(size))
  }

  async open({ tables, ...access }: Input<'open'>): Promise<null> {
    this.#engine = await this.#prepared.lock(access)
    await this.#show(tables)
    return null
  }

  async show({ tables }: Input<'show'>): Promise<null> {
    this.#author = null
    await this.#open.renew()
    await this.#show(tables)
    return null
  }

  async enter({ texts, names, tables }: Input<'enter'>): Promise<boolean> {
    for (const text of texts) if (!(await isTraceless(this.#open.connection, text, names))) return false
    await this.#show(tables)
    return true
  }

  async release(): Promise<null> {
    this.#author = null
    await this.#open.renew()
    const schemas = Array.from(
      this.#schemas,
      (schema) => `DROP SCHEMA IF EXISTS ${quoteIdentifier(schema)} CASCADE`,
    )
    this.#schemas.clear()
    if (schemas.length > 0) await this.#open.run(schemas.join(';'))
    return null
  }

  async define({ sql }: Input<'define'>): Promise<AnswerOf<'define'>> {
    const statement = await selectOf(this.#open, sql)
    refuseParameters(statement)
    refuseTwins(namesOf(statement))
    const view = `CREATE TEMP VIEW ${RESULT} AS ${sql}`
    await this.#open.run(view)
    this.#author = placesOf(view)
    const columns = columnsOf(statement)
    // A column without a type of its own, even within other types, gets its type from the view. Describing the view binds it
    // again, which sniffs CSV files, so plain types skip it.
    const isCertain = columns.every(({ type }) => PLAIN_TYPE.test(type))
    return isCertain ? columns : this.#open.describe(`FROM ${RESULT}`)
  }

  async bind({ sql, tables }: Input<'bind'>): Promise<AnswerOf<'bind'>> {
    const isTable = isOneOf(tables)
    try {
      const { kind, listsTables } = await readStatement(treeOn(this.#open.connection), sql, { isTable })
      if (kind === 'explain' || listsTables) throw new Refused('a view can only be a SELECT of tables')
    } catch (error) {
      throw error instanceof StatementRefused ? new Refused(error.message) : error
    }
    return this.define({ sql })
  }

  async relate({ name, sql, params }: Input<'relate'>): Promise<AnswerOf<'relate'>> {
    const select = await selectOf(this.#open, sql)
    refuseTwins(namesOf(select))
    const values = valuesFor(select, params)
    // A view cannot have parameters.
    const relationKind = values.length === 0 ? 'VIEW' : 'TABLE'
    const statement = await mapped(() =>
      this.#open.connection.prepare(`CREATE TEMP ${relationKind} ${quoteIdentifier(name)} AS ${sql}`),
    )
    for (const [index, value] of values.entries()) {
      if (value === null) statement.bindNull(index + 1)
      else {
        const { text, type } = value
        const cast = await this.#open.read(`SELECT ${literalOf({ text, type })}`)
        statement.bindValue(index + 1, cast.value(0, 0), cast.columnType(0))
      }
    }
    await mapped(() => statement.run())
    return this.#open.describe(`FROM ${quoteIdentifier(name)}`)
  }

  async run({ sql }: Input<'run'>): Promise<null> {
    await this.#withoutAuthorLine(sql, (text) => this.#open.run(text))
    return null
  }

  async query({ sql }: Input<'query'>): Promise<AnswerOf<'query'>> {
    const result = await this.#withoutAuthorLine(sql, (text) => this.#open.read(text))
    return result.getRowsJS().map((row) => row.map((value) => (value === null ? null : String(value))))
  }

  /** Returns one row per file, as COPY reports it. */
  async copy({ sql }: Input<'copy'>): Promise<unknown> {
    const result = await this.#withoutAuthorLine(sql, (text) => this.#open.read(text))
    return result.getRowObjectsJS()
  }

  look({ sql, params, isNewTable }: Input<'look'>): Promise<AnswerOf<'look'>> {
    const values = isList(params)
      ? params.map((value, index) => [String(index + 1), value] as const)
      : Object.entries(params)
    const parameters = new Map(values.map(([name, value]) => [name, literalOf(value)]))
    return lookAtAll(this.#open, sql, { parameters, known: this.#looked, isNewTable })
  }

  parse({ sql }: Input<'parse'>): Promise<AnswerOf<'parse'>> {
    return readQueryText(this.#open.connection, sql)
  }

  async judge({ sql, sampleRows }: Input<'judge'>): Promise<AnswerOf<'judge'>> {
    const statement = await selectOf(this.#open, sql)
    const result = await mapped(() => statement.stream())
    const names = result.columnNames()
    const head: DuckDBValue[][] = []
    let rowCount = 0
    try {
      for (let chunk = await nextChunk(result); chunk !== undefined; chunk = await nextChunk(result)) {
        rowCount += chunk.rowCount
        // The first row is needed even without samples.
        head.push(...firstRows(chunk, Math.max(1, sampleRows) - head.length))
      }
    } catch (error) {
      // A stream does not report why it failed. Running the statement again throws the reason.
      await mapped(() => statement.run())
      throw error
    }
    const value = rowCount === 1 && names.length === 1 ? (head[0]?.[0] ?? null) : null
    return {
      columnTypes: result.columnTypes().map(String),
      rowCount,
      first: value === null ? null : String(value).slice(0, limits.valueCharacters + 1),
      samples: head.slice(0, sampleRows).map((row) => sampleOf(names, row)),
    }
  }

  preview(request: Input<'preview'>): Promise<AnswerOf<'preview'>> {
    return previewSelect(this.#open, request)
  }

  get percentDone(): number | null {
    return this.#engine?.percentDone ?? null
  }

  interrupt(): void {
    this.#engine?.interrupt()
  }

  close(): void {
    this.#prepared.close()
  }

  async #show(tables: Input<'show'>['tables']): Promise<void> {
    const schemas = new Set(tables.map(({ schema }) => schema)).difference(this.#schemas)
    for (const schema of schemas) this.#schemas.add(schema)
    const shown = ({ schema, name }: TableView, from: string) =>
      `CREATE OR REPLACE VIEW ${quoteIdentifier(schema)}.${quoteIdentifier(name)} AS SELECT * FROM ${from}`
    const statements = Array.from(schemas, (schema) => `CREATE SCHEMA ${quoteIdentifier(schema)}`)
    for (const table of tables)
      if (table.storedView === undefined) statements.push(shown(table, await sourceIn(this.#open, table)))
    if (statements.length > 0) await this.#open.run(statements.join(';'))
    // A stored view may read any table and any view before it.
    for (const table of tables)
      if (table.storedView !== undefined) await this.#showView(table, shown(table, table.from))
  }

  async #showView({ storedView }: TableView, sql: string): Promise<void> {
    try {
      await this.#open.run(sql)
    } catch (error) {
      if (!(error instanceof EngineError) || error.kind === 'broken') throw error
      const message = `view ${storedView} cannot be read: ${error.message}`
      throw new EngineError(error.kind, message, undefined, { cause: error })
    }
  }

  /**
   * Runs SQL that the runner wrote. It reads the author's view, so an error may belong to the author. The engine then counts
   * the position within the view, but looks for the line in the text that runs. So the text begins with as many blank lines as
   * the view has. A line after them is not the author's.
   */
  async #withoutAuthorLine<Result>(sql: string, work: (text: string) => Promise<Result>): Promise<Result> {
    const { blankLines, lines } = this.#author ?? { blankLines: '', lines: 0 }
    try {
      return await work(blankLines + sql)
    } catch (error) {
      if (!(error instanceof EngineError) || error.line === undefined || error.line <= lines) throw error
      throw new EngineError(error.kind, error.message, undefined, { cause: error })
    }
  }

  get #open(): Engine {
    if (this.#engine === null) throw new Error('DuckDB instance used before open() or after close()')
    return this.#engine
  }
}

interface LineOffsets {
  /** Only blanks, with line ends at the same positions as in the text. */
  blankLines: string
  lines: number
}

/** Counts bytes, as the engine does. */
function placesOf(text: string): LineOffsets {
  const lines = text.split('\n')
  return {
    blankLines: lines.map((line) => `${' '.repeat(Buffer.byteLength(line))}\n`).join(''),
    lines: lines.length,
  }
}

/** Types that the engine reports with the same name for a view of the columns. */
const PLAIN_TYPE =
  /^(?:BOOLEAN|U?(?:TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\)|VARCHAR|BLOB|UUID|DATE|TIME|TIMESTAMP(?: WITH TIME ZONE)?)$/

/** The value of each parameter of the statement, in order. Throws Refused when the values do not fit. */
function valuesFor(statement: DuckDBPreparedStatement, params: SqlParameters): SqlParameter[] {
  const names = Array.from({ length: statement.parameterCount }, (_, index) =>
    statement.parameterName(index + 1),
  )
  const valuesByName = new Map<string, SqlParameter>(
    isList(params) ? params.map((value, index) => [String(index + 1), value]) : Object.entries(params),
  )
  const missing = names.find((name) => !valuesByName.has(name))
  if (missing !== undefined) throw new Refused(`no value in params for parameter ${missing} of the query`)
  if (valuesByName.size > names.length)
    throw new Refused(`params has ${valuesByName.size} values, but the query has ${names.length} parameters`)
  return names.map((name) => valuesByName.get(name) ?? null)
}

const isList = (params: SqlParameters): params is readonly SqlParameter[] => Array.isArray(params)
const literalOf = (value: SqlParameter) =>
  value === null ? 'NULL' : `CAST(${quoteLiteral(value.text)} AS ${typeText(value.type)})`
const typeText = (type: string) => renderDuckType(parseDuckType(type), quoteIdentifier)

/** Converts only these rows to JavaScript values, because a whole chunk can be large. */
function firstRows(chunk: DuckDBDataChunk, count: number): DuckDBValue[][] {
  const columns = Array.from({ length: chunk.columnCount }, (_, column) => chunk.getColumnVector(column))
  return Array.from({ length: Math.min(count, chunk.rowCount) }, (_, row) =>
    columns.map((column) => column.getItem(row)),
  )
}

function sampleOf(names: readonly string[], row: readonly DuckDBValue[]): string {
  const text = names.map((name, column) => `${name}=${String(row[column] ?? 'NULL')}`).join(', ')
  return text.length <= SAMPLE_CHARACTERS ? text : `${text.slice(0, SAMPLE_CHARACTERS)}…`
}
