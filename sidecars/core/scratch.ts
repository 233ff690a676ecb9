import { randomBytes } from 'node:crypto'
import { chmod, mkdir, readdir, rename, rmdir, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { type Log, messageOf } from './log.ts'

// Creates and removes working directories, whatever user code left in them: closed modes, names that are not UTF-8, and chains
// of directories longer than PATH_MAX.

/** Random bytes in the name of a working directory. 128 bits keep a process from guessing the directory of another one. */
const NAME_BYTES = 16
/** Entries of one directory that are removed concurrently. */
const BATCH = 64
/** Directories that could not be removed and wait for another start. More than these need an operator. */
export const ASIDE_MAX = 16
const ASIDE = 'aside-'

export const randomName = (): string => randomBytes(NAME_BYTES).toString('hex')

/**
 * Removes a directory and everything below it. A missing path counts as removed. The function gives the owner every right on
 * the way down and follows no symbolic link. It takes time in proportion to the number of entries. Throws the error of the
 * first entry that could not be removed. No other process may work in the directory meanwhile.
 */
export async function removeTree(root: string): Promise<void> {
  const pending: Buffer[] = []
  /** An entry that cannot be removed does not stop the removal of the others. */
  const failures: unknown[] = []
  try {
    await empty(Buffer.from(root))
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return
    throw error
  }
  for (let at = pending.pop(); at !== undefined; at = pending.pop()) {
    await empty(at).catch(note)
    await rmdir(at).catch(note)
  }
  await rmdir(root).catch(note)
  if (failures.length > 0) throw failures[0]

  function note(error: unknown): void {
    failures.push(error)
  }

  async function empty(directory: Buffer): Promise<void> {
    // The directory may belong to another user. Then the next call fails if that matters.
    await chmod(directory, 0o700).catch(() => {})
    const names = await readdir(directory, { encoding: 'buffer' })
    for (let first = 0; first < names.length; first += BATCH)
      await Promise.all(
        names
          .slice(first, first + BATCH)
          .map((name) => remove(Buffer.concat([directory, Buffer.from('/'), name])).catch(note)),
      )
  }

  /** Removes a file, or moves a directory to the top, so that no path gets longer than two names. */
  async function remove(entry: Buffer): Promise<void> {
    try {
      await unlink(entry)
    } catch (error) {
      if (!IS_DIRECTORY.has(codeOf(error))) throw error
      // A directory without rights for its owner cannot be moved.
      await chmod(entry, 0o700).catch(() => {})
      const moved = Buffer.from(join(root, randomName()))
      await rename(entry, moved)
      pending.push(moved)
    }
  }
}

/** Removes a directory like `removeTree`. Logs a failure and then resolves to false. */
export async function clearAway(path: string, log: Log): Promise<boolean> {
  try {
    await removeTree(path)
    return true
  } catch (error) {
    log.error('working directory not removed: the next start tries again', {
      directory: path,
      error: messageOf(error),
    })
    return false
  }
}

/**
 * Creates these directories, empty, in the scratch directory. A directory that cannot be emptied is moved aside and logged;
 * later starts try to remove it again. Throws when ASIDE_MAX such directories have gathered.
 */
export async function openScratch(scratch: string, names: readonly string[], log: Log): Promise<void> {
  const before = (await readdir(scratch)).filter((name) => name.startsWith(ASIDE))
  const removed = await Promise.all(before.map((name) => clearAway(join(scratch, name), log)))
  let asideCount = removed.filter((isGone) => !isGone).length
  for (const name of names) {
    const directory = join(scratch, name)
    try {
      await removeTree(directory)
    } catch (error) {
      if (asideCount >= ASIDE_MAX)
        throw new Error(
          `scratch directory ${scratch}: ${asideCount} directories named ${ASIDE}* could not be removed; remove them as their owner or as root`,
          { cause: error },
        )
      asideCount += 1
      const moved = join(scratch, `${ASIDE}${randomName()}`)
      await rename(directory, moved)
      log.warn('working directory not emptied, moved aside: the next start removes it', {
        directory,
        moved,
        error: messageOf(error),
      })
    }
    await mkdir(directory, { recursive: true })
  }
}

/** The error codes of unlink() for a directory: EISDIR on Linux, EPERM on macOS and BSD. */
const IS_DIRECTORY = new Set(['EISDIR', 'EPERM'])

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error ? String(error.code) : ''
