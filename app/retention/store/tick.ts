// The state that a tick of the reaper starts from, and the record of its result. Raw SQL, because it runs in the reaper's
// thread.
import assert from 'node:assert'
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import type { retentionConfig } from '../../../drizzle/schema/retention.ts'
import type { RetentionConfig } from '../../../machines/retention.ts'
import { camelCased, type SnakeCased, snakeCased } from '../../wire/wire-names.ts'
import type { Reaped } from './reaping.ts'

interface TickState {
  config: RetentionConfig
  /** The time of the database. */
  now: Date
  lastRunAt: Date | null
}

export async function tickState(sql: Sql): Promise<TickState> {
  const [row] = await sql<SnakeCased<ConfigRow & { now: Date; lastRunAt: Date | null }>[]>`
    select retention_config.*, clock_timestamp() as now, (select last_run_at from reaper_status) from retention_config`
  assert(row !== undefined, 'table retention_config has no row: restore it from a backup')
  const { now, lastRunAt, isOnly: _, updatedAt: __, ...config } = camelCased(row)
  return { config, now, lastRunAt }
}

type ConfigRow = typeof retentionConfig.$inferSelect

/** `at` is the start of the tick. */
export async function recordTick(
  tx: SqlTx,
  { at, reaped, failures }: { at: Date; reaped: Reaped; failures: readonly string[] },
): Promise<void> {
  const row = { ...snakeCased(reaped), last_run_at: at, failures: tx.json([...failures]) }
  await tx`update reaper_status set ${tx(row)}, updated_at = clock_timestamp()`
}
