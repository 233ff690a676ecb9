// Diffs of runs. The diff of an ended run is computed when it is first read, and stored. Before retention deletes the states, the
// reaper stores the numbers that the run reported (app/versions/store/run-diffs.ts).
import type { Sql } from '../../drizzle/client.ts'
import { EVERYTHING } from '../core/access.ts'
import { notFound } from '../core/errors.ts'
import { MissingLakeFile } from '../versions/metadata-files.ts'
import { keepRunDiffs } from '../versions/store/run-diffs.ts'
import type { Diff } from './schema.ts'
import { changedTables, keepRunDiff, keptRunDiff, runBranch } from './store.ts'
import type { TableDiffs } from './table-diff.ts'

/** A run writes one table. */
const TABLES = { limit: 1, offset: 0 }

/** Makes the function that returns what a run changed, or would change while it is not merged. */
export function makeRunDiffs({ sql, tableDiffs }: { sql: Sql; tableDiffs: TableDiffs }) {
  return async (id: string, signal: AbortSignal): Promise<Diff> => {
    const run = await runBranch(sql, id)
    if (run === null) throw notFound(`run ${id}`)
    const kept = await keptRunDiff(sql, id)
    if (kept !== null) return kept
    const filter = { branch: run.branch, against: null, visible: EVERYTHING }
    const tables = await changedTables(sql, filter, TABLES)
    const diffs = await tableDiffs.of(tables, signal).catch((error: unknown) => {
      if (run.hasEnded && error instanceof MissingLakeFile) return null
      throw error
    })
    // The reaper has removed files of a state that never was on main.
    if (diffs === null) {
      await sql.begin((tx) => keepRunDiffs(tx, [run.branch]))
      return (await keptRunDiff(sql, id)) ?? { from: run.target, to: run.branch, tables: [], total: 0 }
    }
    // The live state of a merged table is the run's own.
    const shown = diffs.map((diff) => (run.isMerged ? { ...diff, conflict: false } : diff))
    const diff: Diff = { from: run.target, to: run.branch, tables: shown, total: shown.length }
    // Numbers that could not be counted now may be counted later.
    const isComplete = shown.every(
      ({ rows_added, rows_removed }) => rows_added !== null && rows_removed !== null,
    )
    if (run.hasEnded && shown.length > 0 && isComplete) await keepRunDiff(sql, id, diff)
    return diff
  }
}
