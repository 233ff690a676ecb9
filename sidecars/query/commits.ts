import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { LRUCache } from 'lru-cache'
import { LAYERS, tableKey } from '../../ground/names.ts'
import { traceHeaders } from '../../ground/telemetry/trace.ts'
import type { LakeView } from '../../proto/gen/sluice/query/v1/query_pb.ts'
import { authorityOf } from '../rpc/api-addresses.ts'
import { accepted, patiently } from '../rpc/http.ts'
import { limits } from './limits.ts'

// Tables of main at its commits. A commit never changes, so its tables are cached forever. A newer commit is fetched as the
// changes since the nearest cached commit. The cache is per authority: a commit number means nothing without its catalog, and
// an answer to one token is not valid for another. The few changed tables of a branch are fetched for each query, because a branch
// may move.

const TableName = {
  namespace: Type.String(),
  layer: Type.Union(LAYERS.map((layer) => Type.Literal(layer))),
  name: Type.String(),
}
const CommitTable = Type.Object({
  ...TableName,
  kind: Type.Union([Type.Literal('table'), Type.Literal('view')]),
  content_id: Type.String(),
  metadata_location: Type.String(),
  columns: Type.Array(Type.Object({ name: Type.String(), type: Type.String() })),
  row_count: Type.Number(),
  size_bytes: Type.Number(),
})
/** A table or view at a commit. */
export type CommitTable = Static<typeof CommitTable>

const Changes = Type.Object({ tables: Type.Array(CommitTable), dropped: Type.Array(Type.Object(TableName)) })
type Changes = Static<typeof Changes>

/** Tables by `tableKey`. */
export type Tables = ReadonlyMap<string, CommitTable>

/** Returns the tables of a commit, or of a branch over it. Throws HttpFailure, and the signal's reason. */
export type TablesAt = (lake: LakeView, signal: AbortSignal) => Promise<Tables>

export function makeCommits(): TablesAt {
  const cachedCommits = new LRUCache<string, { authority: string; commit: number; tables: Tables }>({
    max: limits.commits,
  })
  const underway = new Map<string, Promise<Tables>>()

  /** The nearest older commit that is cached for the same authority. */
  function baseOf(authority: string, commit: number) {
    const older = [...cachedCommits.values()].filter(
      (one) => one.authority === authority && one.commit < commit,
    )
    return older.reduce<(typeof older)[number] | undefined>(
      (nearest, one) => (nearest !== undefined && nearest.commit > one.commit ? nearest : one),
      undefined,
    )
  }

  async function fetchTables(lake: LakeView, commit: number, signal: AbortSignal): Promise<Tables> {
    const authority = authorityOf(lake)
    const base = baseOf(authority, commit)
    const { tables, dropped } = await changesOf(lake, { commit, since: base?.commit }, signal)
    const result = new Map(base?.tables)
    for (const table of dropped) result.delete(tableKey(table))
    for (const table of tables) result.set(tableKey(table), table)
    cachedCommits.set(keyOf(authority, commit), { authority, commit, tables: result })
    return result
  }

  async function mainAt(lake: LakeView, signal: AbortSignal): Promise<Tables> {
    const commit = Number(lake.commit)
    const key = keyOf(authorityOf(lake), commit)
    for (;;) {
      signal.throwIfAborted()
      const found = cachedCommits.get(key)
      if (found !== undefined) return found.tables
      const others = underway.get(key)
      if (others !== undefined) {
        // If the other caller's call fails, the loop tries its own call.
        await others.catch(() => {})
        continue
      }
      const own = fetchTables(lake, commit, signal)
      underway.set(key, own)
      try {
        return await own
      } finally {
        underway.delete(key)
      }
    }
  }

  return async function tablesAt(lake, signal) {
    if (lake.branch === '') return mainAt(lake, signal)
    const [main, { tables, dropped }] = await Promise.all([
      mainAt(lake, signal),
      fetchChanges(lake, `branches/${encodeURIComponent(lake.branch)}/tables`, signal),
    ])
    const result = new Map([...main, ...tables.map((table) => [tableKey(table), table] as const)])
    for (const table of dropped) result.delete(tableKey(table))
    return result
  }
}

const keyOf = (authority: string, commit: number) => `${commit} ${authority}`

function changesOf(
  lake: LakeView,
  { commit, since }: { commit: number; since: number | undefined },
  signal: AbortSignal,
): Promise<Changes> {
  const query = since === undefined ? '' : `?since=${since}`
  return fetchChanges(lake, `commits/${commit}/tables${query}`, signal)
}

/** `path` is an address below the catalog's own routes. */
async function fetchChanges(lake: LakeView, path: string, signal: AbortSignal): Promise<Changes> {
  const answer: unknown = await patiently(
    async (deadline) => {
      const response = await fetch(`${lake.catalogUrl}/sluice/v1/${path}`, {
        headers: { ...traceHeaders(), authorization: `Bearer ${lake.token}` },
        signal: deadline,
      })
      return (await accepted(response, `reading ${path}`)).json()
    },
    { signal },
  )
  if (!Value.Check(Changes, answer)) throw new Error(`invalid list of tables from the catalog for ${path}`)
  return answer
}
