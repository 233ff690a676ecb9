// Events of runs: lock the rows, ask the machine, and save state, history and columns in the caller's transaction.
import { alias } from 'drizzle-orm/pg-core'
import type { JSONValue } from 'postgres'
import type { SqlTx } from '../../../drizzle/client.ts'
import { cteStatement } from '../../../drizzle/cte-statement.ts'
import {
  columnNames,
  columnTypes,
  computed,
  pick,
  type RowOf,
  select,
  toRecord,
} from '../../../drizzle/rows.ts'
import { runs } from '../../../drizzle/schema/run.ts'
import type { Part } from '../../../drizzle/sql.ts'
import { accepts, advance, restore, store } from '../../../machines/advance.ts'
import {
  isTerminal,
  migrateRun,
  RUN_MACHINE_VERSION,
  type RunEvent,
  type RunSnapshot,
  runColumns,
  runMachine,
} from '../../../machines/run.ts'
import type { PipelineId, RunId } from '../../core/ids.ts'
import type { RunCompleted } from './notices.ts'

/** Columns of a run `r` that a move reads. */
export const LOCKED = pick(
  alias(runs, 'r'),
  'id',
  'pipelineId',
  'namespace',
  'layer',
  'pipeline',
  'branch',
  'snapshot',
  'machineVersion',
  'status',
  'createdAt',
  'startedAt',
  'finishedAt',
  'durationMs',
  'rowsWritten',
  'error',
  'baseCommit',
  'mergedCommit',
  'follower',
  'notBefore',
  'chainDepth',
  'landingFileId',
)

/** Columns that a move may write, besides `machineVersion`. */
const MOVED_COLUMNS = [
  'snapshot',
  'status',
  'phase',
  'attempt',
  'waiting',
  'startedAt',
  'finishedAt',
  'durationMs',
  'rowsWritten',
  'error',
  'baseCommit',
  'mergedCommit',
  'follower',
  'notBefore',
] as const

type LockedRow = RowOf<typeof LOCKED>

/** A locked run inside a transaction. */
export interface LockedRun extends Omit<LockedRow, 'id' | 'pipelineId' | 'snapshot' | 'machineVersion'> {
  id: RunId
  pipelineId: PipelineId
  snapshot: RunSnapshot
  /** Hours for which the closed branch of the attempt stays readable; 0 unless the gate failed in this transaction. */
  keepBranchHours: number
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

/** Restores locked rows. Rows that a newer program wrote are left out, because only that program may move them. */
export function lockedRuns(rows: readonly LockedRow[]): Map<RunId, LockedRun> {
  const locked = new Map<RunId, LockedRun>()
  for (const { machineVersion, snapshot, ...row } of rows) {
    if (machineVersion > RUN_MACHINE_VERSION) continue
    const id = row.id as RunId
    locked.set(id, {
      ...row,
      id,
      pipelineId: row.pipelineId as PipelineId,
      snapshot: restore(runMachine, migrateRun(machineVersion, snapshot)),
      keepBranchHours: 0,
      effects: [],
      moves: [],
    })
  }
  return locked
}

/** Locks runs in the order of their ids, which prevents deadlocks. `now` is the database's time. */
export async function lockRuns(
  tx: SqlTx,
  ids: readonly RunId[],
): Promise<{ runs: Map<RunId, LockedRun>; now: Date }> {
  const rows = await select(tx, { ...LOCKED, now: computed<Date>('clock_timestamp()') })`
    from run r where id = any(${[...new Set(ids)]}::uuid[]) order by id for update`
  return { runs: lockedRuns(rows), now: rows.at(-1)?.now ?? new Date(0) }
}

/** Sends one event. False: the run does not accept the event, and nothing has changed. */
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

/** Saves every run that moved, with its history. */
export async function saveRuns(tx: SqlTx, locked: Iterable<LockedRun>, now: Date): Promise<void> {
  const parts = savedParts(tx, locked, now)
  if (parts.length > 0) await cteStatement(tx, parts, tx`select 1`)
}

/**
 * The work of `saveRuns` as parts of another statement. Each row looks up its new values by its key. A join with the sent
 * values has plans that read the whole table, or that compare each row with all sent values.
 */
export function savedParts(tx: SqlTx, locked: Iterable<LockedRun>, now: Date): Part[] {
  const moved = [...locked].filter((run) => run.moves.length > 0)
  if (moved.length === 0) return []
  const next = Object.fromEntries(
    moved.map((run) => {
      const row = { ...run, ...runColumns(run.snapshot), snapshot: store(run.snapshot) }
      return [run.id, toRecord(runs, MOVED_COLUMNS, row)]
    }),
  )
  const moves = moved.flatMap((run) => run.moves)
  return [
    tx`history as (
      insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
      select 'run', t.entity_id, ${now}, t.event, t."from", t."to", t.effects, t.cause
      from jsonb_to_recordset(${tx.json(moves as unknown as JSONValue)})
        as t(entity_id uuid, event text, "from" text, "to" text, effects jsonb, cause text))`,
    tx`saved as (
    update run set machine_version = ${RUN_MACHINE_VERSION},
      (${columnNames(tx, runs, MOVED_COLUMNS)}) = (
        select n.* from jsonb_to_record(${tx.json(next as unknown as JSONValue)}::jsonb -> run.id::text)
          as n(${columnTypes(tx, runs, MOVED_COLUMNS)}))
    where run.id = any(${moved.map(({ id }) => id)}::uuid[]))`,
  ]
}

/** Whether the attempt's branch has merged in this transaction. */
export const hasMerged = ({ effects, status }: Pick<LockedRun, 'effects' | 'status'>): boolean =>
  effects.includes('mergeBranch') && status === 'success'

/** The run-completed events of runs that ended in this transaction. */
export const completedOf = (runs: Iterable<LockedRun>): RunCompleted[] =>
  [...runs].flatMap(({ id, pipelineId, namespace, layer, pipeline, status, effects }) =>
    effects.includes('announce') && isTerminal(status)
      ? [{ run_id: id, pipeline_id: pipelineId, namespace, layer, pipeline, status }]
      : [],
  )
