import { join } from 'node:path'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect'
import { CatalogError } from '../../lake/iceberg/client.ts'
import { type PipelineConfig, parseConfig, problemText, type TextFile } from '../../lake/pipeline/config.ts'
import { LAYERS, type TableName, tableKey } from '../../lake/pipeline/names.ts'
import type {
  PreviewPhaseSchema,
  PreviewPipelineRequest,
  PreviewPipelineResponseSchema,
  QueryService,
} from '../../proto/gen/sluice/query/v1/query_pb.ts'
import { type LogEntrySchema, LogLevel } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { HttpFailure } from '../http.ts'
import { EnginesBusy, makeTurns } from './engine-pool.ts'
import { Inputs } from './inputs.ts'
import { openInstance, tableExpression } from './lake-session.ts'
import { limits } from './limits.ts'
import { prefixOf } from './pipeline-files.ts'
import { readProfile } from './profile.ts'
import { watermarkOf } from './watermark.ts'
import { counted, type Rendered, reasonOf, since, sized } from './wording.ts'
import { openWorkplace, type Workplace, type WorkplaceOptions } from './workplace.ts'

// A dry run of a draft: rendered and executed as a run would, on main and through a token that only reads. Nothing is
// written, so the query is executed once and only its first rows are kept.

type Answer = MessageInitShape<typeof PreviewPipelineResponseSchema>
/** Of a phase; each value becomes JSON. */
type Metadata = Record<string, string | number | readonly string[]>

/** What is wrong with the pipeline, in words for its author. */
class PreviewFailure extends Error {}

export type PreviewPipeline = ReturnType<typeof makePreview>

/** Makes the function that previews pipelines. It throws ConnectError, as proto/sluice/query/v1/query.proto says. */
export function makePreview(options: WorkplaceOptions) {
  const turns = makeTurns(limits.previewsAtOnce)

  return async function previewPipeline(
    request: PreviewPipelineRequest,
    caller: AbortSignal,
  ): Promise<Answer> {
    if (request.lake === undefined) throw new ConnectError('lake is missing', Code.InvalidArgument)
    if (request.type !== 'sql')
      throw new ConnectError('pipelines in Python cannot be previewed yet', Code.FailedPrecondition)
    const late = AbortSignal.timeout(limits.previewMs)
    const signal = AbortSignal.any([caller, late])
    try {
      await turns.enter(signal)
      try {
        return await inPlace(options, request, request.lake, signal)
      } finally {
        turns.leave()
      }
    } catch (error) {
      if (error instanceof EnginesBusy) throw new ConnectError(error.message, Code.Unavailable)
      if (late.aborted)
        throw new ConnectError(
          `the preview was stopped at its time limit of ${limits.previewMs / 1_000} s`,
          Code.DeadlineExceeded,
        )
      throw error
    }
  }
}

async function inPlace(
  options: WorkplaceOptions,
  request: PreviewPipelineRequest,
  lake: NonNullable<PreviewPipelineRequest['lake']>,
  signal: AbortSignal,
): Promise<Answer> {
  const place = await openWorkplace(options, lake, signal)
  const preview = new Preview(request, place, signal)
  try {
    return await preview.go()
  } catch (error) {
    signal.throwIfAborted()
    throw refusalOf(error, preview.rendered, place.directory)
  } finally {
    await place.clear()
  }
}

function refusalOf(error: unknown, rendered: Rendered | undefined, directory: string): unknown {
  if (error instanceof ConnectError || error instanceof EnginesBusy) return error
  const reason = error instanceof PreviewFailure ? error.message : reasonOf(error, rendered)
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
  readonly #logs: MessageInitShape<typeof LogEntrySchema>[] = []
  readonly #warnings: string[] = []
  readonly #phases: MessageInitShape<typeof PreviewPhaseSchema>[] = []

  constructor(request: PreviewPipelineRequest, place: Workplace, signal: AbortSignal) {
    this.#request = request
    this.#place = place
    this.#signal = signal
  }

  async go(): Promise<Answer> {
    const started = performance.now()
    const { rendered, inputs } = await this.#render()
    const { arrow, rowCount, profile: text } = await this.#execute(rendered, inputs)
    const profiling = performance.now()
    const profile = readProfile(text)
    this.#ended('profiling', performance.now() - profiling, {
      operators: profile.operators,
      memory_peak_bytes: profile.memoryPeakBytes,
      disk_peak_bytes: profile.diskPeakBytes,
    })
    this.#say('info', `preview done in ${since(started)}: nothing was written`)
    return {
      arrowIpc: arrow,
      totalRowCount: BigInt(rowCount),
      phases: this.#phases,
      explainOutput: profile.tree.replaceAll(`${this.#place.directory}/`, ''),
      memoryPeakBytes: BigInt(profile.memoryPeakBytes),
      warnings: this.#warnings,
      logs: this.#logs,
    }
  }

  /** Everything up to SQL that can run: configuration, template, and what the template asks for. */
  async #render(): Promise<{ rendered: Rendered; inputs: Inputs }> {
    const { lake, directory } = this.#place
    const started = performance.now()
    const files = this.#files()
    const source = files.find(({ path }) => path === 'pipeline.sql')
    if (source === undefined) throw new PreviewFailure('the pipeline has no pipeline.sql')
    const config = this.#configure(source, files)
    const own = targetOf(this.#request)
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
        access: this.#access,
        gateway: lake.gateway,
      }),
    ])
    this.#sayWhatIsRead(inputs, draft)
    const sql = inputs.sqlOf(draft)
    this.#ended('template_render', performance.now() - started, {
      file: source.path,
      characters: sql.length,
      tables: draft.tables.map(tableKey),
      landing_zones: draft.zones,
    })
    this.#say('info', `rendered ${source.path} in ${since(started)}`)
    return { rendered: { ...template, sql }, inputs }
  }

  get #access() {
    const { lake } = this.#request
    if (lake === undefined) throw new ConnectError('lake is missing', Code.InvalidArgument)
    return lake
  }

  #files(): TextFile[] {
    const { code, files } = this.#request
    const prefix = prefixOf(this.#request)
    const named = files.map(({ path, content }) => ({
      path: path.startsWith(prefix) ? path.slice(prefix.length) : path,
      text: content,
    }))
    if (code === '') return named
    return [...named.filter(({ path }) => path !== 'pipeline.sql'), { path: 'pipeline.sql', text: code }]
  }

  #configure(source: TextFile, files: readonly TextFile[]): PipelineConfig {
    const { config, errors, warnings } = parseConfig({
      config: files.find(({ path }) => path === 'config.yaml'),
      source,
    })
    for (const warning of warnings) this.#warn(problemText(warning))
    if (errors.length > 0) throw new PreviewFailure(errors.map(problemText).join('; '))
    return config
  }

  #sayWhatIsRead(inputs: Inputs, { tables, zones }: { tables: TableName[]; zones: string[] }): void {
    for (const table of tables.flatMap((name) => inputs.table(name) ?? []))
      this.#say(
        'info',
        `reads ${tableKey(table.name)}: ${counted(table.rowCount, 'row')} in ${counted(table.paths.length, 'file')}`,
      )
    const { namespace, samples } = this.#request
    for (const zone of zones) {
      const files = inputs.landing(zone)
      const bytes = files.reduce((sum, { object }) => sum + Number(object?.sizeBytes ?? 0n), 0)
      this.#say('info', `reads landing zone ${zone}: ${counted(files.length, 'file')}, ${sized(bytes)}`)
      const isGiven = samples.some((known) => known.zone === zone)
      const folder = `${namespace}/landing/${zone}/_samples/`
      if (!isGiven && files.some(({ object }) => object?.path.startsWith(folder)))
        this.#warn(`landing zone ${zone} has no files: its samples are read in their place`)
    }
    for (const { zone } of samples.filter((given) => !zones.includes(given.zone)))
      this.#warn(`sample_files: the source does not read landing zone ${zone}`)
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
    this.#ended('sql_execute', outcome.executeMs, { rows: outcome.rowCount, columns: outcome.columnCount })
    this.#say('info', `${counted(outcome.rowCount, 'row')} in ${since(started)}`)
    return outcome
  }

  #ended(name: string, ms: number, metadata: Metadata): void {
    const texts = Object.entries(metadata).map(([key, value]) => [key, JSON.stringify(value)])
    this.#phases.push({ name, durationMs: BigInt(Math.round(ms)), metadata: Object.fromEntries(texts) })
  }

  #warn(message: string): void {
    this.#warnings.push(message)
    this.#say('warn', message)
  }

  #say(level: 'info' | 'warn', message: string): void {
    this.#logs.push({
      seq: BigInt(this.#logs.length + 1),
      timestamp: timestampFromDate(new Date()),
      level: level === 'warn' ? LogLevel.WARN : LogLevel.INFO,
      message,
    })
  }
}

function targetOf({ namespace, layer: text, pipelineName: name }: PreviewPipelineRequest): TableName {
  const layer = LAYERS.find((known) => known === text)
  if (layer === undefined) throw new ConnectError(`there is no layer ${text}`, Code.InvalidArgument)
  return { namespace, layer, name }
}

/** The one call of QueryService that runners answer. */
export const makePreviewService = (
  previewPipeline: PreviewPipeline,
): Partial<ServiceImpl<typeof QueryService>> => ({
  previewPipeline: (request, { signal }) => previewPipeline(request, signal),
})
