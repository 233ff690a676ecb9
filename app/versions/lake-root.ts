// The root of the lake's locations. Postgres records it, and a lake with another root is refused at the start. See ADR 69.
import type { Sql } from '../../drizzle/client.ts'
import { StoreUnavailable } from '../objects/port.ts'
import { recordedRoot, recordRoot, rootOfStates } from './store/lake-root.ts'

/**
 * Resolves when every location of the lake has the configured root. Throws StoreUnavailable for a lake with another root, and
 * changes nothing then.
 */
export async function requireLakeRoot(sql: Sql, root: string): Promise<void> {
  if ((await recordedRoot(sql)) === root) return
  const other = await rootOfStates(sql, root)
  if (other !== null)
    throw new StoreUnavailable(
      `the locations of the lake begin with ${other}, not with ${root}: set S3_BUCKET as before, or start with an empty database`,
    )
  await recordRoot(sql, root)
}
