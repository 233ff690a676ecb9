// Built-in enforcement: owners and grants are rows, and each check is one statement. Nothing is cached between requests, so a
// revocation counts from the next request on.
import type { Sql } from '../../../drizzle/client.ts'
import { computed, only, select } from '../../../drizzle/rows.ts'
import type { Enforcement, Permission, Visible } from '../../core/access.ts'
import type { Identity } from '../../core/identity.ts'

/** For each permission: the permissions that include this permission, and the permission itself. */
const INCLUDING: Record<Permission, Permission[]> = {
  read: ['read', 'write', 'admin'],
  write: ['write', 'admin'],
  admin: ['admin'],
}

/** A caller without a subject owns nothing and has no grants. */
export const makeEnforcement = ({ sql }: { sql: Sql }): Enforcement => ({
  async check({ userId }, resource, permission) {
    if (userId === '') return false
    if (resource.owner === userId) return true
    const space = sql`with space as (select id, owner from namespace where name = ${resource.namespace})`
    const may = computed<boolean>(sql`
      exists (select from space where owner = ${userId})
      or exists (
        select from access_grant g
        where g.grantee_id = ${userId} and g.permission = any(${INCLUDING[permission]}::text[]) and (
          (g.resource_type = ${resource.type} and g.resource_id = ${resource.id})
          or (g.resource_type = 'namespace' and g.resource_id = (select id from space))))`)
    return only(await select(sql, { may }, space)``).may
  },

  async listVisible({ userId }: Identity): Promise<Visible> {
    if (userId === '') return { pipelines: [], zones: [], namespaces: [] }
    // Deleted pipelines are included: users who saw them may still see their runs. Ids are returned as one text, because the
    // driver parses arrays character by character. For thousands of ids, that takes longer than the query.
    const grantsAndSpaces = sql`
      with granted as materialized (
        select resource_type as type, resource_id as id from access_grant where grantee_id = ${userId}),
      spaces as materialized (
        select name from namespace
        where owner = ${userId} or id in (select id from granted where type = 'namespace'))`
    const idsOf = (table: 'pipeline' | 'landing_zone') =>
      computed<string>(sql`array_to_string(array(
        select id from ${sql(table)} where owner = ${userId}
        union select id from ${sql(table)} where namespace in (select name from spaces)
        union select id from granted where type = ${table}), ',')`)
    const visibleIds = {
      pipelines: idsOf('pipeline'),
      zones: idsOf('landing_zone'),
      namespaces: computed<string[]>('array(select name from spaces)'),
    }
    const row = only(await select(sql, visibleIds, grantsAndSpaces)``)
    return { pipelines: listOf(row.pipelines), zones: listOf(row.zones), namespaces: row.namespaces }
  },
})

const listOf = (text: string) => (text === '' ? [] : text.split(','))
