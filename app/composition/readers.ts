import type { Reader } from '../access/code-visibility.ts'
import type { Tokens } from '../attempt-access/tokens.ts'
import { makeDiffService } from '../diff/service.ts'
import { makeTableDiffs } from '../diff/table-diff.ts'
import { makeDetection } from '../landing-zones/detection.ts'
import { makePreviewService } from '../pipelines/preview.ts'
import { makeGate } from '../quality-tests/gate.ts'
import { makeQualityTestService } from '../quality-tests/service.ts'
import { makeEngineRows } from '../query/engine-rows.ts'
import { makeQueryService, type QueryService } from '../query/service.ts'
import { makeTableService } from '../tables/service.ts'
import type { LakeFiles } from '../tables/table-files.ts'
import type { RestoreDeps } from '../versions/restores.ts'
import { type View, viewOf } from '../versions/views.ts'
import type { ServiceParts } from './parts.ts'
import type { PipelineServices } from './pipelines.ts'
import type { Sidecars } from './sidecars.ts'

/** Lifetime of a token that reads main; longer than any preview or test that uses the token. */
const READ_TOKEN_MS = 120_000

/** The view that a runner reads: main or a branch, and landing files of a namespace. A null reader sees everything. */
interface ReadLake {
  branch?: string
  landing?: string
  reader: Reader | null
}

/** Services that read data through an engine. */
export function makeReaders(
  { config, database: { db, sql }, objects, metrics, clock, newId }: ServiceParts,
  {
    sidecars,
    tokens,
    lake,
    pipelines,
  }: {
    sidecars: Sidecars
    tokens: Tokens
    lake: LakeFiles
    pipelines: PipelineServices['pipelines']
  },
) {
  const { answerBytesMax, metadataStore, publicUrl, lakeRoot } = config
  const engineRows = makeEngineRows()
  /**
   * Addresses and a token to read main or a branch. `landing` is the namespace of a preview, whose landing files the token also
   * opens.
   */
  const readLake = async ({ branch: name, landing, reader }: ReadLake) =>
    accessTo(await viewOf(sql, { branch: name }), { landing, reader })

  function accessTo({ commit, branch }: View, { landing, reader }: Pick<ReadLake, 'landing' | 'reader'>) {
    const expiresAt = new Date(clock.now().getTime() + READ_TOKEN_MS)
    return {
      catalogUrl: `${publicUrl}/catalog`,
      objectsUrl: `${publicUrl}/lake/objects`,
      warehouse: 'sluice',
      catalogId: tokens.catalogId,
      lakeRoot,
      token: tokens.read({
        commit,
        branch: branch ?? undefined,
        expiresAt,
        landing,
        reader: reader ?? undefined,
      }),
    }
  }
  const queries = makeQueryService({
    sql,
    tokens,
    clock,
    newId,
    publicUrl,
    services: sidecars.queries,
    answerBytesMax,
    metrics,
    engineRows,
  })
  const previews = makePreviewService({
    db,
    objects,
    runners: sidecars.previews,
    readLake,
    answerBytesMax,
    engineRows,
  })
  return {
    queries,
    previews,
    detection: makeDetection({ db, objects, previewZone: previews.previewZone }),
    tables: makeTableService({ sql, objects, lake, queries, metadataStore }),
    tests: makeQualityTestService({
      objects,
      pipelines,
      runQualityTests: sidecars.runner.runQualityTests,
      readLake,
    }),
    gate: makeGate({
      pipelines,
      runQualityTests: sidecars.runner.runQualityTests,
      readMerged: async (view, { reader }) => accessTo(view, { reader }),
    }),
  }
}

/** Compares states of the lake. */
export const makeDiffs = (
  { database: { sql }, clock }: ServiceParts,
  {
    lake,
    queries,
    pipelines,
  }: {
    lake: Pick<RestoreDeps, 'files' | 'reader'>
    queries: QueryService
    pipelines: PipelineServices['pipelines']
  },
) =>
  makeDiffService({
    sql,
    queries,
    tableDiffs: makeTableDiffs({ ...lake, queries, clock }),
    uniqueKeyOf: (table) => pipelines.uniqueKeyOf(table),
  })
