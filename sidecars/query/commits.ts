import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { LAYERS, tableKey } from '../../lake/pipeline/names.ts'
import type { LakeView } from '../../proto/gen/sluice/query/v1/query_pb.ts'
import { traceHeaders } from '../../proto/trace.ts'
import { accepted, patiently } from '../http.ts'
import { limits } from './limits.ts'
import { Lru } from './lru.ts'

// Main as of its commits. A commit never changes, so what is known of one is true for good; a newer one is asked for as
// what changed since the nearest one known.

const TableName = {
  namespace: Type.String(),
  layer: Type.Union(LAYERS.map((layer) => Type.Literal(layer))),
  name: Type.String(),
}
const CommitTable = Type.Object({
  ...TableName,
  content_id: Type.String(),
  metadata_location: Type.String(),
  columns: Type.Array(Type.Object({ name: Type.String(), type: Type.String() })),
  row_count: Type.Number(),
  size_bytes: Type.Number(),
})
/** A table as of a commit. */
export type CommitTable = Static<typeof CommitTable>

const Changes = Type.Object({ tables: Type.Array(CommitTable), dropped: Type.Array(Type.Object(TableName)) })
type Changes = Static<typeof Changes>

/** By `tableKey`. */
export type Tables = ReadonlyMap<string, CommitTable>

/** Answers the tables of a commit. Throws HttpFailure, and the signal's reason. */
export type TablesAt = (lake: LakeView, signal: AbortSignal) => Promise<Tables>

export function makeCommits(): TablesAt {
  const known = new Lru<number, Tables>(limits.commits)
  const underway = new Map<number, Promise<Tables>>()

  async function fetchTables(lake: LakeView, commit: number, signal: AbortSignal): Promise<Tables> {
    const since = Math.max(-1, ...[...known.keys()].filter((other) => other < commit))
    const base = known.get(since)
    const { tables, dropped } = await changesOf(lake, { commit, since: base && since }, signal)
    const result = new Map(base)
    for (const table of dropped) result.delete(tableKey(table))
    for (const table of tables) result.set(tableKey(table), table)
    known.set(commit, result)
    return result
  }

  return async function tablesAt(lake, signal) {
    const commit = Number(lake.commit)
    for (;;) {
      signal.throwIfAborted()
      const tables = known.get(commit)
      if (tables !== undefined) return tables
      const others = underway.get(commit)
      if (others !== undefined) {
        // Should their call fail, ours may not: the loop tries it.
        await others.catch(() => {})
        continue
      }
      const own = fetchTables(lake, commit, signal)
      underway.set(commit, own)
      try {
        return await own
      } finally {
        underway.delete(commit)
      }
    }
  }
}

async function changesOf(
  lake: LakeView,
  { commit, since }: { commit: number; since: number | undefined },
  signal: AbortSignal,
): Promise<Changes> {
  const query = since === undefined ? '' : `?since=${since}`
  const answer: unknown = await patiently(
    async (deadline) => {
      const response = await fetch(`${lake.catalogUrl}/sluice/v1/commits/${commit}/tables${query}`, {
        headers: { ...traceHeaders(), authorization: `Bearer ${lake.token}` },
        signal: deadline,
      })
      return (await accepted(response, `reading main at commit ${commit}`)).json()
    },
    { signal },
  )
  if (!Value.Check(Changes, answer)) throw new Error('the catalog answered what are no tables')
  return answer
}
