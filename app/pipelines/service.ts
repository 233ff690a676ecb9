import type { Db, Sql } from '../../drizzle/client.ts'
import type { LandingZoneNames, PinnedFiles } from '../../drizzle/schema/index.ts'
import { handOver, zonesSeen } from '../access/service.ts'
import { type Access, EVERYTHING, UNLIMITED, type Visible } from '../core/access.ts'
import { alreadyExists } from '../core/errors.ts'
import type { NewId, PipelineId } from '../core/ids.ts'
import type { Log } from '../core/log.ts'
import { type Page, pageOf, sortOf } from '../core/pagination.ts'
import { noPipeline, type PipelineRef, prefixOf } from '../core/pipeline-ref.ts'
import type { IdempotencyKey } from '../http/idempotency.ts'
import type { ObjectStore } from '../objects/port.ts'
import { forgetOthers } from '../triggers/service.ts'
import {
  type DeletionDeps,
  finishDeletion,
  markDeleted,
  type PipelineDeleted,
  removeLeftFiles,
} from './deletion.ts'
import { firstDraft, lockPipeline, moveDraft } from './draft.ts'
import { draftObjects, pinsOf, readCode } from './draft-files.ts'
import { type PublishDeps, publish } from './publish.ts'
import { landingZonesOf } from './references.ts'
import type { CreatePipeline, PipelineQuery, RollbackPipeline, UpdatePipeline } from './schema.ts'
import { readerOf, type Source, sourceOf, starterFiles, uniqueKeyOf } from './starter.ts'
import {
  changePipeline,
  insertPipeline,
  livePipeline,
  livePipelines,
  type PipelineType,
  type PipelineWithLastRun,
  publishedPipeline,
  type VersionRow,
  versionsOf,
} from './store.ts'
import { existingVersion, rollback, versionNumber } from './versions.ts'

export interface PipelineDeps extends PublishDeps, DeletionDeps {
  db: Db
  sql: Sql
  objects: ObjectStore
  newId: NewId
  log: Log
  /** 400 naming `namespace` when it does not exist. */
  requireNamespace(name: string): Promise<void>
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

export type PipelineService = ReturnType<typeof makePipelineService>

export function makePipelineService(deps: PipelineDeps) {
  const { db, sql, objects, newId, log, requireNamespace } = deps

  async function existing(ref: PipelineRef) {
    const pipeline = await livePipeline(db, ref)
    if (pipeline === null) throw noPipeline(ref)
    return pipeline
  }

  /**
   * The row first, so that of two creations one waits for the other and is refused before it writes a file; it becomes
   * visible only when the files are there. A crash in between leaves files without a pipeline, which the next creation
   * overwrites.
   */
  async function create(body: CreatePipeline, owner: string | null = null, visible: Visible = EVERYTHING) {
    const { namespace, layer, name, type = 'sql', description = '', max_versions: maxVersions } = body
    const ref = { namespace, layer, name }
    await requireNamespace(namespace)
    const source = await chosenSource(body, visible)
    const files = Object.entries(
      starterFiles({ type, description, source, uniqueKey: uniqueKeyOf(body.unique_key) }),
    )
    const prefix = prefixOf(ref)
    await db.transaction(async (tx) => {
      const pipeline = { id: newId(), ...ref, type, owner, description, maxVersions, ...firstDraft() }
      if (!(await insertPipeline(tx, pipeline))) throw alreadyExists(`pipeline ${namespace}.${layer}.${name}`)
      await removeLeftFiles(tx, objects, prefix)
      await putAll(objects, prefix, files)
      if (owner !== null) await forgetOthers(tx, `pipeline:${namespace}.${layer}.${name}`, owner)
    })
    const { last_run: _, ...created } = shapeOf(await existing(ref))
    return { ...created, files_created: files.map(([file]) => prefix + file) }
  }

  async function chosenSource({ source = '', ...ref }: CreatePipeline, visible: Visible): Promise<Source> {
    if (source === '') return { kind: 'none' }
    const chosen = sourceOf(source, ref)
    if ('table' in chosen) return { kind: 'table', ref: chosen.table }
    // Landing files are named by their time, so what comes first is a file of the zone, not one of its sub-folders.
    const isSeen = (await zonesSeen(sql, [`${ref.namespace}.${chosen.zone}`], visible)).length > 0
    const { objects: landed } = isSeen
      ? await objects.list(`${ref.namespace}/landing/${chosen.zone}/`, { limit: 1 })
      : { objects: [] }
    return { kind: 'zone', zone: chosen.zone, reader: readerOf(landed[0]?.key) }
  }

  /** `by` decides whether the owner may be changed; who was it keeps nothing that came with it. */
  async function update(ref: PipelineRef, body: UpdatePipeline, by: Access = UNLIMITED) {
    const { max_versions: maxVersions, ...rest } = body
    const change = maxVersions === undefined ? rest : { ...rest, maxVersions }
    if (Object.keys(change).length === 0) return shapeOf(await existing(ref))
    await db.transaction(async (tx) => {
      const before = change.owner === undefined ? null : await lockPipeline(tx, ref)
      if (before !== null && change.owner !== undefined)
        await handOver(tx, { type: 'pipeline', id: before.id, owner: before.owner }, change.owner, by)
      if (!(await changePipeline(tx, ref, change))) throw noPipeline(ref)
    })
    return shapeOf(await existing(ref))
  }

  async function remove(ref: PipelineRef) {
    const deleted = await markDeleted(db, ref)
    try {
      await finishDeletion(deps, deleted)
    } catch (error) {
      log.warn('the files of a deleted pipeline are still to be removed', { prefix: deleted.prefix, error })
    }
  }

  /** As far as the caller sees them. */
  async function list(query: PipelineQuery, visible = EVERYTHING) {
    const page = pageOf(query)
    const filter = { ...query, seen: visible.pipelines }
    const { items, total } = await livePipelines(db, filter, sortOf(query, 'created_at'), page)
    return { pipelines: items.map(listShapeOf), total, page }
  }

  async function versions(ref: PipelineRef, page: Page) {
    const { items, total } = await versionsOf(db, (await existing(ref)).id, page)
    return { versions: items.map(versionShapeOf), total }
  }

  async function version(ref: PipelineRef, number: string) {
    const wanted = versionNumber(number)
    return versionShapeOf(await existingVersion(db, (await existing(ref)).id, wanted))
  }

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

  return {
    list,
    create,
    get: async (ref: PipelineRef) => shapeOf(await existing(ref)),
    update,
    remove,
    publish: (
      ref: PipelineRef,
      message = '',
      key: IdempotencyKey | null = null,
      visible: Visible = EVERYTHING,
      by: Access = UNLIMITED,
    ) => publish(deps, ref, message, key, visible, by),
    versions,
    version,
    rollback: (ref: PipelineRef, request: RollbackPipeline) => rollback(deps, ref, request),
    runnable,
    draft,
    fileWritten,
    changeDraft,
    /** The effect `pipelineDeleted`: clears up after a deletion that could not do so itself. */
    finishDeletion: (payload: PipelineDeleted) => finishDeletion(deps, payload),
  }
}

/** All of them, or none of those versions. */
async function putAll(objects: ObjectStore, prefix: string, files: [name: string, text: string][]) {
  const written: { key: string; versionId: string }[] = []
  try {
    for (const [name, text] of files) {
      const key = prefix + name
      const { versionId } = await objects.put(key, new TextEncoder().encode(text))
      written.push({ key, versionId })
    }
  } catch (error) {
    await Promise.allSettled(written.map(({ key, versionId }) => objects.deleteVersion(key, versionId)))
    throw error
  }
}

const listShapeOf = (pipeline: PipelineWithLastRun) => ({
  id: pipeline.id,
  namespace: pipeline.namespace,
  layer: pipeline.layer,
  name: pipeline.name,
  type: pipeline.type,
  owner: pipeline.owner,
  description: pipeline.description,
  draft_dirty: pipeline.draftDirty,
  published_version: pipeline.publishedVersion,
  published_at: pipeline.publishedAt?.toISOString() ?? null,
  max_versions: pipeline.maxVersions,
  created_at: pipeline.createdAt.toISOString(),
  updated_at: pipeline.updatedAt.toISOString(),
  last_run: pipeline.lastRun && {
    run_id: pipeline.lastRun.id,
    status: pipeline.lastRun.status,
    finished_at: pipeline.lastRun.finishedAt?.toISOString() ?? null,
  },
})

const shapeOf = (pipeline: PipelineWithLastRun) => ({
  ...listShapeOf(pipeline),
  s3_path: prefixOf(pipeline),
})

const versionShapeOf = (version: VersionRow) => ({
  id: version.id,
  pipeline_id: version.pipelineId,
  version_number: version.versionNumber,
  message: version.message,
  published_versions: version.publishedVersions,
  created_at: version.createdAt.toISOString(),
})
