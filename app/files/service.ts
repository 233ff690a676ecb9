import { invalid, notFound, tooLarge } from '../http/errors.ts'
import type { Page } from '../http/pagination.ts'
import { limits } from '../limits.ts'
import type { ObjectBody, ObjectStore } from '../objects/port.ts'
import { fileTypeOf } from './file-type.ts'
import { everyObject } from './listing.ts'
import {
  baseName,
  filePath,
  isControlFree,
  listPrefix,
  type PipelineFolder,
  pipelineFolderOf,
} from './paths.ts'

export interface FileDeps {
  objects: ObjectStore
  /** Told after a file under the prefix of a pipeline has changed; does nothing when there is no such pipeline. */
  fileWritten(pipeline: PipelineFolder, cause: string): Promise<void>
}

export type FileService = ReturnType<typeof makeFileService>

export function makeFileService({ objects, fileWritten }: FileDeps) {
  /**
   * The object first, the draft after: a publish that lists the new version may still leave the draft dirty, but none
   * can clear the flag without having listed it.
   */
  async function store(path: string, body: Uint8Array | ReadableStream<Uint8Array>, contentType?: string) {
    const stored = await objects.put(path, body, { contentType, maxBytes: limits.uploadBytes })
    await changed(path, `written ${path}`)
    return stored
  }

  async function changed(path: string, cause: string) {
    const pipeline = pipelineFolderOf(path)
    if (pipeline !== null) await fileWritten(pipeline, cause)
  }

  return {
    async list(query: { prefix: string; namespace?: string; exclude?: string }, page: Page) {
      const prefix = listPrefix(query.prefix)
      const excluded = new Set((query.exclude ?? '').split(',').map((segment) => segment.trim()))
      const files = []
      let total = 0
      if (query.namespace === undefined || prefix.startsWith(`${query.namespace}/`)) {
        for await (const { key, size, modified, versionId } of everyObject(objects, prefix)) {
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

    async read(path: string) {
      const found = await objects.get(path)
      if (found === null) throw notFound(`file ${path}`)
      return {
        path,
        ...(await contentOf(found)),
        size: found.size,
        modified: found.modified.toISOString(),
        version_id: found.versionId,
      }
    },

    async write(path: string, content: string) {
      const { versionId } = await store(path, new TextEncoder().encode(content))
      return { path, status: 'written' as const, version_id: versionId }
    },

    /** Deleting what is not there changes nothing, the draft of its pipeline neither. */
    async remove(path: string) {
      if ((await objects.head(path)) === null) return
      await objects.delete(path)
      await changed(path, `deleted ${path}`)
    },

    async upload(upload: { path: string; file: File }) {
      const { file } = upload
      const filename = baseName(file.name)
      const asFolder = upload.path.endsWith('/')
      if (asFolder && (filename === '' || !isControlFree(filename)))
        throw invalid('file', 'needs a file name without control characters')
      const path = filePath(asFolder ? upload.path + filename : upload.path)
      const { versionId, size } = await store(path, file.stream(), file.type || undefined)
      return { path, filename, size, status: 'uploaded' as const, version_id: versionId }
    },
  }
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
