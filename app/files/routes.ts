import { Elysia } from 'elysia'
import type { MayWriteFile } from '../access/guard.ts'
import { described } from '../core/documented.ts'
import { limits } from '../core/limits.ts'
import { ErrorBody } from '../core/names.ts'
import { pageOf, setLink } from '../core/pagination.ts'
import {
  clientHasVersion,
  entityTag,
  preconditionOf,
  ReadConditions,
  WriteConditions,
} from '../http/conditions.ts'
import { callerNameOf, exchangeOf, visibleTo } from '../http/exchange.ts'
import { IdempotencyHeaders, idempotencyKeyOf } from '../http/idempotency-key.ts'
import { REPEATED_UPLOAD, uploadFormOf } from '../http/upload-form.ts'
import { pathFromUrl } from '../wire/paths.ts'
import {
  FileContent,
  FileList,
  FileQuery,
  FileUploaded,
  FileWritten,
  NoContent,
  NotModified,
  ReadFileQuery,
  UploadFile,
  WriteFile,
} from './schema.ts'
import type { FileService } from './service.ts'

const tags = ['files']

export const fileRoutes = (files: FileService, mayWrite: MayWriteFile = async () => {}) =>
  new Elysia({ prefix: '/files' })
    .get(
      '',
      async ({ query, request, set }) => {
        const page = pageOf(query, limits.listCap)
        const list = await files.list(query, page, await visibleTo(request))
        setLink(set, request.url, page, list.total)
        return list
      },
      {
        query: FileQuery,
        response: { 200: FileList, 400: ErrorBody },
        detail: {
          operationId: 'listFiles',
          summary: 'List files',
          tags,
          description: 'Lists the newest version of every file whose path starts with the prefix.',
        },
      },
    )
    .post(
      '/upload',
      async ({ request, headers, status }) => {
        const form = uploadFormOf(request, {
          fields: ['path'],
          isHashed: headers['idempotency-key'] !== undefined,
        })
        const keyOf = (fields: object) => idempotencyKeyOf(request, headers, fields)
        const permit = (path: string) => mayWrite(exchangeOf(request).access, path)
        return status(201, await files.upload(form, keyOf, permit, callerNameOf(request)))
      },
      {
        headers: IdempotencyHeaders,
        response: { 201: FileUploaded, 400: ErrorBody, 409: ErrorBody, 413: ErrorBody, 507: ErrorBody },
        detail: {
          ...described({ form: UploadFile }),
          operationId: 'uploadFile',
          summary: 'Upload a file',
          tags,
          description: `\`path\` is the full path of the file. When it ends in \`/\`, the base name of the uploaded file is appended. ${REPEATED_UPLOAD}`,
        },
      },
    )
    .get(
      '/*',
      async ({ params, query, headers, set, status }) => {
        const { versionId, content } = await files.read(
          pathFromUrl(params['*']),
          (version) => clientHasVersion(headers, version),
          query.version_id,
        )
        set.headers.etag = entityTag(versionId)
        // Clients revalidate each time; an unchanged file is answered without its content.
        set.headers['cache-control'] = 'private, no-cache'
        return content ?? status(304, undefined)
      },
      {
        headers: ReadConditions,
        query: ReadFileQuery,
        response: { 200: FileContent, 304: NotModified, 400: ErrorBody, 404: ErrorBody, 413: ErrorBody },
        detail: {
          operationId: 'readFile',
          summary: 'Read a file',
          tags,
          description:
            'Returns the newest version of the file, or the one that `version_id` names. Content that is not UTF-8 text is encoded as base64. `ETag` is the version id in quotes.',
        },
      },
    )
    .put(
      '/*',
      async ({ params, body, headers, request, set }) => {
        const path = pathFromUrl(params['*'])
        const written = await files.write(path, body.content, preconditionOf(headers), callerNameOf(request))
        set.headers.etag = entityTag(written.version_id)
        return written
      },
      {
        body: WriteFile,
        headers: WriteConditions,
        response: { 200: FileWritten, 400: ErrorBody, 412: ErrorBody, 413: ErrorBody, 507: ErrorBody },
        detail: {
          operationId: 'writeFile',
          summary: 'Write a file',
          tags,
          description:
            "Writes a new version of the file. A file under a pipeline's prefix marks the pipeline's draft as dirty. With `If-Match`, the file is written only when its current `ETag` is in the header. With `If-None-Match: *`, the file is written only when it does not exist. Otherwise the answer is 412.",
        },
      },
    )
    .delete(
      '/*',
      async ({ params, headers, request, status }) => {
        await files.remove(pathFromUrl(params['*']), preconditionOf(headers), callerNameOf(request))
        return status(204, undefined)
      },
      {
        headers: WriteConditions,
        response: { 204: NoContent, 400: ErrorBody, 412: ErrorBody },
        detail: {
          operationId: 'deleteFile',
          summary: 'Delete a file',
          tags,
          description:
            'Deletes the file. The answer is 204 even when the file does not exist. Published versions of a pipeline keep their pinned file versions. With `If-Match`, the file is deleted only when its current `ETag` is in the header; otherwise the answer is 412.',
        },
      },
    )
