import { and, eq, exists, isNull, or, sql } from 'drizzle-orm'
import type { Queryable, Tx } from '../../../drizzle/client.ts'
import {
  landingFiles,
  landingZones,
  pipelines,
  pipelineVersions,
  runs,
} from '../../../drizzle/schema/index.ts'
import { MAIN } from '../../core/lake-version.ts'
import { textArray } from './references.ts'

/** Class of the advisory locks for archiving. Two namespaces with the same hash only wait for each other needlessly. */
const ARCHIVING = 1_095_910_216

/** Holds the lock of the archiving pipelines of a namespace until the transaction ends. */
export async function lockArchiving(tx: Tx, namespace: string): Promise<void> {
  await tx.execute(sql`select pg_advisory_xact_lock(${ARCHIVING}, hashtext(${namespace}))`)
}

/** The pipeline of a run on main, and the code that the run executes. Undefined: no such run. */
export const codeOfMainRun = async (db: Queryable, runId: string) =>
  (
    await db
      .select({
        id: pipelines.id,
        namespace: pipelines.namespace,
        layer: pipelines.layer,
        name: pipelines.name,
        type: runs.pipelineType,
        pins: runs.pins,
      })
      .from(runs)
      .innerJoin(pipelines, eq(pipelines.id, runs.pipelineId))
      .where(and(eq(runs.id, runId), eq(runs.branch, MAIN)))
  )[0]

/**
 * The published versions in a namespace that read one of the landing zones, the oldest pipeline first. Either the code names the
 * zone, or runs of the version have archived its files: `archived` has these zones.
 */
export const publishedReaders = (
  db: Queryable,
  { namespace, zones }: { namespace: string; zones: readonly string[] },
) => {
  const archived = db
    .select({ zone: sql<string>`${landingZones.namespace} || '.' || ${landingZones.name}`.as('zone') })
    .from(landingFiles)
    .innerJoin(landingZones, eq(landingZones.id, landingFiles.zoneId))
    .innerJoin(runs, eq(runs.id, landingFiles.archivedByRun))
    .where(
      and(
        eq(runs.pipelineId, pipelines.id),
        eq(runs.versionNumber, pipelines.publishedVersion),
        sql`${landingZones.namespace} || '.' || ${landingZones.name} = any(${textArray(zones)})`,
      ),
    )
  return db
    .select({
      id: pipelines.id,
      layer: pipelines.layer,
      name: pipelines.name,
      type: pipelineVersions.pipelineType,
      pins: pipelineVersions.publishedVersions,
      archived: sql<string[]>`array(select distinct zone from ${archived} as archived)`,
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
        or(sql`${pipelineVersions.landingZones} ?| ${textArray(zones)}`, exists(archived)),
      ),
    )
    .orderBy(pipelines.createdAt, pipelines.id)
}
