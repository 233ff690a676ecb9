import { createHash } from 'node:crypto'
import { unlinkSync } from 'node:fs'
import { chmod, mkdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'

// Caches local copies of immutable objects. Each authority, key and version has one file, which is downloaded once. The least
// recently used copies are evicted.

export interface CachedObject {
  /** A copy is served only to the authority that downloaded it (`authorityOf` in api-addresses.ts). */
  authority: string
  key: string
  /** '' for lake files, because their names are unique. */
  version: string
  /** Compared with the size of the download, if known. */
  sizeBytes?: number
}

/** A file that stays in place until its lease is released. */
export interface Lease {
  path: string
  release(): void
}

export interface ObjectCache {
  /** `download` writes the object to the given path. The cache calls it only without a copy. */
  acquire(object: CachedObject, download: (path: string) => Promise<void>): Promise<Lease>
}

/**
 * Mask of the mode bits of a read-only file. A process without capabilities that may not change modes cannot open such files
 * for writing.
 */
export const READ_ONLY = 0o555

interface Entry {
  path: string
  sizeBytes: number
  leases: number
}

/**
 * Opens the cache in a directory of its own and empties the directory first. Copies are not synced to the disk, so only the
 * process that wrote them can trust them.
 */
export async function openObjectCache(directory: string, maxBytes: number): Promise<ObjectCache> {
  await rm(directory, { recursive: true, force: true })
  await mkdir(directory, { recursive: true })
  // Insertion order is the order of last use.
  const entries = new Map<string, Entry>()
  const underway = new Map<string, Promise<void>>()
  let totalBytes = 0

  async function fill(name: string, object: CachedObject, download: (path: string) => Promise<void>) {
    const path = join(directory, name)
    const unfinished = `${path}.part`
    try {
      await download(unfinished)
      const { size, mode } = await stat(unfinished)
      if (object.sizeBytes !== undefined && size !== object.sizeBytes)
        throw new Error(`object ${object.key}: ${size} bytes downloaded, ${object.sizeBytes} expected`)
      // Runs get a hard link to this file in a directory that their engine may write.
      await chmod(unfinished, mode & READ_ONLY)
      await rename(unfinished, path)
      entries.set(name, { path, sizeBytes: size, leases: 0 })
      totalBytes += size
    } catch (error) {
      await rm(unfinished, { force: true })
      throw error
    }
  }

  /**
   * Acquires the copy if it exists. Both this function and eviction are synchronous, so no eviction comes between lookup and
   * acquisition.
   */
  function acquireCached(name: string): Lease | null {
    const entry = entries.get(name)
    if (entry === undefined) return null
    entries.delete(name)
    entries.set(name, entry)
    entry.leases += 1
    let isHeld = true
    const release = () => {
      if (!isHeld) return
      isHeld = false
      entry.leases -= 1
      evict()
    }
    return { path: entry.path, release }
  }

  function evict() {
    for (const [name, entry] of entries) {
      if (totalBytes <= maxBytes) return
      if (entry.leases > 0) continue
      entries.delete(name)
      totalBytes -= entry.sizeBytes
      unlinkSync(entry.path)
    }
  }

  return {
    async acquire(object, download) {
      const name = createHash('sha256')
        .update(`${object.authority}\0${object.key}\0${object.version}`)
        .digest('hex')
      for (;;) {
        const lease = acquireCached(name)
        if (lease !== null) return lease
        const others = underway.get(name)
        if (others !== undefined) {
          // If the other caller's download fails, the loop tries its own download.
          await others.catch(() => {})
          continue
        }
        const own = fill(name, object, download)
        underway.set(name, own)
        try {
          await own
        } finally {
          underway.delete(name)
        }
      }
    },
  }
}
