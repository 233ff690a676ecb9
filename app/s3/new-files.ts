// New files of the lake. A key gets its bytes once: no later request, however late it ends, replaces them.
import { createHash } from 'node:crypto'
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import { chunksOf } from '../objects/body.ts'
import type { Body, ObjectStore } from '../objects/port.ts'
import { alone } from './store.ts'

/** Maximum size of a file, and of a part. Engines split their output long before this limit. */
export const FILE_BYTES_MAX = 1_073_741_824

interface Stored {
  key: string
  size: number
  /** SHA-256 of the bytes, in hexadecimal digits. */
  checksum: string
}

type NewFile =
  /** `same`: an earlier request stored the same bytes under this key. */
  | ({ kind: 'new' | 'same' } & Stored)
  /** The key has other bytes, or a file of this name was removed. */
  | { kind: 'taken' }
  /** Another request stores an object under this key now. */
  | { kind: 'busy' }

/**
 * Stores a body under a key that has none. The lock covers only the end of the write, so that a slow body blocks nobody. The
 * check under the lock is the one that counts.
 */
export async function storeNew(
  { sql, objects }: { sql: Sql; objects: ObjectStore },
  { key, body, usesReserve = false }: { key: string; body: Body; usesReserve?: boolean },
  /** Runs in the transaction of the lock, after the file is stored. */
  record: (tx: SqlTx, stored: Stored) => Promise<void> = async () => {},
): Promise<NewFile> {
  const hash = createHash('sha256')
  const staged = await objects.stage(hashed(body, hash), { key, maxBytes: FILE_BYTES_MAX, usesReserve })
  const stored = { key, size: staged.size, checksum: hash.digest('hex') }
  try {
    const outcome = await alone(sql, key, async (tx, isRemoved): Promise<NewFile> => {
      if (isRemoved) return { kind: 'taken' }
      const existing = await objects.head(key)
      if (existing !== null) {
        const isSame = existing.size === stored.size && (await checksumOf(objects, key)) === stored.checksum
        return isSame ? { kind: 'same', ...stored } : { kind: 'taken' }
      }
      await staged.commit(key)
      await record(tx, stored)
      return { kind: 'new', ...stored }
    })
    return outcome?.done ?? { kind: 'busy' }
  } finally {
    await staged.discard()
  }
}

type Hash = ReturnType<typeof createHash>

/** Passes the chunks of a body on, and hashes them. */
async function* hashed(body: Body, hash: Hash): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunksOf(body)) {
    hash.update(chunk)
    yield chunk
  }
}

async function checksumOf(objects: ObjectStore, key: string): Promise<string | null> {
  const found = await objects.get(key)
  if (found === null) return null
  const hash = createHash('sha256')
  for await (const chunk of found.body) hash.update(chunk)
  return hash.digest('hex')
}
