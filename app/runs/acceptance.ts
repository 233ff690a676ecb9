// The move every run makes and somebody waits for: its first attempt has been accepted. One statement instead of a transaction.
import type { JSONValue } from 'postgres'
import type { Sql } from '../../drizzle/client.ts'
import { advance, type Stored, store } from '../../machines/advance.ts'
import { newRun, RUN_MACHINE_VERSION, runColumns, runMachine } from '../../machines/run.ts'
import type { RunId } from '../core/ids.ts'
import { hasRoom, RUN_CHANGED } from './notices.ts'

/** Every run whose first attempt has just been started is in this one state, so the machine is asked once for all of them. */
const started = advance(runMachine, newRun(), { type: 'start' }).next
const accepted = advance(runMachine, started, { type: 'accepted', attempt: 1 })

const json = (snapshot: Parameters<typeof store>[0]) =>
  store(snapshot) satisfies Stored as unknown as JSONValue

export interface Acceptance {
  runId: RunId
  runnerBoot: string
}

/**
 * Moves those of the runs that are as their start has left them, and tells of it; the answer is which. At most as many as
 * one notice has room for. The rows are locked in the order of their ids and compared under that lock with the state the
 * machine was asked about: any other is for `applyOutcomes`.
 * It does not wait for the disk: a crash of the database that undoes it leaves the attempt open as its start has, whose
 * commit was waited for, and what the runner tells of it next is applied with the acceptance that it implies.
 */
export async function acceptFirstAttempts(sql: Sql, acceptances: readonly Acceptance[]): Promise<Set<RunId>> {
  const { status, phase, waiting } = runColumns(accepted.next)
  const boots = Object.fromEntries(acceptances.map(({ runId, runnerBoot }) => [runId, runnerBoot]))
  const moved = await sql<{ id: RunId }[]>`
    with quick as materialized (select set_config('synchronous_commit', 'off', true)),
    locked as (
      select id from run
      where id = any(${acceptances.map(({ runId }) => runId)}::uuid[]) and snapshot = ${sql.json(json(started))}
        and machine_version = ${RUN_MACHINE_VERSION}
      order by id for update),
    moved as (
      update run set snapshot = ${sql.json(json(accepted.next))}, status = ${status}, phase = ${phase},
        waiting = ${waiting}, started_at = coalesce(started_at, clock_timestamp())
      where id = any(array(select id from locked))
      returning id, started_at),
    told as (
      insert into transition (machine, entity_id, at, event, "from", "to", effects, cause)
      select 'run', id, started_at, 'accepted', ${accepted.from}, ${accepted.to}, ${sql.json(accepted.effects)}, 'runner'
      from moved),
    remembered as (
      update run_attempt set runner_boot = ${sql.json(boots)}::jsonb ->> run_id::text
      where run_id = any(array(select id from moved)) and attempt = 1)
    select id, (select pg_notify(${RUN_CHANGED}, json_agg(id)::text) from moved having ${hasRoom(sql)}) is null as told
    from quick, moved`
  return new Set(moved.map(({ id }) => id))
}
