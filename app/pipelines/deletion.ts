import type { Db, Tx } from '../../drizzle/client.ts'
import { deleteGrantsOf } from '../access/service.ts'
import type { PipelineId } from '../core/ids.ts'
import { noPipeline, type PipelineRef, prefixOf } from '../core/pipeline-ref.ts'
import { everyObject } from '../files/listing.ts'
import type { ObjectStore } from '../objects/port.ts'
import { moveDraft } from './draft.ts'
import {
  deletedColumns,
  type PipelineDeleted,
  queueDeletion,
  takeDeletion,
  takePrefix,
} from './store/deletions.ts'
import { lockPipeline } from './store/pipelines.ts'

export type { PipelineDeleted } from './store/deletions.ts'

// A deleted pipeline's name can be used again at once, so its files may be removed late, but never after another
// pipeline of that name has written its own. The prefix in the outbox row is the right to remove them: whoever takes it (the
// request, the dispatcher after a crash, or the creation of the next pipeline of that name, before it writes anything) holds
// the row locked until the files are gone, and nobody can take it again. The creation leaves the row to its effect: runs and
// triggers of the old pipeline may still have to be ended.

export interface DeletionDeps {
  db: Db
  objects: ObjectStore
  runs: { cancelAllOf(pipelineId: PipelineId, cause: string): Promise<unknown> }
  triggers: { retireAllOf(pipelineId: PipelineId): Promise<unknown> }
}

/** Soft-deletes: from its commit on there is no such pipeline. What it leaves behind is the effect's to clear up. */
export async function markDeleted(db: Db, ref: PipelineRef): Promise<PipelineDeleted> {
  return db.transaction(async (tx) => {
    const pipeline = await lockPipeline(tx, ref)
    if (pipeline === null) throw noPipeline(ref)
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

/** Retires the pipeline's triggers, cancels what it still runs and removes its files. May be performed any number of times. */
export async function finishDeletion(
  { db, objects, runs, triggers }: DeletionDeps,
  payload: PipelineDeleted,
): Promise<void> {
  await triggers.retireAllOf(payload.pipeline_id)
  await runs.cancelAllOf(payload.pipeline_id, 'pipeline deleted')
  await db.transaction(async (tx) => {
    const prefix = await takeDeletion(tx, payload.pipeline_id)
    if (prefix !== null) await removeFiles(objects, prefix)
  })
}

/** Removes the files of deleted pipelines under a prefix, if that is still to be done. Pinned versions stay readable. */
export async function removeLeftFiles(tx: Tx, objects: ObjectStore, prefix: string): Promise<void> {
  if (await takePrefix(tx, prefix)) await removeFiles(objects, prefix)
}

async function removeFiles(objects: ObjectStore, prefix: string): Promise<void> {
  for await (const { key } of everyObject(objects, prefix)) await objects.delete(key)
}
