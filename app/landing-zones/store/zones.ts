import { and, asc, count, eq, sql } from 'drizzle-orm'
import type { Queryable, Sql, SqlTx, Tx } from '../../../drizzle/client.ts'
import { landingFiles, landingZones } from '../../../drizzle/schema/landing.ts'
import { countOwned } from '../../../drizzle/user-lock.ts'
import { isVisibleId } from '../../../drizzle/visibility.ts'
import type { Visible } from '../../core/access.ts'
import type { Page } from '../../core/pagination.ts'
import type { ZoneRef } from '../../core/zone-ref.ts'
import type { UpdateLifecycle, UpdateZone } from '../schema.ts'
import { isActive } from './files.ts'

type ZoneRow = typeof landingZones.$inferSelect
export interface ZoneWithFiles extends ZoneRow {
  fileCount: number
  totalBytes: number
}

const named = (ref: ZoneRef) =>
  and(
    eq(landingZones.namespace, ref.namespace),
    eq(landingZones.name, ref.name),
    ref.boundTo === undefined ? undefined : eq(landingZones.id, ref.boundTo),
  )

/** Zones that the caller may see, by namespace and name. */
export async function zones(
  db: Queryable,
  { namespace, visibleZones }: { namespace: string | undefined; visibleZones: Visible['zones'] },
  { limit, offset }: Page,
): Promise<{ items: ZoneWithFiles[]; total: number }> {
  const where = and(
    namespace === undefined ? undefined : eq(landingZones.namespace, namespace),
    isVisibleId(landingZones.id, visibleZones),
  )
  const page = db
    .select()
    .from(landingZones)
    .where(where)
    .orderBy(asc(landingZones.namespace), asc(landingZones.name))
    .limit(limit)
    .offset(offset)
    .as('page')
  const [items, total] = await Promise.all([
    withFiles(db, page).orderBy(asc(page.namespace), asc(page.name)),
    db.$count(landingZones, where),
  ])
  return { items: items.map(flat), total }
}

export async function zoneOf(db: Queryable, ref: ZoneRef): Promise<ZoneWithFiles | null> {
  const [item] = await withFiles(db, oneZone(db, ref))
  return item === undefined ? null : flat(item)
}

const oneZone = (db: Queryable, ref: ZoneRef) => db.select().from(landingZones).where(named(ref)).as('page')

/** Counts active files only. The page is cut before the files are counted. */
function withFiles(db: Queryable, page: ReturnType<typeof oneZone>) {
  const active = db
    .select({
      fileCount: count().as('file_count'),
      totalBytes: sql<number>`coalesce(sum(${landingFiles.sizeBytes}), 0)::float8`.as('total_bytes'),
    })
    .from(landingFiles)
    .where(and(eq(landingFiles.zoneId, page.id), isActive))
    .as('active')
  return db.select().from(page).innerJoinLateral(active, sql`true`)
}

type JoinedRow = Awaited<ReturnType<typeof withFiles>>[number]
const flat = ({ page, active }: JoinedRow): ZoneWithFiles => ({ ...page, ...active })

export const countZones = (tx: Tx, user: string | null) => countOwned(tx, landingZones, user)

/** Null: the name is taken. */
export async function insertZone(
  db: Queryable,
  zone: ZoneRef & { id: string; description: string; owner: string | null },
): Promise<ZoneRow | null> {
  const [row] = await db.insert(landingZones).values(zone).onConflictDoNothing().returning()
  return row ?? null
}

/** Locks the zone until the transaction ends; null: the zone does not exist. */
export async function lockedZone(tx: Tx, ref: ZoneRef): Promise<ZoneRow | null> {
  const [row] = await tx.select().from(landingZones).where(named(ref)).for('no key update')
  return row ?? null
}

/** Returns false if the zone does not exist. */
export async function changeZone(db: Queryable, ref: ZoneRef, change: UpdateZone): Promise<boolean> {
  const { description, owner, expected_schema: schema } = change
  const changed = await db
    .update(landingZones)
    .set({
      description,
      owner,
      expectedSchema: schema === '' ? null : schema,
      updatedAt: sql`clock_timestamp()`,
    })
    .where(named(ref))
    .returning({ id: landingZones.id })
  return changed.length > 0
}

/** Null: the zone does not exist. */
export async function lifecycleOf(
  db: Queryable,
  ref: ZoneRef,
): Promise<Pick<ZoneRow, 'processedMaxAgeDays' | 'autoPurge'> | null> {
  const { processedMaxAgeDays, autoPurge } = landingZones
  const [row] = await db.select({ processedMaxAgeDays, autoPurge }).from(landingZones).where(named(ref))
  return row ?? null
}

/** Returns false if the zone does not exist. */
export async function changeLifecycle(
  db: Queryable,
  ref: ZoneRef,
  change: UpdateLifecycle,
): Promise<boolean> {
  const { processed_max_age_days: processedMaxAgeDays, auto_purge: autoPurge } = change
  const changed = await db
    .update(landingZones)
    .set({ processedMaxAgeDays, autoPurge, updatedAt: sql`clock_timestamp()` })
    .where(named(ref))
    .returning({ id: landingZones.id })
  return changed.length > 0
}

/** Locks the zone, also against uploads, until the transaction ends. Returns false if the zone is gone. */
export async function lockZone(tx: Tx, id: string): Promise<boolean> {
  const rows = await tx
    .select({ id: landingZones.id })
    .from(landingZones)
    .where(eq(landingZones.id, id))
    .for('update')
  return rows.length > 0
}

/** Returns true if the zone exists. With a transaction, also keeps the zone until that ends. */
export async function isZoneThere(on: Sql, ref: ZoneRef, tx?: SqlTx): Promise<boolean> {
  const { namespace, name, boundTo } = ref
  const connection = tx ?? on
  const found = await connection`
    select from landing_zone where namespace = ${namespace} and name = ${name}
      ${boundTo === undefined ? connection`` : connection`and id = ${boundTo}`} ${tx ? connection`for key share` : connection``}`
  return found.length > 0
}

export const removeZone = (tx: Tx, id: string) => tx.delete(landingZones).where(eq(landingZones.id, id))
