// Detects the columns of a zone's files by the preview of a starter pipeline, so a pipeline sees the same columns.
import type { MessageInitShape } from '@bufbuild/protobuf'
import type { Db } from '../../drizzle/client.ts'
import type { JsonRows } from '../../lake/engine/arrow-json.ts'
import type { LandingFileSchema } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import type { Reader } from '../access/code-visibility.ts'
import { notFound } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { noZone, type ZoneRef, zonePrefix } from '../core/zone-ref.ts'
import { landingQuery, landingReaderOf } from '../files/landing-reader.ts'
import type { ObjectStore } from '../objects/port.ts'
import { differencesOf, expectedSchemaOf, parseExpectedSchema } from './expected-schema.ts'
import type { ZoneSchema } from './inspection-schema.ts'
import { activeFiles, type FileRow, fileOf } from './store/files.ts'
import { zoneOf } from './store/zones.ts'

/** Files that one detection reads, and their total size. A zone may have thousands of files, each of 32 MB. */
export const DETECTED_FILES = 10
const DETECTED_BYTES = 2 * limits.uploadBytes
/** Rows in the answer. */
export const DETECTED_ROWS = 20

export interface DetectionDeps {
  db: Db
  objects: ObjectStore
  /** Executes SQL on these files as the preview of a pipeline does. Throws 400 for unreadable files, 503 without a runner. */
  previewZone(
    preview: {
      namespace: string
      zone: string
      files: readonly MessageInitShape<typeof LandingFileSchema>[]
      sql: string
      rowsMax: number
    },
    signal: AbortSignal,
    reader: Reader | null,
  ): Promise<JsonRows>
}

export type Detection = ReturnType<typeof makeDetection>

/** A `ZoneSchema` with its rows already encoded as JSON. */
type DetectedSchema = Omit<ZoneSchema, 'rows'> & JsonRows

export function makeDetection({ db, objects, previewZone }: DetectionDeps) {
  /** The files that a preview of the zone reads: its active files, or its samples if it has no active file. Newest first. */
  async function candidates(ref: ZoneRef, zoneId: string, id: string | undefined): Promise<Candidates> {
    if (id !== undefined) {
      const file = await fileOf(db, zoneId, id)
      if (file === null) throw notFound(`file ${id}`)
      return { source: 'files', total: 1, files: [candidateOf(file)] }
    }
    const active = await activeFiles(db, zoneId, { limit: DETECTED_FILES, offset: 0 })
    if (active.total > 0)
      return { source: 'files', total: active.total, files: active.items.map(candidateOf) }
    const folder = `${zonePrefix(ref)}_samples/`
    const { objects: samples } = await objects.list(folder, { limit: limits.listCap })
    const files = samples
      .toSorted((one, other) => other.modified.getTime() - one.modified.getTime())
      .slice(0, DETECTED_FILES)
      .map(({ key, versionId, size }) => ({
        id: null,
        filename: key.slice(folder.length),
        path: key,
        versionId,
        sizeBytes: size,
      }))
    return { source: files.length === 0 ? 'none' : 'samples', total: samples.length, files }
  }

  return {
    /**
     * The columns of the newest files, or of the file with this id, beside the expected schema. Throws 400 if the files cannot be
     * read, for example if their columns differ.
     */
    async schema(
      ref: ZoneRef,
      fileId: string | undefined,
      signal: AbortSignal,
      reader: Reader | null = null,
    ): Promise<DetectedSchema> {
      const zone = await zoneOf(db, ref)
      if (zone === null) throw noZone(ref)
      const { source, total, files: found } = await candidates(ref, zone.id, fileId)
      const read = readTogether(found)
      const readFunction = read[0] === undefined ? null : landingReaderOf(read[0].filename)
      const { columns, chunks } =
        readFunction === null
          ? { columns: [], chunks: [] }
          : await previewZone(
              {
                namespace: ref.namespace,
                zone: ref.name,
                files: read.map(({ id, filename, path, versionId, sizeBytes }, index) => ({
                  id: id ?? `sample-${index}`,
                  filename,
                  object: { path, versionId, sizeBytes: BigInt(sizeBytes) },
                })),
                sql: `${landingQuery(readFunction, ref.name)}limit ${DETECTED_ROWS}`,
                rowsMax: DETECTED_ROWS,
              },
              signal,
              reader,
            )
      const expected = zone.expectedSchema === null ? null : parseExpectedSchema(zone.expectedSchema)
      return {
        columns,
        chunks,
        source,
        files: read.map(({ id, filename, sizeBytes }) => ({ id, filename, size_bytes: sizeBytes })),
        total_files: total,
        is_partial: read.length < total,
        function: readFunction,
        detected_schema: expectedSchemaOf(columns),
        expected,
        differences: expected === null || readFunction === null ? [] : differencesOf(expected, columns),
      }
    },
  }
}

type Candidate = Pick<FileRow, 'filename' | 'path' | 'versionId' | 'sizeBytes'> & { id: string | null }

interface Candidates {
  source: ZoneSchema['source']
  /** Number of all active files or samples. */
  total: number
  files: Candidate[]
}

const candidateOf = ({ id, filename, path, versionId, sizeBytes }: FileRow): Candidate => ({
  id,
  filename,
  path,
  versionId,
  sizeBytes,
})

/** The files of the newest file's format, as long as they are small enough together. */
function readTogether(files: readonly Candidate[]): Candidate[] {
  const [newest] = files
  if (newest === undefined) return []
  let bytes = 0
  return files.filter(({ filename, sizeBytes }, index) => {
    if (landingReaderOf(filename) !== landingReaderOf(newest.filename)) return false
    if (index > 0 && bytes + sizeBytes > DETECTED_BYTES) return false
    bytes += sizeBytes
    return true
  })
}
