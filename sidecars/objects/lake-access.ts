import { randomUUID } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  fsync,
  linkSync,
  mkdirSync,
  openSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { copyFile, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { LRUCache } from 'lru-cache'
import { traceHeaders } from '../../ground/telemetry/trace.ts'
import { localNameOf } from '../../lake/local-names.ts'
import { accepted, HttpFailure, patiently, transferTimeoutMs } from '../rpc/http.ts'
import { MissingLakeFile } from './missing-file.ts'
import { type Lease, type ObjectCache, READ_ONLY } from './object-cache.ts'

// Access of a sidecar to objects. Lake files are used in place if the sidecar shares the API's disk. All other objects come
// through the API's gateway and a local cache. Lake files are immutable and have unique names.

export interface LakeFiles {
  /** Returns a local file with the content. The file stays until its lease is released. Throws MissingLakeFile, as `read` does. */
  open(key: string, sizeBytes?: number): Promise<Lease>
  read(key: string): Promise<Uint8Array>
  /** Writes new files. All of them are durable when the promise resolves. */
  write(files: readonly NewFile[]): Promise<void>
  /**
   * Makes a local file the content of a new key, durable when the promise resolves. Returns a path where the content stays
   * readable. The local file stays in place and must not change any more, because the path may be a hard link to it.
   */
  adopt(key: string, path: string): Promise<string>
}

interface NewFile {
  key: string
  bytes: Uint8Array
}

/**
 * Lake files in the directory of the API's disk store. Files are written in place, because their names are unique and no reader
 * opens a file before it is durable. Small calls are synchronous, because handing them to another thread costs more than the
 * call. Waiting for the disk is asynchronous.
 */
export function sharedLake(directory: string, sync: Sync = promisify(fsync)): LakeFiles {
  const root = resolve(directory)
  const pathOf = (key: string) => join(root, localNameOf(key))
  /** Directories that this process has made durable in their parents. */
  const syncedDirectories = new LRUCache<string, true>({ max: SYNCED_DIRECTORIES_MAX })

  /**
   * Creates a directory and its parents, each durable in its parent. Another writer that created an existing directory may not
   * have synced it yet, and may never do so. So the function trusts only directories that this process has synced.
   */
  async function makeDirectory(directory: string): Promise<void> {
    const first = mkdirSync(directory, { recursive: true })
    const unsynced: string[] = []
    for (let at = directory; at.length > root.length; at = dirname(at))
      if (!syncedDirectories.has(at) || (first !== undefined && at.length >= first.length)) unsynced.push(at)
    if (unsynced.length === 0) return
    await durably(sync, (open) => {
      for (const each of unsynced) open(dirname(each), 'r')
    })
    for (const each of unsynced) syncedDirectories.set(each, true)
  }

  return {
    open: async (key) => {
      const path = pathOf(key)
      if (statSync(path, { throwIfNoEntry: false }) === undefined) throw new MissingLakeFile(key)
      return { path, release: () => {} }
    },
    read: (key) =>
      readFile(pathOf(key)).catch((cause: unknown) => {
        throw cause instanceof Error && 'code' in cause && cause.code === 'ENOENT'
          ? new MissingLakeFile(key, { cause })
          : cause
      }),
    write: async (files) => {
      await Promise.all(
        Array.from(
          Map.groupBy(files, ({ key }) => dirname(pathOf(key))),
          async ([parent, own]) => {
            await makeDirectory(parent)
            await durably(sync, (open) => {
              for (const { key, bytes } of own) writeWhole(pathOf(key), open(pathOf(key), 'wx'), bytes)
              open(parent, 'r')
            })
          },
        ),
      )
    },
    adopt: async (key, path) => {
      const target = pathOf(key)
      await makeDirectory(dirname(target))
      chmodSync(path, statSync(path).mode & READ_ONLY)
      try {
        linkSync(path, target)
      } catch (error) {
        // The target is on another disk, or on a disk without hard links.
        if (!(error instanceof Error && 'code' in error && NO_LINK.has(String(error.code)))) throw error
        const temporary = join(dirname(target), `.${randomUUID()}.tmp`)
        try {
          await copyFile(path, temporary)
          await rename(temporary, target)
        } catch (error) {
          await rm(temporary, { force: true })
          throw error
        }
      }
      await durably(sync, (open) => {
        open(target, 'r')
        open(dirname(target), 'r')
      })
      return target
    },
  }
}

/** Writes a whole file, or removes the partial file when the disk is full. */
function writeWhole(path: string, descriptor: number, bytes: Uint8Array): void {
  try {
    writeFileSync(descriptor, bytes)
  } catch (error) {
    unlinkSync(path)
    throw error
  }
}

const NO_LINK: ReadonlySet<string> = new Set(['EXDEV', 'EPERM', 'EMLINK', 'ENOTSUP', 'ENOSYS'])

type Sync = (descriptor: number) => Promise<void>
/** A directory that the cache has evicted is synced once more. */
const SYNCED_DIRECTORIES_MAX = 10_000

/** Runs `work`, then waits until the disk has the files and directories it opened, with all changes so far. */
async function durably(
  sync: Sync,
  work: (open: (path: string, flags: 'r' | 'wx') => number) => void,
): Promise<void> {
  const opened: number[] = []
  try {
    work((path, flags) => {
      const descriptor = openSync(path, flags)
      opened.push(descriptor)
      return descriptor
    })
    // Waits for every call, so that no descriptor is closed while a sync uses it.
    const synced = await Promise.allSettled(opened.map((descriptor) => sync(descriptor)))
    const failed = synced.find(({ status }) => status === 'rejected')
    if (failed?.status === 'rejected') throw failed.reason
  } finally {
    for (const descriptor of opened) closeSync(descriptor)
  }
}

export interface Gateway {
  /** Base address of the object routes, without a trailing slash. */
  url: string
  token: string
  /** The authority for which copies are cached (`authorityOf` in api-addresses.ts). */
  authority: string
  cache: ObjectCache
  signal?: AbortSignal
}

/** Returns a local copy of any object that the token may read. `version` is '' for lake files. */
export function openObject(
  gateway: Gateway,
  key: string,
  version: string,
  sizeBytes?: number,
): Promise<Lease> {
  return gateway.cache.acquire({ authority: gateway.authority, key, version, sizeBytes }, (path) =>
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

/** Lake files that are read and written through the gateway. */
export function gatewayLake(gateway: Gateway): LakeFiles {
  const open = (key: string, sizeBytes?: number) =>
    openObject(gateway, key, '', sizeBytes).catch((cause: unknown) => {
      throw cause instanceof HttpFailure && cause.status === 404 ? new MissingLakeFile(key, { cause }) : cause
    })
  const put = (key: string, body: Uint8Array<ArrayBuffer> | Blob, sizeBytes: number) =>
    patiently(
      async (signal) => {
        const request = { method: 'PUT', headers: authorization(gateway), body, signal }
        await accepted(await fetch(urlOf(gateway, key), request), `writing ${key}`)
      },
      { signal: gateway.signal, timeoutMs: transferTimeoutMs(sizeBytes) },
    )
  return {
    open,
    read: async (key) => {
      const { path, release } = await open(key)
      try {
        return await readFile(path)
      } finally {
        release()
      }
    },
    write: async (files) => {
      await Promise.all(files.map(({ key, bytes }) => put(key, new Uint8Array(bytes), bytes.byteLength)))
    },
    adopt: async (key, path) => {
      const file = Bun.file(path)
      await put(key, file, file.size)
      return path
    },
  }
}

const urlOf = ({ url }: Gateway, key: string) => `${url}/${pathIn(key)}`

/**
 * Encodes a key, or names joined by slashes, as the path of an address. Throws for `.`, `..` and empty segments, which would
 * lead to another route.
 */
export function pathIn(key: string): string {
  const segments = key.split('/')
  if (segments.some((segment) => /^\.{0,2}$/.test(segment)))
    throw new Error(`invalid object key: ${JSON.stringify(key)}`)
  return segments.map(encodeURIComponent).join('/')
}

const authorization = ({ token }: Gateway) => ({ ...traceHeaders(), authorization: `Bearer ${token}` })
