// Checks for data that remains under a name: tables outlive their pipelines, and files outlive their namespaces. A creator
// would own that data by taking the name. So creation first checks for data of other owners.
import type { Sql } from '../../../drizzle/client.ts'
import { computed, only, select } from '../../../drizzle/rows.ts'
import { type PipelineRef, prefixOf } from '../../core/pipeline-ref.ts'
import type { ObjectStore } from '../../objects/port.ts'

export interface LeftoversDeps {
  sql: Sql
  objects: Pick<ObjectStore, 'list'>
}

export const makeLeftovers = ({ sql, objects }: LeftoversDeps) => {
  const holdsFiles = async (prefix: string) => (await objects.list(prefix, { limit: 1 })).objects.length > 0

  return {
    /**
     * Whether a table or files of a deleted pipeline remain. False if `owner` also owned the latest pipeline of this name.
     */
    async isLeftoverOfPipeline(ref: PipelineRef, owner: string | null): Promise<boolean> {
      const { namespace, layer, name } = ref
      const prefix = prefixOf(ref)
      const leftovers = {
        lastOwner: computed<string | null>(sql`(
          select owner from pipeline where namespace = ${namespace} and layer = ${layer} and name = ${name}
          order by created_at desc, id desc limit 1)`),
        hasTable: computed<boolean>(sql`exists (
          select from main_entry where to_commit is null
            and namespace = ${namespace} and layer = ${layer} and name = ${name})`),
        // The creation of the new pipeline removes these files before it writes files of its own.
        isEmptied: computed<boolean>(sql`exists (
          select from outbox where kind = 'pipelineDeleted' and payload ->> 'prefix' = ${prefix})`),
      }
      const { lastOwner, hasTable, isEmptied } = only(await select(sql, leftovers)``)
      if (lastOwner !== null && lastOwner === owner) return false
      return hasTable || (!isEmptied && (await holdsFiles(prefix)))
    },

    isLeftoverOfZone: ({ namespace, name }: { namespace: string; name: string }): Promise<boolean> =>
      holdsFiles(`${namespace}/landing/${name}/`),

    /**
     * Whether any data remains. Resources of users keep their owners, but a new owner of the namespace would have all rights on
     * them.
     */
    async isLeftoverOfNamespace(name: string): Promise<boolean> {
      const isUsed = computed<boolean>(sql`
        exists (select from pipeline where namespace = ${name})
        or exists (select from landing_zone where namespace = ${name})
        or exists (select from main_entry where namespace = ${name} and to_commit is null)`)
      return only(await select(sql, { isUsed })``).isUsed || (await holdsFiles(`${name}/`))
    },
  }
}
