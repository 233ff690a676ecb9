import { randomBytes } from 'node:crypto'
import { chmod, mkdir, readdir, rename, rmdir, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { type Log, messageOf } from './log.ts'

// Working directories, and how they are removed whatever user code left in them: closed modes, names that are not UTF-8,
// and chains of directories longer than a path may be.

/** Random bytes in the name of a working directory: 128 bits, so that no process can guess the directory of another. */
const NAME_BYTES = 16
/** Entries of one directory that are removed at the same time. */
const BATCH = 64
/** Directories that could not be removed and wait for another start. More of them need an operator. */
export const ASIDE_MAX = 16
const ASIDE = 'aside-'

export const randomName = (): string => randomBytes(NAME_BYTES).toString('hex')

/**
 * Removes a directory and everything below it; a path that does not exist is removed already. Gives its owner every right
 * on the way down, follows no symbolic link, and takes time in proportion to the number of entries. Throws the error of the
 * entry that stays. No other process may work in the directory meanwhile.
 */
export async function removeTree(root: string): Promise<void> {
  const pending: Buffer[] = []
  /** One entry that stays does not keep the others. */
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
    // It may belong to somebody else: then the next call says whether that matters.
    await chmod(directory, 0o700).catch(() => {})
    const names = await readdir(directory, { encoding: 'buffer' })
    for (let first = 0; first < names.length; first += BATCH)
      await Promise.all(
        names
          .slice(first, first + BATCH)
          .map((name) => remove(Buffer.concat([directory, Buffer.from('/'), name])).catch(note)),
      )
  }

  /** Removes a file; moves a directory to the top, so that no path gets longer than two names. */
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

/** Removes a directory as removeTree does; resolves to false, and writes to the log, where something stays. */
export async function clearAway(path: string, log: Log): Promise<boolean> {
  try {
    await removeTree(path)
    return true
  } catch (error) {
    log.error('a working directory could not be removed: the next start tries again', {
      directory: path,
      error: messageOf(error),
    })
    return false
  }
}

/**
 * Makes these directories of a scratch directory, empty. One that cannot be emptied is moved aside, which the log says;
 * later starts try to remove it again. Throws when ASIDE_MAX such directories have gathered.
 */
export async function openScratch(scratch: string, names: readonly string[], log: Log): Promise<void> {
  const before = (await readdir(scratch)).filter((name) => name.startsWith(ASIDE))
  const stay = await Promise.all(before.map((name) => clearAway(join(scratch, name), log)))
  let left = stay.filter((isGone) => !isGone).length
  for (const name of names) {
    const directory = join(scratch, name)
    try {
      await removeTree(directory)
    } catch (error) {
      if (left >= ASIDE_MAX)
        throw new Error(
          `scratch directory ${scratch}: ${left} directories named ${ASIDE}* could not be removed; remove them as their owner or as root`,
          { cause: error },
        )
      left += 1
      const moved = join(scratch, `${ASIDE}${randomName()}`)
      await rename(directory, moved)
      log.warn('a working directory could not be emptied and was moved aside: the next start tries again', {
        directory,
        moved,
        error: messageOf(error),
      })
    }
    await mkdir(directory, { recursive: true })
  }
}

/** The error of unlink() for a directory: Linux says EISDIR, macOS and BSD EPERM. */
const IS_DIRECTORY = new Set(['EISDIR', 'EPERM'])

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error ? String(error.code) : ''
