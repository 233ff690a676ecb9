// Changes that commit with the new states of runs: closed branches and attempts, stored results, archived inputs.
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import { insertRows } from '../../../drizzle/rows.ts'
import { qualityResults } from '../../../drizzle/schema/run.ts'
import type { Part } from '../../../drizzle/sql.ts'
import { runColumns } from '../../../machines/run.ts'
import type { RunId } from '../../core/ids.ts'
import { MAIN } from '../../core/lake-version.ts'
import { limits } from '../../core/limits.ts'
import { closedBranchesPart, keptBranchesPart } from '../../versions/store/branches.ts'
import type { Executed } from '../outcome.ts'
import { branchOf, handleOf } from './attempts.ts'
import { ATTEMPT_LINES, seqAfter, storableText } from './logs.ts'
import { hasMerged, type LockedRun } from './moves.ts'

/** The boot id of the runner that executes an attempt: one start of its process. */
export interface Boot {
  run_id: RunId
  attempt: number
  boot: string
}

/** The facts of an attempt that are settled with its run. */
type Settled = Pick<Executed, 'tests' | 'landingFileIds' | 'archivesLandingZones'>

/** All settlements as parts of one statement. No two parts write the same row. */
export function settledParts(
  tx: SqlTx,
  runs: Map<RunId, LockedRun>,
  executed: ReadonlyMap<RunId, Settled>,
  boots: Boot[],
  now: Date,
): Part[] {
  const all = [...runs.values()]
  const closing = all.filter((run) => run.effects.includes('closeBranch'))
  const ended = all.filter(
    ({ effects, ...run }) =>
      effects.includes('closeBranch') || effects.includes('openReview') || hasMerged({ effects, ...run }),
  )
  const cancelling = all.filter((run) => run.effects.includes('cancelAttempt'))
  for (const run of ended) run.follower = null
  return [
    ...storeBoots(
      tx,
      boots.filter(({ run_id }) => !ended.some((run) => run.id === run_id)),
    ),
    ...closedBranchesPart(
      tx,
      closing.filter(({ keepBranchHours }) => keepBranchHours === 0).map(branchOfRun),
    ),
    ...keptBranchesPart(
      tx,
      closing
        .filter(({ keepBranchHours }) => keepBranchHours > 0)
        .map((run) => ({ branch: branchOfRun(run), hours: run.keepBranchHours })),
    ),
    ...closeAttempts(tx, ended, boots, now),
    ...cancelsPart(
      tx,
      cancelling.map((run) => ({ runId: run.id, attempt: run.snapshot.context.attempt })),
    ),
    ...storeResults(tx, all, executed),
    ...archiveInputs(tx, all, executed, now),
  ]
}

const branchOfRun = (run: LockedRun) => branchOf(run.id, run.snapshot.context.attempt)

function storeBoots(tx: SqlTx, boots: Boot[]): Part[] {
  if (boots.length === 0) return []
  const bootOf = Object.fromEntries(boots.map((entry) => [handleOf(entry.run_id, entry.attempt), entry.boot]))
  return [
    tx`booted as materialized (select ${tx.json(bootOf)}::jsonb as by_handle)`,
    tx`stored_boots as (
      update run_attempt set runner_boot = (select by_handle from booted) ->> (${handle(tx)})
      where run_id = any(${boots.map((entry) => entry.run_id)}::uuid[]) and (select by_handle from booted) ? (${handle(tx)}))`,
  ]
}

/** Finds attempts by key, because an index of open attempts is full of entries of recently closed attempts. */
function closeAttempts(tx: SqlTx, runs: LockedRun[], boots: Boot[], now: Date): Part[] {
  if (runs.length === 0) return []
  const bootOf = new Map(boots.map(({ run_id, boot }) => [run_id, boot]))
  const ended = Object.fromEntries(
    runs.map((run) => [
      handleOf(run.id, run.snapshot.context.attempt),
      {
        outcome: runColumns(run.snapshot).phase === 'review' ? 'review' : run.status,
        boot: bootOf.get(run.id) ?? null,
      },
    ]),
  )
  return [
    tx`ended as materialized (select ${tx.json(ended)}::jsonb as by_handle)`,
    tx`closed_attempts as (
      update run_attempt set state = 'closed', closed_at = ${now},
        outcome = (select by_handle from ended) -> (${handle(tx)}) ->> 'outcome',
        runner_boot = coalesce((select by_handle from ended) -> (${handle(tx)}) ->> 'boot', runner_boot)
      where run_id = any(${runs.map(({ id }) => id)}::uuid[]) and closed_at is null
        and (select by_handle from ended) ? (${handle(tx)}))`,
  ]
}

/** An expression: the handle of a `run_attempt` row, as `handleOf` writes it. */
const handle = (tx: SqlTx) => tx`run_id || ':' || attempt`

/** Queues cancellations of attempts at their runners. They are effects, because a transaction must not await a runner. */
export async function queueCancels(tx: Sql | SqlTx, attempts: { runId: RunId; attempt: number }[]) {
  if (attempts.length > 0) await insertCancels(tx, attempts)
}

const cancelsPart = (tx: SqlTx, attempts: { runId: RunId; attempt: number }[]): Part[] =>
  attempts.length === 0 ? [] : [tx`queued_cancels as (${insertCancels(tx, attempts)})`]

function insertCancels(tx: Sql | SqlTx, attempts: { runId: RunId; attempt: number }[]) {
  const rows = attempts.map(({ runId, attempt }) => ({
    run_id: runId,
    attempt,
    handle: handleOf(runId, attempt),
  }))
  return tx`
    insert into outbox (kind, payload, due_at)
    select 'cancelAttempt', jsonb_build_object('handle', c.handle, 'runnerUrl', a.runner_url), clock_timestamp()
    from jsonb_to_recordset(${tx.json(rows)}) as c(run_id uuid, attempt int, handle text)
    join run_attempt a on a.run_id = c.run_id and a.attempt = c.attempt`
}

const RESULT_COLUMNS = [
  'runId',
  'pipelineId',
  'name',
  'severity',
  'status',
  'value',
  'durationMs',
  'error',
  'samples',
] as const

function storeResults(tx: SqlTx, runs: LockedRun[], executed: ReadonlyMap<RunId, Settled>): Part[] {
  const results = runs.flatMap((run) =>
    (executed.get(run.id)?.tests ?? []).map((test) => ({
      runId: run.id,
      pipelineId: run.pipelineId,
      name: storableText(test.name),
      severity: test.severity,
      status: test.isPassed ? 'passed' : 'failed',
      value: Math.max(-Number.MAX_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, test.value)),
      durationMs: test.durationMs,
      error: test.error && storableText(test.error),
      samples: (test.samples ?? []).map(storableText),
    })),
  )
  if (results.length === 0) return []
  return [
    tx`stored_results as (
    ${insertRows(tx, qualityResults, RESULT_COLUMNS, results)}
    on conflict (run_id, name) do update set severity = excluded.severity, status = excluded.status,
      value = excluded.value, duration_ms = excluded.duration_ms, error = excluded.error, samples = excluded.samples,
      created_at = clock_timestamp())`,
  ]
}

/**
 * I6: this update archives the files; an effect moves their objects later. Only runs on main archive files. A file that another success has archived meanwhile
 * stays with that success. A file that the run may only read stays active, and the run's log says so.
 */
function archiveInputs(
  tx: SqlTx,
  runs: LockedRun[],
  executed: ReadonlyMap<RunId, Settled>,
  now: Date,
): Part[] {
  const inputs = runs.flatMap((run) => {
    const facts = executed.get(run.id)
    if (run.branch !== MAIN || run.status !== 'success' || facts === undefined || !facts.archivesLandingZones)
      return []
    return facts.landingFileIds.map((id) => ({ run_id: run.id, attempt: run.snapshot.context.attempt, id }))
  })
  if (inputs.length === 0) return []
  // Postgres always parses arrays. So an invalid id fails the statement in every plan, even if no row is looked up.
  const column = <K extends keyof (typeof inputs)[number]>(key: K) => inputs.map((input) => input[key])
  return [
    tx`input as materialized (
      select r.run_id, r.attempt, r.landing_file_id as id, r.zone_id, r.may_archive
      from unnest(${column('run_id')}::uuid[], ${column('attempt')}::int[], ${column('id')}::uuid[])
        as i(run_id, attempt, id)
      join run_file r on r.run_id = i.run_id and r.attempt = i.attempt and r.landing_file_id = i.id)`,
    tx`archived as (
      update landing_file f set archived_by_run = i.run_id, archived_at = ${now}, quarantined_at = null
      from input i
      where f.id = i.id and f.archived_by_run is null and i.may_archive
      returning i.run_id)`,
    tx`logged_unarchived as (
      insert into run_log (run_id, seq, at, level, message)
      select k.run_id, ${seqAfter(0, NOT_ARCHIVED_LINE)}::bigint + k.attempt * ${ATTEMPT_LINES}::bigint, ${now}, 'warn', left(
        'landing files not archived: the pipeline''s owner may read but not write ' || string_agg(z.namespace || '.' || z.name, ', ' order by z.namespace, z.name)
          || ', so the next run reads the files again', ${limits.logMessageLength}::int)
      from (select distinct run_id, attempt, zone_id from input where not may_archive) k
      join landing_zone z on z.id = k.zone_id
      group by k.run_id, k.attempt
      on conflict (run_id, seq) do nothing)`,
    tx`queued_archiving as (
      insert into outbox (kind, payload, due_at)
      select distinct 'archivedInputs', jsonb_build_object('runId', run_id), ${now}::timestamptz from archived)`,
  ]
}

/** The number of this log line, which sorts it directly before the last line of its run. */
const NOT_ARCHIVED_LINE = 8
