import { readFile, rm } from 'node:fs/promises'
import {
  DuckDBListType,
  type DuckDBPreparedStatement,
  type DuckDBResult,
  DuckDBStructType,
} from '@duckdb/node-api'
import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { EngineError, mapped } from '../../../lake/engine/error.ts'
import type { Engine } from '../../../lake/engine/instance.ts'
import { jsonOf } from '../../../lake/engine/parser.ts'
import { nextChunk } from '../../../lake/engine/rows.ts'
import { typeName } from '../../../lake/engine/type-name.ts'
import { quoteText } from '../../../lake/iceberg/sql.ts'
import { type AnswerOf, RESULT, type RequestOf } from '../engine/engine-messages.ts'
import {
  columnsOf,
  namesOf,
  Refused,
  refuseHarmful,
  refuseParameters,
  refuseTwins,
  selectOf,
} from '../write/select.ts'
import { isReplaced, withKept } from './kept-calls.ts'

// Previews in one instance of the engine, one after the other: what was found out for one of them holds for the next.

type Input = Omit<RequestOf<'preview'>, 'kind' | 'number'>

export class InstancePreviews {
  /** The text that was previewed last on what is kept, and what became of it. */
  #previewed: { sql: string; kept: number; faster: string } | null = null
  /** The text before may have chosen what random numbers come next. */
  #isSeeded = false

  async preview(engine: Engine, request: Input): Promise<AnswerOf<'preview'>> {
    const { sql, kept = [], seed } = request
    if (this.#isSeeded && seed !== undefined) await engine.run(`SELECT setseed(${seed})`)
    this.#isSeeded = /setseed/i.test(sql)
    const known =
      this.#previewed?.sql === sql && this.#previewed.kept === kept.length ? this.#previewed : null
    const candidate = known === null ? withKept(sql, kept) : null
    const [tree = '', treeOfKept = ''] = known ? [] : await treesOf(engine, [sql, candidate?.text ?? ''])
    // Preparing binds, and so does running what was prepared: a CSV file would be sniffed twice, 40 ms each.
    const isPlain = known !== null || isPlainSelect(tree)
    if (isPlain && known === null) await refuseHarmful(engine, sql)
    const statement = isPlain ? null : await selectOf(engine, sql)
    if (statement !== null) {
      refuseParameters(statement)
      refuseTwins(namesOf(statement))
    }
    // What no run could write: texts like SHOW and PRAGMA pass for a SELECT where they stand alone. They are only parsed.
    if (known === null)
      await mapped(() => engine.connection.extractStatements(`CREATE TEMP VIEW ${RESULT} AS ${sql}`))
    const isFaster = isPlain && candidate !== null && isReplaced(tree, treeOfKept, candidate.count)
    const faster = known?.faster ?? (isFaster ? await bound(engine, candidate.text) : null)
    if (faster !== null)
      try {
        const answer = await firstRows(engine, faster, request)
        this.#previewed = { sql, kept: kept.length, faster }
        return { ...answer, usedKept: true }
      } catch (error) {
        if (error instanceof Refused || isFinal(error)) throw error
        // What is wrong is said of the text as it was written.
      }
    return { ...(await streamed(engine, { sql, statement }, request)), usedKept: false }
  }
}

/** A text over tables of the engine, which are bound at once, unlike files. Null: it does not bind. Throws Refused. */
async function bound(engine: Engine, sql: string): Promise<string | null> {
  const statement = await engine.connection.prepare(sql).catch(() => null)
  if (statement === null) return null
  refuseTwins(namesOf(statement))
  return withoutEnd(sql)
}

/**
 * Executes a SELECT over tables once, in one statement: a stream of it is two switches between threads for each 2,048
 * rows. The answer is one row, of the number of rows and the first of them. They stay in their order without being sorted:
 * numbering the rows is of one thread, or has sorted them, and a list of them is made in the order they come.
 */
async function firstRows(
  engine: Engine,
  sql: string,
  { profilePath, rowsLimit, bytesLimit }: Input,
): Promise<Omit<AnswerOf<'preview'>, 'usedKept'>> {
  const { arrowOfList } = await import('../../../lake/engine/arrow.ts')
  await rm(profilePath, { force: true })
  const started = performance.now()
  const result = await engine.run(
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
async function streamed(
  { connection }: Engine,
  { sql, statement }: { sql: string; statement: DuckDBPreparedStatement | null },
  { profilePath, rowsLimit, bytesLimit }: Input,
): Promise<Omit<AnswerOf<'preview'>, 'usedKept'>> {
  // A tenth of a second and some megabytes, for the few processes that preview.
  const { arrowBytes } = await import('../../../lake/engine/arrow.ts')
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

/** What the engine's own parser makes of texts; of what is no SELECT an error. */
async function treesOf(engine: Engine, texts: readonly string[]): Promise<string[]> {
  const calls = texts.map((text) => `CAST(json_serialize_sql(${quoteText(text)}) AS VARCHAR)`)
  const answer = await engine.read(`SELECT ${calls.join(', ')}`)
  return texts.map((_, column) => String(answer.value(column, 0)))
}

/** Another try would end the same. */
const isFinal = (error: unknown): boolean =>
  error instanceof EngineError &&
  (error.kind === 'out_of_memory' || error.kind === 'broken' || error.kind === 'interrupted')

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
  isOneSelect.Check(jsonOf(tree)) && !tree.includes('"class":"PARAMETER"')

/** Of json_serialize_sql: anything but SELECTs is an error there. */
const isOneSelect = TypeCompiler.Compile(
  Type.Object({
    error: Type.Literal(false),
    statements: Type.Array(Type.Unknown(), { minItems: 1, maxItems: 1 }),
  }),
)
