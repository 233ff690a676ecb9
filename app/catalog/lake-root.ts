/**
 * The root of the lake's locations. Postgres records it. A lake with another root is converted at the start: by one process,
 * before any process answers requests. See ADR 44.
 */
import type { Database, Sql } from '../../drizzle/client.ts'
import { keyIn, rootIn } from '../../lake/iceberg/format/location.ts'
import { UnsupportedTable } from '../../lake/iceberg/format/metadata.ts'
import type { Clock } from '../core/clock.ts'
import type { Log } from '../core/log.ts'
import { type ObjectStore, StoreUnavailable } from '../objects/port.ts'
import { convertTable } from './lake-conversion.ts'
import {
  currentLocations,
  forgetRoot,
  liveReplicas,
  moveStates,
  recordedRoot,
  recordRoot,
  statesOutside,
  tablesOutside,
  tryRootLock,
} from './store/lake-root.ts'

const TABLES_AT_ONCE = 4
const PROGRESS_MS = 5_000
const POLL_MS = 500
/** If the store has none of this many metadata files, it is another store. */
const SAMPLE = 20

export interface LakeRootParts {
  database: Pick<Database, 'sql' | 'session'>
  objects: ObjectStore
  /** The configured root. */
  root: string
  clock: Clock
  log: Log
}

/**
 * Resolves when every location of the lake has the configured root. Throws StoreUnavailable when the store has no file of the
 * lake.
 */
export async function settleLakeRoot(parts: LakeRootParts): Promise<void> {
  const { database, root } = parts
  if ((await recordedRoot(database.sql)) === root) return
  const session = database.session('lake conversion')
  try {
    while (!(await tryRootLock(session))) await pause()
    // Another process may have converted the lake meanwhile.
    if ((await recordedRoot(database.sql)) !== root) await convertLake(parts)
  } finally {
    await session.end()
  }
}

/**
 * Without a recorded root, the states may have several roots. So a conversion that was interrupted goes on, whichever root is
 * configured then.
 */
async function convertLake(parts: LakeRootParts): Promise<void> {
  const { objects, root, log } = parts
  const { sql } = parts.database
  if ((await tablesOutside(sql, root)).length > 0) {
    await untilAlone(sql, log)
    await requireLake(sql, objects, root)
    await forgetRoot(sql)
    await convertTables(parts)
  }
  await recordRoot(sql, root)
}

/** A running replica would write locations with its own root. */
async function untilAlone(sql: Sql, log: Log): Promise<void> {
  for (let isTold = false; ; isTold = true) {
    const live = await liveReplicas(sql)
    if (live === 0) return
    if (!isTold) log.warn(`lake conversion: waiting until ${live} running replicas have stopped`)
    await pause()
  }
}

async function requireLake(sql: Sql, objects: ObjectStore, root: string): Promise<void> {
  const locations = await currentLocations(sql, SAMPLE)
  for (const location of locations) if ((await objects.head(keyIn(location))) !== null) return
  const [first] = locations
  if (first !== undefined)
    throw new StoreUnavailable(
      `the object store ${root} has no file of the lake, whose root is ${rootIn(first)}: copy the files, or set S3_BUCKET back`,
    )
}

async function convertTables({ database: { sql }, objects, root, clock, log }: LakeRootParts): Promise<void> {
  // No replica is running, so no new states appear.
  const tables = await tablesOutside(sql, root)
  const started = clock.elapsed()
  let told = started
  log.info(`lake conversion: ${tables.length} tables get the root ${root}`)
  for (let from = 0; from < tables.length; from += TABLES_AT_ONCE) {
    if (clock.elapsed() - told > PROGRESS_MS) {
      told = clock.elapsed()
      log.info(`lake conversion: ${from} of ${tables.length} tables done`)
    }
    const ended = await Promise.allSettled(
      tables.slice(from, from + TABLES_AT_ONCE).map(async (table) => {
        const states = await statesOutside(sql, root, table)
        await moveStates(sql, await convertTable({ objects, root, log }, states))
      }),
    )
    const failed = ended.find((each) => each.status === 'rejected')
    if (failed !== undefined) throw reasonOf(failed.reason, root)
  }
  const seconds = ((clock.elapsed() - started) / 1_000).toFixed(1)
  log.info(`lake conversion: ${tables.length} of ${tables.length} tables done in ${seconds} s`)
}

/** A table that cannot be converted keeps its root. The conversion goes back when the former root is configured again. */
const reasonOf = (error: unknown, root: string): unknown =>
  error instanceof UnsupportedTable
    ? new StoreUnavailable(
        `the lake cannot get the root ${root}: ${error.message}. Set S3_BUCKET back and compact the table`,
      )
    : error

const pause = () => new Promise<void>((resolve) => setTimeout(resolve, POLL_MS))
