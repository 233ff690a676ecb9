// Conditions that find a live pipeline by name, shared by several stores. The name of a deleted pipeline can be used again.
import { and, eq, isNull } from 'drizzle-orm'
import { pipelines } from './schema/pipeline.ts'
import type { Part, Sql, SqlTx } from './sql.ts'

export interface PipelineName {
  namespace: string
  layer: string
  name: string
  /** If set, only the pipeline with this id matches. */
  boundTo?: string
}

/** A condition for drizzle queries. A layer that does not exist has no pipelines. */
export const isLive = ({ namespace, layer, name, boundTo }: PipelineName) =>
  and(
    eq(pipelines.namespace, namespace),
    eq(pipelines.layer, layer as typeof pipelines.$inferSelect.layer),
    eq(pipelines.name, name),
    isNull(pipelines.deletedAt),
    boundTo === undefined ? undefined : eq(pipelines.id, boundTo),
  )

/** A condition for raw SQL with the pipeline as `p`. */
export const isLiveRow = (sql: Sql | SqlTx, { namespace, layer, name, boundTo }: PipelineName): Part => sql`
  p.namespace = ${namespace} and p.layer = ${layer} and p.name = ${name} and p.deleted_at is null
  ${boundTo === undefined ? sql`` : sql`and p.id = ${boundTo}`}`
