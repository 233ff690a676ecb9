// Bytes that wait on the local disk. The file has no name, so it disappears with the process, however the process ends.
import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const READ_BYTES = 262_144

export interface Spool {
  write(bytes: Uint8Array): Promise<void>
  /** All written bytes. */
  chunks(): AsyncGenerator<Uint8Array>
  /** Frees the space; may be called several times. */
  close(): Promise<void>
}

/** Keeps handles reachable: an open handle that is garbage-collected ends the process. */
const opened = new Set<FileHandle>()

export async function openSpool(): Promise<Spool> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-upload-'))
  const file = await open(join(folder, 'body'), 'wx+', 0o600)
  opened.add(file)
  await rm(folder, { recursive: true })
  let size = 0
  return {
    async write(bytes) {
      for (let at = 0; at < bytes.byteLength; ) {
        const { bytesWritten } = await file.write(bytes, at, bytes.byteLength - at, size)
        at += bytesWritten
        size += bytesWritten
      }
    },
    async *chunks() {
      for (let position = 0; position < size; ) {
        const { bytesRead, buffer } = await file.read(new Uint8Array(READ_BYTES), 0, READ_BYTES, position)
        if (bytesRead === 0) throw new Error(`spooled upload is truncated: ${position} of ${size} bytes`)
        position += bytesRead
        yield buffer.subarray(0, bytesRead)
      }
    },
    async close() {
      if (opened.delete(file)) await file.close()
    },
  }
}
