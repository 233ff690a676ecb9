import { and, eq, sql } from 'drizzle-orm'
import type { Db, Tx } from '../../drizzle/client.ts'
import { outbox } from '../../drizzle/schema/index.ts'
import { deleteGrantsOf } from '../access/service.ts'
import type { PipelineId } from '../core/ids.ts'
import { noPipeline, type PipelineRef, prefixOf } from '../core/pipeline-ref.ts'
import { everyObject } from '../files/listing.ts'
import type { ObjectStore } from '../objects/port.ts'
import { lockPipeline, moveDraft } from './draft.ts'

// A deleted pipeline's name can be used again at once, so its files may be removed late, but never after another
// pipeline of that name has written its own. The prefix in the outbox row is the right to remove them: whoever takes it (the
// request, the dispatcher after a crash, or the creation of the next pipeline of that name, before it writes anything) holds
// the row locked until the files are gone, and nobody can take it again. The creation leaves the row to its effect: runs and
// triggers of the old pipeline may still have to be ended.

const KIND = 'pipelineDeleted'
/** The request itself performs the effect; the dispatcher comes later, if it had to die before. */
const GRACE_SECONDS = 15

/** Payload of the effect `pipelineDeleted`. */
export interface PipelineDeleted {
  pipeline_id: PipelineId
  /** Absent: its files are gone. */
  prefix?: string
}

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
      also: { deletedAt: sql`clock_timestamp()` },
    })
    await deleteGrantsOf(tx, { type: 'pipeline', id: pipeline.id })
    const payload = { pipeline_id: pipeline.id as PipelineId, prefix: prefixOf(ref) }
    await tx.insert(outbox).values({
      kind: KIND,
      payload,
      dueAt: sql`clock_timestamp() + make_interval(secs => ${GRACE_SECONDS})`,
    })
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
    const [taken] = await tx
      .delete(outbox)
      .where(and(eq(outbox.kind, KIND), eq(payloadField('pipeline_id'), payload.pipeline_id)))
      .returning({ prefix: payloadField('prefix') })
    if (typeof taken?.prefix === 'string') await removeFiles(objects, taken.prefix)
  })
}

/** Removes the files of deleted pipelines under a prefix, if that is still to be done. Pinned versions stay readable. */
export async function removeLeftFiles(tx: Tx, objects: ObjectStore, prefix: string): Promise<void> {
  const taken = await tx
    .update(outbox)
    .set({ payload: sql`${outbox.payload} - 'prefix'` })
    .where(and(eq(outbox.kind, KIND), eq(payloadField('prefix'), prefix)))
    .returning({ id: outbox.id })
  if (taken.length > 0) await removeFiles(objects, prefix)
}

const payloadField = (name: keyof PipelineDeleted) => sql<string | null>`${outbox.payload}->>${name}`

async function removeFiles(objects: ObjectStore, prefix: string): Promise<void> {
  for await (const { key } of everyObject(objects, prefix)) await objects.delete(key)
}
