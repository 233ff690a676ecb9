import type { Db, Sql, Tx } from '../../drizzle/client.ts'
import { parseTableName } from '../../lake/pipeline/names.ts'
import type { Restores } from '../catalog/restores.ts'
import { commitAsOf } from '../catalog/views.ts'
import { failedPrecondition, invalid, notFound } from '../core/errors.ts'
import type { NewId } from '../core/ids.ts'
import { noPipeline, type PipelineRef } from '../core/pipeline-ref.ts'
import { moveDraft } from './draft.ts'
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
  /** Restores the pipeline's table in one transaction with other work. */
  restore: Restores['restore']
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
): Promise<RolledBack> {
  const code = (tx: Tx) => addOldVersion(tx, deps.newId, ref, { version, message })
  const rolledBack = { status: 'rolled_back' as const, from_version: version, message }
  if (!data) return { ...rolledBack, new_version: await deps.db.transaction(code) }
  const from = await commitAsOf(deps.sql, await commitLeftBy(deps.db, ref, version))
  const { commit, result } = await deps.restore({ table: tableOf(ref), commit: from, author }, code)
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
  newId: NewId,
  ref: PipelineRef,
  { version, message }: { version: number; message: string },
): Promise<number> {
  const pipeline = await lockPipeline(tx, ref)
  if (pipeline === null) throw noPipeline(ref)
  const target = await existingVersion(tx, pipeline.id, version)
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
    event: { type: 'rolledBack' },
    cause: `rolled back to v${version}`,
    also: publishedColumns(number, target.tags),
  })
  return number
}

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
