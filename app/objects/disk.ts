import type { Dirent } from 'node:fs'
import {
  access,
  constants,
  type FileHandle,
  mkdir,
  open,
  readdir,
  readFile,
  rm,
  rmdir,
  stat,
  unlink,
} from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { LRUCache } from 'lru-cache'
import { type DiskFloor, makeDiskFloor } from '../../lake/disk-floor.ts'
import type { Clock } from '../core/clock.ts'
import { diskFull } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { chunksOf, textOf } from './body.ts'
import {
  makeDirectory,
  makeWays,
  namesIn,
  orNull,
  PIECE_BYTES,
  streamOf,
  syncDirectory,
  writeNew,
} from './disk-files.ts'
import { lockDirectory } from './disk-lock.ts'
import {
  directoryOf,
  type Place,
  parseEntry,
  parseVersionId,
  placeOf,
  type Version,
  versionIdOf,
  versionName,
} from './disk-names.ts'
import { checkFolder, checkKey, checkPrefix, compareKeys, isLakeKey } from './key.ts'
import {
  type Body,
  type ObjectInfo,
  type ObjectPage,
  type ObjectStore,
  type ObjectVersion,
  type PutOptions,
  type StagedObject,
  type StageOptions,
  type StoredObject,
  StoreUnavailable,
  type VersionPage,
} from './port.ts'

// The object store of a single machine. A file is written under a temporary name, synced, and renamed to its version:
// the rename is the commit, and the greatest version is the newest (docs/adr/0003-object-store.md).

/** Directories whose newest version is remembered; any other is read again on its next put. */
const REMEMBERED_DIRECTORIES = 10_000
/** A page of versions ends with the key that fills it. */
const VERSIONS_PAGE = 1_000

/** Bytes of one body between two looks at the free space. */
const FLOOR_EVERY_BYTES = 4 * 1_048_576

/**
 * Opens a directory as an object store, alone: StoreUnavailable when another process has it, or it cannot be used. Bodies are
 * refused with 507 when less than `floor` is free.
 */
export async function openDiskStore(
  root: string,
  clock: Clock,
  sync?: (file: FileHandle) => Promise<void>,
  floor: DiskFloor = makeDiskFloor(root, null),
): Promise<ObjectStore> {
  const scratch = join(root, '~tmp')
  const release = await prepare(root, scratch)
  const nextVersion = versionCounter(clock)
  const ways = makeWays(root)
  let temporaries = 0

  async function stage(
    body: Body,
    { maxBytes, usesReserve = false }: StageOptions = {},
  ): Promise<StagedObject> {
    const temporary = join(scratch, String(temporaries++))
    const discard = () => rm(temporary, { force: true }).catch(() => {})
    try {
      const chunks = chunksOf(body, maxBytes)
      const size = await writeNew(temporary, usesReserve ? chunks : aboveFloor(chunks), sync)
      let isNamed = false
      return {
        size,
        async commit(key) {
          const { versionId, directory } = await moved(key, temporary, size)
          isNamed = true
          await ways.secure(directory)
          return { versionId }
        },
        discard: async () => void (isNamed || (await discard())),
      }
    } catch (error) {
      await discard()
      throw error
    }
  }

  /** The chunks, while there is space for them. */
  async function* aboveFloor(chunks: AsyncIterable<Uint8Array>) {
    let unchecked = FLOOR_EVERY_BYTES
    for await (const chunk of chunks) {
      unchecked += chunk.byteLength
      if (unchecked >= FLOOR_EVERY_BYTES) {
        unchecked = 0
        const shortage = await floor.shortage()
        if (shortage !== null) throw diskFull(shortage)
      }
      yield chunk
    }
  }

  async function moved(key: string, temporary: string, size: number) {
    checkKey(key)
    const place = placeOf(root, key)
    const { directory } = place
    if (isLakeKey(key)) {
      await ways.moveInto(directory, place.name, temporary)
      return { versionId: '', directory }
    }
    const version = { number: await nextVersion(directory), size }
    await ways.moveInto(directory, versionName(place, version), temporary)
    return { versionId: versionIdOf(version), directory }
  }

  async function put(key: string, body: Body, options: PutOptions = {}) {
    checkKey(key)
    // Runs under way store their results.
    const usesReserve = options.usesReserve ?? isLakeKey(key)
    const staged = await stage(body, { ...options, usesReserve })
    try {
      const { versionId } = await staged.commit(key)
      return { versionId, size: staged.size }
    } finally {
      await staged.discard()
    }
  }

  /** Where the bytes of a key are. A pinned version is taken at its word: its id says all but whether it exists. */
  async function find(key: string, versionId?: string): Promise<(ObjectInfo & { path: string }) | null> {
    checkKey(key)
    const place = placeOf(root, key)
    if (isLakeKey(key)) return findPlain(join(place.directory, place.name))
    const version = versionId === undefined ? await newestOf(place) : parseVersionId(versionId)
    if (version === null || version.size === null) return null
    return {
      path: join(place.directory, versionName(place, version)),
      size: version.size,
      versionId: versionIdOf(version),
      modified: modifiedOf(version),
    }
  }

  async function get(key: string, versionId?: string) {
    const found = await find(key, versionId)
    const body = found && (await streamOf(found.path, found.size))
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
    // Most texts are small and many: a stream costs more than the file.
    if (found.size <= Math.min(PIECE_BYTES, maxBytes ?? PIECE_BYTES)) {
      const bytes = await orNull(readFile(path))
      if (bytes === null) return null
      if (bytes.byteLength !== found.size)
        throw new Error(`${path} has ${bytes.byteLength} of ${found.size} bytes`)
      return { ...info, text: new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes) }
    }
    const body = await streamOf(path, found.size)
    return body && textOf({ ...info, body }, maxBytes)
  }

  async function remove(key: string) {
    checkKey(key)
    const place = placeOf(root, key)
    if (isLakeKey(key)) return discard(place, place.name)
    const newest = await newestOf(place)
    if (newest === null || newest.size === null) return
    const marker = { number: await nextVersion(place.directory), size: null }
    const file = await orNull(open(join(place.directory, versionName(place, marker)), 'wx'))
    await file?.close()
    await syncDirectory(place.directory)
  }

  async function deleteVersion(key: string, versionId: string) {
    checkKey(key)
    const place = placeOf(root, key)
    if (isLakeKey(key)) return discard(place, place.name)
    const version = parseVersionId(versionId)
    if (version !== null) await discard(place, versionName(place, version))
  }

  async function list(prefix: string, page: { limit: number; after?: string }): Promise<ObjectPage> {
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

  async function versions(prefix: string, after = ''): Promise<VersionPage> {
    checkPrefix(prefix)
    const folder = prefix.slice(0, prefix.lastIndexOf('/') + 1)
    const found: ObjectVersion[] = []
    for await (const key of walkKeys(directoryOf(root, folder), folder, { prefix, after })) {
      if (found.length >= VERSIONS_PAGE) return { versions: found, truncated: true }
      found.push(...versionsOf(key))
    }
    return { versions: found, truncated: false }
  }

  async function removeAll(prefix: string) {
    checkFolder(prefix)
    const directory = directoryOf(root, prefix)
    await clear(directory)
    await syncDirectory(dirname(directory))
  }

  return {
    put,
    stage,
    get,
    head,
    text,
    delete: remove,
    deleteVersion,
    list,
    versions,
    removeAll,
    ping: () => access(scratch, constants.W_OK),
    close: release,
  }
}

/** Takes the directory over and sweeps what a killed owner was writing. */
async function prepare(root: string, scratch: string): Promise<() => Promise<void>> {
  try {
    await makeDirectory(root)
    const release = await lockDirectory(root)
    await rm(scratch, { recursive: true, force: true })
    await mkdir(scratch)
    return release
  } catch (error) {
    if (error instanceof StoreUnavailable) throw error
    const why = error instanceof Error ? error.message : String(error)
    throw new StoreUnavailable(`the object store ${root} cannot be used: ${why}`, { cause: error })
  }
}

/**
 * Version numbers are microseconds since 1970, but always above every number in the directory: within one millisecond,
 * among concurrent puts, and after the clock has stepped back, also while we were down. Being the only process here,
 * we read a directory once and remember its greatest number.
 */
function versionCounter(clock: Clock): (directory: string) => Promise<number> {
  const remembered = new LRUCache<string, number>({ max: REMEMBERED_DIRECTORIES })
  return async (directory) => {
    const onDisk = remembered.has(directory) ? 0 : await greatestIn(directory)
    const greatest = Math.max(onDisk, remembered.get(directory) ?? 0)
    const next = Math.max(greatest + 1, clock.now().getTime() * 1000)
    remembered.set(directory, next)
    return next
  }
}

async function greatestIn(directory: string): Promise<number> {
  let greatest = 0
  for (const name of await namesIn(directory)) {
    const entry = parseEntry(name)
    if (entry.kind === 'version') greatest = Math.max(greatest, entry.version.number)
  }
  return greatest
}

async function newestOf(place: Place): Promise<Version | null> {
  let newest: Version | null = null
  for (const name of await namesIn(place.directory)) {
    if (!name.startsWith(`${place.name}~`)) continue
    const entry = parseEntry(name)
    if (entry.kind !== 'version') continue
    if (newest === null || entry.version.number > newest.number) newest = entry.version
  }
  return newest
}

const modifiedOf = (version: Version) => new Date(Math.floor(version.number / 1000))

async function discard(place: Place, name: string): Promise<void> {
  await orNull(unlink(join(place.directory, name)))
  await syncDirectory(place.directory)
}

interface Wanted {
  prefix: string
  after: string
}
type Found =
  | { kind: 'folder'; key: string; path: string }
  | { kind: 'object'; key: string; versions: Version[] }
  | { kind: 'plain'; key: string; path: string }
type FoundKey = Exclude<Found, { kind: 'folder' }>

/** The wanted objects below a folder in the order of their keys. */
async function* walk(directory: string, folder: string, wanted: Wanted): AsyncGenerator<StoredObject> {
  for await (const found of walkKeys(directory, folder, wanted)) {
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

/** The wanted keys below a folder in their order, deleted ones too. A folder sorts as its name with a '/'. */
async function* walkKeys(directory: string, folder: string, wanted: Wanted): AsyncGenerator<FoundKey> {
  const found = isLakeKey(folder) ? await plainIn(directory, folder) : await versionedIn(directory, folder)
  found.sort((a, b) => compareKeys(a.key, b.key))
  for (const item of found) {
    if (item.kind === 'folder') {
      if (mayHold(item.key, wanted)) yield* walkKeys(item.path, item.key, wanted)
    } else if (item.key.startsWith(wanted.prefix) && compareKeys(item.key, wanted.after) > 0) yield item
  }
}

/** There is at least one. */
const newest = (versions: readonly Version[]): Version =>
  versions.reduce((latest, version) => (version.number > latest.number ? version : latest))

function versionsOf(found: FoundKey): ObjectVersion[] {
  // Lake keys have no versions: nobody asks for them.
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

function mayHold(folder: string, { prefix, after }: Wanted): boolean {
  return (
    (folder.startsWith(prefix) || prefix.startsWith(folder)) &&
    (after.startsWith(folder) || compareKeys(folder, after) > 0)
  )
}

/** The folders in a directory and its keys with their versions. `base` is what their keys begin with. */
async function versionedIn(directory: string, base: string): Promise<Found[]> {
  const folders: Found[] = []
  const keys = new Map<string, Version[]>()
  for (const name of await namesIn(directory)) {
    const entry = parseEntry(name)
    const path = join(directory, name)
    if (entry.kind === 'folder') folders.push({ kind: 'folder', key: `${base}${entry.name}/`, path })
    if (entry.kind === 'part') folders.push(...(await versionedIn(path, base + entry.name)))
    if (entry.kind !== 'version') continue
    const known = keys.get(entry.name)
    if (known === undefined) keys.set(entry.name, [entry.version])
    else known.push(entry.version)
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
    return entry.isDirectory()
      ? { kind: 'folder', key: `${base}${entry.name}/`, path }
      : { kind: 'plain', key: base + entry.name, path }
  })
}

async function findPlain(path: string) {
  const file = await orNull(stat(path))
  return file?.isFile() ? { path, size: file.size, versionId: '', modified: file.mtime } : null
}

/** Empties a directory, the oldest versions first: should we stop half way, no reader sees an old version again. */
async function clear(directory: string): Promise<void> {
  const entries = await entriesIn(directory)
  entries.sort((a, b) => (a.name < b.name ? -1 : 1))
  for (const entry of entries) {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) await clear(path)
    else await orNull(unlink(path))
  }
  // Not empty: something was put here meanwhile, and stays.
  await orNull(rmdir(directory)).catch((error) => {
    if (!['ENOTEMPTY', 'EEXIST'].includes(error.code)) throw error
  })
}

const entriesIn = async (directory: string): Promise<Dirent[]> =>
  (await orNull(readdir(directory, { withFileTypes: true }))) ?? []
