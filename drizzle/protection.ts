// The rules for changes of a table on main, shared by several stores: those of its live pipeline and of its namespace.
import { eq } from 'drizzle-orm'
import type { Queryable } from './client.ts'
import { isLive, type PipelineName } from './live-pipeline.ts'
import { computed } from './rows.ts'
import { namespaces, type Review } from './schema/namespace.ts'
import { pipelines } from './schema/pipeline.ts'

/** The rules for the table that a row of raw SQL names. `name` is the column with the name of the table. */
export const rulesOf = (row: string, name = 'name') =>
  computed<(Review | null)[]>(`array[
    (select owner.review from pipeline owner where owner.deleted_at is null and owner.namespace = ${row}.namespace
      and owner.layer = ${row}.layer and owner.name = ${row}.${name}),
    (select guard.protection ->> 'review' from namespace guard where guard.name = ${row}.namespace)]`)

/** The rules for one table. */
export async function rulesOfTable(db: Queryable, table: PipelineName): Promise<(Review | null)[]> {
  const [ofPipeline, ofNamespace] = await Promise.all([
    db.select({ rule: pipelines.review }).from(pipelines).where(isLive(table)),
    db
      .select({ protection: namespaces.protection })
      .from(namespaces)
      .where(eq(namespaces.name, table.namespace)),
  ])
  return [...ofPipeline.map(({ rule }) => rule), ...ofNamespace.map(({ protection }) => protection.review)]
}
