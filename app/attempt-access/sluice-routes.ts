// Catalog routes that a runner or a query service calls once for a whole answer. Wire names are snake_case; landing files are
// the `LandingInput` of the runner's protocol.
import { create, toJson } from '@bufbuild/protobuf'
import { Elysia } from 'elysia'
import { LandingInputSchema } from '../../proto/gen/sluice/runner/v1/runner_pb.ts'
import type { Log } from '../core/log.ts'
import { badRequest, errorResponse, forbidden, noSuch } from '../iceberg/errors.ts'
import type { Vending } from '../iceberg/vending.ts'
import { type CatalogTable, catalogAt, changesOfBranch, changesSince } from '../versions/store/tables.ts'
import { type Access, commitNumber } from './access.ts'
import { frozenFiles, type LandingDeps, presentFiles } from './store/landing.ts'

type SluiceDeps = LandingDeps & {
  log: Log
  /** Null: issues no credentials. */
  vending: Vending | null
  refuseArchiving: RefuseArchiving
}

/** Throws if the run archives files of the zone, and another pipeline archives them too. Only for names that the code computes. */
export type RefuseArchiving = (files: {
  runId: string
  zone: string
  pattern: string | undefined
}) => Promise<void>

export const sluiceRoutes = ({ sql, objects, vending, refuseArchiving, log }: SluiceDeps, access: Access) =>
  new Elysia({ prefix: '/catalog/sluice/v1', detail: { hide: true } })
    .onError(({ error }) => errorResponse(error, log))

    /** Tables of main at a commit. With `since`, only the differences from main at that earlier commit. */
    .get('/commits/:commit/tables', async ({ request, params, query }) => {
      access.claimsOf(request)
      const commit = commitNumber('commit', params.commit)
      const since = query.since === undefined ? null : commitNumber('since', query.since)
      if (since !== null && since > commit)
        throw badRequest(`since: must be at most ${commit}, the commit of the path`)
      await access.checkCommit(request, commit)
      const { tables, dropped } =
        since === null
          ? { tables: await catalogAt(sql, commit), dropped: [] }
          : await changesSince(sql, { commit, since })
      return { commit, tables: tables.map(onWire), dropped }
    })

    /** The tables that a branch changed, which replace those of main at the base of the branch. */
    .get('/branches/:branch/tables', async ({ request, params: { branch } }) => {
      access.claimsOf(request)
      await access.checkBranch(request, branch)
      const changes = await changesOfBranch(sql, branch)
      if (changes === null) throw noSuch(`open branch ${branch}`)
      return { tables: changes.tables.map(onWire), dropped: changes.dropped }
    })

    /** Addresses and credentials for an engine that works with this token, as properties of an Iceberg catalog. */
    .post('/credentials', ({ request }) => {
      const claims = access.claimsOf(request)
      if (vending === null) throw forbidden('this service issues no credentials')
      return vending.issueForWork(request, claims)
    })

    /** The landing files of a zone that the attempt or the preview reads. */
    .get('/landing/:namespace/:zone', async ({ request, params, query }) => {
      const { namespace, zone } = params
      const named = { namespace, name: zone }
      const { attempt, zones, mayArchive } = await access.landingReader(request, namespace)
      if (attempt !== null)
        await refuseArchiving({ runId: attempt.runId, zone: `${namespace}.${zone}`, pattern: query.pattern })
      const files =
        attempt === null
          ? await presentFiles({ sql, objects }, named, zones)
          : await frozenFiles(sql, attempt, named, { visible: zones, mayArchive })
      if (files === null) throw noSuch(`landing zone ${namespace}.${zone}`)
      const input = create(LandingInputSchema, {
        namespace,
        zone,
        files: files.map(({ id, filename, path, versionId, sizeBytes }) => ({
          id,
          filename,
          object: { path, versionId, sizeBytes: BigInt(sizeBytes) },
        })),
      })
      return toJson(LandingInputSchema, input)
    })

const onWire = ({ contentId, metadataLocation, rowCount, sizeBytes, ...table }: CatalogTable) => ({
  ...table,
  content_id: contentId,
  metadata_location: metadataLocation,
  row_count: rowCount,
  size_bytes: sizeBytes,
})
