import type { Db, Queryable, Sql, Tx } from '../../drizzle/client.ts'
import type { Review } from '../../drizzle/schema/namespace.ts'
import { parseTableName } from '../../lake/pipeline/names.ts'
import { EVERYTHING, type Visible } from '../core/access.ts'
import { failedPrecondition, forbidden, invalid, notFound } from '../core/errors.ts'
import type { NewId } from '../core/ids.ts'
import { noPipeline, type PipelineRef } from '../core/pipeline-ref.ts'
import type { ObjectStore } from '../objects/port.ts'
import { isReplaceable, reviewOf } from '../protection/rule.ts'
import type { Restores } from '../versions/restores.ts'
import { commitAsOf } from '../versions/views.ts'
import { claimArchiving } from './archiving.ts'
import { moveDraft } from './draft.ts'
import { isDraft, readPinnedCode } from './draft-files.ts'
import { configOf } from './placement.ts'
import type { RollbackPipeline, RolledBack } from './schema.ts'
import { livePipeline, lockPipeline, type PipelineRow } from './store/pipelines.ts'
import {
  addVersion,
  commitOfSuccess,
  publishedColumns,
  type VersionRow,
  versionOf,
} from './store/versions.ts'

/**
 * Versions are 1..n despite concurrent requests. The number is chosen under the pipeline's lock, and the published version is
 * always the greatest.
 */
export const nextVersion = ({ publishedVersion }: PipelineRow) => (publishedVersion ?? 0) + 1

export interface RollbackDeps {
  db: Db
  sql: Sql
  newId: NewId
  objects: ObjectStore
  /** Restores the pipeline's table in one transaction with other work. */
  restore: Restores['restore']
}

/** The caller of a rollback. */
export interface RolledBackBy {
  person: string | null
  /** The pipelines that an error may name. */
  visible?: Visible['pipelines']
}

/**
 * A rollback adds a version instead of moving a pointer, so history stays append-only (specification: Pipeline draft and
 * publish). With `data`, the table goes back in the same transaction.
 */
export async function rollback(
  deps: RollbackDeps,
  ref: PipelineRef,
  { version, message = `Rollback to v${version}`, data = false }: RollbackPipeline,
  author: string | null = null,
  { person, visible = EVERYTHING.pipelines }: RolledBackBy = { person: null },
): Promise<RolledBack> {
  const code = (tx: Tx) => addOldVersion(tx, deps, ref, { version, message, person, visible })
  const rolledBack = { status: 'rolled_back' as const, from_version: version, message }
  if (!data) return { ...rolledBack, new_version: await deps.db.transaction(code) }
  const from = await commitAsOf(deps.sql, await commitLeftBy(deps.db, ref, version))
  const { commit, result } = await deps.restore({ table: tableOf(ref), commit: from, author, person }, code)
  return { ...rolledBack, new_version: result, commit }
}

/** The commit of main after the latest success of a version. Throws 409 when no such run is stored. */
async function commitLeftBy(db: Db, ref: PipelineRef, version: number): Promise<number> {
  const pipeline = await livePipeline(db, ref)
  if (pipeline === null) throw noPipeline(ref)
  await existingVersion(db, pipeline.id, version)
  const commit = await commitOfSuccess(db, pipeline.id, version)
  if (commit === null)
    throw failedPrecondition(`version ${version} has no successful run on main: roll back without data`)
  return commit
}

const tableOf = ({ namespace, layer, name }: PipelineRef) =>
  parseTableName(`${namespace}.${layer}.${name}`, namespace)

async function addOldVersion(
  tx: Tx,
  { newId, objects }: RollbackDeps,
  ref: PipelineRef,
  {
    version,
    message,
    person,
    visible,
  }: { version: number; message: string; person: string | null; visible: Visible['pipelines'] },
): Promise<number> {
  const found = await livePipeline(tx, ref)
  if (found === null) throw noPipeline(ref)
  const target = await existingVersion(tx, found.id, version)
  const code = await readPinnedCode(objects, ref, target.publishedVersions)
  const type = target.pipelineType
  await claimArchiving(tx, objects, { ref, pipelineId: found.id, type, code }, visible)
  const pipeline = await lockPipeline(tx, ref)
  if (pipeline === null || pipeline.id !== found.id) throw noPipeline(ref)
  const review = reviewOf(configOf(code, type))
  const before = await publishedReview({ db: tx, objects }, ref, pipeline)
  // The request alone makes this change, so its caller is its author.
  if (!isReplaceable(before, review, { authors: person === null ? [] : [person], by: person }))
    throw forbidden(
      `version ${pipeline.publishedVersion} demands reviewers: four-eyes, and version ${version} demands less: let another user publish its code as a draft`,
    )
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
      placement: target.placement,
      tags: target.tags,
    },
    pipeline.maxVersions,
  )
  await moveDraft(tx, pipeline, {
    event: { type: 'rolledBack', isDraft: await isDraft(objects, ref, target.publishedVersions) },
    cause: `rolled back to v${version}`,
    also: publishedColumns(number, { tags: target.tags, review }),
  })
  return number
}

/** The rule that the published version sets for its table. */
export async function publishedReview(
  { db, objects }: { db: Queryable; objects: ObjectStore },
  ref: PipelineRef,
  { id, review, publishedVersion }: PipelineRow,
): Promise<Review> {
  if (review !== null || publishedVersion === null) return review ?? 'none'
  // An older program published the version.
  const version = await versionOf(db, id, publishedVersion)
  return version === null ? 'none' : reviewIn(objects, ref, version)
}

const reviewIn = async (
  objects: ObjectStore,
  ref: PipelineRef,
  { publishedVersions, pipelineType }: VersionRow,
): Promise<Review> => reviewOf(configOf(await readPinnedCode(objects, ref, publishedVersions), pipelineType))

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
