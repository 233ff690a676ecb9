// How events reach runs: lock the rows, ask the machine, save state, history and columns, all in the caller's transaction.
import type { JSONValue } from 'postgres'
import type { SqlTx } from '../../../drizzle/client.ts'
import { type Part, together } from '../../../drizzle/together.ts'
import { accepts, advance, restore, type Stored, store } from '../../../machines/advance.ts'
import {
  isTerminal,
  migrateRun,
  RUN_MACHINE_VERSION,
  type RunEvent,
  type RunSnapshot,
  type RunStatus,
  runColumns,
  runMachine,
} from '../../../machines/run.ts'
import type { PipelineId, RunId } from '../../core/ids.ts'
import type { RunCompleted } from './notices.ts'

/** A locked run while a transaction works on it. */
export interface LockedRun {
  id: RunId
  pipelineId: PipelineId
  namespace: string
  layer: string
  pipeline: string
  snapshot: RunSnapshot
  status: RunStatus
  createdAt: Date
  startedAt: Date | null
  finishedAt: Date | null
  durationMs: number | null
  rowsWritten: number | null
  error: string | null
  baseCommit: number | null
  mergedCommit: number | null
  follower: string | null
  notBefore: Date | null
  chainDepth: number
  /** The upload that asked for it. */
  landingFileId: string | null
  /** Effects of the moves made in this transaction, in order. */
  effects: string[]
  moves: Transition[]
}

interface Transition {
  entity_id: RunId
  event: string
  from: string
  to: string
  effects: string[]
  cause: string
}

/** A row of `run` as the driver gives it. */
export interface RunRow {
  id: RunId
  pipeline_id: PipelineId
  namespace: string
  layer: string
  pipeline: string
  snapshot: Stored
  machine_version: number
  status: RunStatus
  created_at: Date
  started_at: Date | null
  finished_at: Date | null
  duration_ms: string | null
  rows_written: string | null
  error: string | null
  base_commit: string | null
  merged_commit: string | null
  follower: string | null
  not_before: Date | null
  chain_depth: number
  landing_file_id: string | null
}

/** Of `run r`, by name: in a transaction, a prepared `*` fails once a newer program has added one. */
export const rowColumns = (tx: SqlTx) => tx`
  r.id, r.pipeline_id, r.namespace, r.layer, r.pipeline, r.snapshot, r.machine_version, r.status, r.created_at, r.started_at,
  r.finished_at, r.duration_ms, r.rows_written, r.error, r.base_commit, r.merged_commit, r.follower, r.not_before,
  r.chain_depth, r.landing_file_id`

const numberOf = (text: string | null) => (text === null ? null : Number(text))

/** Brings locked rows to life. Rows that a newer program wrote are left out: they are its business. */
export function lockedRuns(rows: readonly RunRow[]): Map<RunId, LockedRun> {
  const runs = new Map<RunId, LockedRun>()
  for (const row of rows) {
    if (row.machine_version > RUN_MACHINE_VERSION) continue
    runs.set(row.id, {
      id: row.id,
      pipelineId: row.pipeline_id,
      namespace: row.namespace,
      layer: row.layer,
      pipeline: row.pipeline,
      snapshot: restore(runMachine, migrateRun(row.machine_version, row.snapshot)),
      status: row.status,
      createdAt: row.created_at,
      startedAt: row.started_at,
      finishedAt: row.finished_at,
      durationMs: numberOf(row.duration_ms),
      rowsWritten: numberOf(row.rows_written),
      error: row.error,
      baseCommit: numberOf(row.base_commit),
      mergedCommit: numberOf(row.merged_commit),
      follower: row.follower,
      notBefore: row.not_before,
      chainDepth: row.chain_depth,
      landingFileId: row.landing_file_id,
      effects: [],
      moves: [],
    })
  }
  return runs
}

/** Locks runs in the order of their ids, so that no two transactions wait for each other; `now` is the database's time. */
export async function lockRuns(
  tx: SqlTx,
  ids: readonly RunId[],
): Promise<{ runs: Map<RunId, LockedRun>; now: Date }> {
  const rows = await tx<(RunRow & { now: Date })[]>`
    select ${rowColumns(tx)}, clock_timestamp() as now
    from run r where id = any(${[...new Set(ids)]}::uuid[]) order by id for update`
  return { runs: lockedRuns(rows), now: rows.at(-1)?.now ?? new Date(0) }
}

/** Sends one event. False: the run does not accept it (any more), and nothing has changed. */
export function moveRun(run: LockedRun, event: RunEvent, cause: string, now: Date): boolean {
  if (!accepts(run.snapshot, event)) return false
  const { next, from, to, effects } = advance(runMachine, run.snapshot, event)
  run.snapshot = next
  run.status = runColumns(next).status
  run.effects.push(...effects)
  run.moves.push({ entity_id: run.id, event: event.type, from, to, effects, cause })
  if (run.status === 'running') run.startedAt ??= now
  if (isTerminal(run.status)) {
    run.finishedAt = now
    run.durationMs = Math.max(0, now.getTime() - (run.startedAt ?? run.createdAt).getTime())
    run.follower = null
  }
  return true
}

/** Writes back every run that moved, with its history. */
export async function saveRuns(tx: SqlTx, locked: Iterable<LockedRun>, now: Date): Promise<void> {
  const parts = savedParts(tx, locked, now)
  if (parts.length > 0) await together(tx, parts, tx`select 1`)
}

/**
 * The same as parts of another statement. What becomes of a row is looked up for that row, by its key: of a join with what
 * was sent there are plans that read the table whole, and others that compare each row with all that was sent.
 */
export function savedParts(tx: SqlTx, locked: Iterable<LockedRun>, now: Date): Part[] {
  const moved = [...locked].filter((run) => run.moves.length > 0)
  if (moved.length === 0) return []
  const columnsOf = (run: LockedRun) => ({
    snapshot: store(run.snapshot),
    ...runColumns(run.snapshot),
    started_at: run.startedAt,
    finished_at: run.finishedAt,
    duration_ms: run.durationMs,
    rows_written: run.rowsWritten,
    error: run.error,
    base_commit: run.baseCommit,
    merged_commit: run.mergedCommit,
    follower: run.follower,
    not_before: run.notBefore,
  })
  const next = Object.fromEntries(moved.map((run) => [run.id, columnsOf(run)]))
  const moves = moved.flatMap((run) => run.moves)
  return [
    tx`told as (
      insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
      select 'run', t.entity_id, ${now}, t.event, t."from", t."to", t.effects, t.cause
      from jsonb_to_recordset(${tx.json(moves as unknown as JSONValue)})
        as t(entity_id uuid, event text, "from" text, "to" text, effects jsonb, cause text))`,
    tx`saved as (
    update run set machine_version = ${RUN_MACHINE_VERSION},
      (snapshot, status, phase, attempt, waiting, started_at, finished_at, duration_ms, rows_written, error, base_commit,
        merged_commit, follower, not_before) = (
        select n.* from jsonb_to_record(${tx.json(next as unknown as JSONValue)}::jsonb -> run.id::text) as n(snapshot jsonb, status text,
          phase text, attempt int, waiting boolean, started_at timestamptz, finished_at timestamptz, duration_ms bigint,
          rows_written bigint, error text, base_commit bigint, merged_commit bigint, follower text,
          not_before timestamptz))
    where run.id = any(${moved.map(({ id }) => id)}::uuid[]))`,
  ]
}

/** What is told of the runs that ended in this transaction. */
export const completedOf = (runs: Iterable<LockedRun>): RunCompleted[] =>
  [...runs].flatMap(({ id, pipelineId, namespace, layer, pipeline, status, effects }) =>
    effects.includes('announce') && isTerminal(status)
      ? [{ run_id: id, pipeline_id: pipelineId, namespace, layer, pipeline, status }]
      : [],
  )
