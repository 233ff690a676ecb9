import { Type as t } from '@sinclair/typebox'
import { t as elysiaTypes } from 'elysia'
import { Instant, literals, NamespaceName } from '../core/names.ts'
import { WholeListQuery } from '../core/pagination.ts'

const Path = t.String({
  description: 'Path in the object store, starting with a namespace',
  examples: ['default/pipelines/silver/flights/pipeline.sql'],
})
const VersionId = t.String({ description: 'Version id of the object store' })

export const FileTypeName = literals(
  ['pipeline-sql', 'pipeline-py', 'config', 'meta', 'doc', 'test', 'hook', ''],
  { title: 'FileType', description: 'Kind of file, derived from its path; empty when no kind matches' },
)

/** The binary part of a multipart upload, read as a stream (app/http/upload-form.ts). */
export const FilePart = elysiaTypes.File({ description: 'The file, at most 32 MB (33,554,432 bytes)' })

export const FileQuery = t.Composite([
  t.Object({
    prefix: t.String({
      examples: ['default/pipelines/'],
      description: 'Start of the listed paths, beginning with a namespace',
    }),
    namespace: t.Optional(NamespaceName),
    exclude: t.Optional(
      t.String({
        description:
          'Comma-separated path segments; files with one of these segments in their path are not listed',
      }),
    ),
  }),
  WholeListQuery,
])
export type FileQuery = typeof FileQuery.static

export const ReadFileQuery = t.Object({
  version_id: t.Optional(
    t.String({
      pattern: '^[^/\\\\\\u0000-\\u001f]{1,1024}$',
      description:
        'Reads this version of the file instead of the newest, for example one that a publish has pinned',
    }),
  ),
})

const FileEntry = t.Object(
  {
    path: Path,
    size: t.Integer({ description: 'Size in bytes' }),
    modified: Instant,
    type: FileTypeName,
    version_id: VersionId,
  },
  { title: 'FileEntry' },
)
export const FileList = t.Object({ files: t.Array(FileEntry), total: t.Integer() }, { title: 'FileList' })

export const FileContent = t.Object(
  {
    path: Path,
    content: t.String(),
    encoding: literals(['utf-8', 'base64'], {
      title: 'FileEncoding',
      description: '`base64` when the file is not UTF-8 text',
    }),
    size: t.Integer({ description: 'Size in bytes' }),
    modified: Instant,
    version_id: VersionId,
  },
  { title: 'FileContent' },
)

export const WriteFile = t.Object(
  {
    content: t.String({
      description: 'Text of the file, at most 32 MB (33,554,432 bytes)',
      examples: ['select 1 as a'],
    }),
  },
  { title: 'WriteFile' },
)
export const FileWritten = t.Object(
  { path: Path, status: t.Literal('written'), version_id: VersionId },
  { title: 'FileWritten' },
)

export const UploadFile = t.Object({ path: Path, file: FilePart }, { title: 'UploadFile' })
export const FileUploaded = t.Object(
  {
    path: Path,
    filename: t.String(),
    size: t.Integer({ description: 'Size in bytes' }),
    status: t.Literal('uploaded'),
    version_id: VersionId,
  },
  { title: 'FileUploaded' },
)
export type FileUploaded = typeof FileUploaded.static

/** The response to a reader that already has the current version. */
export const NotModified = t.Void({ description: 'The client has the current version' })
export const NoContent = t.Void({ description: 'The request succeeded; the response has no body' })
