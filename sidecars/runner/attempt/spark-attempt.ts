import { tableKey } from '../../../ground/names.ts'
import { span } from '../../../ground/telemetry/spans.ts'
import { currentSchema, type TableMetadata } from '../../../lake/iceberg/format/metadata.ts'
import { type Column, columnsOf } from '../../../lake/iceberg/format/types.ts'
import { schemaDifference, settleSchema } from '../../../lake/iceberg/write/schema-change.ts'
import { shapeTable } from '../../../lake/iceberg/write/strategy.ts'
import { AuthorError } from '../../../lake/pipeline/author-error.ts'
import { counted, since, sized } from '../../core/amounts.ts'
import type { SparkProgress, SparkSession } from '../../spark/session.ts'
import { writeStatement } from '../../spark/write-sql.ts'
import { withLocation } from '../author/wording.ts'
import { limits } from '../core/limits.ts'
import { checkedColumns } from '../session/spark-sql.ts'
import { commitResult, stageOf, storeResult } from '../write/table-write.ts'
import { judge } from './judge.ts'
import { sameColumns } from './larger-engine.ts'
import { inputsOf, type RenderedAttempt } from './render.ts'
import { noteReview } from './review.ts'

// A run of a pipeline in Spark SQL. The runner gives the table the columns of the query, and one statement of the engine writes
// the rows to the run's branch. Tests, review and merge are those of every run.

/**
 * Executes the query, tests its table, and notes the facts. `expected` are the columns that the query must have. Throws AuthorError,
 * SparkLost, and the errors of engines.
 */
export async function performSpark(attempt: RenderedAttempt, expected?: readonly Column[]): Promise<void> {
  const { context, resources, target, inputs, draft, template } = attempt
  const { request, facts, log } = context
  const started = performance.now()
  checkInputs(attempt)
  const session = await span('session', {}, () => resources.spark(expected !== undefined))
  log.write('info', `session on ${resources.sparkEngine?.name} opened in ${since(started)}`)
  const rendered = { ...template, sql: draft.sql }
  const locate = (error: unknown) => {
    throw withLocation(error, rendered)
  }
  const found = await checkedColumns(session, draft.sql).catch(locate)
  const typed = expected ? sameColumns(expected, found) : typedAsTable(found, target.table)
  const columns = settledColumns(attempt, typed)
  if (!resources.sparkEngine?.writesLists) refuseLists(columns, resources.sparkEngine?.name, template.file)
  const before = await span('commit', {}, () => shape(attempt, columns).catch(locate))
  await span('execute', {}, () => write(attempt, session, before, columns).catch(locate))

  const written = await resources.lake.catalog.head(target.name)
  if (written === null) throw new Error(`table ${tableKey(target.name)} is missing after its write`)
  const { rows, files } = addedBetween(before, written.metadata)
  log.write('info', `${counted(rows, 'row')} in ${counted(files, 'file')} in ${since(started)}`)
  if (attempt.tests.length > 0) inputs.setTable(await resources.lake.open(target.name, written.metadata))
  const tests = await span('test', {}, () => judge(attempt, null, null))
  // The engine reads the files itself and does not report them.
  facts.landingFileIds.push(...draft.zones.flatMap((zone) => inputs.landing(zone).map(({ id }) => id)))
  facts.rowsWritten = rows
  facts.testedCommit = written.commit
  facts.tests = tests
  await noteReview(attempt)
  log.write('info', `attempt ${request.attempt} done in ${since(started)}`)
}

/** The SQL of a stored view is DuckDB's. */
function checkInputs(attempt: RenderedAttempt): void {
  const view = inputsOf(attempt).find((input) => input.view !== undefined)
  if (view !== undefined)
    throw new AuthorError(
      `view ${tableKey(view.name)} is stored in the SQL of DuckDB: engine spark cannot read it`,
      {
        where: attempt.template.file,
      },
    )
}

/** Throws AuthorError for a column that is or contains a list. */
function refuseLists(columns: readonly Column[], engine: string | undefined, where: string): void {
  const list = columns.find(({ type }) => type.includes('[]'))
  if (list !== undefined)
    throw new AuthorError(
      `column ${JSON.stringify(list.name)} has a list, which ${engine} cannot write: use to_json(), or a Spark cluster`,
      { where },
    )
}

/** A column that is only NULL gets the type that the table has for it. */
function typedAsTable(columns: readonly Column[], table: TableMetadata | null): Column[] {
  const known = table === null ? [] : columnsOf(currentSchema(table))
  const typeOf = new Map(known.map(({ name, type }) => [name.toLowerCase(), type]))
  return columns.map(({ name, type }) =>
    type === '"NULL"' ? { name, type: typeOf.get(name.toLowerCase()) ?? 'VARCHAR' } : { name, type },
  )
}

/** Applies `on_schema_change`. Spark checks no values, so `fail` refuses also a column without values. Throws SchemaChanged. */
function settledColumns({ context, target }: RenderedAttempt, columns: readonly Column[]): readonly Column[] {
  const result = { ...target, columns, files: [] }
  const settled = settleSchema(result, schemaDifference(result))
  if (settled.refusal !== null) throw settled.refusal
  if (settled.warning !== null) context.log.write('warn', settled.warning)
  return settled.columns
}

/** Gives the table on the branch the columns of the query. Returns the table before the engine writes to it. */
async function shape(
  { context, resources, target }: RenderedAttempt,
  columns: readonly Column[],
): Promise<TableMetadata> {
  const { name, table, rules, runStartedAt: at } = target
  const { lake } = resources
  const change = shapeTable({ rules, columns, table, stage: stageOf(name, lake.root), at })
  if (change.operation === null && table !== null) return table
  await commitResult(storeResult(change, lake), { name, table, runId: context.request.runId }, lake)
  const shaped = await lake.catalog.load(name)
  if (shaped === null) throw new Error(`table ${tableKey(name)} is missing after its creation`)
  return shaped
}

async function write(
  { context, config, target, draft }: RenderedAttempt,
  session: SparkSession,
  table: TableMetadata,
  columns: readonly Column[],
): Promise<void> {
  const { name, rules, runStartedAt: at } = target
  const statement = writeStatement({
    name,
    schema: currentSchema(table),
    rules,
    query: draft.sql,
    columns: columns.map((column) => column.name),
    newest: config.watermarkColumn,
    at,
  })
  let shownAt = performance.now()
  const show = ({ tasksDone, tasks, bytesRead }: SparkProgress) => {
    if (performance.now() - shownAt < limits.progressMs) return
    shownAt = performance.now()
    context.log.write('info', `${tasksDone} of ${counted(tasks, 'task')} done, ${sized(bytesRead)} read`)
  }
  await session.execute(statement, show)
}

/** Rows and files that the snapshots since a state have added. A merge counts the rows of the files that it wrote. */
function addedBetween(before: TableMetadata, after: TableMetadata) {
  const known = new Set(before.snapshots.map((snapshot) => snapshot['snapshot-id']))
  const added = after.snapshots.filter((snapshot) => !known.has(snapshot['snapshot-id']))
  const total = (name: string) => added.reduce((sum, { summary }) => sum + Number(summary[name] ?? 0), 0)
  return { rows: total('added-records'), files: total('added-data-files') }
}
