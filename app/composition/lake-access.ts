import { seesAll } from '../access/code-visibility.ts'
import type { Tokens } from '../attempt-access/tokens.ts'
import { makeWorkFiles } from '../attempt-access/work-files.ts'
import type { MergeService } from '../branches/merges.ts'
import { mergerOf } from '../branches/routes.ts'
import { sharerOf } from '../core/shares.ts'
import { exchangeOf, visibleTo } from '../http/exchange.ts'
import { makeMayUse, makeVending } from '../iceberg/vending.ts'
import type { ColumnsOfQuery } from '../iceberg/view-binding.ts'
import { refuseComputedArchiving } from '../pipelines/archiving.ts'
import type { QueryService } from '../query/service.ts'
import { makeCredentials, REGION } from '../s3/credentials.ts'
import { makeS3Service } from '../s3/service.ts'
import type { MetadataFiles } from '../versions/metadata-files.ts'
import { tableIn } from '../versions/views.ts'
import { makeCatalog } from './catalog.ts'
import type { Edition } from './edition.ts'
import type { ServiceParts } from './parts.ts'
import type { PipelineServices } from './pipelines.ts'

/** The catalog, credentials for lake files, and the S3 endpoint that accepts them. */
export function makeLakeAccess(
  { config, database: { db, sql }, objects, clock, newId, log }: ServiceParts,
  {
    tokenKey,
    tokens,
    files,
    edition: { ownership, codeVisibility },
    services: { namespaces },
    merges,
    queries,
  }: {
    tokenKey: string
    tokens: Tokens
    files: MetadataFiles
    edition: Pick<Edition, 'ownership' | 'codeVisibility'>
    services: PipelineServices
    merges: MergeService
    queries: QueryService
  },
) {
  const { lakeRoot, shownUrl, icebergMainWrites: writesMain } = config
  const credentials = makeCredentials(tokenKey, clock)
  const s3 = makeS3Service({
    config,
    sql,
    objects,
    bucket: new URL(lakeRoot).host,
    credentials,
    works: makeWorkFiles({ sql, objects, codeVisibility: codeVisibility ?? seesAll }),
    maySee: async ({ table, view }, access) =>
      (await tableIn(sql, view, table, await access.visible())) !== null,
    mayUse: makeMayUse(sql),
    mayWrite: async ({ table }, access) => {
      const resource = await ownership?.resources.table(table)
      return !!resource && access.may(resource, 'write')
    },
    takesFiles: ({ table }) => namespaces.takesFiles(table.namespace),
    clock,
    newId,
    log,
  })
  const catalog = makeCatalog({
    sql,
    objects,
    files,
    tokens,
    lakeRoot,
    vending: makeVending({ credentials, lakeRoot, region: REGION, writesMain, shownUrl }),
    clock,
    newId,
    log,
    codeVisibility,
    resources: ownership?.resources,
    namespaces,
    refuseArchiving: (files) => refuseComputedArchiving(db, objects, files),
    columnsOfQuery: config.queryUrls === null ? null : columnsWith(queries),
    mergeToMain: writesMain
      ? (branch, message, request, within) => merges.merge(branch, { message }, mergerOf(request), within)
      : null,
  })
  return { s3, catalog }
}

/** Views of engines bind as a query of their caller would. */
export const columnsWith =
  (queries: Pick<QueryService, 'run'>): ColumnsOfQuery =>
  async (sql, { namespace, branch }, request) => {
    const query = { sql, namespace, ...(branch !== null && { branch }) }
    const sharer = sharerOf(exchangeOf(request).access)
    return (await queries.run(query, request.signal, await visibleTo(request), sharer)).columns
  }
