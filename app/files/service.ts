import type { Sql, SqlTx } from '../../drizzle/client.ts'
import { EVERYTHING } from '../core/access.ts'
import { invalid, notFound, tooLarge } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import type { Page } from '../core/pagination.ts'
import {
  baseName,
  filePath,
  isControlFree,
  listPrefix,
  type PipelineFolder,
  pipelineFolderOf,
} from '../core/paths.ts'
import type { Precondition } from '../http/conditions.ts'
import { uploadOnce } from '../http/idempotency.ts'
import { type KeyOf, withoutKey } from '../http/idempotency-key.ts'
import type { FormFields, UploadForm } from '../http/upload-form.ts'
import type { ObjectBody, ObjectStore, StagedObject } from '../objects/port.ts'
import { makeCommits } from './commits.ts'
import { fileTypeOf } from './file-type.ts'
import { everyObject } from './listing.ts'
import type { FileUploaded } from './schema.ts'
import { pathsSeen } from './sight.ts'

export interface FileDeps {
  sql: Sql
  objects: ObjectStore
  /** Told after a file under the prefix of a pipeline has changed; does nothing when there is no such pipeline. */
  fileWritten(pipeline: PipelineFolder, cause: string): Promise<void>
}

export type FileService = ReturnType<typeof makeFileService>

export function makeFileService({ sql, objects, fileWritten }: FileDeps) {
  const commits = makeCommits({ sql, objects })

  /**
   * The object first, the draft after: a publish that lists the new version may still leave the draft dirty, but none
   * can clear the flag without having listed it.
   */
  async function store(
    path: string,
    staged: StagedObject,
    options?: { condition?: Precondition | null; tx?: SqlTx },
  ) {
    const stored = await commits.commit(path, staged, options)
    await changed(path, `written ${path}`)
    return stored
  }

  async function changed(path: string, cause: string) {
    const pipeline = pipelineFolderOf(path)
    if (pipeline !== null) await fileWritten(pipeline, cause)
  }

  return {
    /** As far as the caller sees them. */
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
        const isSeen = await pathsSeen(sql, prefix.slice(0, prefix.indexOf('/')), visible)
        for await (const { key, size, modified, versionId } of everyObject(objects, prefix)) {
          if (!isSeen(key)) continue
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

    /** Null: the reader has this version already. */
    async read(path: string, isKnown: (versionId: string) => boolean = () => false) {
      const found = await objects.get(path)
      if (found === null) throw notFound(`file ${path}`)
      const { versionId, size, modified } = found
      if (isKnown(versionId)) {
        await found.body.cancel()
        return { versionId, content: null }
      }
      const content = {
        path,
        ...(await contentOf(found)),
        size,
        modified: modified.toISOString(),
        version_id: versionId,
      }
      return { versionId, content }
    },

    /** `content` as text, or as the bytes of one. */
    async write(path: string, content: string | Uint8Array, condition: Precondition | null = null) {
      const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content
      const staged = await objects.stage(bytes, {
        key: path,
        maxBytes: limits.uploadBytes,
      })
      try {
        const { versionId } = await store(path, staged, { condition })
        return { path, status: 'written' as const, version_id: versionId }
      } finally {
        await staged.discard()
      }
    },

    /** Deleting what is not there changes nothing, the draft of its pipeline neither. */
    async remove(path: string, condition: Precondition | null = null) {
      if (await commits.remove(path, condition)) await changed(path, `deleted ${path}`)
    },

    /** Where a file goes may be known only when all of the form is there: until then it has no name. */
    async upload(
      form: UploadForm,
      keyOf: KeyOf = withoutKey,
      /** Rejects for a path where the caller may not write: asked before the bytes, if it is known then, and after them. */
      permit: (path: string) => Promise<void> = async () => {},
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
        const perform = async (tx?: SqlTx): Promise<FileUploaded> => {
          const { versionId } = await store(path, stored, { tx })
          const told = { path, filename: baseName(filename), size: stored.size }
          return { ...told, status: 'uploaded', version_id: versionId }
        }
        const key = keyOf({ path, filename, contentType, sha256 })
        return await (key === null ? perform() : uploadOnce(sql, key, perform))
      } finally {
        await stored.discard()
      }
    },
  }
}

/** The path of an uploaded file, or 400. */
function targetOf({ path }: FormFields, filename: string): string {
  if (path === undefined) throw invalid('path', 'is required')
  if (!path.endsWith('/')) return filePath(path)
  const name = baseName(filename)
  if (name === '' || !isControlFree(name))
    throw invalid('file', 'needs a file name without control characters')
  return filePath(path + name)
}

/** Files are text; one that is not UTF-8 is told as base64 rather than damaged or refused. */
async function contentOf({ body, size }: ObjectBody) {
  if (size > limits.uploadBytes) {
    await body.cancel()
    throw tooLarge()
  }
  const bytes = new Uint8Array(await new Response(body).arrayBuffer())
  try {
    const content = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    return { content, encoding: 'utf-8' as const }
  } catch {
    return { content: Buffer.from(bytes).toString('base64'), encoding: 'base64' as const }
  }
}
