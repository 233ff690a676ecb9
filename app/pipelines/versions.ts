import type { Db } from '../../drizzle/client.ts'
import { invalid, notFound } from '../core/errors.ts'
import type { NewId } from '../core/ids.ts'
import { noPipeline, type PipelineRef } from '../core/pipeline-ref.ts'
import { moveDraft } from './draft.ts'
import type { RollbackPipeline } from './schema.ts'
import { lockPipeline, type PipelineRow } from './store/pipelines.ts'
import { addVersion, publishedColumns, type VersionRow, versionOf } from './store/versions.ts'

/**
 * Versions are 1..n despite concurrent requests. The number is chosen under the pipeline's lock, and the published version is
 * always the greatest.
 */
export const nextVersion = ({ publishedVersion }: PipelineRow) => (publishedVersion ?? 0) + 1

/**
 * A rollback adds a version instead of moving a pointer, so history stays append-only (specification: Pipeline draft and
 * publish).
 */
export async function rollback(
  { db, newId }: { db: Db; newId: NewId },
  ref: PipelineRef,
  { version, message = `Rollback to v${version}` }: RollbackPipeline,
) {
  const created = await db.transaction(async (tx) => {
    const pipeline = await lockPipeline(tx, ref)
    if (pipeline === null) throw noPipeline(ref)
    const target = await existingVersion(tx, pipeline.id, version)
    const number = nextVersion(pipeline)
    await addVersion(
      tx,
      {
        id: newId(),
        pipelineId: pipeline.id,
        versionNumber: number,
        message,
        pipelineType: target.pipelineType,
        publishedVersions: target.publishedVersions,
        landingZones: target.landingZones,
      },
      pipeline.maxVersions,
    )
    await moveDraft(tx, pipeline, {
      event: { type: 'rolledBack' },
      cause: `rolled back to v${version}`,
      also: publishedColumns(number),
    })
    return number
  })
  return { status: 'rolled_back' as const, from_version: version, new_version: created, message }
}

/** Throws 404 if the version does not exist or was pruned. */
export async function existingVersion(
  db: Parameters<typeof versionOf>[0],
  pipelineId: string,
  number: number,
): Promise<VersionRow> {
  const version = number > INTEGER_MAX ? null : await versionOf(db, pipelineId, number)
  if (version === null) throw notFound(`version ${number}`)
  return version
}

/** Maximum of the Postgres type `integer`. */
const INTEGER_MAX = 2_147_483_647

/** Throws 400 naming `number` unless the text is a whole number from 1. */
export function versionNumber(text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text)) throw invalid('number', 'must be a whole number of at least 1')
  return Number(text)
}
