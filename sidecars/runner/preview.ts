import { join } from 'node:path'
import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect'
import { CatalogError } from '../../lake/iceberg/client.ts'
import { tableKey } from '../../lake/pipeline/names.ts'
import type { PreviewPipelineRequest, QueryService } from '../../proto/gen/sluice/query/v1/query_pb.ts'
import { HttpFailure } from '../http.ts'
import { AttemptFailure } from './attempts.ts'
import { EnginesBusy, makeTurns } from './engine-pool.ts'
import { Inputs } from './inputs.ts'
import { openInstance, tableExpression } from './lake-session.ts'
import { limits } from './limits.ts'
import {
  accessOf,
  type PreviewAnswer,
  PreviewFailure,
  PreviewReport,
  previewedTable,
  sourcesOf,
} from './preview-report.ts'
import { InterpreterEnded } from './python/interpreter.ts'
import { NoPython } from './python/interpreters.ts'
import { previewPython } from './python/preview.ts'
import { watermarkOf } from './watermark.ts'
import { counted, type Rendered, reasonOf, since } from './wording.ts'
import { openWorkplace, type Workplace, type WorkplaceOptions } from './workplace.ts'

// A dry run of a draft: rendered and executed as a run would, on main and through a token that only reads. Nothing is
// written, so the query is executed once and only its first rows are kept.

export type PreviewPipeline = ReturnType<typeof makePreview>

/** Makes the function that previews pipelines. It throws ConnectError, as proto/sluice/query/v1/query.proto says. */
export function makePreview(options: WorkplaceOptions) {
  // Of their own: a loop in Python without an end is not to keep people from looking at their SQL.
  const turns = { sql: makeTurns(limits.previewsAtOnce), python: makeTurns(limits.pythonPreviewsAtOnce) }

  return async function previewPipeline(
    request: PreviewPipelineRequest,
    caller: AbortSignal,
  ): Promise<PreviewAnswer> {
    const { type } = request
    if (type !== 'sql' && type !== 'python')
      throw new ConnectError(`type '${type}' is neither sql nor python`, Code.InvalidArgument)
    await enter(turns[type], caller)
    const late = AbortSignal.timeout(limits.previewMs)
    try {
      return await inPlace(options, request, AbortSignal.any([caller, late]))
    } catch (error) {
      if (error instanceof EnginesBusy) throw new ConnectError(error.message, Code.Unavailable)
      if (late.aborted)
        throw new ConnectError(
          `the preview was stopped at its time limit of ${limits.previewMs / 1_000} s`,
          Code.DeadlineExceeded,
        )
      throw error
    } finally {
      turns[type].leave()
    }
  }
}

/** Waits for its turn. */
async function enter(turns: ReturnType<typeof makeTurns>, caller: AbortSignal): Promise<void> {
  const late = AbortSignal.timeout(limits.previewWaitMs)
  try {
    await turns.enter(AbortSignal.any([caller, late]))
  } catch (error) {
    if (!late.aborted && !(error instanceof EnginesBusy)) throw error
    const message = `other previews have kept the runner busy for ${limits.previewWaitMs / 1_000} s: try again`
    throw new ConnectError(error instanceof EnginesBusy ? error.message : message, Code.ResourceExhausted)
  }
}

async function inPlace(
  options: WorkplaceOptions,
  request: PreviewPipelineRequest,
  signal: AbortSignal,
): Promise<PreviewAnswer> {
  const needsPython = request.type === 'python'
  const place = await openWorkplace(options, accessOf(request), signal, { needsPython }).catch(
    (error: unknown) => {
      signal.throwIfAborted()
      const isAboutPython = error instanceof NoPython || error instanceof InterpreterEnded
      throw isAboutPython ? new ConnectError(`python: ${error.message}`, Code.FailedPrecondition) : error
    },
  )
  const preview = new Preview(request, place, signal)
  try {
    if (place.python === null) return await preview.go()
    return await previewPython(request, place, place.python, options.pythonLimits, signal)
  } catch (error) {
    signal.throwIfAborted()
    throw refusalOf(error, place.python === null ? preview.rendered : PYTHON, place.directory)
  } finally {
    await place.clear()
  }
}

/** What the engine says is about its result, of no line. */
const PYTHON: Rendered = { file: 'pipeline.py', source: '', sql: '' }

function refusalOf(error: unknown, rendered: Rendered | undefined, directory: string): unknown {
  if (error instanceof ConnectError || error instanceof EnginesBusy) return error
  const isOfAuthor = error instanceof PreviewFailure || error instanceof AttemptFailure
  const reason = isOfAuthor ? error.message : reasonOf(error, rendered)
  if (reason === null) return error
  const isElsewhere =
    error instanceof CatalogError ||
    error instanceof HttpFailure ||
    (error instanceof Error && error.name === 'TimeoutError')
  return new ConnectError(
    reason.replaceAll(`${directory}/`, ''),
    isElsewhere ? Code.Unavailable : Code.FailedPrecondition,
  )
}

class Preview {
  /** Set while what the engine says is about the pipeline's SQL. */
  rendered: Rendered | undefined
  readonly #request: PreviewPipelineRequest
  readonly #place: Workplace
  readonly #signal: AbortSignal
  readonly #report: PreviewReport

  constructor(request: PreviewPipelineRequest, place: Workplace, signal: AbortSignal) {
    this.#request = request
    this.#place = place
    this.#signal = signal
    this.#report = new PreviewReport(request)
  }

  async go(): Promise<PreviewAnswer> {
    const { rendered, inputs } = await this.#render()
    const outcome = await this.#execute(rendered, inputs)
    return this.#report.answer(outcome, this.#place.directory)
  }

  /** Everything up to SQL that can run: configuration, template, and what the template asks for. */
  async #render(): Promise<{ rendered: Rendered; inputs: Inputs }> {
    const { lake, directory } = this.#place
    const started = performance.now()
    const sources = sourcesOf(this.#request, 'pipeline.sql')
    const { source } = sources
    const config = this.#report.configure(sources)
    const own = previewedTable(this.#request)
    const asksWatermark = /\bwatermark_value\b/.test(source.text)
    const readsOwn = asksWatermark || /\bthis\b/.test(source.text)
    const table = readsOwn ? await lake.catalog.load(own) : null
    const inputs = new Inputs({
      namespace: own.namespace,
      variables: {
        strategy: config.mergeStrategy,
        this: tableExpression(own),
        runStartedAt: new Date().toISOString(),
        watermarkValue: asksWatermark
          ? await watermarkOf({ name: own, table, column: config.watermarkColumn }, this.#place, this.#signal)
          : null,
      },
      landingDirectory: join(directory, 'landing'),
    })
    const template = { file: source.path, source: source.text }
    const draft = inputs.draft(template)
    await Promise.all([
      inputs.openTables(
        [...draft.tables, ...(readsOwn ? [own] : [])],
        lake,
        new Map([[tableKey(own), table]]),
      ),
      inputs.openLandings(draft.zones, {
        namespace: own.namespace,
        frozen: this.#request.samples,
        access: accessOf(this.#request),
        gateway: lake.gateway,
      }),
    ])
    this.#report.reads(inputs, draft)
    this.#report.unread(inputs)
    const sql = inputs.sqlOf(draft)
    this.#report.ended('template_render', performance.now() - started, {
      file: source.path,
      characters: sql.length,
      tables: draft.tables.map(tableKey),
      landing_zones: draft.zones,
    })
    this.#report.say('info', `rendered ${source.path} in ${since(started)}`)
    return { rendered: { ...template, sql }, inputs }
  }

  async #execute(rendered: Rendered, inputs: Inputs) {
    const { directory } = this.#place
    const started = performance.now()
    const engine = await this.#place.engine
    const profilePath = join(directory, 'profile.json')
    const instance = await openInstance(engine, inputs.found(), directory, this.#signal, { profilePath })
    this.rendered = rendered
    const outcome = await engine.call(
      {
        kind: 'preview',
        number: instance,
        sql: rendered.sql,
        profilePath,
        rowsLimit: Number(this.#request.limit),
        bytesLimit: limits.previewBytes,
      },
      this.#signal,
    )
    this.rendered = undefined
    // Without the way to an engine: that is nothing the query can help.
    this.#report.ended('sql_execute', outcome.executeMs, {
      rows: outcome.rowCount,
      columns: outcome.columnCount,
    })
    this.#report.say('info', `${counted(outcome.rowCount, 'row')} in ${since(started)}`)
    return outcome
  }
}

/** The one call of QueryService that runners answer. */
export const makePreviewService = (
  previewPipeline: PreviewPipeline,
): Partial<ServiceImpl<typeof QueryService>> => ({
  previewPipeline: (request, { signal }) => previewPipeline(request, signal),
})
