import type { Db, Sql, Tx } from '../../drizzle/client.ts'
import type { LandingZoneNames, PinnedFiles } from '../../drizzle/schema/index.ts'
import { restore, store } from '../../machines/advance.ts'
import {
  advanceDraft,
  DRAFT_MACHINE_VERSION,
  type DraftEvent,
  type DraftSnapshot,
  draftColumns,
  draftMachine,
  migrateDraft,
  newDraft,
} from '../../machines/draft.ts'
import type { PipelineId } from '../core/ids.ts'
import { noPipeline, type PipelineRef } from '../core/pipeline-ref.ts'
import type { ObjectStore } from '../objects/port.ts'
import { draftObjects, pinsOf, readCode } from './draft-files.ts'
import { landingZonesOf } from './references.ts'
import {
  type Columns,
  lockPipeline,
  type PipelineRow,
  type PipelineType,
  publishedPipeline,
  saveDraft,
} from './store/pipelines.ts'

// The one door to a pipeline's draft: lock the row, ask the machine, save state and history in the same transaction.

/** The columns of a draft that has just been created. */
export const firstDraft = () => columnsOf(newDraft())

const columnsOf = (draft: DraftSnapshot) => ({
  draftSnapshot: store(draft),
  draftMachineVersion: DRAFT_MACHINE_VERSION,
  ...draftColumns(draft),
})

/** Sends an event to the draft of a locked pipeline; `also` are columns that change with it. IllegalMove when it is refused. */
export async function moveDraft(
  tx: Tx,
  pipeline: PipelineRow,
  { event, cause, also }: { event: DraftEvent; cause: string; also?: Columns },
): Promise<void> {
  const stored = migrateDraft(pipeline.draftMachineVersion, pipeline.draftSnapshot)
  const { next, from, to, effects } = advanceDraft(restore(draftMachine, stored), event)
  const columns = { ...columnsOf(next), ...also }
  await saveDraft(tx, pipeline.id, columns, { event: event.type, from, to, effects, cause })
}

/** What a run of a pipeline executes now. */
export interface Runnable {
  pipelineId: PipelineId
  pipelineType: PipelineType
  /** Null: never published, so the draft's files as they are now. */
  versionNumber: number | null
  pins: PinnedFiles
  /** `ns.zone` of each zone that the source names literally. */
  landingZones: LandingZoneNames
}

export function makeDrafts({ db, sql, objects }: { db: Db; sql: Sql; objects: ObjectStore }) {
  /** Code is fixed at the request: the published version's pins, or the draft's files in the versions they have now. */
  async function runnable(ref: PipelineRef): Promise<Runnable> {
    const found = await publishedPipeline(sql, ref)
    if (found === null) throw noPipeline(ref)
    const { pipelineId, type: pipelineType, versionNumber, pins, landingZones } = found
    if (pins !== null && landingZones !== null)
      return { pipelineId, pipelineType, versionNumber, pins, landingZones }
    const listed = await draftObjects(objects, ref)
    const code = await readCode(objects, ref, listed)
    return {
      pipelineId,
      pipelineType,
      versionNumber: null,
      pins: pinsOf(listed),
      landingZones: landingZonesOf(code, pipelineType, ref),
    }
  }

  /** The draft's source, configuration and tests, and which paths the last publish has pinned. */
  async function draft(ref: PipelineRef) {
    const found = await publishedPipeline(sql, ref)
    if (found === null) throw noPipeline(ref)
    const code = await readCode(objects, ref, await draftObjects(objects, ref))
    return { code, published: found.pins ?? {} }
  }

  /** Tells the draft that files have changed; does nothing when there is no such pipeline. */
  async function fileWritten(ref: PipelineRef, cause: string) {
    await db.transaction(async (tx) => {
      const pipeline = await lockPipeline(tx, ref)
      if (pipeline !== null) await moveDraft(tx, pipeline, { event: { type: 'fileWritten' }, cause })
    })
  }

  /** Changes a draft's files alone: nobody else does meanwhile through here. For changes that depend on what is there. */
  async function changeDraft<T>(ref: PipelineRef, cause: string, change: () => Promise<T>): Promise<T> {
    return db.transaction(async (tx) => {
      const pipeline = await lockPipeline(tx, ref)
      if (pipeline === null) throw noPipeline(ref)
      const changed = await change()
      await moveDraft(tx, pipeline, { event: { type: 'fileWritten' }, cause })
      return changed
    })
  }

  return { runnable, draft, fileWritten, changeDraft }
}
