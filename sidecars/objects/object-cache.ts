import { createHash } from 'node:crypto'
import { unlinkSync } from 'node:fs'
import { chmod, mkdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'

// Local copies of immutable objects: one file per authority, key and version, downloaded once, evicted when unused for longest.

export interface CachedObject {
  /** A copy answers only requests of the authority that downloaded it (`authorityOf` in api-addresses.ts). */
  authority: string
  key: string
  /** '' for lake files: their names are unique. */
  version: string
  /** Checked against what was downloaded, where it is known. */
  sizeBytes?: number
}

/** A file that stays where it is until it is released. */
export interface Lease {
  path: string
  release(): void
}

export interface ObjectCache {
  /** `download` writes the object to the path given; it is called only if there is no copy. */
  acquire(object: CachedObject, download: (path: string) => Promise<void>): Promise<Lease>
}

/** What is left of a mode; a process without capabilities that may not change modes cannot open the file for writing. */
export const READ_ONLY = 0o555

interface Entry {
  path: string
  sizeBytes: number
  leases: number
}

/**
 * Opens the cache in a directory of its own, which is emptied first: copies are not synced to the disk, so only the
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
        throw new Error(`${object.key} has ${size} bytes where ${object.sizeBytes} were expected`)
      // Runs get a second name of it, in a directory that their engine may write.
      await chmod(unfinished, mode & READ_ONLY)
      await rename(unfinished, path)
      entries.set(name, { path, sizeBytes: size, leases: 0 })
      totalBytes += size
    } catch (error) {
      await rm(unfinished, { force: true })
      throw error
    }
  }

  /** Takes the copy if there is one. Synchronous, as eviction is: nothing comes between finding and taking. */
  function take(name: string): Lease | null {
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
        const lease = take(name)
        if (lease !== null) return lease
        const others = underway.get(name)
        if (others !== undefined) {
          // Should their download fail, ours may not: the loop tries it.
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
