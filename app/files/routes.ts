import { Elysia } from 'elysia'
import { ErrorBody } from '../http/names.ts'
import { linkHeader, pageOf } from '../http/pagination.ts'
import { limits } from '../limits.ts'
import { pathFromUrl } from './paths.ts'
import {
  FileContent,
  FileList,
  FileQuery,
  FileUploaded,
  FileWritten,
  NoContent,
  UploadFile,
  WriteFile,
} from './schema.ts'
import type { FileService } from './service.ts'

const tags = ['files']

export const fileRoutes = (files: FileService) =>
  new Elysia({ prefix: '/files' })
    .get(
      '',
      async ({ query, request, set }) => {
        const page = pageOf(query, limits.listCap)
        const list = await files.list(query, page)
        set.headers.link = linkHeader(request.url, page, list.total)
        return list
      },
      {
        query: FileQuery,
        response: { 200: FileList, 400: ErrorBody },
        detail: {
          summary: 'List files',
          tags,
          description: 'The newest version of every file whose path starts with the prefix.',
        },
      },
    )
    .post('/upload', async ({ body, status }) => status(201, await files.upload(body)), {
      parse: 'multipart/form-data',
      body: UploadFile,
      response: { 201: FileUploaded, 400: ErrorBody, 413: ErrorBody },
      detail: {
        summary: 'Upload a file',
        tags,
        description: "`path` is the full path; when it ends in `/`, the file's base name is appended.",
      },
    })
    .get('/*', ({ params }) => files.read(pathFromUrl(params['*'])), {
      response: { 200: FileContent, 400: ErrorBody, 404: ErrorBody, 413: ErrorBody },
      detail: {
        summary: 'Read a file',
        tags,
        description: 'Its newest version. Content that is not UTF-8 text is answered as base64.',
      },
    })
    .put('/*', ({ params, body }) => files.write(pathFromUrl(params['*']), body.content), {
      body: WriteFile,
      response: { 200: FileWritten, 400: ErrorBody, 413: ErrorBody },
      detail: {
        summary: 'Write a file',
        tags,
        description: "Makes a new version; under a pipeline's prefix it marks the pipeline's draft dirty.",
      },
    })
    .delete(
      '/*',
      async ({ params, status }) => {
        await files.remove(pathFromUrl(params['*']))
        return status(204, undefined)
      },
      {
        response: { 204: NoContent, 400: ErrorBody },
        detail: {
          summary: 'Delete a file',
          tags,
          description: 'Also when there is none. Published versions keep the versions they have pinned.',
        },
      },
    )
