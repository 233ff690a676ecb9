import { tableKey } from '../../../ground/names.ts'
import { fieldsOf } from '../../../lake/iceberg/format/types.ts'
import { type ViewMetadata, viewSchema } from '../../../lake/iceberg/views/view.ts'
import { schemaForReplace } from '../../../lake/iceberg/write/evolution.ts'
import { AuthorError } from '../../../lake/pipeline/author-error.ts'
import { counted, since } from '../../core/amounts.ts'
import { explained } from '../author/slips.ts'
import { withLocation } from '../author/wording.ts'
import type { AnswerOf } from '../engine/engine-messages.ts'
import { schemaOf } from '../engine/sql-names.ts'
import type { OpenedInstance } from '../session/shared-instance.ts'
import { statementOf, storedText } from '../session/view-text.ts'
import { openFor } from './execute.ts'
import { judge } from './judge.ts'
import { inputsOf, parsedIn, type RenderedAttempt } from './render.ts'
import { noteReview } from './review.ts'

// A run of a pipeline with `materialized: view` stores its SQL instead of rows. The SQL must bind to the tables of the branch, and
// the quality tests read the view there.

/** Binds the view, tests it, and commits it once to the branch. Throws AuthorError, and the errors of engines. */
export async function performView(attempt: RenderedAttempt): Promise<void> {
  const { context, resources, target, inputs, draft } = attempt
  const { request, facts, log } = context
  const { name } = target
  const started = performance.now()
  const sql = storedText(await inputs.storedSqlOf(draft))
  checkCycle(attempt)
  const opened = await openFor(attempt)
  const [columns, before] = await Promise.all([bind(attempt, opened), resources.lake.catalog.loadView(name)])
  const { schema } = schemaForReplace(columns, before ? lastSchema(before) : undefined)
  const reads = draft.tables.map(tableKey)
  log.write(
    'info',
    `the view has ${counted(columns.length, 'column')} and reads ${reads.join(', ') || 'no table'}`,
  )
  const view = {
    sql: statementOf(draft.sql),
    reads: draft.tables.flatMap((table) => inputs.table(table) ?? []),
  }
  inputs.setTable({ name, schema, files: [], locations: [], rowCount: 0, view })
  const stored = { sql, schema, reads, runId: request.runId }
  // The tests read the very text that is being committed.
  const [tested, committed] = await Promise.allSettled([
    judge(attempt, null, opened),
    resources.lake.catalog.storeView(name, stored),
  ])
  if (committed.status === 'rejected') throw committed.reason
  if (tested.status === 'rejected') throw tested.reason
  if (committed.value === null) log.write('info', 'the view is unchanged: it stays as it is')
  facts.testedCommit = committed.value ?? ''
  facts.tests = tested.value
  await noteReview(attempt, before)
  log.write('info', `attempt ${request.attempt} done in ${since(started)}`)
}

/** A column of the same name and type keeps its id, so that a diff can tell a renamed column from a new one. */
const lastSchema = (view: ViewMetadata) => ({
  schema: viewSchema(view),
  lastColumnId: Math.max(
    0,
    ...view.schemas.flatMap((schema) => Array.from(fieldsOf(schema), ({ id }) => id)),
  ),
})

/** A view that reads the stored view of its own name would read itself. Throws AuthorError. */
function checkCycle(attempt: RenderedAttempt): void {
  const { name } = attempt.target
  const own = tableKey(name)
  const reader = inputsOf(attempt).find(({ view }) => view?.reads.some((read) => tableKey(read.name) === own))
  if (reader !== undefined)
    throw new AuthorError(`view ${own} reads itself: view ${tableKey(reader.name)} reads it`, { where: '' })
}

async function bind(attempt: RenderedAttempt, { number }: OpenedInstance): Promise<AnswerOf<'bind'>> {
  const { context, resources, target, template, inputs, draft } = attempt
  const tables = draft.tables.map((table) => ({ schema: schemaOf(table), name: table.name }))
  return resources.engine
    .call({ kind: 'bind', number, sql: draft.sql, tables }, context.signal)
    .catch(async (error: unknown) => {
      const text = await inputs.textOf(draft, target.name)
      throw withLocation(await explained(error, text, parsedIn(attempt, number)), {
        ...template,
        sql: draft.sql,
      })
    })
}
