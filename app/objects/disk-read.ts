// Reads of the object store of a single machine: the newest version of a key, or a pinned version.
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { textOf } from './body.ts'
import { namesIn, orNull, PIECE_BYTES, streamOf } from './disk-files.ts'
import {
  type DiskLocation,
  diskLocationOf,
  parseEntry,
  parseVersionId,
  type Version,
  versionIdOf,
  versionName,
} from './disk-names.ts'
import { checkKey, isLakeKey } from './key.ts'
import type { ByteRange, ObjectInfo, ObjectStore } from './port.ts'

/** Each method returns null for a key or a version that does not exist. */
export function makeReads(root: string): Pick<ObjectStore, 'get' | 'head' | 'text'> {
  /** Locates the bytes of a key. The id of a pinned version contains everything except whether the version exists. */
  async function find(key: string, versionId?: string): Promise<(ObjectInfo & { path: string }) | null> {
    checkKey(key)
    const location = diskLocationOf(root, key)
    if (isLakeKey(key)) return findPlain(join(location.directory, location.name))
    const version = versionId === undefined ? await newestOf(location) : parseVersionId(versionId)
    if (version === null || version.size === null) return null
    return {
      path: join(location.directory, versionName(location, version)),
      size: version.size,
      versionId: versionIdOf(version),
      modified: modifiedOf(version),
    }
  }

  async function get(key: string, versionId?: string, range?: ByteRange) {
    const found = await find(key, versionId)
    const body = found && (await streamOf(found.path, range?.end ?? found.size, range?.start))
    if (!body) return null
    const { path: _, ...info } = found
    return { ...info, body }
  }

  async function head(key: string, versionId?: string) {
    const found = await find(key, versionId)
    if (!found || (versionId !== undefined && !(await orNull(stat(found.path))))) return null
    const { path: _, ...info } = found
    return info
  }

  async function text(key: string, versionId?: string, maxBytes?: number) {
    const found = await find(key, versionId)
    if (found === null) return null
    const { path, ...info } = found
    // Most texts are small and many; a stream would cost more than the file.
    if (found.size <= Math.min(PIECE_BYTES, maxBytes ?? PIECE_BYTES)) {
      const bytes = await orNull(readFile(path))
      if (bytes === null) return null
      if (bytes.byteLength !== found.size)
        throw new Error(`object file ${path} is truncated: ${bytes.byteLength} of ${found.size} bytes`)
      return { ...info, text: new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes) }
    }
    const body = await streamOf(path, found.size)
    return body && textOf({ ...info, body }, maxBytes)
  }

  return { get, head, text }
}

/** The newest version of a key, which may be a delete marker; null when the key never existed. */
export async function newestOf(location: DiskLocation): Promise<Version | null> {
  let newest: Version | null = null
  for (const name of await namesIn(location.directory)) {
    if (!name.startsWith(`${location.name}~`)) continue
    const entry = parseEntry(name)
    if (entry.kind !== 'version') continue
    if (newest === null || entry.version.number > newest.number) newest = entry.version
  }
  return newest
}

/** Version numbers are microseconds since 1970. */
export const modifiedOf = (version: Version) => new Date(Math.floor(version.number / 1000))

/** A file of the lake; lake keys have no versions. */
export async function findPlain(path: string) {
  const file = await orNull(stat(path))
  return file?.isFile() ? { path, size: file.size, versionId: '', modified: file.mtime } : null
}
