import assert from 'node:assert/strict'
import { join } from 'node:path'
import { isLakeKey } from './key.ts'

// How keys and versions become names on the disk. '~' is ours: it is escaped in keys, so that within a directory
//   name                     is the folder of the keys below name/
//   name~0001763711234567~42 is a version of the key: microseconds since 1970, then the size in bytes
//   name~0001763711234567~   is a delete marker (an empty file)
//   part~                    is a folder that holds the rest of a name too long for the file system
//   ~lock.., ~tmp            belong to the store itself
// Lake files have none of this: other processes find them under exactly their key.

/** File systems allow 255 bytes; a version and a size need up to 34 of them. */
const NAME_LIMIT_BYTES = 200
const VERSION = /^(\d{16})~(\d{0,16})$/
const VERSION_FILE = /^([^~]+)~(\d{16})~(\d{0,16})$/
const PART_FOLDER = /^([^~]+)~$/

export interface Place {
  directory: string
  name: string
}
export interface Version {
  number: number
  /** Null: a delete marker. */
  size: number | null
}
export type Entry =
  | { kind: 'version'; name: string; version: Version }
  | { kind: 'part'; name: string }
  | { kind: 'folder'; name: string }
  | { kind: 'foreign' }

/** The directory of a key's versions and what their names begin with. */
export function placeOf(root: string, key: string): Place {
  const path = isLakeKey(key) ? key.split('/') : key.split('/').flatMap(partsOf)
  const name = path.pop()
  assert(name !== undefined, 'a key has at least one segment')
  return { directory: join(root, ...path), name }
}

/** The directory of a folder: '' or a prefix that ends in '/'. */
export function directoryOf(root: string, folder: string): string {
  return placeOf(root, folder).directory
}

export function versionName(place: Place, version: Version): string {
  return `${place.name}~${String(version.number).padStart(16, '0')}~${version.size ?? ''}`
}

/** A version id is the end of its file name: a pinned read needs no listing, not even for the size. */
export const versionIdOf = (version: Version) =>
  `${String(version.number).padStart(16, '0')}~${version.size ?? ''}`

export function parseVersionId(versionId: string): Version | null {
  const [, number, size] = VERSION.exec(versionId) ?? []
  return size === undefined ? null : { number: Number(number), size: size === '' ? null : Number(size) }
}

/** What a name in a directory stands for; `name` is (a part of) a key's segment again. */
export function parseEntry(entry: string): Entry {
  const [, named, number, size] = VERSION_FILE.exec(entry) ?? []
  if (named !== undefined)
    return {
      kind: 'version',
      name: decoded(named),
      version: { number: Number(number), size: size ? Number(size) : null },
    }
  const [, part] = PART_FOLDER.exec(entry) ?? []
  if (part !== undefined) return { kind: 'part', name: decoded(part) }
  return entry.includes('~') ? { kind: 'foreign' } : { kind: 'folder', name: decoded(entry) }
}

/** One segment of a key as path segments: one, unless it is too long. Never cuts a character. */
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
