import type { PinnedFiles } from '../../drizzle/schema/pipeline.ts'
import { invalid } from '../core/errors.ts'
import { noPipeline, type PipelineRef, prefixOf } from '../core/pipeline-ref.ts'
import { everyObject } from '../files/listing.ts'
import type { ObjectStore, StoredObject } from '../objects/port.ts'

/** Maximum number of files that one version may pin. A pipeline usually has a few files and its tests. */
const FILES_PER_PIPELINE = 1_000

/** Files that define what a pipeline does; publishing reads their content. For other files it records only the version id. */
const CODE = /^(pipeline\.(sql|py)|config\.yaml|tests\/quality\/[^/]+\.sql)$/

/**
 * Bytes of one code file, as for a template, and of all code files of a pipeline. The process that serves all users reads them
 * for names, in 0.1 to 0.3 s for each MiB of hostile text.
 */
const CODE_FILE_BYTES = 1_048_576
const CODE_BYTES = 4 * CODE_FILE_BYTES

/** Concurrent reads per request, so a pipeline with many tests does not use all connections to the store. */
const READS_AT_ONCE = 20

/** The name of the source file for a pipeline type. */
export const sourceFileOf = (type: string) => (type === 'python' ? 'pipeline.py' : 'pipeline.sql')

export interface DraftFile {
  /** Relative to the pipeline's prefix, for example `tests/quality/no-nulls.sql`. */
  name: string
  text: string
}

/** The newest version of every file of a pipeline. Throws 400 if the pipeline has too many files. */
export async function draftObjects(objects: ObjectStore, ref: PipelineRef): Promise<StoredObject[]> {
  const found: StoredObject[] = []
  for await (const object of everyObject(objects, prefixOf(ref))) {
    if (found.length === FILES_PER_PIPELINE)
      throw invalid('files', `a pipeline can have at most ${FILES_PER_PIPELINE} files`)
    found.push(object)
  }
  return found
}

export const pinsOf = (found: readonly StoredObject[]): PinnedFiles =>
  Object.fromEntries(found.map(({ key, versionId }) => [key, versionId]))

/** Reads the code files among `found`, in exactly these versions. Throws 400 if they are too large together. */
export async function readCode(
  objects: ObjectStore,
  ref: PipelineRef,
  found: readonly Pick<StoredObject, 'key' | 'versionId' | 'size'>[],
): Promise<DraftFile[]> {
  const prefix = prefixOf(ref)
  const code = found.filter(({ key }) => CODE.test(key.slice(prefix.length)))
  const large = code.find(({ size }) => size > CODE_FILE_BYTES)
  if (large !== undefined)
    throw invalid(
      'files',
      `${large.key.slice(prefix.length)} has ${large.size} bytes: the source, the configuration and each test may have ${CODE_FILE_BYTES}`,
    )
  const bytes = code.reduce((sum, { size }) => sum + size, 0)
  if (bytes > CODE_BYTES)
    throw invalid(
      'files',
      `the source, configuration and tests of the pipeline have ${bytes} bytes together: they may have ${CODE_BYTES}`,
    )
  const files: DraftFile[] = []
  for (let at = 0; at < code.length; at += READS_AT_ONCE)
    files.push(...(await Promise.all(code.slice(at, at + READS_AT_ONCE).map(read))))
  return files

  async function read({ key, versionId }: Pick<StoredObject, 'key' | 'versionId'>): Promise<DraftFile> {
    const object = await objects.text(key, versionId)
    // Versions are removed permanently only after their pipeline was deleted.
    if (object === null) throw noPipeline(ref)
    return { name: key.slice(prefix.length), text: object.text }
  }
}

/** Whether the files of the draft are these ones. A file that was written again with the same text is the same. */
export async function isDraft(objects: ObjectStore, ref: PipelineRef, pins: PinnedFiles): Promise<boolean> {
  const found = await draftObjects(objects, ref)
  if (found.length !== Object.keys(pins).length) return false
  for (const { key, versionId } of found) {
    const pinned = pins[key]
    if (pinned === undefined) return false
    if (pinned === versionId) continue
    const [draft, version] = await Promise.all([objects.text(key, versionId), objects.text(key, pinned)])
    if (draft?.text !== version?.text) return false
  }
  return true
}

/** Reads the code files of a published version. Their total size was checked when the version was published. */
export const readPinnedCode = (objects: ObjectStore, ref: PipelineRef, pins: PinnedFiles) =>
  readCode(
    objects,
    ref,
    Object.entries(pins).map(([key, versionId]) => ({ key, versionId, size: 0 })),
  )
