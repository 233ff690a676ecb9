import { join } from 'node:path'
import { tableKey } from '../../../ground/names.ts'
import { emptyRelation } from '../../../lake/iceberg/sql/empty-relation.ts'
import { schemaForReplace } from '../../../lake/iceberg/write/evolution.ts'
import { AuthorError } from '../../../lake/pipeline/author-error.ts'
import type { PipelineConfig } from '../../../lake/pipeline/config.ts'
import { NameError, parseTableName } from '../../../lake/pipeline/names.ts'
import { sqlReferences } from '../../../lake/pipeline/references.ts'
import { TemplateError } from '../../../lake/pipeline/template.ts'
import type { PublishInput } from '../../../lake/pipeline/validate.ts'
import type { EngineLease } from '../engine/engine-lease.ts'
import { EngineFault } from '../engine/engine-messages.ts'
import { schemaOf, tableExpression } from '../engine/sql-names.ts'
import { type Draft, Inputs } from '../session/inputs.ts'
import { landingIn } from '../session/landing.ts'
import { refusalOfView, storedText } from '../session/view-text.ts'
import { reasonOf } from './wording.ts'

// Before a view is published, its SQL is bound to the columns of its tables on main.

interface Means {
  engine: EngineLease
  signal: AbortSignal
}

/** Why the draft cannot be stored as a view, as lines of the report on its source. Throws EngineEnded, and faults of the engine. */
export async function faultsOfView(
  { pipeline, files, schemas }: PublishInput,
  { materialized, mergeStrategy }: PipelineConfig,
  means: Means,
): Promise<string[]> {
  const source = files.find(({ path }) => path === 'pipeline.sql')
  if (materialized !== 'view' || pipeline.type !== 'sql' || source === undefined) return []
  const variables = {
    strategy: mergeStrategy,
    this: tableExpression(pipeline),
    runStartedAt: '1970-01-01T00:00:00.000Z',
    watermarkValue: null,
  }
  const inputs = new Inputs({
    namespace: pipeline.namespace,
    variables,
    landing: landingIn('/'),
    ...means,
  })
  try {
    const draft = await inputs.draft({ file: source.path, source: source.text })
    const refusal = refusalOfView(draft, pipeline)
    if (refusal !== null) return [refusal]
    storedText(await inputs.storedSqlOf(draft))
    if (schemas === undefined || !isLiteral(draft, pipeline.namespace)) return []
    const missing = draft.tables.map(tableKey).filter((key) => !schemas.has(key))
    if (missing.length > 0)
      return missing.map((key) => `table ${key} does not exist on main: run its pipeline first`)
    await bind(draft, schemas, means)
    return []
  } catch (error) {
    // The template has an error, and that is reported already.
    if (error instanceof TemplateError) return []
    if (error instanceof AuthorError) return [error.text]
    const isFaultOfText = error instanceof EngineFault && OF_THE_TEXT.has(error.kind)
    const reason = isFaultOfText ? reasonOf(error) : null
    if (reason === null) throw error
    return [reason]
  }
}

const OF_THE_TEXT: ReadonlySet<EngineFault['kind']> = new Set(['refused', 'syntax', 'binder', 'other'])

/** Whether every name is written in a literal call: the columns of other tables are unknown before a run. */
function isLiteral({ template, tables }: Draft, namespace: string): boolean {
  const literal = new Set(
    sqlReferences(template.source).calls.flatMap((call) => {
      try {
        return call.function === 'ref' ? tableKey(parseTableName(call.argument, namespace)) : []
      } catch (error) {
        if (error instanceof NameError) return []
        throw error
      }
    }),
  )
  return tables.every((table) => literal.has(tableKey(table)))
}

async function bind(
  { sql, tables }: Draft,
  schemas: NonNullable<PublishInput['schemas']>,
  { engine, signal }: Means,
): Promise<void> {
  const number = await engine.instance()
  const shown = tables.map((table) => ({ schema: schemaOf(table), name: table.name, key: tableKey(table) }))
  await engine.call(
    {
      kind: 'open',
      number,
      tempDirectory: join(engine.directory, `spill-${number}`),
      allowedDirectories: [],
      allowedPaths: [],
      tables: shown.flatMap(({ schema, name, key }) => {
        const columns = schemas.get(key)
        return columns === undefined ? [] : [{ schema, name, from: emptyRelation({ columns }) }]
      }),
    },
    signal,
  )
  schemaForReplace(await engine.call({ kind: 'bind', number, sql, tables: shown }, signal))
}
