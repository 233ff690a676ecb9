import { readFile, rm } from 'node:fs/promises'
import {
  type DuckDBDataChunk,
  DuckDBListType,
  type DuckDBPreparedStatement,
  type DuckDBResult,
  DuckDBStructType,
  type DuckDBValue,
  StatementType,
} from '@duckdb/node-api'
import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { EngineError, engineError, mapped } from '../../lake/engine/error.ts'
import { type Column, type Engine, type PreparedEngine, prepareEngine } from '../../lake/engine/instance.ts'
import { nextChunk } from '../../lake/engine/rows.ts'
import { checkNoActing, StatementRefused } from '../../lake/engine/statement.ts'
import { isTraceless, type TableName } from '../../lake/engine/traceless.ts'
import { typeName } from '../../lake/engine/type-name.ts'
import { parseDuckType, renderDuckType } from '../../lake/iceberg/duckdb-type.ts'
import { quoteName, quoteText } from '../../lake/iceberg/sql.ts'
import {
  type AnswerOf,
  RESULT,
  type RequestKind,
  type RequestOf,
  type SqlParameter,
  type SqlParameters,
} from './engine-messages.ts'
import { isReplaced, withKept } from './kept-calls.ts'

// One DuckDB instance. It is made ahead of its use; before it sees a word of the user's it is given its input and locked, for
// good. It serves one run, or, where it was locked to a place that runs have one after the other, those whose texts leave
// nothing behind.

const SAMPLE_CHARACTERS = 200
const JUDGED_KEPT = 500
const JUDGED_CHARACTERS = 16_384

type Input<K extends RequestKind> = Omit<RequestOf<K>, 'kind' | 'number'>

/** The text is not what may be run here. */
export class Refused extends Error {}

export class EngineInstance {
  #prepared: PreparedEngine
  #engine: Engine | null = null
  /** Those of the tables that are shown. */
  readonly #schemas = new Set<string>()
  /** Whether texts are traceless, of those that came last: a pipeline that runs often says the same each time. */
  readonly #judged = new Map<string, boolean>()
  /** The text that was previewed last on what is kept, and what became of it. */
  #previewed: { sql: string; kept: number; faster: string } | null = null
  /** The text before may have chosen what random numbers come next. */
  #isSeeded = false

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
    await this.#open.renew()
    await this.#show(tables)
    return null
  }

  async enter({ texts, names, tables }: Input<'enter'>): Promise<boolean> {
    for (const text of texts) if (!(await this.#isTraceless(text, names))) return false
    await this.#show(tables)
    return true
  }

  async leave(): Promise<null> {
    await this.#open.renew()
    const schemas = Array.from(
      this.#schemas,
      (schema) => `DROP SCHEMA IF EXISTS ${quoteName(schema)} CASCADE`,
    )
    this.#schemas.clear()
    if (schemas.length > 0) await this.#open.run(schemas.join(';'))
    return null
  }

  async define({ sql }: Input<'define'>): Promise<AnswerOf<'define'>> {
    const statement = await this.#select(sql)
    refuseParameters(statement)
    refuseTwins(namesOf(statement))
    await this.#open.run(`CREATE TEMP VIEW ${RESULT} AS ${sql}`)
    const columns = columnsOf(statement)
    // What has no type of its own, alone or within others, gets one from the view.
    const isCertain = columns.every(({ type }) => PLAIN_TYPE.test(type))
    return isCertain ? columns : this.#open.describe(`FROM ${RESULT}`)
  }

  async relate({ name, sql, params }: Input<'relate'>): Promise<AnswerOf<'relate'>> {
    const select = await this.#select(sql)
    refuseTwins(namesOf(select))
    const values = valuesFor(select, params)
    // A view has no parameters.
    const what = values.length === 0 ? 'VIEW' : 'TABLE'
    const statement = await mapped(() =>
      this.#open.connection.prepare(`CREATE TEMP ${what} ${quoteName(name)} AS ${sql}`),
    )
    for (const [place, value] of values.entries()) {
      if (value === null) statement.bindNull(place + 1)
      else {
        const { text, type } = value
        const cast = await this.#open.read(`SELECT CAST(${quoteText(text)} AS ${typeText(type)})`)
        statement.bindValue(place + 1, cast.value(0, 0), cast.columnType(0))
      }
    }
    await mapped(() => statement.run())
    return this.#open.describe(`FROM ${quoteName(name)}`)
  }

  async run({ sql }: Input<'run'>): Promise<null> {
    await this.#open.run(sql)
    return null
  }

  async query({ sql }: Input<'query'>): Promise<AnswerOf<'query'>> {
    const result = await this.#open.read(sql)
    return result.getRowsJS().map((row) => row.map((value) => (value === null ? null : String(value))))
  }

  /** Answers a row per file, as COPY gives it. */
  async copy({ sql }: Input<'copy'>): Promise<unknown> {
    const result = await this.#open.read(sql)
    return result.getRowObjectsJS()
  }

  async judge({ sql, sampleRows }: Input<'judge'>): Promise<AnswerOf<'judge'>> {
    const statement = await this.#select(sql)
    const result = await mapped(() => statement.stream())
    const names = result.columnNames()
    const head: DuckDBValue[][] = []
    let rowCount = 0
    try {
      for (let chunk = await nextChunk(result); chunk !== undefined; chunk = await nextChunk(result)) {
        rowCount += chunk.rowCount
        // The first row is asked for even where no samples are.
        head.push(...firstRows(chunk, Math.max(1, sampleRows) - head.length))
      }
    } catch (error) {
      // A stream does not tell why it broke off; the statement itself does.
      await mapped(() => statement.run())
      throw error
    }
    const first = head[0]?.[0]
    return {
      columnTypes: result.columnTypes().map(String),
      rowCount,
      first: first === undefined || first === null ? null : String(first),
      samples: head.slice(0, sampleRows).map((row) => sampleOf(names, row)),
    }
  }

  async preview(request: Input<'preview'>): Promise<AnswerOf<'preview'>> {
    const { sql, kept = [], seed } = request
    if (this.#isSeeded && seed !== undefined) await this.#open.run(`SELECT setseed(${seed})`)
    this.#isSeeded = /setseed/i.test(sql)
    const known =
      this.#previewed?.sql === sql && this.#previewed.kept === kept.length ? this.#previewed : null
    const candidate = known === null ? withKept(sql, kept) : null
    const [tree = '', treeOfKept = ''] = known ? [] : await this.#trees([sql, candidate?.text ?? ''])
    // Preparing binds, and so does running what was prepared: a CSV file would be sniffed twice, 40 ms each.
    const isPlain = known !== null || isPlainSelect(tree)
    if (isPlain && known === null) await this.#refuseActing(sql)
    const statement = isPlain ? null : await this.#select(sql)
    if (statement !== null) {
      refuseParameters(statement)
      refuseTwins(namesOf(statement))
    }
    // What no run could write: texts like SHOW and PRAGMA pass for a SELECT where they stand alone. They are only parsed.
    if (known === null)
      await mapped(() => this.#open.connection.extractStatements(`CREATE TEMP VIEW ${RESULT} AS ${sql}`))
    const isFaster = isPlain && candidate !== null && isReplaced(tree, treeOfKept, candidate.count)
    const faster = known?.faster ?? (isFaster ? await this.#bound(candidate.text) : null)
    if (faster !== null)
      try {
        const answer = await this.#firstRows(faster, request)
        this.#previewed = { sql, kept: kept.length, faster }
        return { ...answer, usedKept: true }
      } catch (error) {
        if (error instanceof Refused || isFinal(error)) throw error
        // What is wrong is said of the text as it was written.
      }
    return { ...(await this.#stream(sql, statement, request)), usedKept: false }
  }

  /** A text over tables of the engine, which are bound at once, unlike files. Null: it does not bind. Throws Refused. */
  async #bound(sql: string): Promise<string | null> {
    const statement = await this.#open.connection.prepare(sql).catch(() => null)
    if (statement === null) return null
    refuseTwins(namesOf(statement))
    return withoutEnd(sql)
  }

  /**
   * Executes a SELECT over tables once, in one statement: a stream of it is two switches between threads for each 2,048
   * rows. The answer is one row, of the number of rows and the first of them. They stay in their order without being sorted:
   * numbering the rows is of one thread, or has sorted them, and a list of them is made in the order they come.
   */
  async #firstRows(
    sql: string,
    { profilePath, rowsLimit, bytesLimit }: Input<'preview'>,
  ): Promise<Omit<AnswerOf<'preview'>, 'usedKept'>> {
    const { arrowOfList } = await import('../../lake/engine/arrow.ts')
    await rm(profilePath, { force: true })
    const started = performance.now()
    const result = await this.#open.run(
      `SELECT count(*) AS n, list(t) FILTER (WHERE r <= ${rowsLimit}) AS rows
       FROM (SELECT sluice_row AS t, row_number() OVER () AS r FROM (${sql}\n) AS sluice_row)`,
    )
    const executeMs = performance.now() - started
    const profile = await profileAt(profilePath)
    try {
      return {
        arrow: arrowOfList(result, 1, { bytesLimit }),
        columns: columnsOfList(result, 1),
        rowCount: Number(result.getChunk(0).getColumnVector(0).getItem(0)),
        executeMs,
        profile,
      }
    } catch (error) {
      if (error instanceof Error && error.name === 'ResultTooLarge') throw new Refused(error.message)
      throw error
    }
  }

  /** Executes a SELECT to its end, once, and keeps its first rows. */
  async #stream(
    sql: string,
    statement: DuckDBPreparedStatement | null,
    { profilePath, rowsLimit, bytesLimit }: Input<'preview'>,
  ): Promise<Omit<AnswerOf<'preview'>, 'usedKept'>> {
    const { connection } = this.#open
    // A tenth of a second and some megabytes, for the few processes that preview.
    const { arrowBytes } = await import('../../lake/engine/arrow.ts')
    // Our own question left a profile there.
    await rm(profilePath, { force: true })
    const started = performance.now()
    const result = await mapped(() => (statement === null ? connection.stream(sql) : statement.stream()))
    try {
      refuseTwins(result.columnNames())
      const { bytes, rowsRead, truncated } = await arrowBytes(result, { rowsLimit, bytesLimit })
      let rowCount = rowsRead
      // Once at its end, a stream is not to be asked again.
      let chunk = truncated ? await nextChunk(result) : undefined
      for (; chunk !== undefined; chunk = await nextChunk(result)) rowCount += chunk.rowCount
      const executeMs = performance.now() - started
      const columns = columnsOf(result)
      return { arrow: bytes, columns, rowCount, executeMs, profile: await profileAt(profilePath) }
    } catch (error) {
      if (error instanceof Refused) throw error
      if (error instanceof Error && error.name === 'ResultTooLarge') throw new Refused(error.message)
      // A stream does not tell why it broke off; the statement itself does.
      await mapped(() => (statement === null ? connection.run(sql) : statement.run()))
      throw error
    }
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
    const statements = [
      ...Array.from(schemas, (schema) => `CREATE SCHEMA ${quoteName(schema)}`),
      ...tables.map(
        ({ schema, name, from }) =>
          `CREATE OR REPLACE VIEW ${quoteName(schema)}.${quoteName(name)} AS SELECT * FROM ${from}`,
      ),
    ]
    if (statements.length > 0) await this.#open.run(statements.join(';'))
  }

  get #open(): Engine {
    if (this.#engine === null) throw new Error('the instance is not open')
    return this.#engine
  }

  async #isTraceless(text: string, names: readonly TableName[]): Promise<boolean> {
    const key = JSON.stringify([text, names])
    const known = this.#judged.get(key)
    if (known !== undefined) return known
    const judged = await isTraceless(this.#open.connection, text, names)
    if (this.#judged.size >= JUDGED_KEPT) this.#judged.clear()
    if (key.length <= JUDGED_CHARACTERS) this.#judged.set(key, judged)
    return judged
  }

  /** What the engine's own parser makes of texts; of what is no SELECT an error. */
  async #trees(texts: readonly string[]): Promise<string[]> {
    const calls = texts.map((text) => `CAST(json_serialize_sql(${quoteText(text)}) AS VARCHAR)`)
    const answer = await this.#open.read(`SELECT ${calls.join(', ')}`)
    return texts.map((_, column) => String(answer.value(column, 0)))
  }

  /** Nothing but the answer may come of a SELECT: what it could leave behind is there for tests, or in files of others. */
  async #refuseActing(sql: string): Promise<void> {
    await checkNoActing(this.#open.connection, sql).catch((error: unknown) => {
      throw error instanceof StatementRefused ? new Refused(error.message) : error
    })
  }

  /** The engine's own parser decides what is one SELECT. Throws Refused, EngineError. */
  async #select(sql: string) {
    const { connection } = this.#open
    const statements = await connection.extractStatements(sql).catch((error: unknown) => {
      const mappedError = engineError(error)
      // Of a text without a statement the engine only says that something failed.
      throw mappedError === error ? new Refused('there is no SELECT statement') : mappedError
    })
    if (statements.count !== 1) {
      // The engine's parser makes two statements of it: the first one finds the values.
      const hint = /\bpivot\b/i.test(sql) ? ' (a PIVOT has to name its values: ON column IN (...))' : ''
      throw new Refused(`one SELECT statement is expected, not ${statements.count}${hint}`)
    }
    await this.#refuseActing(sql)
    const statement = await mapped(() => statements.prepare(0))
    if (statement.statementType !== StatementType.SELECT)
      throw new Refused(`only a SELECT can be run, not ${StatementType[statement.statementType]}`)
    return statement
  }
}

/** Another try would end the same. */
const isFinal = (error: unknown): boolean =>
  error instanceof EngineError && (error.kind === 'out_of_memory' || error.kind === 'interrupted')

const NO_PROFILE = JSON.stringify({
  system_peak_buffer_memory: 0,
  system_peak_temp_dir_size: 0,
  children: [],
})

/** The engine writes none for a plan that is nothing but values. */
async function profileAt(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return NO_PROFILE
    throw error
  }
}

/** The engine describes a view of them in the same words, in a statement of its own. */
const PLAIN_TYPE =
  /^(?:BOOLEAN|U?(?:TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\)|VARCHAR|BLOB|UUID|DATE|TIME|TIMESTAMP(?: WITH TIME ZONE)?)$/

const columnsOf = (of: DuckDBResult | DuckDBPreparedStatement): Column[] =>
  namesOf(of).map((name, column) => ({ name, type: typeName(of.columnType(column)) }))

const namesOf = (of: DuckDBResult | DuckDBPreparedStatement): string[] =>
  Array.from({ length: of.columnCount }, (_, column) => of.columnName(column))

/** Without the semicolons and blanks it ends with. */
function withoutEnd(sql: string): string {
  let end = sql.length
  while (end > 0 && /[;\s]/.test(sql.charAt(end - 1))) end -= 1
  return sql.slice(0, end)
}

function columnsOfList(result: DuckDBResult, column: number) {
  const type = result.columnType(column)
  if (!(type instanceof DuckDBListType && type.valueType instanceof DuckDBStructType)) return []
  const { entryNames, entryTypes } = type.valueType
  return entryTypes.map((entryType, index) => ({ name: entryNames[index] ?? '', type: typeName(entryType) }))
}

/** Whether a tree is of one SELECT without parameters. What it cannot tell is not plain. */
const isPlainSelect = (tree: string): boolean =>
  isOneSelect.Check(JSON.parse(tree)) && !tree.includes('"class":"PARAMETER"')

/** Of json_serialize_sql: anything but SELECTs is an error there. */
const isOneSelect = TypeCompiler.Compile(
  Type.Object({
    error: Type.Literal(false),
    statements: Type.Array(Type.Unknown(), { minItems: 1, maxItems: 1 }),
  }),
)

/** A view of them would have `a_1` beside `a`, and the table a column that nobody asked for. Names are told apart whatever their case. */
function refuseTwins(names: readonly string[]): void {
  const known = new Set<string>()
  for (const name of names) {
    if (known.has(name.toLowerCase()))
      throw new Refused(`two columns are named "${name}": give one of them another name`)
    known.add(name.toLowerCase())
  }
}

/** Nobody gives values to the parameters of a pipeline. Throws Refused. */
function refuseParameters(statement: DuckDBPreparedStatement): void {
  if (statement.parameterCount > 0)
    throw new Refused(
      `the query has a parameter (${statement.parameterName(1)}), and nobody gives a value to it`,
    )
}

/** The value of each parameter of the statement, in its order. Throws Refused where they do not fit. */
function valuesFor(statement: DuckDBPreparedStatement, params: SqlParameters): SqlParameter[] {
  const names = Array.from({ length: statement.parameterCount }, (_, place) =>
    statement.parameterName(place + 1),
  )
  const given = new Map<string, SqlParameter>(
    isList(params) ? params.map((value, place) => [String(place + 1), value]) : Object.entries(params),
  )
  const missing = names.find((name) => !given.has(name))
  if (missing !== undefined)
    throw new Refused(`the query has a parameter ${missing}, and params gives no value for it`)
  if (given.size > names.length)
    throw new Refused(`params gives ${given.size} values, and the query has ${names.length} parameters`)
  return names.map((name) => given.get(name) ?? null)
}

const isList = (params: SqlParameters): params is readonly SqlParameter[] => Array.isArray(params)
const typeText = (type: string) => renderDuckType(parseDuckType(type), quoteName)

/** Only these are turned into values of JavaScript: a whole chunk can be large. */
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
