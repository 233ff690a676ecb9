import { and, eq, inArray, isNull, or, sql } from 'drizzle-orm'
import type { Queryable, Tx } from '../../../drizzle/client.ts'
import { pipelines, pipelineVersions } from '../../../drizzle/schema/pipeline.ts'
import { runs } from '../../../drizzle/schema/run.ts'
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

/** The newest files of a zone whose archiving is considered. */
const ARCHIVED_FILES = 1_000

/** Files that runs of one version have archived in a zone. */
export interface ArchivedFiles {
  pipelineId: string
  version: number
  /** `ns.zone` */
  zone: string
  /** Original names. */
  names: string[]
}

/** By version and zone, the newest archived files of the zones. The names of files begin with the time of their upload. */
export const archivedFiles = async (db: Queryable, zones: readonly string[]): Promise<ArchivedFiles[]> =>
  db.execute<ArchivedFiles & Record<string, unknown>>(sql`
    select r.pipeline_id as "pipelineId", r.version_number as version, z.namespace || '.' || z.name as zone,
      array_agg(distinct f.original_name) as names
    from unnest(${textArray(zones)}) wanted(path)
    join landing_zone z on z.namespace = split_part(path, '.', 1) and z.name = split_part(path, '.', 2)
    cross join lateral (
      select original_name, archived_by_run from landing_file
      where zone_id = z.id and archived_by_run is not null order by filename desc limit ${ARCHIVED_FILES}) f
    join run r on r.id = f.archived_by_run and r.version_number is not null
    group by r.pipeline_id, r.version_number, z.namespace, z.name`)

/**
 * The published versions in a namespace that read one of the landing zones, the oldest pipeline first. Either the code names the
 * zone, or the pipeline is one of `others`.
 */
export const publishedReaders = (
  db: Queryable,
  { namespace, zones, others }: { namespace: string; zones: readonly string[]; others: readonly string[] },
) =>
  db
    .select({
      id: pipelines.id,
      layer: pipelines.layer,
      name: pipelines.name,
      type: pipelineVersions.pipelineType,
      version: pipelineVersions.versionNumber,
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
        or(sql`${pipelineVersions.landingZones} ?| ${textArray(zones)}`, inArray(pipelines.id, [...others])),
      ),
    )
    .orderBy(pipelines.createdAt, pipelines.id)
