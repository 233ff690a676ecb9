import type { Db, Sql, Tx } from '../../drizzle/client.ts'
import type { LandingZoneNames, PinnedFiles, Placement } from '../../drizzle/schema/pipeline.ts'
import { testNameOf } from '../../lake/pipeline/quality.ts'
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
import { noPipeline, type PipelineRef, prefixOf } from '../core/pipeline-ref.ts'
import type { ObjectStore } from '../objects/port.ts'
import { refuseSharedArchiving } from './archiving.ts'
import { type DraftFile, draftObjects, pinsOf, readCode, readPinnedCode } from './draft-files.ts'
import { placementOf } from './placement.ts'
import { landingZonesOf } from './references.ts'
import {
  type Columns,
  lockPipeline,
  type PipelineRow,
  type PipelineType,
  publishedPipeline,
  saveDraft,
} from './store/pipelines.ts'

// All changes of a pipeline's draft go through `moveDraft`. It runs in the transaction that locked the row, asks the machine,
// and saves state and history.

/** The draft columns of a new pipeline. */
export const firstDraft = () => columnsOf(newDraft())

const columnsOf = (draft: DraftSnapshot) => ({
  draftSnapshot: store(draft),
  draftMachineVersion: DRAFT_MACHINE_VERSION,
  ...draftColumns(draft),
})

/**
 * Sends an event to the draft of a locked pipeline. `also` are columns that change with it. Throws IllegalMove if the machine
 * does not accept the event.
 */
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

interface Writing {
  cause: string
  /** The user or API key; null without a credential. */
  by: string | null
}

const written = ({ draftAuthors }: PipelineRow, { cause, by }: Writing) => ({
  event: { type: 'fileWritten' as const },
  cause,
  also: by === null || draftAuthors.includes(by) ? {} : { draftAuthors: [...draftAuthors, by] },
})

/** The code that a run of the pipeline executes now. */
interface Runnable {
  pipelineId: PipelineId
  pipelineType: PipelineType
  /** Null: `pins` are the draft's files. */
  versionNumber: number | null
  pins: PinnedFiles
  /** `ns.zone` of each landing zone that the source names in a literal call. */
  landingZones: LandingZoneNames
  placement: Placement | null
}

export function makeDrafts({ db, sql, objects }: { db: Db; sql: Sql; objects: ObjectStore }) {
  /**
   * Code is fixed when a run is requested: the pins of the published version. A draft run, or a run of a pipeline that was never
   * published, pins the newest versions of the draft's files. Throws 409 if a run of the draft into main would archive files that
   * a published pipeline archives.
   */
  async function runnable(ref: PipelineRef, isDraft = false, isIntoMain = false): Promise<Runnable> {
    const found = await publishedPipeline(sql, ref)
    if (found === null) throw noPipeline(ref)
    const { pipelineId, type: pipelineType, versionNumber, pins, landingZones, placement } = found
    if (!isDraft && pins !== null && landingZones !== null)
      return { pipelineId, pipelineType, versionNumber, pins, landingZones, placement }
    const listed = await draftObjects(objects, ref)
    const code = await readCode(objects, ref, listed)
    if (isIntoMain)
      await refuseSharedArchiving(db, objects, { ref, pipelineId, type: pipelineType, code }, [])
    return {
      pipelineId,
      pipelineType,
      versionNumber: null,
      pins: pinsOf(listed),
      landingZones: landingZonesOf(code, pipelineType, ref),
      placement: placementOf(code, pipelineType),
    }
  }

  /** The draft's source, configuration and tests, and the pins of the last publish. */
  async function draft(ref: PipelineRef) {
    const found = await publishedPipeline(sql, ref)
    if (found === null) throw noPipeline(ref)
    const code = await readCode(objects, ref, await draftObjects(objects, ref))
    return { code, published: found.pins ?? {} }
  }

  /** The code of the published version, if that version has quality tests; otherwise no files. */
  async function publishedTested(ref: PipelineRef): Promise<DraftFile[]> {
    const pins = (await publishedPipeline(sql, ref))?.pins ?? {}
    const prefix = prefixOf(ref)
    const isTested = Object.keys(pins).some((key) => testNameOf(key.slice(prefix.length)) !== undefined)
    return isTested ? readPinnedCode(objects, ref, pins) : []
  }

  /** Marks the draft as changed by a person after a file was written. Does nothing if the pipeline does not exist. */
  async function fileWritten(ref: PipelineRef, cause: string, by: string | null = null) {
    await db.transaction(async (tx) => {
      const pipeline = await lockPipeline(tx, ref)
      if (pipeline !== null) await moveDraft(tx, pipeline, written(pipeline, { cause, by }))
    })
  }

  /** Changes a draft's files under the lock of the pipeline, so changes that depend on the current files do not race. */
  async function changeDraft<T>(ref: PipelineRef, why: Writing, change: () => Promise<T>): Promise<T> {
    return db.transaction(async (tx) => {
      const pipeline = await lockPipeline(tx, ref)
      if (pipeline === null) throw noPipeline(ref)
      const changed = await change()
      await moveDraft(tx, pipeline, written(pipeline, why))
      return changed
    })
  }

  return { runnable, draft, publishedTested, fileWritten, changeDraft }
}
