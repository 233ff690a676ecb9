import type { MessageInitShape } from '@bufbuild/protobuf'
import type { Db, Sql, Tx } from '../../drizzle/client.ts'
import type { PinnedFiles } from '../../drizzle/schema/pipeline.ts'
import { tableKey } from '../../ground/names.ts'
import type {
  ValidatePipelineRequestSchema,
  ValidatePipelineResponse,
} from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import { visibleTables, visibleZones } from '../access/service.ts'
import { type Access, EVERYTHING, seesEverything, UNLIMITED, type Visible } from '../core/access.ts'
import { failedPrecondition, forbidden } from '../core/errors.ts'
import type { NewId } from '../core/ids.ts'
import { noPipeline, type PipelineRef, prefixOf } from '../core/pipeline-ref.ts'
import { answerOnceTyped, type IdempotencyKey } from '../http/idempotency.ts'
import type { ObjectStore } from '../objects/port.ts'
import { isReplaceable, reviewOf, strictest } from '../protection/rule.ts'
import { currentColumns } from '../versions/views.ts'
import { claimArchiving } from './archiving.ts'
import { moveDraft } from './draft.ts'
import {
  type DraftFile,
  draftObjects,
  isDraft,
  pinsOf,
  readCode,
  readPinnedCode,
  sourceFileOf,
} from './draft-files.ts'
import { configOf, placementOf } from './placement.ts'
import {
  existing,
  landingZonesOf,
  type Named,
  namedInTurns,
  tableNamed,
  tablesCalled,
  WORDS_MAX,
  wordsIn,
} from './references.ts'
import type { Published, PublishRefused } from './schema.ts'
import { livePipeline, lockPipeline, type PipelineRow } from './store/pipelines.ts'
import { addVersion, publishedColumns } from './store/versions.ts'
import { nextVersion, publishedReview } from './versions.ts'

export interface PublishDeps {
  db: Db
  sql: Sql
  objects: ObjectStore
  newId: NewId
  /**
   * Null if no runner is available; the draft is then published without validation (specification: Publish). Resources outside
   * `visible` count as missing.
   */
  validate(
    request: MessageInitShape<typeof ValidatePipelineRequestSchema>,
    visible?: Visible,
  ): Promise<ValidatePipelineResponse | null>
}

type PublishOutcome = { kind: 'published'; body: Published } | { kind: 'refused'; body: PublishRefused }

/**
 * Makes the current versions of the draft's files the published version. Listing and validation happen before the transaction.
 * The transaction pins exactly the listed and validated versions, even if files were written since. A repeated request with the
 * same key returns the version of the first request; a refusal is not stored. For warnings, resources outside `visible` count
 * as missing.
 */
export async function publish(
  deps: PublishDeps,
  ref: PipelineRef,
  message: string,
  key: IdempotencyKey | null = null,
  visible = EVERYTHING,
  by: Access = UNLIMITED,
): Promise<PublishOutcome> {
  const { db } = deps
  if (key === null) {
    const ready = await preparePublish(deps, ref, { message, visible, by })
    return 'kind' in ready
      ? ready
      : db.transaction(async (tx) => ({ kind: 'published', body: await ready.perform(tx) }))
  }
  let refusal: PublishOutcome | undefined
  const outcome = await answerOnceTyped(db, key, {
    prepare: () => preparePublish(deps, ref, { message, visible, by }),
    async perform(tx, ready) {
      if (!('kind' in ready)) return { status: 200, body: await ready.perform(tx) }
      refusal = ready
      return null
    },
  })
  if (outcome !== null) return { kind: 'published', body: outcome.answer.body }
  if (refusal === undefined) throw new Error('publish ended without an outcome')
  return refusal
}

type Refused = Extract<PublishOutcome, { kind: 'refused' }>

export interface PublishRequest {
  message: string
  visible: Visible
  by: Access
  /** The files that a run of the draft executed; absent: the present files of the draft. */
  pins?: PinnedFiles
}

/** A validated publish. `perform` stores it in a transaction. */
export interface PreparedPublish {
  code: DraftFile[]
  perform(tx: Tx): Promise<Published>
}

/** Lists and validates the files. Holds no database connection meanwhile. */
export async function preparePublish(
  { db, sql, objects, newId, validate }: PublishDeps,
  ref: PipelineRef,
  { message, visible, by, pins: executed }: PublishRequest,
): Promise<Refused | PreparedPublish> {
  const draft = await livePipeline(db, ref)
  if (draft === null) throw noPipeline(ref)
  // Files are listed after the revision was read. So a write in between leaves the draft dirty, never wrongly clean.
  const listed = await draftObjects(objects, ref)
  const pins = executed ?? pinsOf(listed)
  const isPresent = executed === undefined || (await isDraft(objects, ref, executed))
  const code =
    executed === undefined
      ? await readCode(objects, ref, listed)
      : await readPinnedCode(objects, ref, executed)
  const source = `${prefixOf(ref)}${sourceFileOf(draft.type)}`
  if (!(source in pins)) return refused([missing(source, draft.type)])

  const config = configOf(code, draft.type)
  const references = await namedInTurns(code, ref)
  const called = await tablesCalled(db, ref, wordsIn(code), WORDS_MAX)
  const existingNames = await existing(
    db,
    await seenAmong(sql, { ...references, tables: [...new Set([...references.tables, ...called])] }, visible),
  )
  const request = {
    namespace: ref.namespace,
    layer: ref.layer,
    pipelineName: ref.name,
    type: draft.type,
    files: code.map(({ name, text }) => ({ path: name, content: text })),
    knownTables: existingNames.tables,
    knownZones: existingNames.zones,
    // Only a view is bound to the columns of its tables.
    ...(config.materialized === 'view' && {
      knownSchemas: { tables: await currentColumns(sql, existingNames.tables) },
    }),
  }
  const validation = await validate(request, visible)
  const files =
    validation?.files.map(({ path, valid, errors, warnings }) => ({
      path: prefixOf(ref) + path,
      valid,
      errors,
      warnings,
    })) ?? null
  if (files !== null && validation?.valid === false) return refused(files)

  const tags = [...config.tags]
  const review = reviewOf(config)
  const before = await publishedReview({ db, objects }, ref, draft)
  const perform = async (tx: Tx): Promise<Published> => {
    await claimArchiving(
      tx,
      objects,
      { ref, pipelineId: draft.id, type: draft.type, code },
      visible.pipelines,
    )
    const pipeline = await lockPipeline(tx, ref)
    // Another pipeline may have this name now; the listed files do not belong to it.
    if (pipeline === null || pipeline.id !== draft.id) throw noPipeline(ref)
    if (executed !== undefined && pipeline.publishedVersion !== draft.publishedVersion)
      throw failedPrecondition(
        `version ${pipeline.publishedVersion} of pipeline ${tableKey(pipeline)} was published meanwhile: run the draft on the branch again`,
      )
    const decision = { authors: pipeline.draftAuthors, by: by.person }
    // Another version may have been published since the files were listed.
    if (!isReplaceable(strictest([before, pipeline.review]), review, decision))
      throw forbidden(
        `version ${pipeline.publishedVersion} of ${pipeline.namespace}.${pipeline.layer}.${pipeline.name} demands reviewers: four-eyes, and the draft demands less: a user who did not change the draft must publish it`,
      )
    const number = nextVersion(pipeline)
    await addVersion(
      tx,
      {
        id: newId(),
        pipelineId: pipeline.id,
        versionNumber: number,
        message,
        pipelineType: draft.type,
        publishedVersions: pins,
        landingZones: landingZonesOf(code, draft.type, ref),
        placement: placementOf(code, draft.type),
        tags,
      },
      pipeline.maxVersions,
    )
    await moveDraft(tx, pipeline, {
      // An earlier revision leaves the draft dirty.
      event: { type: 'published', revision: draft.draftRevision - (isPresent ? 0 : 1) },
      cause: `published v${number}`,
      // An owner who publishes vouches for the pipeline's behaviour. This needs ownership both when the files were listed and
      // now.
      also: {
        ...publishedColumns(number, { tags, review }),
        ...(isPresent && pipeline.draftRevision === draft.draftRevision && { draftAuthors: [] }),
        ...(isVouchedBy(by, draft) && isVouchedBy(by, pipeline) ? vouched(pipeline, number) : {}),
      },
    })
    return {
      status: 'published',
      version: number,
      message,
      versions: pins,
      validation: files && { valid: true, files },
    }
  }
  return { code, perform }
}

/** Vouching covers only this version and later ones. Runs of earlier versions may still start. */
const vouched = ({ handedBy, handedBefore }: PipelineRow, number: number) =>
  handedBy.length === 0
    ? {}
    : { handedBy: [], handedBefore: [...new Set([...handedBefore, ...handedBy])], vouchedVersion: number }

const isVouchedBy = (by: Access, { owner }: { owner: string | null }) =>
  by.isAdmin || (owner !== null && owner === by.owner)

async function seenAmong(sql: Sql, named: Named, visible: Visible): Promise<Named> {
  if (seesEverything(visible)) return named
  const tables = named.tables.map(tableNamed)
  return {
    tables: (await visibleTables(sql, tables, visible)).map(tableKey),
    zones: await visibleZones(sql, named.zones, visible),
  }
}

const missing = (path: string, type: string) => ({
  path,
  valid: false,
  errors: [`${sourceFileOf(type)} is missing: a pipeline of type ${type} requires this file`],
  warnings: [],
})

function refused(files: PublishRefused['validation']['files']): Refused {
  const problems = files.flatMap(({ path, errors }) => errors.map((error) => `${path}: ${error}`))
  const [first = 'the draft is not valid'] = problems
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : ''
  return {
    kind: 'refused',
    body: { error: `validation failed: ${first}${more}`, validation: { valid: false, files } },
  }
}
