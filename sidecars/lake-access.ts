import { randomUUID } from 'node:crypto'
import { chmod, copyFile, link, mkdir, open, readFile, rename, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { traceHeaders } from '../proto/trace.ts'
import { accepted, patiently, transferTimeoutMs } from './http.ts'
import { type Lease, type ObjectCache, READ_ONLY } from './object-cache.ts'

// How a sidecar reaches objects: lake files in place where the disk is shared with the API, all else through the
// API's gateway and a local cache. Lake files are immutable and have unique names.

export interface LakeFiles {
  /** A local file with the content, until it is released. */
  open(key: string, sizeBytes?: number): Promise<Lease>
  read(key: string): Promise<Uint8Array>
  /** Writes a new file; it is durable when this resolves. */
  write(key: string, bytes: Uint8Array): Promise<void>
  /**
   * Makes a local file the content of a new key; durable when this resolves. Answers where the content can be read for
   * good. The file itself stays where it is and must not change any more: it may be the same one.
   */
  adopt(key: string, path: string): Promise<string>
}

/** What every location inside table metadata begins with, wherever the store is. */
export const LAKE_ROOT = 'sluice://lake/'

/** Lake files in the directory where the API's disk store keeps them. */
export function sharedLake(directory: string): LakeFiles {
  const pathOf = (key: string) => join(directory, key)
  return {
    open: async (key) => ({ path: pathOf(key), release: () => {} }),
    read: (key) => readFile(pathOf(key)),
    write: async (key, bytes) => {
      const temporary = await besidePath(pathOf(key))
      await writeFile(temporary, bytes)
      await place(temporary, pathOf(key))
    },
    adopt: async (key, path) => {
      const target = pathOf(key)
      await makeDirectory(dirname(target))
      await chmod(path, (await stat(path)).mode & READ_ONLY)
      await sync(path)
      try {
        await link(path, target)
      } catch (error) {
        // Another disk, or one without links.
        if (!(error instanceof Error && 'code' in error && NO_LINK.has(String(error.code)))) throw error
        const temporary = await besidePath(target)
        await copyFile(path, temporary)
        return place(temporary, target).then(() => target)
      }
      await sync(dirname(target))
      return target
    },
  }
}

const NO_LINK: ReadonlySet<string> = new Set(['EXDEV', 'EPERM', 'EMLINK', 'ENOTSUP', 'ENOSYS'])

async function besidePath(path: string): Promise<string> {
  await makeDirectory(dirname(path))
  return join(dirname(path), `~${randomUUID()}`)
}

/** Makes a directory and what leads to it, each durable in its parent. */
async function makeDirectory(directory: string): Promise<void> {
  const first = await mkdir(directory, { recursive: true })
  if (first === undefined) return
  for (let made = directory; made.length >= first.length; made = dirname(made)) await sync(dirname(made))
}

/** Syncs a file, renames it, and syncs the directory: then the rename survives a power cut. */
async function place(from: string, to: string): Promise<void> {
  await sync(from)
  await rename(from, to)
  await sync(dirname(to))
}

async function sync(path: string): Promise<void> {
  const handle = await open(path)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

export interface Gateway {
  /** Base of the object routes, without a slash at the end. */
  url: string
  token: string
  cache: ObjectCache
  signal?: AbortSignal
}

/** A local copy of any object the token may read; `version` is '' for lake files. */
export function openObject(
  gateway: Gateway,
  key: string,
  version: string,
  sizeBytes?: number,
): Promise<Lease> {
  return gateway.cache.acquire({ key, version, sizeBytes }, (path) =>
    patiently(
      async (signal) => {
        const query = version === '' ? '' : `?version=${encodeURIComponent(version)}`
        const response = await fetch(urlOf(gateway, key) + query, { headers: authorization(gateway), signal })
        await Bun.write(path, await accepted(response, `reading ${key}`))
      },
      { signal: gateway.signal, timeoutMs: transferTimeoutMs(sizeBytes ?? 0) },
    ),
  )
}

/** Lake files through the gateway. */
export function gatewayLake(gateway: Gateway): LakeFiles {
  const put = (key: string, body: Uint8Array<ArrayBuffer> | Blob, sizeBytes: number) =>
    patiently(
      async (signal) => {
        const request = { method: 'PUT', headers: authorization(gateway), body, signal }
        await accepted(await fetch(urlOf(gateway, key), request), `writing ${key}`)
      },
      { signal: gateway.signal, timeoutMs: transferTimeoutMs(sizeBytes) },
    )
  return {
    open: (key, sizeBytes) => openObject(gateway, key, '', sizeBytes),
    read: async (key) => {
      const { path, release } = await openObject(gateway, key, '')
      try {
        return await readFile(path)
      } finally {
        release()
      }
    },
    write: (key, bytes) => put(key, new Uint8Array(bytes), bytes.byteLength),
    adopt: async (key, path) => {
      const file = Bun.file(path)
      await put(key, file, file.size)
      return path
    },
  }
}

const urlOf = ({ url }: Gateway, key: string) => `${url}/${key.split('/').map(encodeURIComponent).join('/')}`
const authorization = ({ token }: Gateway) => ({ ...traceHeaders(), authorization: `Bearer ${token}` })
