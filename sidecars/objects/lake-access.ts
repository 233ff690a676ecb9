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
import { traceHeaders } from '../../proto/trace.ts'
import { accepted, patiently, transferTimeoutMs } from '../rpc/http.ts'
import { type Lease, type ObjectCache, READ_ONLY } from './object-cache.ts'

// How a sidecar reaches objects: lake files in place where the disk is shared with the API, all else through the
// API's gateway and a local cache. Lake files are immutable and have unique names.

export interface LakeFiles {
  /** A local file with the content, until it is released. */
  open(key: string, sizeBytes?: number): Promise<Lease>
  read(key: string): Promise<Uint8Array>
  /** Writes new files; all of them are durable when this resolves. */
  write(files: readonly NewFile[]): Promise<void>
  /**
   * Makes a local file the content of a new key; durable when this resolves. Answers where the content can be read for
   * good. The file itself stays where it is and must not change any more: it may be the same one.
   */
  adopt(key: string, path: string): Promise<string>
}

export interface NewFile {
  key: string
  bytes: Uint8Array
}

/** What every location inside table metadata begins with, wherever the store is. */
export const LAKE_ROOT = 'sluice://lake/'

/**
 * Lake files in the directory where the API's disk store keeps them. Their names are theirs alone and nobody looks for one
 * before it is durable, so they are written in place. Small calls are not handed to another thread, which costs more than
 * they do; waiting for the disk is.
 */
export function sharedLake(directory: string, sync: Sync = promisify(fsync)): LakeFiles {
  const root = resolve(directory)
  const pathOf = (key: string) => join(root, key)
  /** What we have made durable in their parents. */
  const known = new LRUCache<string, true>({ max: DIRECTORIES_KNOWN })

  /**
   * Makes a directory and what leads to it, each durable in its parent. One that was there already may have been made by
   * somebody who has not come that far, or never will: we only know of our own.
   */
  async function makeDirectory(made: string): Promise<void> {
    const first = mkdirSync(made, { recursive: true })
    const unsure: string[] = []
    for (let at = made; at.length > root.length; at = dirname(at))
      if (!known.has(at) || (first !== undefined && at.length >= first.length)) unsure.push(at)
    if (unsure.length === 0) return
    await durably(sync, (open) => {
      for (const each of unsure) open(dirname(each), 'r')
    })
    for (const each of unsure) known.set(each, true)
  }

  return {
    open: async (key) => ({ path: pathOf(key), release: () => {} }),
    read: (key) => readFile(pathOf(key)),
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
        // Another disk, or one without links.
        if (!(error instanceof Error && 'code' in error && NO_LINK.has(String(error.code)))) throw error
        const temporary = join(dirname(target), `~${randomUUID()}`)
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

/** A full disk leaves no part of it. */
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
/** Those of a forgotten one are synced once more. */
const DIRECTORIES_KNOWN = 10_000

/** Waits until the disk has what was opened, files and directories, and all that has been done to them by then. */
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
    // To the last: none is closed under a call that goes on.
    const synced = await Promise.allSettled(opened.map((descriptor) => sync(descriptor)))
    const failed = synced.find(({ status }) => status === 'rejected')
    if (failed?.status === 'rejected') throw failed.reason
  } finally {
    for (const descriptor of opened) closeSync(descriptor)
  }
}

export interface Gateway {
  /** Base of the object routes, without a slash at the end. */
  url: string
  token: string
  /** By whose right copies are cached. */
  authority: string
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

/** A key, or names joined by slashes, as the path of an address. Throws for `.` and `..`, which would lead to another route. */
export function pathIn(key: string): string {
  const segments = key.split('/')
  if (segments.some((segment) => /^\.{0,2}$/.test(segment)))
    throw new Error(`${JSON.stringify(key)} is no key`)
  return segments.map(encodeURIComponent).join('/')
}

const authorization = ({ token }: Gateway) => ({ ...traceHeaders(), authorization: `Bearer ${token}` })
