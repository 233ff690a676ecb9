// Finds the resources behind an answer about owners and namespaces.
import type { Sql } from '../../drizzle/client.ts'

/** The resources of one kind that an answer covers: everything that any field names. */
export interface ExtentFilter {
  /** Covers what this user owns, and everything in this user's namespaces; null: owners do not matter. */
  readonly ownerId: string | null
  readonly ids: readonly string[]
  readonly namespaceIds: readonly string[]
  readonly namespaceNames: readonly string[]
}

export interface PluginResources {
  /** Null: the namespace does not exist, or was deleted. */
  namespace(name: string): Promise<{ id: string; owner: string | null } | null>
  /** Ids. */
  pipelines(meant: ExtentFilter): Promise<string[]>
  zones(meant: ExtentFilter): Promise<string[]>
  /** Names. */
  namespaces(meant: ExtentFilter): Promise<string[]>
}

export function makePluginResources({ sql }: { sql: Sql }): PluginResources {
  /** Includes deleted pipelines, because users who saw their runs before still see them. */
  async function idsIn(table: 'pipeline' | 'landing_zone', meant: ExtentFilter): Promise<string[]> {
    const { ownerId, ids, namespaceIds, namespaceNames } = meant
    const listedIds = ids.map((id) => id.toLowerCase())
    if (ownerId === null && namespaceIds.length === 0 && namespaceNames.length === 0) return listedIds
    const found = await sql<{ id: string }[]>`
      select id from ${sql(table)}
      where owner = ${ownerId} or namespace = any(${[...namespaceNames]}) or namespace in (
        select name from namespace where owner = ${ownerId} or id = any(${[...namespaceIds]}::uuid[]))`
    return [...new Set([...listedIds, ...found.map(({ id }) => id)])]
  }

  return {
    async namespace(name) {
      const [found] = await sql<{ id: string; owner: string | null }[]>`
        select id, owner from namespace where name = ${name}`
      return found ?? null
    },
    pipelines: (meant) => idsIn('pipeline', meant),
    zones: (meant) => idsIn('landing_zone', meant),
    async namespaces({ ownerId, ids, namespaceIds, namespaceNames }) {
      const listedIds = [...ids, ...namespaceIds]
      if (ownerId === null && listedIds.length === 0) return [...namespaceNames]
      const found = await sql<{ name: string }[]>`
        select name from namespace where owner = ${ownerId} or id = any(${listedIds}::uuid[])`
      return [...new Set([...namespaceNames, ...found.map(({ name }) => name)])]
    },
  }
}
