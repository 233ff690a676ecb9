import { Type as t } from '@sinclair/typebox'
import { t as elysiaTypes } from 'elysia'
import { Instant, NamespaceName } from '../http/names.ts'
import { PageQuery } from '../http/pagination.ts'

const Path = t.String({
  description: 'Path in the object store, starting with a namespace',
  examples: ['default/pipelines/silver/flights/pipeline.sql'],
})
const VersionId = t.String({ description: 'Version id of the object store' })

export const FileTypeName = t.String({
  description: 'pipeline-sql, pipeline-py, config, meta, doc, test, hook or empty',
  examples: ['pipeline-sql'],
})

/** The binary part of a multipart upload; it is read as a stream (app/http/upload-form.ts). */
export const FilePart = elysiaTypes.File({ description: 'The file, at most 32 MB' })

export const FileQuery = t.Composite([
  t.Object({
    prefix: t.String({ examples: ['default/pipelines/'], description: 'Starts with a namespace' }),
    namespace: t.Optional(NamespaceName),
    exclude: t.Optional(
      t.String({ description: 'Path segments, comma-separated: files that have one of them are left out' }),
    ),
  }),
  PageQuery,
])
export type FileQuery = typeof FileQuery.static

export const FileEntry = t.Object({
  path: Path,
  size: t.Integer(),
  modified: Instant,
  type: FileTypeName,
  version_id: VersionId,
})
export const FileList = t.Object({ files: t.Array(FileEntry), total: t.Integer() })

export const FileContent = t.Object({
  path: Path,
  content: t.String(),
  encoding: t.Union([t.Literal('utf-8'), t.Literal('base64')], {
    description: 'base64 when the file is not UTF-8 text',
  }),
  size: t.Integer(),
  modified: Instant,
  version_id: VersionId,
})

export const WriteFile = t.Object({
  content: t.String({ description: 'Text, at most 32 MB', examples: ['select 1 as a'] }),
})
export const FileWritten = t.Object({ path: Path, status: t.Literal('written'), version_id: VersionId })

export const UploadFile = t.Object({ path: Path, file: FilePart })
export const FileUploaded = t.Object({
  path: Path,
  filename: t.String(),
  size: t.Integer(),
  status: t.Literal('uploaded'),
  version_id: VersionId,
})
export type FileUploaded = typeof FileUploaded.static

/** A file that the reader has already. */
export const NotModified = t.Void({ description: 'The reader has the present version' })
export const NoContent = t.Void({ description: 'Done; there is nothing to say' })
