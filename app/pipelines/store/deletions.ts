// The outbox row of a deleted pipeline. The transaction that removes its `prefix` may delete the pipeline's files.
import { and, eq, sql } from 'drizzle-orm'
import type { Tx } from '../../../drizzle/client.ts'
import { outbox } from '../../../drizzle/schema/system.ts'
import type { PipelineId } from '../../core/ids.ts'

const KIND = 'pipelineDeleted'
/** The request performs the effect itself. The dispatcher performs it after this time, in case the request died. */
const GRACE_SECONDS = 15

/** Payload of the effect `pipelineDeleted`. */
export interface PipelineDeleted {
  pipeline_id: PipelineId
  /** Absent: the files were removed already. */
  prefix?: string
}

/** The columns that mark a pipeline as deleted. */
export const deletedColumns = () => ({ deletedAt: sql`clock_timestamp()` })

export const queueDeletion = (tx: Tx, payload: PipelineDeleted) =>
  tx.insert(outbox).values({
    kind: KIND,
    payload,
    dueAt: sql`clock_timestamp() + make_interval(secs => ${GRACE_SECONDS})`,
  })

/**
 * Deletes the outbox row of a deletion. Returns the prefix if files are still to be removed. The row lock keeps others from
 * removing them until the transaction ends.
 */
export async function claimDeletion(tx: Tx, pipelineId: PipelineId): Promise<string | null> {
  const [deleted] = await tx
    .delete(outbox)
    .where(and(eq(outbox.kind, KIND), eq(payloadField('pipeline_id'), pipelineId)))
    .returning({ prefix: payloadField('prefix') })
  return deleted?.prefix ?? null
}

/**
 * Removes the prefix from outbox rows. Returns true if a row had the prefix; then only this transaction may delete the files.
 */
export async function claimPrefix(tx: Tx, prefix: string): Promise<boolean> {
  const claimed = await tx
    .update(outbox)
    .set({ payload: sql`${outbox.payload} - 'prefix'` })
    .where(and(eq(outbox.kind, KIND), eq(payloadField('prefix'), prefix)))
    .returning({ id: outbox.id })
  return claimed.length > 0
}

const payloadField = (name: keyof PipelineDeleted) => sql<string | null>`${outbox.payload}->>${name}`
