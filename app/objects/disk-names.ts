import assert from 'node:assert/strict'
import { join } from 'node:path'
import { localNameOf } from '../../lake/local-names.ts'
import { isLakeKey } from './key.ts'

// How keys and versions become names on disk. '~' is reserved, so keys escape it. Names within a directory:
// - name                     the folder of the keys below name/
// - name~0001763711234567~42 a version of the key: microseconds since 1970, then the size in bytes
// - name~0001763711234567~   a delete marker (an empty file)
// - part~                    a folder that holds the rest of a name too long for the file system
// - ~lock.., ~tmp            files of the store itself
//
// Lake files have no such names, because other processes find them by their keys (lake/local-names.ts).

/** File systems allow 255 bytes; a version and a size need up to 34 of them. */
const NAME_LIMIT_BYTES = 200
const VERSION = /^(\d{16})~(\d{0,16})$/
const VERSION_FILE = /^([^~]+)~(\d{16})~(\d{0,16})$/
const PART_FOLDER = /^([^~]+)~$/

export interface DiskLocation {
  directory: string
  name: string
}
export interface Version {
  number: number
  /** Null: a delete marker. */
  size: number | null
}
type Entry =
  | { kind: 'version'; name: string; version: Version }
  | { kind: 'part'; name: string }
  | { kind: 'folder'; name: string }
  | { kind: 'foreign' }

/** The directory of a key's versions, and the beginning of their names. */
export function diskLocationOf(root: string, key: string): DiskLocation {
  const path = isLakeKey(key) ? localNameOf(key).split('/') : key.split('/').flatMap(partsOf)
  const name = path.pop()
  assert(name !== undefined, 'a key has at least one segment')
  return { directory: join(root, ...path), name }
}

/** The directory of a folder: '' or a prefix that ends in '/'. */
export function directoryOf(root: string, folder: string): string {
  return diskLocationOf(root, folder).directory
}

export function versionName(location: DiskLocation, version: Version): string {
  return `${location.name}~${String(version.number).padStart(16, '0')}~${version.size ?? ''}`
}

/** A version id is the end of its file name. So a pinned read needs no listing, not even for the size. */
export const versionIdOf = (version: Version) =>
  `${String(version.number).padStart(16, '0')}~${version.size ?? ''}`

export function parseVersionId(versionId: string): Version | null {
  const [, number, size] = VERSION.exec(versionId) ?? []
  return size === undefined ? null : { number: Number(number), size: size === '' ? null : Number(size) }
}

/** Parses a name in a directory; `name` in the result is a segment of a key, or a part of one. */
export function parseEntry(entry: string): Entry {
  const [, encodedName, number, size] = VERSION_FILE.exec(entry) ?? []
  if (encodedName !== undefined)
    return {
      kind: 'version',
      name: decoded(encodedName),
      version: { number: Number(number), size: size ? Number(size) : null },
    }
  const [, part] = PART_FOLDER.exec(entry) ?? []
  if (part !== undefined) return { kind: 'part', name: decoded(part) }
  return entry.includes('~') ? { kind: 'foreign' } : { kind: 'folder', name: decoded(entry) }
}

/** The path segments of one segment of a key: one, unless the segment is too long. Characters are never split. */
function partsOf(segment: string): string[] {
  const stored = encoded(segment)
  if (Buffer.byteLength(stored) <= NAME_LIMIT_BYTES) return [stored]
  const parts: string[] = []
  let part = ''
  let bytes = 0
  for (const character of segment) {
    const added = encoded(character)
    const width = Buffer.byteLength(added)
    if (bytes + width > NAME_LIMIT_BYTES) {
      parts.push(`${part}~`)
      part = ''
      bytes = 0
    }
    part += added
    bytes += width
  }
  return [...parts, part]
}

const encoded = (text: string) => text.replaceAll('%', '%25').replaceAll('~', '%7E')
const decoded = (text: string) => text.replaceAll('%7E', '~').replaceAll('%25', '%')
