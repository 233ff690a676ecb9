import { join } from 'node:path'
import { counted, since } from '../../core/amounts.ts'
import { explained, findIn } from '../author/slips.ts'
import { type Rendered, withLocation } from '../author/wording.ts'
import { limits } from '../core/limits.ts'
import type { AnswerOf } from '../engine/engine-messages.ts'
import type { InterpreterLease, PythonLimits } from '../interpreter/interpreters.ts'
import { runPython } from '../python/run.ts'
import type { Level } from '../session/attempt-log.ts'
import { openInstance } from '../session/lake-session.ts'
import { lookedAt } from '../session/look.ts'
import { previewQuery } from '../session/spark-sql.ts'
import type { PreparedPreview } from './prepare.ts'
import type { PreviewAnswer, PreviewOutcome } from './preview-report.ts'

/** Executes a prepared preview. Throws AuthorError, the errors of engines, and the signal's reason. */
export async function execute(
  prepared: PreparedPreview,
  { pythonLimits }: { pythonLimits: PythonLimits },
): Promise<PreviewAnswer> {
  const { python, directory } = prepared.resources
  if (prepared.draft.dialect.engine === 'spark') return executeSpark(prepared)
  return python === null
    ? executeSql(prepared, join(directory, 'profile.json'))
    : executePython(prepared, python, { limits: pythonLimits, profilePath: join(directory, 'profile.json') })
}

async function executeSql(prepared: PreparedPreview, profilePath: string): Promise<PreviewAnswer> {
  const { resources, signal, report, template, own, inputs, draft } = prepared
  const { engine, lake, directory, landing } = resources
  report.unread(inputs)
  report.log('info', `rendered ${template.file} in ${since(report.started)}`)
  const started = performance.now()
  const instance = await openInstance(engine, inputs.found(), directory, signal, { profilePath, landing })
  const rendered = { ...template, sql: draft.sql }
  const write = (level: Level, text: string) =>
    level === 'warn' ? report.warn(text) : report.log(level, text)
  const look = async () =>
    draft.zones.length === 0 ? draft.sql : lookedAt(draft.sql, { engine, instance, write, signal })
  const outcome = await look()
    .then((sql) => select(prepared, { instance, profilePath, sql }))
    .catch(async (error: unknown) => {
      const parsedIn = { engine, instance, find: findIn(lake, own.namespace), signal }
      throw withLocation(await explained(error, await inputs.textOf(draft, own), parsedIn), rendered)
    })
  // Only the execution is timed, because the query has no influence on the time to open an instance.
  return reported(prepared, outcome, { sql: draft.sql, started, executeMs: outcome.executeMs })
}

async function executeSpark(prepared: PreparedPreview): Promise<PreviewAnswer> {
  const { request, resources, report, template, inputs, draft } = prepared
  report.unread(inputs)
  const session = await resources.spark()
  report.log('info', `session on ${resources.sparkEngine?.name} opened in ${since(report.started)}`)
  const started = performance.now()
  const { sql } = draft
  const outcome = await previewQuery(session, sql, Number(request.limit)).catch((error: unknown) => {
    throw withLocation(error, { ...template, sql })
  })
  return reported(prepared, outcome, { sql, started, executeMs: outcome.executeMs })
}

async function executePython(
  prepared: PreparedPreview,
  lease: InterpreterLease,
  { limits, profilePath }: { limits: PythonLimits; profilePath: string },
): Promise<PreviewAnswer> {
  const { resources, signal, report, inputs } = prepared
  const instance = await openInstance(resources.engine, inputs.found(), resources.directory, signal, {
    profilePath,
  })
  const started = performance.now()
  const log = {
    write: report.log.bind(report),
    warn: report.warn.bind(report),
    drop: report.drop.bind(report),
  }
  const onZone = (zone: string) => report.readsZone(inputs, zone)
  const { sql, path: file } = await runPython({ ...prepared, lease, limits, instance, log, onZone })
  const pythonMs = Math.round(performance.now() - started)
  report.unread(inputs)
  // The runner wrote this SQL, so its line numbers do not refer to the author's file.
  const rendered: Rendered = { file, source: '', sql: '' }
  const outcome = await select(prepared, { instance, profilePath, sql }).catch((error: unknown) => {
    throw withLocation(error, rendered)
  })
  return reported(prepared, outcome, {
    sql: '',
    started,
    executeMs: pythonMs + outcome.executeMs,
    metadata: { python_ms: pythonMs },
  })
}

const select = (
  { request, resources, signal }: PreparedPreview,
  { instance, ...query }: { instance: number; sql: string; profilePath: string },
): Promise<AnswerOf<'preview'>> =>
  resources.engine.call(
    {
      kind: 'preview',
      number: instance,
      ...query,
      rowsLimit: Number(request.limit),
      bytesLimit: limits.previewBytes,
    },
    signal,
  )

interface Execution {
  /** The author's SQL; empty for Python, whose columns have their types already. */
  sql: string
  /** A value of performance.now(). */
  started: number
  executeMs: number
  metadata?: { python_ms: number }
}

function reported(
  { resources, report, own, table, config, variables }: PreparedPreview,
  outcome: PreviewOutcome,
  { sql, started, executeMs, metadata }: Execution,
): PreviewAnswer {
  const { rowCount, columns } = outcome
  report.ended('sql_execute', executeMs, { rows: rowCount, columns: columns.length, ...metadata })
  report.log('info', `${counted(rowCount, 'row')} in ${since(started)}`)
  report.unwritable(
    { name: own, table, rules: config, at: variables.runStartedAt, root: resources.lake.root, sql },
    columns,
    rowCount,
  )
  return report.answer(outcome, resources.directory)
}
