// Built-in sharing: grants are rows of the database that holds what they are about.
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import type { Grant, Resource, Sharing } from '../../core/access.ts'
import { forbidden, invalid, notFound } from '../../core/errors.ts'
import type { NewId } from '../../core/ids.ts'

/** A list of grants is not paged; more users than that share a namespace. */
const GRANTS_PER_RESOURCE = 1_000

export function makeSharing({ sql, newId }: { sql: Sql; newId: NewId }): Sharing {
  const shown = sql`id, grantor_id as "grantorId", grantee_id as "granteeId", resource_type as "resourceType",
    resource_id as "resourceId", permission, created_at as "createdAt"`

  return {
    async createGrant({ grantorId, granteeId, resourceType, resourceId, permission }, decidedFor) {
      return sql.begin(async (tx) => {
        const { owner } = await hold(tx, { type: resourceType, id: resourceId })
        if (decidedFor !== undefined && owner !== decidedFor)
          throw forbidden(`the ${NAMES[resourceType]} has another owner by now`)
        const [held] = await tx<{ total: number }[]>`
          select count(*)::int as total from access_grant where resource_id = ${resourceId}`
        if (held !== undefined && held.total >= GRANTS_PER_RESOURCE)
          throw invalid('resource_id', `has ${GRANTS_PER_RESOURCE} grants already`)
        const [grant] = await tx<Grant[]>`
          insert into access_grant (id, grantor_id, grantee_id, resource_type, resource_id, permission)
          values (${newId()}, ${grantorId}, ${granteeId}, ${resourceType}, ${resourceId}, ${permission})
          on conflict on constraint access_grant_once
            do update set permission = excluded.permission, created_at = clock_timestamp()
          returning ${shown}`
        if (grant === undefined) throw new Error('a grant was not stored')
        return grant
      })
    },

    listGrants: async ({ type, id }) =>
      sql<Grant[]>`
        select ${shown} from access_grant where resource_id = ${id} and resource_type = ${type}
        order by created_at, id`,

    async grant(id) {
      const [grant] = await sql<Grant[]>`select ${shown} from access_grant where id = ${id}`
      return grant ?? null
    },

    async revokeGrant(id) {
      const { count } = await sql`delete from access_grant where id = ${id}`
      return count > 0
    },

    /** Of two at once one waits for the other, and then finds another owner than it was told. */
    async transferOwnership(pipelineId, from, to, isVouchedFor = false) {
      const last = (owners: string) => sql`array_append(array_remove(${sql(owners)}, owner), owner)`
      const remembered = isVouchedFor
        ? sql`handed_before = ${last('handed_before')}, vouched_version = coalesce(published_version, 1)`
        : sql`handed_by = ${last('handed_by')}`
      return sql.begin(async (tx) => {
        const { count } = await tx`
          update pipeline set owner = ${to}, updated_at = clock_timestamp()
            ${from === null || from === to ? tx`` : tx`, ${remembered}`}
          where id = ${pipelineId} and owner is not distinct from ${from} and deleted_at is null`
        if (count === 0) return false
        // What others gave the old owner would leave them with all that they hand over.
        if (from !== null && from !== to)
          await tx`
            delete from access_grant where resource_id = ${pipelineId} and resource_type = 'pipeline'
              and grantee_id = ${from} and permission = 'admin'`
        return true
      })
    },
  }
}

/**
 * Nobody deletes it or hands it over until the transaction ends: a grant on nothing would wait for ever. 404 when it is gone.
 */
async function hold(tx: SqlTx, { type, id }: Pick<Resource, 'type' | 'id'>) {
  const [held] = await tx<{ owner: string | null }[]>`
    select owner from ${tx(type)} where id = ${id} ${type === 'pipeline' ? tx`and deleted_at is null` : tx``} for share`
  if (held === undefined) throw notFound(`${NAMES[type]} ${id}`)
  return held
}

const NAMES = { pipeline: 'pipeline', namespace: 'namespace', landing_zone: 'landing zone' }
