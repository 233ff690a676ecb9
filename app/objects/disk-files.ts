import { type FileHandle, mkdir, open, readdir, rename } from 'node:fs/promises'
import { dirname, join, normalize } from 'node:path'

/** Bytes read from a file at a time. */
export const PIECE_BYTES = 262_144
/** A purge may remove the directory of a new file between its creation and its use, but hardly this often in a row. */
const RENAME_ATTEMPTS = 10
/** Directories known to be durable. Beyond this number all are forgotten, and the next use syncs them again. */
const DURABLE_DIRECTORIES = 10_000

export const errorCode = (error: unknown) =>
  error instanceof Error && 'code' in error ? error.code : undefined
/** ENOTDIR: a parent is not a directory. */
export const isMissing = (error: unknown) => ['ENOENT', 'ENOTDIR'].includes(String(errorCode(error)))

/** Returns null instead of an error that says that the file does not exist. */
export async function orNull<T>(found: Promise<T>): Promise<T | null> {
  try {
    return await found
  } catch (error) {
    if (isMissing(error)) return null
    throw error
  }
}

export const namesIn = async (directory: string) => (await orNull(readdir(directory))) ?? []

/**
 * Keeps handles reachable: an open handle that is garbage-collected ends the process. A body that never ends must not do so.
 */
const writing = new Set<FileHandle>()

/** Writes a new file and returns its size in bytes. Afterwards the content is durable, but the name is not. */
export async function writeNew(
  path: string,
  chunks: AsyncIterable<Uint8Array>,
  sync: (file: FileHandle) => Promise<void> = (file) => file.sync(),
): Promise<number> {
  const file = await open(path, 'wx')
  writing.add(file)
  let size = 0
  try {
    for await (const chunk of chunks) {
      for (let at = 0; at < chunk.byteLength; ) {
        const { bytesWritten } = await file.write(chunk, at, chunk.byteLength - at, size)
        at += bytesWritten
        size += bytesWritten
      }
    }
    await sync(file)
    return size
  } finally {
    writing.delete(file)
    await file.close()
  }
}

/** Creates directories below a root, and makes them survive a power failure. */
export function makeDirectoryCache(root: string, sync: (directory: string) => Promise<void> = syncDirectory) {
  const top = normalize(root)
  /** Directories that are durable in their parents, as far as this process knows. */
  const durable = new Set<string>()
  let creations = 0

  const pathTo = (directory: string): string[] => {
    const directories: string[] = []
    for (let at = directory; at !== top && at !== dirname(at); at = dirname(at)) directories.push(at)
    return directories
  }

  async function make(directory: string): Promise<void> {
    // Before the creation: a concurrent caller must not take a new directory for the durable one.
    const formerlyDurable = pathTo(directory).filter((at) => durable.delete(at))
    const ownCreation = ++creations
    const first = await mkdir(directory, { recursive: true })
    if (first === undefined || ownCreation !== creations) return
    for (const at of formerlyDurable) if (at.length < first.length) durable.add(at)
  }

  return {
    /** Moves a written file to its place; `secure` makes the move durable. */
    async moveInto(directory: string, name: string, from: string): Promise<void> {
      for (let attempt = 1; ; attempt++) {
        try {
          return await rename(from, join(directory, name))
        } catch (error) {
          if (errorCode(error) !== 'ENOENT' || attempt === RENAME_ATTEMPTS) throw error
          await make(directory)
        }
      }
    },
    /** When this resolves, the files that were moved into a directory survive a power failure, and so does the path to it. */
    async secure(directory: string): Promise<void> {
      const creationsBefore = creations
      // Another writer may have created the path and may never sync it. Only syncs of this process are known.
      const unsynced = pathTo(directory).filter((at) => !durable.has(at))
      await Promise.all([directory, ...unsynced.map(dirname)].map(sync))
      if (creationsBefore !== creations) return
      if (durable.size > DURABLE_DIRECTORIES) durable.clear()
      for (const at of unsynced) durable.add(at)
    },
  }
}

/** Creates a directory and its missing parents, each durable in its own parent. */
export async function makeDirectory(directory: string): Promise<void> {
  const first = await mkdir(directory, { recursive: true })
  if (first === undefined) return
  for (let created = directory; created.length >= first.length; created = dirname(created))
    await syncDirectory(dirname(created))
}

export async function syncDirectory(directory: string): Promise<void> {
  const handle = await orNull(open(directory))
  if (handle === null) return // a purge has removed the directory, with the files that were put there
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/**
 * The bytes of a file from `start` to `end`, or null when the file does not exist. The file is open only during the read of a piece, so
 * an abandoned reader leaves nothing open. A file that fits in one piece is read at once.
 */
export async function streamOf(
  path: string,
  end: number,
  start = 0,
): Promise<ReadableStream<Uint8Array> | null> {
  const first = await orNull(readPiece(path, start, end))
  if (first === null) return null
  let position = start
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const piece = position === start ? first : await readPiece(path, position, end)
        position += piece.byteLength
        if (piece.byteLength > 0) controller.enqueue(piece)
        if (position === end) controller.close()
      },
    },
    { highWaterMark: 0 },
  )
}

async function readPiece(path: string, position: number, end: number): Promise<Uint8Array> {
  const buffer = new Uint8Array(Math.min(PIECE_BYTES, end - position))
  const file = await open(path)
  try {
    const { bytesRead } = await file.read(buffer, 0, buffer.byteLength, position)
    if (bytesRead === 0 && position < end)
      throw new Error(`object file ${path} is truncated: ${position} of ${end} bytes`)
    return buffer.subarray(0, bytesRead)
  } finally {
    await file.close()
  }
}
