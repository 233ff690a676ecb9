import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { Db } from '../../drizzle/client.ts'
import type { JsonRows } from '../../lake/engine/arrow-json.ts'
import type { PreviewPhase } from '../../proto/gen/sluice/query/v1/query_pb.ts'
import {
  type LakeAccessSchema,
  type LandingFileSchema,
  type LogEntry,
  LogLevel,
} from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import type { Reader } from '../access/code-sight.ts'
import { invalid } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { limitOf } from '../core/pagination.ts'
import { filePath } from '../core/paths.ts'
import { noPipeline, type PipelineRef, prefixOf } from '../core/pipeline-ref.ts'
import type { ObjectStore, StoredObject } from '../objects/port.ts'
import { type EngineRows, makeEngineRows } from '../query/engine-rows.ts'
import type { QueryClient } from '../rpc/clients.ts'
import type { Pool } from '../rpc/pool.ts'
import { refusedByRunner } from '../rpc/runner-port.ts'
import { draftObjects, readCode, sourceFileOf } from './draft-files.ts'
import type { PipelinePreview, PreviewPipeline } from './preview-schema.ts'
import { PIPELINE_PREVIEW_ROWS } from './preview-schema.ts'
import { livePipeline } from './store/pipelines.ts'

/** Preview of a pipeline (spec: Limits): rows, files given in place of a zone's, and the runner's time for one, 30 s of waiting with it. */
const PIPELINE_PREVIEW_MS = 90_000

export interface PreviewDeps {
  db: Db
  objects: ObjectStore
  /** Runners, as who previews pipelines. */
  runners: Pool<QueryClient>
  /** Where, and with which token, a runner reads main as it is now, and the landing files of a namespace, as a caller sees them. */
  readMain(also: {
    landing: string
    reader: Reader | null
  }): Promise<MessageInitShape<typeof LakeAccessSchema>>
  /** Bytes of JSON of the rows. */
  answerBytesMax: number
  /** Shared by all that answer rows; default: its own. */
  engineRows?: EngineRows
}

/** A `PipelinePreview` whose rows are JSON already. */
type PreviewAnswer = Omit<PipelinePreview, 'rows'> & JsonRows

export type PreviewService = ReturnType<typeof makePreviewService>
type Asked = PreviewPipeline & { queryLimit?: string }

export function makePreviewService({
  db,
  objects,
  runners,
  readMain,
  answerBytesMax,
  engineRows = makeEngineRows(),
}: PreviewDeps) {
  /** Source and configuration, of these files. */
  function codeOf(ref: PipelineRef, type: string, found: readonly StoredObject[]) {
    const names = [sourceFileOf(type), 'config.yaml'].map((name) => prefixOf(ref) + name)
    return readCode(
      objects,
      ref,
      found.filter(({ key }) => names.includes(key)),
    )
  }

  /** The given files by zone, or 400. */
  async function samplesOf({ namespace }: PipelineRef, paths: readonly string[]) {
    const zones = new Map<string, MessageInitShape<typeof LandingFileSchema>[]>()
    for (const path of new Set(paths)) {
      const [, ofNamespace, zone, filename] = LANDED.exec(filePath(path, 'sample_files')) ?? []
      if (ofNamespace !== namespace || zone === undefined || filename === undefined)
        throw invalid('sample_files', `${path} is no file of a landing zone in ${namespace}`)
      const object = await objects.head(path)
      if (object === null) throw invalid('sample_files', `${path} does not exist`)
      const { versionId, size } = object
      const files = zones.get(zone) ?? []
      // Of two files of one name, from two folders, only one can have it in the runner's directory.
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
    /** Executes the draft once on what the caller sees (null: all) and writes nothing; `signal` stops it. */
    async preview(
      ref: PipelineRef,
      { limit, queryLimit, code = '', sample_files: sampleFiles = [] }: Asked,
      signal: AbortSignal,
      reader: Reader | null = null,
    ): Promise<PreviewAnswer> {
      const around = Promise.all([
        draftObjects(objects, ref),
        samplesOf(ref, sampleFiles),
        readMain({ landing: ref.namespace, reader }),
      ])
      // That there is no such pipeline is said before anything that is wrong with the rest.
      around.catch(() => {})
      const pipeline = await livePipeline(db, ref)
      if (pipeline === null) throw noPipeline(ref)
      const [found, samples, lake] = await around
      const files = await codeOf(ref, pipeline.type, found)
      const rowsMax = limitOf(limit ?? queryLimit, ROWS)
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
      // The runner keeps the time limit; this one is for a runner that has stopped answering.
      const lost = AbortSignal.timeout(PIPELINE_PREVIEW_MS + limits.rpcTimeoutMs)
      const options = { signal: AbortSignal.any([signal, lost]) }
      const answer = await runners
        .call((runner) => runner.previewPipeline(request, options))
        .catch(refusedByRunner)
      const rows = await engineRows(answer.arrowIpc, {
        shape: 'arrays',
        rows: rowsMax,
        bytesMax: answerBytesMax,
        signal,
      })
      return {
        ...rows,
        total_row_count: Number(answer.totalRowCount),
        phases: answer.phases.flatMap(phaseShapeOf),
        explain_output: answer.explainOutput,
        memory_peak_bytes: Number(answer.memoryPeakBytes),
        logs: answer.logs.map(logShapeOf),
        warnings: answer.warnings,
      }
    },
  }
}

/** Namespace, zone, and the file's own name. */
const LANDED = /^([^/]+)\/landing\/([^/]+)\/(?:.*\/)?([^/]+)$/

const ROWS = { fallback: PIPELINE_PREVIEW_ROWS, max: limits.previewRowsMax }

const PHASES = ['template_render', 'sql_execute', 'profiling'] as const

/** A phase that this API does not know is one of a newer runner. */
function phaseShapeOf({ name: text, durationMs, metadata }: PreviewPhase) {
  const name = PHASES.find((known) => known === text)
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

const logShapeOf = ({ timestamp, level, message }: LogEntry) => ({
  timestamp: (timestamp ? timestampDate(timestamp) : new Date(0)).toISOString(),
  level: LEVELS[level],
  message,
})
