import type { Sql } from '../../drizzle/client.ts'
import { EVERYTHING } from '../core/access.ts'
import { pageOf } from '../core/pagination.ts'
import type { AttentionItem, AttentionQuery } from './schema.ts'
import { type AttentionRow, attention } from './store.ts'

export type AttentionService = ReturnType<typeof makeAttentionService>

/** Lists what needs attention on main, computed from the present rows for each request. */
export function makeAttentionService({ sql }: { sql: Sql }) {
  async function list(query: AttentionQuery, visible = EVERYTHING) {
    const page = pageOf(query)
    const { items, total } = await attention(sql, visible.pipelines, page)
    return { items: items.map(itemOf), total, page }
  }
  return { list }
}

const itemOf = ({ runId, since, ...row }: AttentionRow): AttentionItem => ({
  kind: row.kind,
  namespace: row.namespace,
  layer: row.layer,
  pipeline: row.pipeline,
  run_id: runId,
  branch: row.branch,
  since: since.toISOString(),
  reason: row.reason,
})
