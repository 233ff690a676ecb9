// Makes data files and delete files of tables local, in the forms that the engine reads.
import { appendFile, open, writeFile } from 'node:fs/promises'
import { keyIn } from '../../lake/iceberg/format/location.ts'
import type { DeletionVector } from '../../lake/iceberg/read/deletes.ts'
import { BadDeletionVector, deletedLines, VECTOR_BYTES_MAX } from '../../lake/iceberg/read/deletion-vector.ts'
import { partsInTurns } from '../../lake/iceberg/read/in-turns.ts'
import type { StoredFile } from '../../lake/iceberg/read/table-sql.ts'
import type { LakeFiles } from './lake-access.ts'
import type { Lease, ObjectCache } from './object-cache.ts'

export interface FileAccess {
  files: LakeFiles
  cache: ObjectCache
  /** The authority for which copies are cached (`authorityOf` in api-addresses.ts). */
  authority: string
}

/** Makes a file local. The local file of a deletion vector lists ranges of positions. */
export async function openStored(
  { files, cache, authority }: FileAccess,
  { location, sizeBytes, recordCount, vector }: StoredFile,
): Promise<Lease> {
  const key = keyIn(location)
  if (vector === undefined) return files.open(key, sizeBytes)
  return cache.acquire({ authority, key, version: `positions at ${vector.offset}` }, async (path) => {
    const puffin = await files.open(key, sizeBytes)
    try {
      await writeFile(path, '')
      const parts = deletedLines(await blobIn(puffin.path, vector), recordCount)
      for await (const lines of partsInTurns(parts, BadDeletionVector)) await appendFile(path, lines)
    } catch (cause) {
      if (cause instanceof BadDeletionVector)
        throw new BadDeletionVector(`${location} at ${vector.offset}: ${cause.message}`, { cause })
      throw cause
    } finally {
      puffin.release()
    }
  })
}

async function blobIn(path: string, { offset, sizeBytes }: DeletionVector): Promise<Uint8Array> {
  const file = await open(path)
  try {
    // Offset and size come from a manifest of another engine.
    if (sizeBytes > VECTOR_BYTES_MAX)
      throw new BadDeletionVector(`it has ${sizeBytes} bytes, more than ${VECTOR_BYTES_MAX}`)
    const available = (await file.stat()).size - offset
    if (!(offset >= 0 && sizeBytes >= 0 && sizeBytes <= available))
      throw new BadDeletionVector(`its file ends before its ${sizeBytes} bytes`)
    const blob = new Uint8Array(sizeBytes)
    await file.read(blob, 0, sizeBytes, offset)
    return blob
  } finally {
    await file.close()
  }
}
