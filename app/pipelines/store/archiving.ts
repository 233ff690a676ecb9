import { and, eq, isNull, sql } from 'drizzle-orm'
import type { Queryable, Tx } from '../../../drizzle/client.ts'
import { pipelines, pipelineVersions } from '../../../drizzle/schema/index.ts'
import { textArray } from './references.ts'

/** Class of the advisory locks for archiving. Two namespaces with the same hash only wait for each other needlessly. */
const ARCHIVING = 1_095_910_216

/** Holds the lock of the archiving pipelines of a namespace until the transaction ends. */
export async function lockArchiving(tx: Tx, namespace: string): Promise<void> {
  await tx.execute(sql`select pg_advisory_xact_lock(${ARCHIVING}, hashtext(${namespace}))`)
}

/** The published versions in a namespace that name one of the landing zones, the oldest pipeline first. */
export const publishedReaders = (
  db: Queryable,
  { namespace, zones }: { namespace: string; zones: readonly string[] },
) =>
  db
    .select({
      id: pipelines.id,
      layer: pipelines.layer,
      name: pipelines.name,
      type: pipelineVersions.pipelineType,
      pins: pipelineVersions.publishedVersions,
    })
    .from(pipelines)
    .innerJoin(
      pipelineVersions,
      and(
        eq(pipelineVersions.pipelineId, pipelines.id),
        eq(pipelineVersions.versionNumber, pipelines.publishedVersion),
      ),
    )
    .where(
      and(
        eq(pipelines.namespace, namespace),
        isNull(pipelines.deletedAt),
        sql`${pipelineVersions.landingZones} ?| ${textArray(zones)}`,
      ),
    )
    .orderBy(pipelines.createdAt, pipelines.id)
