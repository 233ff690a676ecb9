import { eq, sql } from 'drizzle-orm'
import type { PgUpdateSetSource } from 'drizzle-orm/pg-core'
import type { Tx } from '../../drizzle/client.ts'
import { pipelines, transitions } from '../../drizzle/schema/index.ts'
import { restore, type Stored, store } from '../../machines/advance.ts'
import {
  advanceDraft,
  DRAFT_MACHINE_VERSION,
  type DraftEvent,
  draftColumns,
  draftMachine,
  migrateDraft,
  newDraft,
} from '../../machines/draft.ts'
import type { PipelineRef } from '../core/pipeline-ref.ts'
import { isLive, type PipelineRow } from './store.ts'

// The one door to a pipeline's draft: lock the row, ask the machine, save state and history in the same transaction.

type Columns = PgUpdateSetSource<typeof pipelines>

/** A live pipeline, locked until the transaction ends; null when there is none. */
export async function lockPipeline(tx: Tx, ref: PipelineRef): Promise<PipelineRow | null> {
  const [row] = await tx.select().from(pipelines).where(isLive(ref)).for('update')
  return row ?? null
}

/** The columns of a draft that has just been created. */
export function firstDraft() {
  const draft = newDraft()
  return {
    draftSnapshot: store(draft),
    draftMachineVersion: DRAFT_MACHINE_VERSION,
    ...draftColumns(draft),
  }
}

/** Sends an event to the draft of a locked pipeline; `also` are columns that change with it. IllegalMove when it is refused. */
export async function moveDraft(
  tx: Tx,
  pipeline: PipelineRow,
  { event, cause, also }: { event: DraftEvent; cause: string; also?: Columns },
): Promise<void> {
  const stored = migrateDraft(pipeline.draftMachineVersion, pipeline.draftSnapshot as Stored)
  const { next, from, to, effects } = advanceDraft(restore(draftMachine, stored), event)
  await tx
    .update(pipelines)
    .set({
      draftSnapshot: store(next),
      draftMachineVersion: DRAFT_MACHINE_VERSION,
      ...draftColumns(next),
      updatedAt: sql`clock_timestamp()`,
      ...also,
    })
    .where(eq(pipelines.id, pipeline.id))
  await tx.insert(transitions).values({
    machine: 'draft',
    entityId: pipeline.id,
    at: sql`clock_timestamp()`,
    event: event.type,
    from,
    to,
    effects,
    cause,
  })
}
