// The past of main and of its tables: commits and states.
import type { Sql } from '../../drizzle/client.ts'
import { type TableName, tableKey } from '../../ground/names.ts'
import { listCommits } from '../branches/service.ts'
import { EVERYTHING } from '../core/access.ts'
import { invalid, notFound } from '../core/errors.ts'
import { instantOf } from '../core/instants.ts'
import { MAIN } from '../core/lake-version.ts'
import { pageOf } from '../core/pagination.ts'
import type { Restores } from '../versions/restores.ts'
import { commitAsOf, viewOf } from '../versions/views.ts'
import type { CommitsQuery, HistoryQuery, RestoreTable, TableHistory, TableRestored } from './schema.ts'
import { countStates, statesIn, type TableState } from './store.ts'

export type HistoryService = ReturnType<typeof makeHistoryService>

export interface HistoryDeps {
  sql: Sql
  /** Connections for lists, which may take long. */
  lists: Sql
  restores: Restores
}

export function makeHistoryService({ sql, lists, restores }: HistoryDeps) {
  /** Lists the commits of main that changed a table which the caller sees. */
  async function commits({ namespace, table, from, to, ...query }: CommitsQuery, visible = EVERYTHING) {
    const page = pageOf(query)
    const filter = {
      branch: MAIN,
      visible,
      namespace,
      table,
      from: from === undefined ? undefined : instantOf('from', from),
      to: to === undefined ? undefined : instantOf('to', to),
    }
    return { page, ...(await listCommits(lists, filter, page)) }
  }

  /** Lists the states of a table that are kept, newest first. */
  async function history(table: TableName, { branch, ...query }: HistoryQuery) {
    const page = pageOf(query)
    const view = await viewOf(sql, { branch })
    const [states, total] = await Promise.all([
      statesIn(sql, view, table, page),
      countStates(sql, view, table),
    ])
    if (total === 0) throw notFound(`table ${tableKey(table)}`)
    return { page, history: states.map(stateOf), total }
  }

  /** Gives a table of main the content that it had at a commit or a time. */
  async function restore(
    table: TableName,
    { commit, time }: RestoreTable,
    author: string | null,
    person: string | null,
  ): Promise<TableRestored> {
    if (commit !== undefined && time !== undefined)
      throw invalid('time', 'cannot be used with commit: send one of the two')
    if (commit === undefined && time === undefined) throw invalid('commit', 'is required, or time')
    const from = await commitAsOf(sql, commit ?? instantOf('time', time ?? '').toISOString())
    const restored = await restores.restore({ table, commit: from, author, person }, async () => {})
    return { commit: restored.commit, restored_from: from }
  }

  return { commits, history, restore }
}

const stateOf = (state: TableState): TableHistory['history'][number] => ({
  commit: state.commit,
  commit_id: state.commitId,
  snapshot_id: state.snapshotId,
  run_id: state.runId,
  operation: state.operation,
  row_count: state.rowCount,
  size_bytes: state.sizeBytes,
  rows_added: state.rowsAdded,
  rows_removed: state.rowsRemoved,
  schema_changed: state.hasNewColumns,
  created_at: state.createdAt.toISOString(),
})
