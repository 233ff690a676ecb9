import { type FileHandle, mkdir, open, readdir, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/** Bytes read from a file at a time. */
const READ_BYTES = 262_144
/** A purge may remove a new file's directory between our making and using it, but hardly this often in a row. */
const RENAME_ATTEMPTS = 10

export const errorCode = (error: unknown) =>
  error instanceof Error && 'code' in error ? error.code : undefined
/** ENOTDIR: something that is no directory stands where a parent should be. */
export const isMissing = (error: unknown) => ['ENOENT', 'ENOTDIR'].includes(String(errorCode(error)))

/** Null in place of an error that says that the file is not there. */
export async function orNull<T>(found: Promise<T>): Promise<T | null> {
  try {
    return await found
  } catch (error) {
    if (isMissing(error)) return null
    throw error
  }
}

export const namesIn = async (directory: string) => (await orNull(readdir(directory))) ?? []

/** Writes a new file to the disk, not just to its cache. Returns its size in bytes. */
export async function writeNew(path: string, chunks: AsyncIterable<Uint8Array>): Promise<number> {
  const file = await open(path, 'wx')
  try {
    let size = 0
    for await (const chunk of chunks) {
      await file.writeFile(chunk)
      size += chunk.byteLength
    }
    await file.sync()
    return size
  } finally {
    await file.close()
  }
}

/** Moves a written file to its place for good: when this resolves, the move survives a power cut. */
export async function moveInto(directory: string, name: string, from: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await rename(from, join(directory, name))
      return await syncDirectory(directory)
    } catch (error) {
      if (errorCode(error) !== 'ENOENT' || attempt === RENAME_ATTEMPTS) throw error
      await makeDirectory(directory)
    }
  }
}

/** Makes a directory and what leads to it, each durable in its parent. */
export async function makeDirectory(directory: string): Promise<void> {
  const first = await mkdir(directory, { recursive: true })
  if (first === undefined) return
  for (let made = directory; made.length >= first.length; made = dirname(made))
    await syncDirectory(dirname(made))
}

export async function syncDirectory(directory: string): Promise<void> {
  const handle = await orNull(open(directory))
  if (handle === null) return // purged meanwhile, with what we put there
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** `size` bytes of an open file, read as they are asked for. Closes the file at the end, on cancel and on errors. */
export function streamOf(file: FileHandle, size: number): ReadableStream<Uint8Array> {
  let position = 0
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const buffer = new Uint8Array(Math.min(READ_BYTES, size - position))
          const { bytesRead } = await file.read(buffer, 0, buffer.byteLength, position)
          if (bytesRead === 0 && position < size) throw new Error(`file ends at ${position} of ${size} bytes`)
          position += bytesRead
          if (bytesRead > 0) controller.enqueue(buffer.subarray(0, bytesRead))
          if (position < size) return
          controller.close()
        } catch (error) {
          controller.error(error)
        }
        await file.close()
      },
      cancel: () => file.close(),
    },
    { highWaterMark: 0 },
  )
}
