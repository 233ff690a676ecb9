// What stays under a name when its pipeline, zone or namespace is gone: tables outlive their pipelines, and files their
// namespaces. Whoever takes the name would own them, so it is asked first whether there is anything of others.
import type { Sql } from '../../../drizzle/client.ts'
import { type PipelineRef, prefixOf } from '../../core/pipeline-ref.ts'
import type { ObjectStore } from '../../objects/port.ts'

export interface LeftBehindDeps {
  sql: Sql
  objects: Pick<ObjectStore, 'list'>
}

export const makeLeftBehind = ({ sql, objects }: LeftBehindDeps) => {
  const holdsFiles = async (prefix: string) => (await objects.list(prefix, { limit: 1 })).objects.length > 0

  return {
    /** A table or files, unless the latest pipeline of the name was `owner`'s too. */
    async isLeftOfPipeline(ref: PipelineRef, owner: string | null): Promise<boolean> {
      const { namespace, layer, name } = ref
      const prefix = prefixOf(ref)
      const [row] = await sql<{ owner: string | null; hasTable: boolean; isEmptied: boolean }[]>`
        select
          (select owner from pipeline where namespace = ${namespace} and layer = ${layer} and name = ${name}
            order by created_at desc, id desc limit 1) as owner,
          exists (
            select from main_entry where to_commit is null
              and namespace = ${namespace} and layer = ${layer} and name = ${name}) as "hasTable",
          -- The creation removes these files before it writes its own.
          exists (select from outbox where kind = 'pipelineDeleted' and payload ->> 'prefix' = ${prefix}) as "isEmptied"`
      if (row === undefined || (row.owner !== null && row.owner === owner)) return false
      return row.hasTable || (!row.isEmptied && (await holdsFiles(prefix)))
    },

    isLeftOfZone: ({ namespace, name }: { namespace: string; name: string }): Promise<boolean> =>
      holdsFiles(`${namespace}/landing/${name}/`),

    /** Anything: what belongs to single users stays theirs, but whoever owned the namespace could do all with it. */
    async isLeftOfNamespace(name: string): Promise<boolean> {
      const [row] = await sql<{ exists: boolean }[]>`
        select exists (select from pipeline where namespace = ${name})
          or exists (select from landing_zone where namespace = ${name})
          or exists (select from main_entry where namespace = ${name} and to_commit is null) as exists`
      return row?.exists === true || (await holdsFiles(`${name}/`))
    },
  }
}
