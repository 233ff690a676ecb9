import assert from 'node:assert'
import { and, asc, count, eq, isNotNull, isNull } from 'drizzle-orm'
import type { Queryable, Tx } from '../../drizzle/client.ts'
import { branchEntries, lakeRefs, mainEntries } from '../../drizzle/schema/catalog.ts'
import { landingZones } from '../../drizzle/schema/landing.ts'
import { namespaces } from '../../drizzle/schema/namespace.ts'
import { pipelines } from '../../drizzle/schema/pipeline.ts'
import { countOwned } from '../../drizzle/user-lock.ts'
import { isVisibleName } from '../../drizzle/visibility.ts'
import type { Visible } from '../core/access.ts'
import type { Page } from '../core/pagination.ts'
import type { CreateNamespace, Namespace } from './schema.ts'

export type NamespaceRow = typeof namespaces.$inferSelect
export interface NamespaceRef {
  name: string
  /** If set, only the namespace with this id matches: the one whose access was checked. */
  boundTo?: string
}
/** Properties that engines set. */
export type Properties = NamespaceRow['properties']
type VisibleNamespaces = Visible['namespaces']

/** Visible namespaces, ordered by name. */
export async function namespacesOn(
  db: Queryable,
  { limit, offset }: Page,
  visible: VisibleNamespaces = 'all',
) {
  const rows = await db
    .select()
    .from(namespaces)
    .where(isVisibleName(namespaces.name, visible))
    .orderBy(asc(namespaces.name))
    .limit(limit)
    .offset(offset)
  return rows.map(namespaceOf)
}

export async function namespaceCount(db: Queryable, visible: VisibleNamespaces = 'all'): Promise<number> {
  const [row] = await db
    .select({ total: count() })
    .from(namespaces)
    .where(isVisibleName(namespaces.name, visible))
  assert(row !== undefined)
  return row.total
}

export async function isNamespace(db: Queryable, name: string): Promise<boolean> {
  const rows = await db.select({ name: namespaces.name }).from(namespaces).where(eq(namespaces.name, name))
  return rows.length > 0
}

/** Null: the namespace does not exist. */
export async function findNamespace(db: Queryable, name: string): Promise<Namespace | null> {
  const [row] = await db.select().from(namespaces).where(eq(namespaces.name, name))
  return row ? namespaceOf(row) : null
}

export const countNamespaces = (tx: Tx, user: string | null) => countOwned(tx, namespaces, user)

/** Returns null when the name is taken. */
export async function insertNamespace(
  db: Queryable,
  { name, description = '', properties = {} }: CreateNamespace & { properties?: Properties },
  owner: string | null,
): Promise<Namespace | null> {
  const [row] = await db
    .insert(namespaces)
    .values({ name, description, owner, properties })
    .onConflictDoNothing()
    .returning()
  return row ? namespaceOf(row) : null
}

const matches = ({ name, boundTo }: NamespaceRef) =>
  and(eq(namespaces.name, name), boundTo === undefined ? undefined : eq(namespaces.id, boundTo))

/** The description and the properties; null when the namespace does not exist. */
export async function detailsOf(
  db: Queryable,
  name: string,
): Promise<Pick<NamespaceRow, 'description' | 'properties'> | null> {
  const [row] = await db.select().from(namespaces).where(eq(namespaces.name, name))
  return row ?? null
}

/** The namespace, locked until the transaction ends; null when it does not exist. */
export async function lockedNamespace(tx: Tx, ref: NamespaceRef): Promise<NamespaceRow | null> {
  const [row] = await tx.select().from(namespaces).where(matches(ref)).for('update')
  return row ?? null
}

export async function setDetails(
  tx: Tx,
  name: string,
  details: Partial<Pick<NamespaceRow, 'description' | 'properties' | 'protection'>>,
): Promise<void> {
  await tx.update(namespaces).set(details).where(eq(namespaces.name, name))
}

/** Whether the namespace has tables or views on main or an open branch, pipelines, or landing zones. */
export async function hasContents(db: Queryable, name: string): Promise<boolean> {
  const found = await Promise.all([
    db
      .select({ name: mainEntries.name })
      .from(mainEntries)
      .where(and(eq(mainEntries.namespace, name), isNull(mainEntries.toCommit)))
      .limit(1),
    db
      .select({ name: branchEntries.name })
      .from(branchEntries)
      .innerJoin(lakeRefs, and(eq(lakeRefs.name, branchEntries.ref), eq(lakeRefs.state, 'open')))
      .where(and(eq(branchEntries.namespace, name), isNotNull(branchEntries.contentId)))
      .limit(1),
    db
      .select({ name: pipelines.name })
      .from(pipelines)
      .where(and(eq(pipelines.namespace, name), isNull(pipelines.deletedAt)))
      .limit(1),
    db
      .select({ name: landingZones.name })
      .from(landingZones)
      .where(eq(landingZones.namespace, name))
      .limit(1),
  ])
  return found.some((rows) => rows.length > 0)
}

/** Returns the id and owner of the deleted namespace; null when it did not exist. */
export async function removeNamespace(
  db: Queryable,
  ref: NamespaceRef,
): Promise<Pick<NamespaceRow, 'id' | 'owner'> | null> {
  const [row] = await db
    .delete(namespaces)
    .where(matches(ref))
    .returning({ id: namespaces.id, owner: namespaces.owner })
  return row ?? null
}

const namespaceOf = (row: NamespaceRow): Namespace => ({
  id: row.id,
  name: row.name,
  owner: row.owner,
  description: row.description,
  created_at: row.createdAt.toISOString(),
  protection: row.protection,
})
