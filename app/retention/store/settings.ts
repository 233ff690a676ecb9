import { eq, sql } from 'drizzle-orm'
import type { Queryable, Tx } from '../../../drizzle/client.ts'
import { isLive } from '../../../drizzle/live-pipeline.ts'
import { pipelines } from '../../../drizzle/schema/pipeline.ts'
import { reaperStatus, retentionConfig, retentionOverrides } from '../../../drizzle/schema/retention.ts'
import {
  OVERRIDABLE,
  type Overridable,
  type RetentionConfig,
  type RetentionOverrides,
} from '../../../machines/retention.ts'
import type { PipelineRef } from '../../core/pipeline-ref.ts'

/** The system's settings. The migration that creates the table inserts the defaults. */
export async function systemRetention(db: Queryable): Promise<RetentionConfig> {
  const [row] = await db.select().from(retentionConfig)
  if (row === undefined) throw new Error('table retention_config has no row: restore it from a backup')
  const { isOnly: _, updatedAt: __, ...config } = row
  return config
}

/** Changes the given settings and returns all of them. */
export async function changeRetention(
  db: Queryable,
  change: Partial<RetentionConfig>,
): Promise<RetentionConfig> {
  await db.update(retentionConfig).set({ ...change, updatedAt: sql`clock_timestamp()` })
  return systemRetention(db)
}

/** The overrides of a live pipeline. Null: it has none; undefined: the pipeline does not exist. */
export async function overridesOf(
  db: Queryable,
  ref: PipelineRef,
): Promise<Partial<Record<Overridable, number>> | null | undefined> {
  const [row] = await db
    .select({ overrides: retentionOverrides })
    .from(pipelines)
    .leftJoin(retentionOverrides, eq(retentionOverrides.pipelineId, pipelines.id))
    .where(isLive(ref))
  if (row === undefined) return undefined
  const { overrides } = row
  const set: Partial<Record<Overridable, number>> = {}
  for (const name of OVERRIDABLE) {
    const value = overrides?.[name]
    if (value != null) set[name] = value
  }
  return Object.keys(set).length === 0 ? null : set
}

/** Replaces all overrides of a live pipeline. Returns false if the pipeline does not exist. */
export async function replaceOverrides(
  tx: Tx,
  ref: PipelineRef,
  overrides: RetentionOverrides,
): Promise<boolean> {
  const [pipeline] = await tx.select({ id: pipelines.id }).from(pipelines).where(isLive(ref)).for('key share')
  if (pipeline === undefined) return false
  await tx.delete(retentionOverrides).where(eq(retentionOverrides.pipelineId, pipeline.id))
  if (OVERRIDABLE.some((name) => overrides[name] != null))
    await tx
      .insert(retentionOverrides)
      .values({ pipelineId: pipeline.id, ...overrides })
      // The later of two concurrent replacements wins.
      .onConflictDoUpdate({
        target: retentionOverrides.pipelineId,
        set: Object.fromEntries(OVERRIDABLE.map((name) => [name, overrides[name] ?? null])),
      })
  return true
}

/** The result of the reaper's last tick. */
export async function lastTick(db: Queryable): Promise<typeof reaperStatus.$inferSelect> {
  const [row] = await db.select().from(reaperStatus)
  if (row === undefined) throw new Error('table reaper_status has no row: restore it from a backup')
  return row
}
