import { lstatSync } from 'node:fs'
import { chmod, readdir, statfs } from 'node:fs/promises'
import { openKernel, Unavailable } from '../../sandbox/kernel.ts'
import { unlinkedBytes } from './open-files.ts'

// Measures the disk usage of a sandboxed process. Resource limits apply to one file only, so the sum is measured from outside.

export interface Usage {
  bytes: number
  files: number
}

interface DirectoryLimits extends Usage {
  everyMs: number
}

/** Calls `onFull` once when the usage exceeds a limit. Returns the function that ends the watch. */
export function watchDirectory(
  usage: () => Promise<Usage>,
  limits: DirectoryLimits,
  onFull: () => void,
): () => void {
  let isMeasuring = false
  let hasEnded = false
  const timer = setInterval(async () => {
    if (isMeasuring) return
    isMeasuring = true
    // A process that has just ended cannot be measured.
    const used = await usage().catch(() => ({ bytes: 0, files: 0 }))
    isMeasuring = false
    if (hasEnded || (used.bytes <= limits.bytes && used.files <= limits.files)) return
    end()
    onFull()
  }, limits.everyMs)
  function end() {
    hasEnded = true
    clearInterval(timer)
  }
  return end
}

/**
 * The usage of a process with its own file system, at this path in its root. `pid` is a process of its mount namespace. The
 * kernel counts, so nothing can be hidden.
 */
export async function usageOfFileSystem(pid: number, path: string): Promise<Usage> {
  const { blocks, bfree, bsize, files, ffree } = await statfs(`/proc/${pid}/root${path}`)
  return { bytes: (blocks - bfree) * bsize, files: files - ffree }
}

/**
 * The usage of a process that writes into a directory of a shared file system. Counts all files below the directory, and all
 * removed files that the process still holds. `user` is the user of the process; null: the user of the runner.
 */
export async function usageOfProcess(
  directory: string,
  process: { pid: number; user: number | null; fileBytes: number },
  limits: Usage,
): Promise<Usage> {
  const { bytes, files } = await usageOfDirectory(directory, limits)
  return { bytes: bytes + hiddenBytes(directory, process), files }
}

function hiddenBytes(
  directory: string,
  { pid, user, fileBytes }: { pid: number; user: number | null; fileBytes: number },
): number {
  const measure = () => unlinkedBytes(pid, directory, fileBytes)
  if (user === null) return measure()
  try {
    return openKernel().asUser(user, measure)
  } catch (error) {
    if (error instanceof Unavailable) return 0
    throw error
  }
}

const BLOCK_BYTES = 512
/** Entries that are measured before other work of the runner gets its turn. */
const AT_ONCE = 256
/**
 * A longer path counts as too much. From 4,096 bytes on, the kernel refuses a path, so files below it could not be measured.
 */
const PATH_BYTES_MAX = 3_500
const TOO_MUCH: Usage = { bytes: Number.POSITIVE_INFINITY, files: Number.POSITIVE_INFINITY }

/** The blocks of everything below a directory. Stops counting when a limit is exceeded. Opens closed directories. */
export async function usageOfDirectory(directory: string, limits: Usage): Promise<Usage> {
  let bytes = 0
  let files = 0
  const open = [Buffer.from(directory)]
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    const names = await namesIn(at)
    files += names.length
    if (files > limits.files) return { bytes, files }
    for (const [index, name] of names.entries()) {
      if (bytes > limits.bytes) return { bytes, files }
      const path = Buffer.concat([at, Buffer.from('/'), name])
      if (path.length > PATH_BYTES_MAX) return TOO_MUCH
      // A synchronous lstat takes 3 µs. An asynchronous one needs another thread, which takes about 50 µs.
      if (index % AT_ONCE === AT_ONCE - 1) await new Promise(setImmediate)
      // A file that was removed meanwhile takes no space.
      const found = lstatSync(path, { throwIfNoEntry: false })
      if (found?.isDirectory()) open.push(path)
      bytes += (found?.blocks ?? 0) * BLOCK_BYTES
    }
  }
  return { bytes, files }
}

async function namesIn(directory: Buffer): Promise<Buffer[]> {
  const list = () => readdir(directory, { encoding: 'buffer' })
  try {
    return await list()
  } catch {
    await chmod(directory, 0o700).catch(() => {})
    return list().catch(() => [])
  }
}
