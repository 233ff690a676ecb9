// Drafts behind the tables of a branch.
import { alias } from 'drizzle-orm/pg-core'
import type { Sql } from '../../drizzle/client.ts'
import { computed, pick, type RowOf, select } from '../../drizzle/rows.ts'
import { branchEntries } from '../../drizzle/schema/catalog.ts'
import { runs } from '../../drizzle/schema/run.ts'
import type { Layer } from '../core/names.ts'

const DRAFT = {
  ...pick(alias(branchEntries, 'entry'), 'namespace', 'name'),
  layer: computed<Layer>('entry.layer'),
  runId: computed<string>('r.id'),
  ...pick(alias(runs, 'r'), 'pins'),
  /** The version that was published after the request of the run; null: none. */
  publishedSince: computed<number | null>(
    'case when p.published_at > r.created_at then p.published_version end',
  ),
}
/** A changed table of a branch whose content a run of a draft made, and the files that this run executed. */
export type BranchDraft = RowOf<typeof DRAFT>

/** The drafts behind the changed tables of a branch, without those that are the published version now. */
export const draftsOf = (sql: Sql, branch: string): Promise<BranchDraft[]> =>
  select(sql, DRAFT)`
    from branch_entry entry
    join branch_entry made on made.content_id = entry.content_id and made.content_id is distinct from made.base_content
    join lake_ref f on f.name = made.ref and f.kind = 'run'
    join run r on r.id = f.run_id and r.version_number is null
    join pipeline p on p.id = r.pipeline_id and p.deleted_at is null and p.namespace = entry.namespace
      and p.layer = entry.layer and p.name = entry.name
    left join pipeline_version v on v.pipeline_id = p.id and v.version_number = p.published_version
    where entry.ref = ${branch} and entry.content_id is distinct from entry.base_content
      and v.published_versions is distinct from r.pins
    order by entry.namespace, entry.layer, entry.name`
