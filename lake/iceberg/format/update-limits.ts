import { BadUpdate } from './wire.ts'

/** The number of earlier metadata files in the log, which the property of the table may lower. */
export const METADATA_LOG_LIMIT = 100

/** The number of entries in the history of the main branch. */
export const SNAPSHOT_LOG_LIMIT = 1_000

/** The number of snapshots of one table. Every commit reads and writes the whole metadata file. */
export const SNAPSHOTS_LIMIT = 10_000

/** The number of retained schemas that neither a snapshot nor the table uses. */
export const UNUSED_SCHEMAS_LIMIT = 100

export const PROPERTIES_LIMIT = 1_000

export const REFS_LIMIT = 1_000

export const SPECS_LIMIT = 100

export function limited(action: string, count: number, limit: number) {
  if (count > limit)
    throw new BadUpdate(
      `${action}: a table would have ${count} of these items, more than the limit of ${limit}`,
    )
}
