// The files of pipelines, in the folders that `/files` has.
import { queryOptions } from '@tanstack/react-query'
import { queryClient } from './queries.ts'
import { API, accepted, authorizedFetch, segment } from './request.ts'

const addressOf = (path: string) => new URL(`files/${path.split('/').map(segment).join('/')}`, API)
const folderOf = (path: string) => path.slice(0, path.lastIndexOf('/') + 1)
const folderKey = (folder: string) => ['files', folder]
const fileKey = (path: string) => [...folderKey(folderOf(path)), path.split('/').at(-1)]
/** The key of the names of files below folders. */
export const FILE_NAMES = ['file-names']

export const fileQuery = (path: string) =>
  queryOptions({ queryKey: fileKey(path), queryFn: () => readFile(path) })

export const fileNamesQuery = (folder: string) =>
  queryOptions({ queryKey: [...FILE_NAMES, folder], queryFn: () => namesIn(folder) })

/** A version of a file and the version before. Null or undefined: there is none. */
export const fileVersionsQuery = (
  path: string,
  version: string | undefined,
  earlier: string | undefined | null,
) =>
  queryOptions({
    queryKey: ['pinned', path, version, earlier],
    queryFn: async () => {
      const textOf = async (id: string | undefined | null) => (id ? (await readFile(path, id)).content : '')
      const [after, before] = await Promise.all([textOf(version), textOf(earlier)])
      return { after, before }
    },
    staleTime: Number.POSITIVE_INFINITY,
  })

export interface StoredFile {
  content: string
  /** The version that a later write must replace; null: there is no such file. */
  etag: string | null
}

/** The newest text of a file, or one version of it. A file that does not exist is empty. Throws ApiError. */
export async function readFile(path: string, version?: string): Promise<StoredFile> {
  const address = addressOf(path)
  if (version !== undefined) address.searchParams.set('version_id', version)
  const response = await authorizedFetch(address)
  if (response.status === 404) return { content: '', etag: null }
  const { content } = await (await accepted(response)).json()
  return { content, etag: response.headers.get('etag') }
}

/** Stores a file and returns its version. Throws ApiError 412 if another person has stored one since it was read. */
export async function writeFile(path: string, { content, etag }: StoredFile): Promise<StoredFile> {
  const headers = {
    'content-type': 'application/json',
    ...(etag === null ? { 'if-none-match': '*' } : { 'if-match': etag }),
  }
  const body = JSON.stringify({ content })
  const response = await accepted(await authorizedFetch(addressOf(path), { method: 'PUT', headers, body }))
  const written = { content, etag: response.headers.get('etag') }
  // An answer that is on its way may be older than this one.
  await queryClient.cancelQueries({ queryKey: fileKey(path) })
  queryClient.setQueryData(fileKey(path), written)
  return written
}

/** Names of the files below a folder, relative to it. */
async function namesIn(folder: string): Promise<string[]> {
  const address = new URL('files', API)
  address.searchParams.set('prefix', folder)
  const { files }: { files: { path: string }[] } = await (
    await accepted(await authorizedFetch(address))
  ).json()
  return files.map(({ path }) => path.slice(folder.length))
}

/** Reads a file from the service again instead of from the cache. */
export const forgetFile = (path: string) => queryClient.resetQueries({ queryKey: folderKey(folderOf(path)) })

/** Removes the files of a folder from the cache. */
export const dropFolder = (folder: string) => queryClient.removeQueries({ queryKey: folderKey(folder) })
