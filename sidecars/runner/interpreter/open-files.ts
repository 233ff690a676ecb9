import { readdirSync, readFileSync, statSync } from 'node:fs'

// Files that a process has removed and still uses. They have no name any more, and take space until they are closed.

const BLOCK_BYTES = 512

/**
 * The space of removed files that a process holds open or has mapped. A file that is mapped and not open cannot be measured. So
 * it counts as `fileBytes`, the most that one file may have. Mapped files count only if they were below `directory`. The
 * function is synchronous, because the caller may have changed its user for this call. Returns 0 for a process that is gone.
 */
export function unlinkedBytes(pid: number, directory: string, fileBytes: number): number {
  try {
    const open = openFiles(pid)
    const mapped = mappedFiles(pid, directory).filter((inode) => !open.has(inode))
    return [...open.values()].reduce((sum, bytes) => sum + bytes, 0) + mapped.length * fileBytes
  } catch {
    return 0
  }
}

/** Bytes of removed open files, by inode. */
function openFiles(pid: number): Map<number, number> {
  const files = new Map<number, number>()
  for (const name of readdirSync(`/proc/${pid}/fd`)) {
    const found = statSync(`/proc/${pid}/fd/${name}`, { throwIfNoEntry: false })
    if (found?.isFile() && found.nlink === 0) files.set(found.ino, found.blocks * BLOCK_BYTES)
  }
  return files
}

/** Inodes of removed mapped files. A line of maps has addresses, rights, offset, device, inode and path. */
function mappedFiles(pid: number, directory: string): number[] {
  const inodes = new Set<number>()
  for (const line of readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
    const [, inode, path] = /^\S+ \S+ \S+ \S+ (\d+) +(\/.*) \(deleted\)$/.exec(line) ?? []
    if (inode !== undefined && path?.startsWith(`${directory}/`)) inodes.add(Number(inode))
  }
  return [...inodes]
}
