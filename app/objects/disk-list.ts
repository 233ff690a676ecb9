// Listings of the object store of a single machine, in the order of the keys.
import type { Dirent } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { keyOfLocalName } from '../../lake/local-names.ts'
import { limits } from '../core/limits.ts'
import { namesIn, orNull } from './disk-files.ts'
import { directoryOf, parseEntry, type Version, versionIdOf } from './disk-names.ts'
import { findPlain, modifiedOf } from './disk-read.ts'
import { checkPrefix, compareKeys, isLakeKey } from './key.ts'
import type { ObjectPage, ObjectVersion, StoredObject, VersionPage } from './port.ts'

/** Versions per page. A page ends with the key that fills it. */
const VERSIONS_PAGE = 1_000

/** Objects whose keys begin with `prefix` and follow `after`; at most `limits.listCap` of them. */
export async function listKeys(
  root: string,
  prefix: string,
  page: { limit: number; after?: string },
): Promise<ObjectPage> {
  checkPrefix(prefix)
  const limit = Math.min(page.limit, limits.listCap)
  const folder = prefix.slice(0, prefix.lastIndexOf('/') + 1)
  const objects: StoredObject[] = []
  for await (const object of walk(directoryOf(root, folder), folder, { prefix, after: page.after ?? '' })) {
    if (objects.length === limit) return { objects, truncated: true }
    objects.push(object)
  }
  return { objects, truncated: false }
}

/**
 * Versions and delete markers of the keys that begin with `prefix` and follow `after`. A page holds all versions of its keys.
 */
export async function listVersions(root: string, prefix: string, after = ''): Promise<VersionPage> {
  checkPrefix(prefix)
  const folder = prefix.slice(0, prefix.lastIndexOf('/') + 1)
  const found: ObjectVersion[] = []
  for await (const key of walkKeys(directoryOf(root, folder), folder, { prefix, after })) {
    if (found.length >= VERSIONS_PAGE) return { versions: found, truncated: true }
    found.push(...versionsOf(key))
  }
  return { versions: found, truncated: false }
}

interface KeyRange {
  prefix: string
  after: string
}
type Found =
  | { kind: 'folder'; key: string; path: string }
  | { kind: 'object'; key: string; versions: Version[] }
  | { kind: 'plain'; key: string; path: string }
type FoundKey = Exclude<Found, { kind: 'folder' }>

/** The requested objects below a folder, in the order of their keys. */
async function* walk(directory: string, folder: string, range: KeyRange): AsyncGenerator<StoredObject> {
  for await (const found of walkKeys(directory, folder, range)) {
    if (found.kind === 'plain') {
      const info = await findPlain(found.path)
      if (info) yield { key: found.key, size: info.size, modified: info.modified, versionId: '' }
      continue
    }
    const version = newest(found.versions)
    if (version.size === null) continue
    const { size } = version
    yield { key: found.key, size, modified: modifiedOf(version), versionId: versionIdOf(version) }
  }
}

/** The requested keys below a folder in order, including deleted keys. A folder sorts as its name with a '/'. */
async function* walkKeys(directory: string, folder: string, range: KeyRange): AsyncGenerator<FoundKey> {
  const found = isLakeKey(folder) ? await plainIn(directory, folder) : await versionedIn(directory, folder)
  found.sort((a, b) => compareKeys(a.key, b.key))
  for (const item of found) {
    if (item.kind === 'folder') {
      if (mayContain(item.key, range)) yield* walkKeys(item.path, item.key, range)
    } else if (item.key.startsWith(range.prefix) && compareKeys(item.key, range.after) > 0) yield item
  }
}

/** The list is not empty. */
const newest = (versions: readonly Version[]): Version =>
  versions.reduce((latest, version) => (version.number > latest.number ? version : latest))

function versionsOf(found: FoundKey): ObjectVersion[] {
  // Lake keys have no versions, and no caller lists them.
  if (found.kind === 'plain') return []
  const latest = newest(found.versions)
  return found.versions.map((version) => ({
    key: found.key,
    versionId: versionIdOf(version),
    size: version.size,
    modified: modifiedOf(version),
    isNewest: version === latest,
  }))
}

function mayContain(folder: string, { prefix, after }: KeyRange): boolean {
  return (
    (folder.startsWith(prefix) || prefix.startsWith(folder)) &&
    (after.startsWith(folder) || compareKeys(folder, after) > 0)
  )
}

/** The folders in a directory, and its keys with their versions. `base` is the prefix of these keys. */
async function versionedIn(directory: string, base: string): Promise<Found[]> {
  const folders: Found[] = []
  const keys = new Map<string, Version[]>()
  for (const name of await namesIn(directory)) {
    const entry = parseEntry(name)
    const path = join(directory, name)
    if (entry.kind === 'folder') folders.push({ kind: 'folder', key: `${base}${entry.name}/`, path })
    if (entry.kind === 'part') folders.push(...(await versionedIn(path, base + entry.name)))
    if (entry.kind !== 'version') continue
    const versions = keys.get(entry.name)
    if (versions === undefined) keys.set(entry.name, [entry.version])
    else versions.push(entry.version)
  }
  const objects = Array.from(
    keys,
    ([name, versions]): Found => ({ kind: 'object', key: base + name, versions }),
  )
  return [...folders, ...objects]
}

async function plainIn(directory: string, base: string): Promise<Found[]> {
  return (await entriesIn(directory)).map((entry) => {
    const path = join(directory, entry.name)
    const name = keyOfLocalName(entry.name)
    return entry.isDirectory()
      ? { kind: 'folder', key: `${base}${name}/`, path }
      : { kind: 'plain', key: base + name, path }
  })
}

export const entriesIn = async (directory: string): Promise<Dirent[]> =>
  (await orNull(readdir(directory, { withFileTypes: true }))) ?? []
