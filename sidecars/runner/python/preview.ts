import { join } from 'node:path'
import { currentSchema } from '../../../lake/iceberg/format/metadata.ts'
import { tableKey } from '../../../lake/pipeline/names.ts'
import type { PreviewPipelineRequest } from '../../../proto/gen/sluice/query/v1/query_pb.ts'
import { AttemptFailure } from '../attempt/attempts.ts'
import { Inputs } from '../attempt/inputs.ts'
import { openInstance, tableExpression } from '../attempt/lake-session.ts'
import type { Workplace } from '../attempt/workplace.ts'
import { findIn } from '../author/slips.ts'
import { counted, reasonOf, since } from '../author/wording.ts'
import { EngineFault } from '../engine/engine-messages.ts'
import { limits } from '../limits.ts'
import {
  accessOf,
  type PreviewAnswer,
  PreviewReport,
  previewedTable,
  sourcesOf,
} from '../preview/preview-report.ts'
import { watermarkOf } from '../write/watermark.ts'
import { pythonDraft } from './draft.ts'
import type { InterpreterLease } from './interpreters.ts'
import { type PythonLimits, runPython } from './run.ts'

/**
 * A dry run of `pipeline.py`, in a sandbox like that of any run: what it sets as its result is executed once, and its
 * first rows are kept. Throws PreviewFailure, AttemptFailure, what engines throw, and the signal's reason.
 */
export async function previewPython(
  request: PreviewPipelineRequest,
  place: Workplace,
  python: InterpreterLease,
  pythonLimits: PythonLimits,
  signal: AbortSignal,
): Promise<PreviewAnswer> {
  const { lake, directory } = place
  const report = new PreviewReport(request)
  const preparing = performance.now()
  const sources = sourcesOf(request, 'pipeline.py')
  const { source } = sources
  const config = report.configure(sources)
  const own = previewedTable(request)
  const table = await lake.catalog.load(own)
  const asksWatermark = /\bwatermark_value\b/.test(source.text)
  const watermark = asksWatermark
    ? await watermarkOf({ name: own, table, column: config.watermarkColumn }, place, signal)
    : null
  if (watermark?.warning) report.warn(watermark.warning)
  const variables = {
    strategy: config.mergeStrategy,
    this: tableExpression(own),
    runStartedAt: new Date().toISOString(),
    watermarkValue: watermark?.value ?? null,
  }
  const inputs = new Inputs({
    namespace: own.namespace,
    variables,
    landing: place.landing,
  })
  const draft = pythonDraft({ file: source.path, source: source.text }, own.namespace)
  const readsOwn = /\bthis\b/.test(source.text)
  const landing = {
    namespace: own.namespace,
    frozen: request.samples,
    access: accessOf(request),
    gateway: lake.gateway,
  }
  await Promise.all([
    inputs.openTables([...draft.tables, ...(readsOwn ? [own] : [])], lake, new Map([[tableKey(own), table]])),
    inputs.openLandings(draft.zones, landing),
  ])
  report.reads(inputs, draft)
  report.ended('template_render', performance.now() - preparing, {
    file: source.path,
    characters: source.text.length,
    tables: draft.tables.map(tableKey),
    landing_zones: draft.zones,
  })

  const engine = await place.engine
  const profilePath = join(directory, 'profile.json')
  const instance = await openInstance(engine, inputs.found(), directory, signal, { profilePath })
  const { step, python: interpreter } = python.sandbox
  report.say('info', `${source.path} runs on Python ${interpreter.version}, sandbox: ${step}`)
  if (step === 'none')
    report.warn('there is no sandbox (SANDBOX=off): the pipeline can do what the runner can')
  const started = performance.now()
  const {
    sql,
    warnings,
    place: file,
  } = await runPython({
    lease: python,
    limits: pythonLimits,
    engine,
    instance,
    inputs,
    own,
    source: { file: source.path, text: source.text },
    config,
    variables,
    schema: table && currentSchema(table),
    log: {
      write: (level, message) => report.say(level, message),
      drop: (lines) => report.drop(lines),
    },
    find: findIn(lake, own.namespace),
    findLate: {
      async table(name) {
        const metadata = await lake.catalog.load(name)
        return metadata && lake.open(name, metadata)
      },
      async zone(zone) {
        await inputs.openLandings([zone], landing)
        report.readsZone(inputs, zone)
      },
    },
    signal,
  })
  for (const warning of warnings) report.warn(warning)
  const pythonMs = Math.round(performance.now() - started)
  report.say('info', `ran ${source.path} in ${since(started)}`)
  report.unread(inputs)
  const outcome = await engine
    .call(
      {
        kind: 'preview',
        number: instance,
        sql,
        profilePath,
        rowsLimit: Number(request.limit),
        bytesLimit: limits.previewBytes,
      },
      signal,
    )
    .catch((error: unknown) => {
      if (!(error instanceof EngineFault)) throw error
      // The SQL is ours: it asks for the result that was set.
      const reason = reasonOf(error, { file, source: '', sql: '' })
      throw new AttemptFailure(reason ?? error.message, { cause: error })
    })
  report.ended('sql_execute', pythonMs + outcome.executeMs, {
    rows: outcome.rowCount,
    columns: outcome.columns.length,
    python_ms: pythonMs,
  })
  report.say('info', `${counted(outcome.rowCount, 'row')} in ${since(started)}`)
  // The SQL is ours: what it selects has its types already.
  const write = { name: own, table, rules: config, at: variables.runStartedAt, sql: '' }
  report.unwritable(write, outcome.columns)
  return report.answer(outcome, directory)
}
