// Starts of runs on branches of users: each attempt begins from the state of its run's branch.
import { alias } from 'drizzle-orm/pg-core'
import type { SqlTx } from '../../../drizzle/client.ts'
import { computed, present, select } from '../../../drizzle/rows.ts'
import { lakeRefs } from '../../../drizzle/schema/catalog.ts'
import type { RunId } from '../../core/ids.ts'
import { MAIN } from '../../core/lake-version.ts'
import { lockParents } from '../../versions/store/nested-branches.ts'

/** The state from which an attempt on a branch of a user begins. */
export interface BranchStart {
  /** The commit of main on which the branch stands. */
  base: number
  /** Location of the written table's metadata on the branch; '' if the table does not exist. */
  tableMetadata: string
}

const ON_BRANCH = {
  id: computed<RunId>('r.id'),
  base: present(alias(lakeRefs, 'ref').base),
  tableMetadata: computed<string>("coalesce(content.metadata_location, '')"),
}

/**
 * Returns the starts of the runs on open branches of users. These branches stay open and unchanged until the transaction ends.
 * A run on main, or on a branch that is not open, is absent.
 */
export async function branchStarts(
  tx: SqlTx,
  runs: Iterable<{ id: RunId; branch: string }>,
): Promise<Map<RunId, BranchStart>> {
  const nested = [...runs].filter(({ branch }) => branch !== MAIN)
  if (nested.length === 0) return new Map()
  await lockParents(
    tx,
    nested.map(({ branch }) => branch),
  )
  // A statement after the lock sees the last merge into each branch.
  const rows = await select(tx, ON_BRANCH)`
    from run r
    join lake_ref ref on ref.name = r.branch and ref.kind = 'user' and ref.state = 'open'
    left join branch_entry own on own.ref = ref.name
      and own.namespace = r.namespace and own.layer = r.layer and own.name = r.pipeline
    left join main_entry main on own.ref is null
      and main.namespace = r.namespace and main.layer = r.layer and main.name = r.pipeline
      and main.from_commit <= ref.base and (main.to_commit is null or main.to_commit > ref.base)
    left join lake_content content
      on content.id = case when own.ref is null then main.content_id else own.content_id end and content.kind = 'table'
    where r.id = any(${nested.map(({ id }) => id)}::uuid[])`
  return new Map(rows.map(({ id, ...start }) => [id, start]))
}
