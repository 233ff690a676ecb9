import { createHash } from 'node:crypto'
import { linkSync, rmSync, statSync, unlinkSync, utimesSync } from 'node:fs'
import { chmod, mkdir, readdir, readFile, rename, rm, stat, unlink } from 'node:fs/promises'
import { join } from 'node:path'

// Caches local copies of immutable objects for all processes of a machine. The name of a copy is a hash of authority, key and
// version. A copy in use has a second name in a directory of the process that uses it. So the number of its names tells every
// process whether it may be evicted, and the death of a process leaves nothing to repair.

interface CachedObject {
  /** A copy is served only to the authority that downloaded it (`authorityOf` in api-addresses.ts). */
  authority: string
  key: string
  /** '' for lake files, because their names are unique. */
  version: string
  /** Compared with the size of the copy, if known. */
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

interface ObjectCacheOptions {
  /** An empty directory of this process for the copies in use. */
  leased: string
  /**
   * The directory of all copies, which the processes of this machine share. If it is on another file system than `leased`, this
   * process has copies of its own beside `leased`.
   */
  shared: string
  /** Copies that nobody uses are evicted above this size, the least recently used first. */
  maxBytes: number
}

/**
 * Mask of the mode bits of a read-only file. A process without capabilities that may not change modes cannot open such files
 * for writing.
 */
export const READ_ONLY = 0o555

/** The time of the last use is recorded in steps, so that a copy in constant use costs no write. */
const USE_STEP_MS = 60_000
/** A process looks for evictions after it has added this share of the limit, and evicts as much below the limit. */
const SLACK = 1 / 8

interface LeasedCopy {
  path: string
  leases: number
}

/** Opens the cache. Copies are not synced to the disk, so copies from before the last start of the machine are removed. */
export async function openObjectCache({
  leased,
  shared,
  maxBytes,
}: ObjectCacheOptions): Promise<ObjectCache> {
  await mkdir(leased, { recursive: true })
  await mkdir(shared, { recursive: true })
  // A file has names on one file system only.
  const isLinkable = (await stat(leased)).dev === (await stat(shared)).dev
  const copies = await openShared(isLinkable ? shared : `${leased}-copies`)
  const inUse = new Map<string, LeasedCopy>()
  const underway = new Map<string, Promise<void>>()
  let addedBytes = maxBytes

  /** Makes the copy of a download, or of another process, ready for leases. */
  async function fill(name: string, object: CachedObject, download: (path: string) => Promise<void>) {
    const path = join(leased, name)
    if (linkShared(name, path, object.sizeBytes)) return
    const unfinished = `${path}.part`
    try {
      await download(unfinished)
      const { size, mode } = await stat(unfinished)
      if (object.sizeBytes !== undefined && size !== object.sizeBytes)
        throw new Error(`object ${object.key}: ${size} bytes downloaded, ${object.sizeBytes} expected`)
      // Runs get a hard link to this file in a directory that their engine may write.
      await chmod(unfinished, mode & READ_ONLY)
      await rename(unfinished, path)
      // Another process may have shared an equal copy meanwhile.
      linked(path, join(copies, name), 'EEXIST')
      addedBytes += size
      if (addedBytes >= maxBytes * SLACK) await evict()
    } catch (error) {
      await rm(unfinished, { force: true })
      throw error
    }
  }

  /** Small calls are synchronous, because handing them to another thread costs more than the call. */
  function linkShared(name: string, path: string, sizeBytes: number | undefined): boolean {
    const copy = join(copies, name)
    if (!linked(copy, path, 'ENOENT')) return false
    const { size, mtimeMs } = statSync(path)
    if (sizeBytes !== undefined && size !== sizeBytes) {
      unlinkSync(path)
      rmSync(copy, { force: true })
      return false
    }
    const now = Date.now()
    if (now - mtimeMs > USE_STEP_MS) utimesSync(path, now / 1_000, now / 1_000)
    return true
  }

  async function evict() {
    addedBytes = 0
    const found = (
      await Promise.all(
        (
          await readdir(copies)
        ).map(async (name) => {
          const path = join(copies, name)
          const entry = await stat(path).catch(() => null)
          return entry && { path, sizeBytes: entry.size, usedAt: entry.mtimeMs, names: entry.nlink }
        }),
      )
    ).filter((entry) => entry !== null)
    let excess = found.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0) - maxBytes
    if (excess <= 0) return
    excess += maxBytes * SLACK
    for (const { path, sizeBytes } of found
      .filter(({ names }) => names === 1)
      .sort((a, b) => a.usedAt - b.usedAt)) {
      if (excess <= 0) return
      await unlink(path).catch(() => {})
      excess -= sizeBytes
    }
  }

  function lease(name: string): Lease | null {
    const copy = inUse.get(name)
    if (copy === undefined) return null
    copy.leases += 1
    let isHeld = true
    const release = () => {
      if (!isHeld) return
      isHeld = false
      copy.leases -= 1
      if (copy.leases > 0) return
      inUse.delete(name)
      unlinkSync(copy.path)
    }
    return { path: copy.path, release }
  }

  return {
    async acquire(object, download) {
      const name = createHash('sha256')
        .update(`${object.authority}\0${object.key}\0${object.version}`)
        .digest('hex')
      for (;;) {
        const held = lease(name)
        if (held !== null) return held
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
          inUse.set(name, { path: join(leased, name), leases: 0 })
        } finally {
          underway.delete(name)
        }
      }
    },
  }
}

/** Returns the directory of the copies since the last start of the machine. Removes the copies from before. */
async function openShared(shared: string): Promise<string> {
  const current = await startOfMachine()
  const copies = join(shared, current)
  await mkdir(copies, { recursive: true })
  const earlier = (await readdir(shared)).filter((name) => name !== current)
  await Promise.all(earlier.map((name) => rm(join(shared, name), { recursive: true, force: true })))
  return copies
}

/** Identifies the last start of the machine. Elsewhere than on Linux, the start of the parent process takes its place. */
const startOfMachine = () =>
  readFile('/proc/sys/kernel/random/boot_id', 'utf8').then(
    (id) => id.trim(),
    () => `parent-${process.ppid}`,
  )

/** Gives the file at `from` another name. Returns false when that fails with the given code. */
function linked(from: string, to: string, code: 'ENOENT' | 'EEXIST'): boolean {
  try {
    linkSync(from, to)
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === code) return false
    throw error
  }
}
