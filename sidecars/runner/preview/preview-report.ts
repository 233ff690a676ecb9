import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { Code, ConnectError } from '@connectrpc/connect'
import { LAYERS, layerOf, type TableName } from '../../../ground/names.ts'
import type { Column } from '../../../lake/iceberg/format/types.ts'
import { AuthorError } from '../../../lake/pipeline/author-error.ts'
import {
  type PipelineConfig,
  parseConfig,
  problemText,
  type TextFile,
} from '../../../lake/pipeline/config.ts'
import { partsOfSelection } from '../../../lake/pipeline/names.ts'
import type {
  PreviewPhaseSchema,
  PreviewPipelineRequest,
  PreviewPipelineResponseSchema,
} from '../../../proto/gen/sluice/query/v1/query_pb.ts'
import {
  type LakeAccess,
  type LogEntrySchema,
  LogLevel,
} from '../../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { counted, since } from '../../core/amounts.ts'
import { limits } from '../core/limits.ts'
import type { AnswerOf } from '../engine/engine-messages.ts'
import type { Level } from '../session/attempt-log.ts'
import { type Inputs, readsTable, readsZone } from '../session/inputs.ts'
import { objectOf } from '../session/landing.ts'
import { prefixOf } from '../session/pipeline-files.ts'
import { type Profile, readProfile } from '../session/profile.ts'
import { refusalOfWrite, type Write } from '../write/table-write.ts'

// The request and the report of a preview, for pipelines in SQL and Python.

export type PreviewAnswer = MessageInitShape<typeof PreviewPipelineResponseSchema>
/** Metadata of a phase. Each value becomes JSON. */
type Metadata = Record<string, string | number | readonly string[]>

/** Source and configuration of the request. Throws AuthorError if the source is missing. */
export function sourcesOf(
  request: PreviewPipelineRequest,
  sourcePath: string,
): { source: TextFile; config: TextFile | undefined } {
  const prefix = prefixOf(request)
  const { code } = request
  const files = request.files.map(({ path, content }) => ({
    path: path.startsWith(prefix) ? path.slice(prefix.length) : path,
    text: content,
  }))
  const source =
    code === '' ? files.find(({ path }) => path === sourcePath) : { path: sourcePath, text: code }
  if (source === undefined) throw new AuthorError(`the pipeline has no ${sourcePath}`)
  return { source, config: files.find(({ path }) => path === 'config.yaml') }
}

export function previewedTable({ namespace, layer: text, pipelineName }: PreviewPipelineRequest): TableName {
  const layer = layerOf(text)
  if (layer === undefined)
    throw new ConnectError(`unknown layer '${text}': use ${LAYERS.join(', ')}`, Code.InvalidArgument)
  return { namespace, layer, name: pipelineName }
}

export function accessOf({ lake }: PreviewPipelineRequest): LakeAccess {
  if (lake === undefined) throw new ConnectError('lake is missing', Code.InvalidArgument)
  return lake
}

/** Log lines, warnings and phases of one preview, in order. */
export class PreviewReport {
  readonly #request: PreviewPipelineRequest
  readonly started = performance.now()
  readonly #logs: MessageInitShape<typeof LogEntrySchema>[] = []
  readonly #warnings: string[] = []
  readonly #phases: MessageInitShape<typeof PreviewPhaseSchema>[] = []
  #bytes = 0
  #dropped = 0

  constructor(request: PreviewPipelineRequest) {
    this.#request = request
  }

  /** Parses the configuration. Throws AuthorError for a configuration that no run could have. */
  configure(sources: ReturnType<typeof sourcesOf>): PipelineConfig {
    const { config, errors, warnings } = parseConfig(sources)
    for (const warning of warnings) this.warn(problemText(warning))
    if (errors.length > 0) throw new AuthorError(errors.map(problemText).join('; '))
    return config
  }

  /** Logs the tables and zones that the preview reads. */
  reads(inputs: Inputs, { tables, zones }: { tables: readonly TableName[]; zones: readonly string[] }): void {
    for (const table of tables.flatMap((name) => inputs.table(name) ?? []))
      this.log('info', readsTable(table))
    for (const zone of zones) this.readsZone(inputs, zone)
  }

  readsZone(inputs: Inputs, selection: string): void {
    const { namespace, samples } = this.#request
    const { zone } = partsOfSelection(selection)
    const files = inputs.landing(selection)
    this.log('info', readsZone(selection, files))
    const isGiven = samples.some((sample) => sample.zone === zone)
    const folder = `${namespace}/landing/${zone}/_samples/`
    if (!isGiven && files.some((file) => objectOf(file).path.startsWith(folder)))
      this.warn(`landing zone ${zone} has no files: the preview reads its samples instead`)
  }

  /** Warns about a result that can be computed, but that no run could write. Without rows, only its columns matter. */
  unwritable(write: Write, columns: readonly Column[], rowCount: number): void {
    const { refusal, doubts, warning } = refusalOfWrite(write, columns)
    if (warning !== null) this.warn(warning)
    if (refusal !== null) this.warn(`a run would fail: ${refusal}`)
    if (rowCount > 0)
      for (const doubt of doubts) this.warn(`a run would fail unless every value fits: ${doubt}`)
  }

  /** Warns about samples for zones that the source does not read. */
  unread(inputs: Inputs): void {
    for (const { zone } of this.#request.samples.filter((sample) => !inputs.readsZone(sample.zone)))
      this.warn(`sample_files: the source does not read landing zone ${zone}`)
  }

  ended(name: string, ms: number, metadata: Metadata): void {
    const texts = Object.entries(metadata).map(([key, value]) => [key, JSON.stringify(value)])
    this.#phases.push({ name, durationMs: BigInt(Math.round(ms)), metadata: Object.fromEntries(texts) })
  }

  warn(message: string): void {
    this.#warnings.push(message)
    this.log('warn', message)
  }

  log(level: Level, message: string): void {
    const text = message.slice(0, limits.logMessageCharacters)
    const bytes = Buffer.byteLength(text)
    if (this.#logs.length >= limits.previewLogLines || this.#bytes + bytes > limits.previewLogBytes)
      this.#dropped += 1
    else {
      this.#bytes += bytes
      this.#add(level, text)
    }
  }

  /** Counts lines that the caller did not write because the log was full. */
  drop(lines: number): void {
    this.#dropped += lines
  }

  /** Makes the answer from the engine's outcome. `directory` is the local directory of the work. */
  answer(outcome: PreviewOutcome, directory: string): PreviewAnswer {
    const profiling = performance.now()
    const profile = typeof outcome.profile === 'string' ? readProfile(outcome.profile) : outcome.profile
    this.ended('profiling', performance.now() - profiling, {
      operators: profile.operators,
      memory_peak_bytes: profile.memoryPeakBytes,
      disk_peak_bytes: profile.diskPeakBytes,
    })
    if (this.#dropped > 0)
      this.#add(
        'warn',
        `${counted(this.#dropped, 'more log line')} dropped: the log of a preview is limited to ${counted(limits.previewLogLines, 'line')} and 1 MiB`,
      )
    this.#add('info', `preview done in ${since(this.started)}: nothing was written`)
    return {
      arrowIpc: outcome.arrow,
      totalRowCount: BigInt(outcome.rowCount),
      phases: this.#phases,
      explainOutput: profile.tree.replaceAll(`${directory}/`, ''),
      memoryPeakBytes: BigInt(profile.memoryPeakBytes),
      warnings: this.#warnings,
      logs: this.#logs,
    }
  }

  #add(level: Level, message: string): void {
    this.#logs.push({
      seq: BigInt(this.#logs.length + 1),
      timestamp: timestampFromDate(new Date()),
      level: LEVEL[level],
      message,
    })
  }
}

/** The answer of an engine. Spark has no profile of DuckDB, but a plan. */
export type PreviewOutcome = Omit<AnswerOf<'preview'>, 'profile'> & { profile: string | Profile }

const LEVEL = { debug: LogLevel.DEBUG, info: LogLevel.INFO, warn: LogLevel.WARN, error: LogLevel.ERROR }
