import { access, constants, type FileHandle, mkdir, open, rm, rmdir, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { LRUCache } from 'lru-cache'
import { type DiskFloor, LAST_SHARE, makeDiskFloor } from '../../lake/disk-floor.ts'
import type { Clock } from '../core/clock.ts'
import { diskFull } from '../core/errors.ts'
import { chunksOf } from './body.ts'
import { makeDirectory, makeDirectoryCache, namesIn, orNull, syncDirectory, writeNew } from './disk-files.ts'
import { entriesIn, listKeys, listVersions } from './disk-list.ts'
import { lockDirectory } from './disk-lock.ts'
import {
  type DiskLocation,
  directoryOf,
  diskLocationOf,
  parseEntry,
  parseVersionId,
  versionIdOf,
  versionName,
} from './disk-names.ts'
import { makeReads, newestOf } from './disk-read.ts'
import { checkFolder, checkKey, isLakeKey } from './key.ts'
import {
  type Body,
  type ObjectStore,
  type PutOptions,
  type StagedObject,
  type StageOptions,
  StoreUnavailable,
} from './port.ts'

// The object store of a single machine. A file is written under a temporary name, synced, and renamed to its version. The
// rename is the commit, and the greatest version is the newest (docs/adr/0003-object-store.md).

/** Directories whose newest version is cached; any other directory is read again on its next put. */
const CACHED_DIRECTORIES = 10_000
/** Bytes of one body between two checks of the free space. */
const FLOOR_EVERY_BYTES = 4 * 1_048_576

/**
 * Opens a directory as an object store of this process alone. Throws StoreUnavailable when another process owns the directory,
 * or when it is unusable. Refuses bodies with 507 when less than `floor` is free.
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
  const { stage, put } = makeWrites({ root, scratch, nextVersion, sync, floor })

  async function remove(key: string) {
    checkKey(key)
    const location = diskLocationOf(root, key)
    if (isLakeKey(key)) return discard(location, location.name)
    const newest = await newestOf(location)
    if (newest === null || newest.size === null) return
    const marker = { number: await nextVersion(location.directory), size: null }
    const file = await orNull(open(join(location.directory, versionName(location, marker)), 'wx'))
    await file?.close()
    await syncDirectory(location.directory)
  }

  async function deleteVersion(key: string, versionId: string) {
    checkKey(key)
    const location = diskLocationOf(root, key)
    if (isLakeKey(key)) return discard(location, location.name)
    const version = parseVersionId(versionId)
    if (version !== null) await discard(location, versionName(location, version))
  }

  async function removeAll(prefix: string) {
    checkFolder(prefix)
    const directory = directoryOf(root, prefix)
    await clear(directory)
    await syncDirectory(dirname(directory))
  }

  return {
    ...makeReads(root),
    put,
    stage,
    delete: remove,
    deleteVersion,
    list: (prefix, page) => listKeys(root, prefix, page),
    versions: (prefix, after) => listVersions(root, prefix, after),
    removeAll,
    ping: () => access(scratch, constants.W_OK),
    close: release,
  }
}

interface WriteParts {
  root: string
  scratch: string
  nextVersion(directory: string): Promise<number>
  sync: ((file: FileHandle) => Promise<void>) | undefined
  floor: DiskFloor
}

function makeWrites({
  root,
  scratch,
  nextVersion,
  sync,
  floor,
}: WriteParts): Pick<ObjectStore, 'stage' | 'put'> {
  const directories = makeDirectoryCache(root)
  let temporaries = 0

  async function stage(
    body: Body,
    { maxBytes, usesReserve = false }: StageOptions = {},
  ): Promise<StagedObject> {
    const temporary = join(scratch, String(temporaries++))
    const discard = () => rm(temporary, { force: true }).catch(() => {})
    try {
      const chunks = chunksOf(body, maxBytes)
      const size = await writeNew(temporary, aboveFloor(chunks, usesReserve ? LAST_SHARE : 1), sync)
      let isNamed = false
      return {
        size,
        async commit(key) {
          const { versionId, directory } = await moveToKey(key, temporary, size)
          isNamed = true
          await directories.secure(directory)
          return { versionId }
        },
        discard: async () => void (isNamed || (await discard())),
      }
    } catch (error) {
      await discard()
      throw error
    }
  }

  /** Yields the chunks while enough space is free for this share of the floor; otherwise throws 507. */
  async function* aboveFloor(chunks: AsyncIterable<Uint8Array>, share: number) {
    let unchecked = FLOOR_EVERY_BYTES
    for await (const chunk of chunks) {
      unchecked += chunk.byteLength
      if (unchecked >= FLOOR_EVERY_BYTES) {
        unchecked = 0
        const shortage = await floor.shortage(share)
        if (shortage !== null) throw diskFull(shortage)
      }
      yield chunk
    }
  }

  async function moveToKey(key: string, temporary: string, size: number) {
    checkKey(key)
    const location = diskLocationOf(root, key)
    const { directory } = location
    if (isLakeKey(key)) {
      await directories.moveInto(directory, location.name, temporary)
      return { versionId: '', directory }
    }
    const version = { number: await nextVersion(directory), size }
    await directories.moveInto(directory, versionName(location, version), temporary)
    return { versionId: versionIdOf(version), directory }
  }

  async function put(key: string, body: Body, options: PutOptions = {}) {
    checkKey(key)
    // Running attempts store their results under lake keys.
    const usesReserve = options.usesReserve ?? isLakeKey(key)
    const staged = await stage(body, { ...options, usesReserve })
    try {
      const { versionId } = await staged.commit(key)
      return { versionId, size: staged.size }
    } finally {
      await staged.discard()
    }
  }

  return { stage, put }
}

/** Takes over the directory and removes the unfinished files of a killed owner. */
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
 * Version numbers are microseconds since 1970, but always greater than every number in the directory. That holds within one
 * millisecond, among concurrent puts, and after the clock has stepped back, even during a restart. This process is the only
 * writer, so it reads a directory once and caches the greatest number.
 */
function versionCounter(clock: Clock): (directory: string) => Promise<number> {
  const cachedVersions = new LRUCache<string, number>({ max: CACHED_DIRECTORIES })
  return async (directory) => {
    const onDisk = cachedVersions.has(directory) ? 0 : await greatestIn(directory)
    const greatest = Math.max(onDisk, cachedVersions.get(directory) ?? 0)
    const next = Math.max(greatest + 1, clock.now().getTime() * 1000)
    cachedVersions.set(directory, next)
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

async function discard(location: DiskLocation, name: string): Promise<void> {
  await orNull(unlink(join(location.directory, name)))
  await syncDirectory(location.directory)
}

/** Empties a directory, oldest versions first. If this stops half way, no reader sees an old version again. */
async function clear(directory: string): Promise<void> {
  const entries = await entriesIn(directory)
  entries.sort((a, b) => (a.name < b.name ? -1 : 1))
  for (const entry of entries) {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) await clear(path)
    else await orNull(unlink(path))
  }
  // A directory that is not empty has received a new object in the meantime and stays.
  await orNull(rmdir(directory)).catch((error) => {
    if (!['ENOTEMPTY', 'EEXIST'].includes(error.code)) throw error
  })
}
