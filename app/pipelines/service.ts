import { handOver } from '../access/service.ts'
import { type Access, EVERYTHING, UNLIMITED, type Visible } from '../core/access.ts'
import type { Log } from '../core/log.ts'
import { type Page, pageOf, sortOf } from '../core/pagination.ts'
import { noPipeline, type PipelineRef, prefixOf } from '../core/pipeline-ref.ts'
import type { IdempotencyKey } from '../http/idempotency.ts'
import { type CreationDeps, makeCreation } from './creation.ts'
import { type DeletionDeps, finishDeletion, markDeleted, type PipelineDeleted } from './deletion.ts'
import { makeDrafts } from './draft.ts'
import { type PublishDeps, type PublishRequest, preparePublish, publish } from './publish.ts'
import type { CreatePipeline, PipelineQuery, RollbackPipeline, UpdatePipeline } from './schema.ts'
import {
  changePipeline,
  livePipeline,
  livePipelines,
  lockPipeline,
  type PipelineWithLastRun,
} from './store/pipelines.ts'
import { type VersionRow, versionsOf } from './store/versions.ts'
import { uniqueKeyOf } from './unique-key.ts'
import { existingVersion, type RollbackDeps, type RolledBackBy, rollback, versionNumber } from './versions.ts'

export interface PipelineDeps extends PublishDeps, DeletionDeps, CreationDeps, RollbackDeps {
  log: Log
}

export type PipelineService = ReturnType<typeof makePipelineService>

export function makePipelineService(deps: PipelineDeps) {
  const { db, log } = deps
  const createPipeline = makeCreation(deps)

  async function existing(ref: PipelineRef) {
    const pipeline = await livePipeline(db, ref)
    if (pipeline === null) throw noPipeline(ref)
    return pipeline
  }

  async function create(
    body: CreatePipeline,
    owner: string | null = null,
    visible: Visible = EVERYTHING,
    by: string | null = null,
  ) {
    const files = await createPipeline(body, owner, visible, by)
    const { last_run: _, ...created } = pipelineOf(await existing(body))
    return { ...created, files_created: files }
  }

  /** `by` decides whether the caller may change the owner. A previous owner loses the rights of ownership. */
  async function update(ref: PipelineRef, body: UpdatePipeline, by: Access = UNLIMITED) {
    const { max_versions: maxVersions, ...sameNames } = body
    const change = maxVersions === undefined ? sameNames : { ...sameNames, maxVersions }
    if (Object.keys(change).length === 0) return pipelineOf(await existing(ref))
    await db.transaction(async (tx) => {
      const before = change.owner === undefined ? null : await lockPipeline(tx, ref)
      if (before !== null && change.owner !== undefined)
        await handOver(tx, { type: 'pipeline', id: before.id, owner: before.owner }, change.owner, by)
      if (!(await changePipeline(tx, ref, change))) throw noPipeline(ref)
    })
    return pipelineOf(await existing(ref))
  }

  async function remove(ref: PipelineRef, person: string | null = null) {
    const deleted = await markDeleted(deps, ref, person)
    try {
      await finishDeletion(deps, deleted)
    } catch (error) {
      log.warn('removal of deleted pipeline files failed: retrying in the background', {
        prefix: deleted.prefix,
        error,
      })
    }
  }

  /** Lists the pipelines that the caller may see. */
  async function list(query: PipelineQuery, visible = EVERYTHING) {
    const page = pageOf(query)
    const filter = { ...query, visible: visible.pipelines }
    const { items, total } = await livePipelines(db, filter, sortOf(query, 'created_at'), page)
    return { pipelines: items.map(listedPipelineOf), total, page }
  }

  async function versions(ref: PipelineRef, page: Page) {
    const { items, total } = await versionsOf(db, (await existing(ref)).id, page)
    return { versions: items.map(versionBodyOf), total }
  }

  async function version(ref: PipelineRef, number: string) {
    const wantedNumber = versionNumber(number)
    return versionBodyOf(await existingVersion(db, (await existing(ref)).id, wantedNumber))
  }

  return {
    list,
    create,
    get: async (ref: PipelineRef) => pipelineOf(await existing(ref)),
    update,
    remove,
    publish: (
      ref: PipelineRef,
      message = '',
      key: IdempotencyKey | null = null,
      visible: Visible = EVERYTHING,
      by: Access = UNLIMITED,
    ) => publish(deps, ref, message, key, visible, by),
    /** Validates a publish that commits together with other changes. */
    preparePublish: (ref: PipelineRef, request: PublishRequest) => preparePublish(deps, ref, request),
    versions,
    version,
    uniqueKeyOf: (ref: PipelineRef) => uniqueKeyOf(deps, ref),
    rollback: (
      ref: PipelineRef,
      request: RollbackPipeline,
      author: string | null = null,
      by?: RolledBackBy,
    ) => rollback(deps, ref, request, author, by),
    ...makeDrafts(deps),
    /** Performs the effect `pipelineDeleted`: finishes a deletion whose request was interrupted. */
    finishDeletion: (payload: PipelineDeleted) => finishDeletion(deps, payload),
  }
}

const listedPipelineOf = (pipeline: PipelineWithLastRun) => ({
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
  tags: pipeline.tags,
  last_run: pipeline.lastRun && {
    run_id: pipeline.lastRun.id,
    status: pipeline.lastRun.status,
    finished_at: pipeline.lastRun.finishedAt?.toISOString() ?? null,
  },
})

const pipelineOf = (pipeline: PipelineWithLastRun) => ({
  ...listedPipelineOf(pipeline),
  s3_path: prefixOf(pipeline),
})

const versionBodyOf = (version: VersionRow) => ({
  id: version.id,
  pipeline_id: version.pipelineId,
  version_number: version.versionNumber,
  message: version.message,
  published_versions: version.publishedVersions,
  created_at: version.createdAt.toISOString(),
})
