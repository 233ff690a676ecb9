import type { Db, Tx } from '../../drizzle/client.ts'
import { deleteGrantsOf } from '../access/service.ts'
import { forbidden } from '../core/errors.ts'
import type { PipelineId } from '../core/ids.ts'
import { noPipeline, type PipelineRef, prefixOf } from '../core/pipeline-ref.ts'
import { everyObject } from '../files/listing.ts'
import type { ObjectStore } from '../objects/port.ts'
import { isReplaceable } from '../protection/rule.ts'
import { moveDraft } from './draft.ts'
import {
  claimDeletion,
  claimPrefix,
  deletedColumns,
  type PipelineDeleted,
  queueDeletion,
} from './store/deletions.ts'
import { lockPipeline } from './store/pipelines.ts'
import { publishedReview } from './versions.ts'

export type { PipelineDeleted } from './store/deletions.ts'

// The name of a deleted pipeline can be used again at once. Its files may be removed later, but never after a new pipeline of
// that name has written files. Only a transaction that removes the `prefix` from the outbox row may delete these files. This is
// the request, the dispatcher after a crash, or the creation of the next pipeline with that name. Its transaction locks the row
// until the files are gone. A creation does not delete the row, because runs and triggers of the old pipeline may still have to
// end.

export interface DeletionDeps {
  db: Db
  objects: ObjectStore
  runs: { cancelAllOf(pipelineId: PipelineId, cause: string): Promise<unknown> }
  triggers: { retireAllOf(pipelineId: PipelineId): Promise<unknown> }
}

/**
 * Soft-deletes the pipeline: it is invisible from the commit on. The effect removes its runs, triggers and files. A deletion also
 * removes the rule for the table of the pipeline.
 */
export async function markDeleted(
  { db, objects }: Pick<DeletionDeps, 'db' | 'objects'>,
  ref: PipelineRef,
  person: string | null,
): Promise<PipelineDeleted> {
  return db.transaction(async (tx) => {
    const pipeline = await lockPipeline(tx, ref)
    if (pipeline === null) throw noPipeline(ref)
    const review = await publishedReview({ db: tx, objects }, ref, pipeline)
    if (!isReplaceable(review, 'none', { authors: person === null ? [] : [person], by: person }))
      throw forbidden(
        `version ${pipeline.publishedVersion} demands reviewers: four-eyes for its table: let another user publish a draft that demands less, then delete the pipeline`,
      )
    await moveDraft(tx, pipeline, {
      event: { type: 'deleted' },
      cause: 'deleted',
      also: deletedColumns(),
    })
    await deleteGrantsOf(tx, { type: 'pipeline', id: pipeline.id })
    const payload = { pipeline_id: pipeline.id as PipelineId, prefix: prefixOf(ref) }
    await queueDeletion(tx, payload)
    return payload
  })
}

/** Retires the pipeline's triggers, cancels its runs and removes its files. Idempotent. */
export async function finishDeletion(
  { db, objects, runs, triggers }: DeletionDeps,
  payload: PipelineDeleted,
): Promise<void> {
  await triggers.retireAllOf(payload.pipeline_id)
  await runs.cancelAllOf(payload.pipeline_id, 'pipeline deleted')
  await db.transaction(async (tx) => {
    const prefix = await claimDeletion(tx, payload.pipeline_id)
    if (prefix !== null) await removeFiles(objects, prefix)
  })
}

/** Removes leftover files of deleted pipelines under a prefix. Versions that runs pin stay readable. */
export async function removeLeftoverFiles(tx: Tx, objects: ObjectStore, prefix: string): Promise<void> {
  if (await claimPrefix(tx, prefix)) await removeFiles(objects, prefix)
}

async function removeFiles(objects: ObjectStore, prefix: string): Promise<void> {
  for await (const { key } of everyObject(objects, prefix)) await objects.delete(key)
}
