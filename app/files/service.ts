import type { Sql, SqlTx } from '../../drizzle/client.ts'
import { EVERYTHING } from '../core/access.ts'
import { invalid, notFound, tooLarge } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { Page } from '../core/pagination.ts'
import type { Precondition } from '../http/conditions.ts'
import { uploadOnce } from '../http/idempotency.ts'
import { type KeyOf, withoutKey } from '../http/idempotency-key.ts'
import type { FormFields, UploadForm } from '../http/upload-form.ts'
import type { ObjectBody, ObjectStore, StagedObject } from '../objects/port.ts'
import {
  baseName,
  filePath,
  isControlFree,
  listPrefix,
  type PipelineFolder,
  pipelineFolderOf,
} from '../wire/paths.ts'
import { makeCommits } from './commits.ts'
import { fileTypeOf } from './file-type.ts'
import { everyObject } from './listing.ts'
import type { FileUploaded } from './schema.ts'
import { visiblePaths } from './visible-paths.ts'

interface FileDeps {
  sql: Sql
  objects: ObjectStore
  /** Whether files may be stored below a namespace. */
  takesFiles(namespace: string): Promise<boolean>
  /** Called after a file under the prefix of a pipeline has changed. Does nothing when the pipeline does not exist. */
  fileWritten(pipeline: PipelineFolder, cause: string, by: string | null): Promise<void>
}

export type FileService = ReturnType<typeof makeFileService>

export function makeFileService({ sql, objects, takesFiles, fileWritten }: FileDeps) {
  const commits = makeCommits({ sql, objects })

  /**
   * Commits the object before it marks the draft dirty. A publish in between may list the new version and leave the draft
   * dirty. But no publish can clear the flag without having listed the new version.
   */
  async function store(
    path: string,
    staged: StagedObject,
    options: { by: string | null; condition?: Precondition | null; tx?: SqlTx },
  ) {
    const stored = await commits.commit(path, staged, options)
    await changed(path, `written ${path}`, options.by)
    return stored
  }

  async function changed(path: string, cause: string, by: string | null) {
    const pipeline = pipelineFolderOf(path)
    if (pipeline !== null) await fileWritten(pipeline, cause, by)
  }

  return {
    /** Lists the files that the caller sees. */
    async list(
      query: { prefix: string; namespace?: string; exclude?: string },
      page: Page,
      visible = EVERYTHING,
    ) {
      const prefix = listPrefix(query.prefix)
      const excluded = new Set((query.exclude ?? '').split(',').map((segment) => segment.trim()))
      const files = []
      let total = 0
      if (query.namespace === undefined || prefix.startsWith(`${query.namespace}/`)) {
        const isVisible = await visiblePaths(sql, prefix.slice(0, prefix.indexOf('/')), visible)
        for await (const { key, size, modified, versionId } of everyObject(objects, prefix)) {
          if (!isVisible(key)) continue
          if (key.split('/').some((segment) => excluded.has(segment))) continue
          total += 1
          if (total <= page.offset || files.length === page.limit) continue
          files.push({
            path: key,
            size,
            modified: modified.toISOString(),
            type: fileTypeOf(key),
            version_id: versionId,
          })
        }
      }
      return { files, total }
    },

    /** `content` is null when the reader already has this version. */
    async read(path: string, isKnown: (versionId: string) => boolean = () => false, version?: string) {
      const found = await objects.get(path, version)
      if (found === null) throw notFound(`file ${path}`)
      const { versionId } = found
      if (!isKnown(versionId)) return { versionId, content: { path, ...(await contentOf(found)) } }
      await found.body.cancel()
      return { versionId, content: null }
    },

    /** `content` is text or its UTF-8 bytes. `by` becomes an author of the pipeline's draft. */
    async write(
      path: string,
      content: string | Uint8Array,
      condition: Precondition | null = null,
      by: string | null = null,
    ) {
      await requirePlace(takesFiles, path)
      const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content
      const staged = await objects.stage(bytes, {
        key: path,
        maxBytes: limits.uploadBytes,
      })
      try {
        const { versionId } = await store(path, staged, { by, condition })
        return { path, status: 'written' as const, version_id: versionId }
      } finally {
        await staged.discard()
      }
    },

    /** A missing file changes nothing, not even the draft of its pipeline. */
    async remove(path: string, condition: Precondition | null = null, by: string | null = null) {
      if (await commits.remove(path, condition)) await changed(path, `deleted ${path}`, by)
    },

    /** The target path may be known only after the whole form has arrived. So the file is staged without a name first. */
    async upload(
      form: UploadForm,
      keyOf: KeyOf = withoutKey,
      /**
       * Throws when the caller may not write the path. Called before the bytes arrive, if the path is known by then, and after
       * them.
       */
      permit: (path: string) => Promise<void> = async () => {},
      by: string | null = null,
    ): Promise<FileUploaded> {
      const { fields, filename, contentType, sha256, stored } = await form.receive(async (file, before) => {
        const key = before.path === undefined ? undefined : targetOf(before, file.filename)
        if (key !== undefined) await permit(key)
        return objects.stage(file.body, {
          contentType: file.contentType,
          maxBytes: limits.uploadBytes,
          key,
        })
      })
      try {
        const path = targetOf(fields, filename)
        await permit(path)
        await requirePlace(takesFiles, path)
        const perform = async (tx?: SqlTx): Promise<FileUploaded> => {
          const { versionId } = await store(path, stored, { by, tx })
          const uploaded = { path, filename: baseName(filename), size: stored.size }
          return { ...uploaded, status: 'uploaded', version_id: versionId }
        }
        const key = keyOf({ path, filename, contentType, sha256 })
        return await (key === null ? perform() : uploadOnce(sql, key, perform))
      } finally {
        await stored.discard()
      }
    },
  }
}

/** Throws 400 for a path below a namespace that does not exist. */
async function requirePlace(takesFiles: FileDeps['takesFiles'], path: string): Promise<void> {
  const namespace = path.slice(0, path.indexOf('/'))
  if (!(await takesFiles(namespace)))
    throw invalid('path', `namespace ${namespace} does not exist: create it first`)
}

/** The target path of an uploaded file; throws 400 when it is invalid. */
function targetOf({ path }: FormFields, filename: string): string {
  if (path === undefined) throw invalid('path', 'is required')
  if (!path.endsWith('/')) return filePath(path)
  const name = baseName(filename)
  if (name === '' || !isControlFree(name))
    throw invalid('file', 'must have a file name without control characters')
  return filePath(path + name)
}

/** Content that is not UTF-8 is returned as base64, so that it is neither damaged nor refused. */
async function contentOf({ body, size, modified, versionId }: ObjectBody) {
  if (size > limits.uploadBytes) {
    await body.cancel()
    throw tooLarge()
  }
  const bytes = new Uint8Array(await new Response(body).arrayBuffer())
  const facts = { size, modified: modified.toISOString(), version_id: versionId }
  try {
    const content = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    return { content, encoding: 'utf-8' as const, ...facts }
  } catch {
    return { content: Buffer.from(bytes).toString('base64'), encoding: 'base64' as const, ...facts }
  }
}
