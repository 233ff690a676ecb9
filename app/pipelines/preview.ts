import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { Db } from '../../drizzle/client.ts'
import type { JsonRows } from '../../lake/engine/arrow-json.ts'
import type { PreviewPhase, PreviewPipelineRequestSchema } from '../../proto/gen/sluice/query/v1/query_pb.ts'
import {
  type LakeAccessSchema,
  type LandingFileSchema,
  type LogEntry,
  LogLevel,
} from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import type { Reader } from '../access/code-visibility.ts'
import { AppError, invalid } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { rowLimitOf } from '../core/pagination.ts'
import { noPipeline, type PipelineRef, prefixOf } from '../core/pipeline-ref.ts'
import type { ObjectStore, StoredObject } from '../objects/port.ts'
import { type EngineRows, makeEngineRows } from '../query/engine-rows.ts'
import type { QueryClient } from '../rpc/clients.ts'
import type { Pool } from '../rpc/pool.ts'
import { refusedByRunner } from '../rpc/runner-port.ts'
import { filePath } from '../wire/paths.ts'
import { draftObjects, readCode, sourceFileOf } from './draft-files.ts'
import { PIPELINE_PREVIEW_ROWS, type PipelinePreview, type PreviewPipeline } from './preview-schema.ts'
import { livePipeline } from './store/pipelines.ts'

/** Time limit of the runner for one preview (spec: Limits), including up to 30 s of waiting. */
const PIPELINE_PREVIEW_MS = 90_000

interface PreviewDeps {
  db: Db
  objects: ObjectStore
  /** Runners that execute previews. */
  runners: Pool<QueryClient>
  /** Address and token with which a runner reads a branch and the landing files of a namespace, as the caller sees them. */
  readLake(also: {
    branch: string | undefined
    landing: string
    reader: Reader | null
  }): Promise<MessageInitShape<typeof LakeAccessSchema>>
  /** Maximum size of the rows as JSON. */
  answerBytesMax: number
  /** Shared by all services that answer rows; by default a separate instance. */
  engineRows?: EngineRows
}

/** A `PipelinePreview` with its rows already encoded as JSON. */
type PreviewAnswer = Omit<PipelinePreview, 'rows'> & JsonRows

export type PreviewService = ReturnType<typeof makePreviewService>
type PreviewRequest = PreviewPipeline & { queryLimit?: string }

export function makePreviewService(deps: PreviewDeps) {
  const { db, objects, readLake } = deps
  const execute = makeExecute(deps)

  /** Reads the source and the configuration among `found`. */
  function codeOf(ref: PipelineRef, type: string, found: readonly StoredObject[]) {
    const names = [sourceFileOf(type), 'config.yaml'].map((name) => prefixOf(ref) + name)
    return readCode(
      objects,
      ref,
      found.filter(({ key }) => names.includes(key)),
    )
  }

  /** Groups the given landing files by zone. Throws 400 for a path that is no landing file of the namespace. */
  async function samplesOf({ namespace }: PipelineRef, paths: readonly string[]) {
    const zones = new Map<string, MessageInitShape<typeof LandingFileSchema>[]>()
    for (const path of new Set(paths)) {
      const [, ofNamespace, zone, filename] = LANDED.exec(filePath(path, 'sample_files')) ?? []
      if (ofNamespace !== namespace || zone === undefined || filename === undefined)
        throw invalid('sample_files', `${path} is not a landing file of namespace ${namespace}`)
      const object = await objects.head(path)
      if (object === null) throw invalid('sample_files', `${path} does not exist`)
      const { versionId, size } = object
      const files = zones.get(zone) ?? []
      // Two files from different folders may have the same name. The runner's directory needs distinct names.
      const isTaken = files.some((other) => other.filename === filename)
      files.push({
        id: `sample-${files.length}`,
        filename: isTaken ? `${files.length}-${filename}` : filename,
        object: { path, versionId, sizeBytes: BigInt(size) },
      })
      zones.set(zone, files)
    }
    return Array.from(zones, ([zone, files]) => ({ namespace, zone, files }))
  }

  return {
    /**
     * Executes the draft once on data that `reader` may see, and writes nothing. A null `reader` sees everything. `signal`
     * stops the execution.
     */
    async preview(
      ref: PipelineRef,
      { limit, queryLimit, code = '', sample_files: sampleFiles = [], branch }: PreviewRequest,
      signal: AbortSignal,
      reader: Reader | null = null,
    ): Promise<PreviewAnswer> {
      const around = Promise.all([
        draftObjects(objects, ref),
        samplesOf(ref, sampleFiles),
        readLake({ branch, landing: ref.namespace, reader }),
      ])
      // A missing pipeline is reported before any other error.
      around.catch(() => {})
      const pipeline = await livePipeline(db, ref)
      if (pipeline === null) throw noPipeline(ref)
      const [found, samples, lake] = await around
      const files = await codeOf(ref, pipeline.type, found)
      const rowsMax = rowLimitOf(limit ?? queryLimit, ROWS)
      const request = {
        namespace: ref.namespace,
        layer: ref.layer,
        pipelineName: ref.name,
        type: pipeline.type,
        code,
        files: files.map(({ name, text }) => ({ path: name, content: text })),
        sampleFiles,
        samples,
        lake,
        limit: BigInt(rowsMax),
      }
      const { response, rows } = await execute(request, signal)
      return {
        ...rows,
        total_row_count: Number(response.totalRowCount),
        phases: response.phases.flatMap(phaseOf),
        explain_output: response.explainOutput,
        memory_peak_bytes: Number(response.memoryPeakBytes),
        logs: response.logs.map(logEntryOf),
        warnings: response.warnings,
      }
    },

    /**
     * Executes SQL that belongs to no pipeline on these files of a landing zone, as the preview of a draft would. Returns the
     * first rows that `reader` may see, at most `rowsMax`.
     */
    async previewZone(
      { namespace, zone, files, sql, rowsMax }: ZonePreview,
      signal: AbortSignal,
      reader: Reader | null,
    ): Promise<JsonRows> {
      const lake = await readLake({ branch: undefined, landing: namespace, reader })
      const request = {
        namespace,
        layer: 'bronze',
        pipelineName: NO_PIPELINE,
        type: 'sql',
        code: sql,
        samples: [{ namespace, zone, files: [...files] }],
        lake,
        limit: BigInt(rowsMax),
      }
      return (await execute(request, signal).catch(withoutLine)).rows
    },
  }
}

/** Executes a preview on a runner. Returns the runner's answer, and its rows as JSON. */
function makeExecute({ runners, answerBytesMax, engineRows = makeEngineRows() }: PreviewDeps) {
  return async (request: MessageInitShape<typeof PreviewPipelineRequestSchema>, signal: AbortSignal) => {
    // The runner applies the time limit itself. This timeout is for a runner that has stopped answering.
    const lost = AbortSignal.timeout(PIPELINE_PREVIEW_MS + limits.rpcTimeoutMs)
    const options = { signal: AbortSignal.any([signal, lost]) }
    const response = await runners
      .call((runner) => runner.previewPipeline(request, options))
      .catch(refusedByRunner)
    const rows = await engineRows(response.arrowIpc, {
      shape: 'arrays',
      rows: Number(request.limit),
      bytesMax: answerBytesMax,
      signal,
    })
    return { response, rows }
  }
}

/** Removes the line number of the source from an error, because the caller has not written the source. */
function withoutLine(error: unknown): never {
  if (!(error instanceof AppError) || error.status !== 400) throw error
  throw new AppError(400, error.code, error.message.replace(/^pipeline\.sql line \d+: /, ''), {
    cause: error,
  })
}

/** The SQL names no table, so the name of its pipeline has no effect. */
const NO_PIPELINE = 'landing-zone-preview'

interface ZonePreview {
  namespace: string
  zone: string
  files: readonly MessageInitShape<typeof LandingFileSchema>[]
  sql: string
  rowsMax: number
}

/** Groups: namespace, zone, and the file's base name. */
const LANDED = /^([^/]+)\/landing\/([^/]+)\/(?:.*\/)?([^/]+)$/

const ROWS = { fallback: PIPELINE_PREVIEW_ROWS, max: limits.previewRowsMax }

const PHASES = ['template_render', 'sql_execute', 'profiling'] as const

/** Skips a phase that this API does not know, because a newer runner may send one. */
function phaseOf({ name: text, durationMs, metadata }: PreviewPhase) {
  const name = PHASES.find((phase) => phase === text)
  if (name === undefined) return []
  const values = Object.entries(metadata).map(([key, json]): [string, unknown] => [key, JSON.parse(json)])
  return [{ name, duration_ms: Number(durationMs), metadata: Object.fromEntries(values) }]
}

const LEVELS = {
  [LogLevel.UNSPECIFIED]: 'info',
  [LogLevel.DEBUG]: 'debug',
  [LogLevel.INFO]: 'info',
  [LogLevel.WARN]: 'warn',
  [LogLevel.ERROR]: 'error',
} as const

const logEntryOf = ({ timestamp, level, message }: LogEntry) => ({
  timestamp: (timestamp ? timestampDate(timestamp) : new Date(0)).toISOString(),
  level: LEVELS[level],
  message,
})
