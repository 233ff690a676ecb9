import { and, arrayContains, asc, desc, eq, ilike, isNotNull, isNull, type SQL, sql } from 'drizzle-orm'
import type { PgUpdateSetSource } from 'drizzle-orm/pg-core'
import type { Queryable, Sql, Tx } from '../../../drizzle/client.ts'
import { isLive, isLiveRow } from '../../../drizzle/live-pipeline.ts'
import {
  type LandingZoneNames,
  type PinnedFiles,
  type Placement,
  pipelines,
} from '../../../drizzle/schema/pipeline.ts'
import { runs } from '../../../drizzle/schema/run.ts'
import { transitions } from '../../../drizzle/schema/system.ts'
import { isVisibleId } from '../../../drizzle/visibility.ts'
import type { Visible } from '../../core/access.ts'
import type { PipelineId } from '../../core/ids.ts'
import { MAIN } from '../../core/lake-version.ts'
import type { Layer } from '../../core/names.ts'
import type { Page } from '../../core/pagination.ts'
import type { PipelineRef } from '../../core/pipeline-ref.ts'
import type { PipelineSortKey, PipelineState } from '../schema.ts'

type NewPipeline = typeof pipelines.$inferInsert
export type PipelineRow = typeof pipelines.$inferSelect
export type PipelineType = PipelineRow['type']

export interface PipelineWithLastRun extends PipelineRow {
  lastRun: Pick<typeof runs.$inferSelect, 'id' | 'status' | 'finishedAt'> | null
}
interface PipelineFilter {
  namespace?: string
  layer?: Layer
  search?: string
  tag?: string
  state?: PipelineState
  /** The pipelines that the caller may see; absent: all. */
  visible?: Visible['pipelines']
}

interface PipelineOrder {
  key: PipelineSortKey
  descending: boolean
}
const SORT_COLUMN = { created_at: 'createdAt', updated_at: 'updatedAt', name: 'name' } as const

/** One page of the live pipelines, each with its latest run on main. */
export async function livePipelines(
  db: Queryable,
  filter: PipelineFilter,
  order: PipelineOrder,
  { limit, offset }: Page,
): Promise<{ items: PipelineWithLastRun[]; total: number }> {
  const matches = and(
    isNull(pipelines.deletedAt),
    isVisibleId(pipelines.id, filter.visible),
    filter.namespace === undefined ? undefined : eq(pipelines.namespace, filter.namespace),
    filter.layer === undefined ? undefined : eq(pipelines.layer, filter.layer),
    filter.search === undefined ? undefined : ilike(pipelines.name, `%${likeText(filter.search)}%`),
    filter.tag === undefined ? undefined : arrayContains(pipelines.tags, [filter.tag]),
    filter.state === undefined ? undefined : isIn[filter.state](),
  )
  // These states look up the latest run of each pipeline, so they are evaluated once for the page and the total.
  const readsRuns = filter.state === 'failed' || filter.state === 'failing_tests'
  const ids = readsRuns
    ? (await db.select({ id: pipelines.id }).from(pipelines).where(matches)).map(({ id }) => id)
    : null
  const where = ids === null ? matches : and(isNull(pipelines.deletedAt), isVisibleId(pipelines.id, ids))
  const direction = order.descending ? desc : asc
  const column = SORT_COLUMN[order.key]
  const page = db
    .select()
    .from(pipelines)
    .where(where)
    .orderBy(direction(pipelines[column]), direction(pipelines.id))
    .limit(limit)
    .offset(offset)
    .as('page')
  const [items, total] = await Promise.all([
    withLastRun(db, page).orderBy(direction(page[column]), direction(page.id)),
    ids?.length ?? db.$count(pipelines, where),
  ])
  return { items: items.map(flat), total }
}

const latestRun = sql`from run r where r.pipeline_id = ${pipelines.id} and r.branch = ${MAIN} order by r.created_at desc, r.id desc limit 1`
const isIn: Record<PipelineState, () => SQL | undefined> = {
  published: () => isNotNull(pipelines.publishedVersion),
  unpublished: () => isNull(pipelines.publishedVersion),
  changed: () => and(isNotNull(pipelines.publishedVersion), pipelines.draftDirty),
  failed: () => sql`(select r.status ${latestRun}) = 'failed'`,
  failing_tests: () => sql`exists (
    select from quality_result q where q.run_id = (select r.id ${latestRun}) and q.status = 'failed')`,
}

export async function livePipeline(db: Queryable, ref: PipelineRef): Promise<PipelineWithLastRun | null> {
  const [item] = await withLastRun(db, liveOne(db, ref))
  return item === undefined ? null : flat(item)
}

const liveOne = (db: Queryable, ref: PipelineRef) => db.select().from(pipelines).where(isLive(ref)).as('page')

/** The page is cut before the join. So sorting thousands of pipelines does not look up the runs of each. */
function withLastRun(db: Queryable, page: PipelinePage) {
  const lastRun = db
    .select({ id: runs.id, status: runs.status, finishedAt: runs.finishedAt })
    .from(runs)
    .where(and(eq(runs.pipelineId, page.id), eq(runs.branch, MAIN)))
    .orderBy(desc(runs.createdAt), desc(runs.id))
    .limit(1)
    .as('last_run')
  return db.select().from(page).leftJoinLateral(lastRun, sql`true`)
}

type PipelinePage = ReturnType<typeof liveOne>
type JoinedRow = Awaited<ReturnType<typeof withLastRun>>[number]
const flat = ({ page, last_run: lastRun }: JoinedRow): PipelineWithLastRun => ({ ...page, lastRun })

/** Escapes `%` and `_`, so that a search matches them literally. */
const likeText = (text: string) => text.replace(/[\\%_]/g, '\\$&')

/** Returns false if a live pipeline has the name. Waits for concurrent transactions that create or delete the name. */
export async function insertPipeline(tx: Tx, pipeline: NewPipeline): Promise<boolean> {
  const inserted = await tx
    .insert(pipelines)
    .values(pipeline)
    .onConflictDoNothing()
    .returning({ id: pipelines.id })
  return inserted.length > 0
}

/** Returns false if the pipeline does not exist. */
export async function changePipeline(
  db: Queryable,
  ref: PipelineRef,
  change: Partial<Pick<PipelineRow, 'description' | 'type' | 'owner' | 'maxVersions'>>,
): Promise<boolean> {
  const changed = await db
    .update(pipelines)
    .set({ ...change, updatedAt: sql`clock_timestamp()` })
    .where(isLive(ref))
    .returning({ id: pipelines.id })
  return changed.length > 0
}

interface PublishedPipeline {
  pipelineId: PipelineId
  type: PipelineType
  versionNumber: number | null
  pins: PinnedFiles | null
  landingZones: LandingZoneNames | null
  placement: Placement | null
}

/**
 * The code that a run of a pipeline executes. One prepared statement, because every request for a run needs it. Null pins: the
 * pipeline was never published.
 */
export async function publishedPipeline(sql: Sql, ref: PipelineRef): Promise<PublishedPipeline | null> {
  const [row] = await sql<PublishedPipeline[]>`
    select p.id as "pipelineId", coalesce(v.pipeline_type, p.type) as type, v.version_number as "versionNumber",
      v.published_versions as pins, v.landing_zones as "landingZones", v.placement
    from pipeline p
    left join pipeline_version v on v.pipeline_id = p.id and v.version_number = p.published_version
    where ${isLiveRow(sql, ref)}`
  return row ?? null
}

/** Locks a live pipeline until the transaction ends; null: the pipeline does not exist. */
export async function lockPipeline(tx: Tx, ref: PipelineRef): Promise<PipelineRow | null> {
  const [row] = await tx.select().from(pipelines).where(isLive(ref)).for('update')
  return row ?? null
}

export type Columns = PgUpdateSetSource<typeof pipelines>

/** Saves the columns that a draft transition changed, and its history row. The caller has locked the pipeline. */
export async function saveDraft(
  tx: Tx,
  pipelineId: string,
  columns: Columns,
  transition: Pick<typeof transitions.$inferInsert, 'event' | 'from' | 'to' | 'effects' | 'cause'>,
): Promise<void> {
  await tx
    .update(pipelines)
    .set({ ...columns, updatedAt: sql`clock_timestamp()` })
    .where(eq(pipelines.id, pipelineId))
  await tx.insert(transitions).values({
    ...transition,
    machine: 'draft',
    entityId: pipelineId,
    at: sql`clock_timestamp()`,
  })
}
