// Attempts: each fixes together its base on main, its landing files and its branch, and opens all three in one transaction.
import type { JSONValue } from 'postgres'
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import type { PinnedFiles } from '../../drizzle/schema/pipeline.ts'
import { RUN_MACHINE_VERSION, type RunStatus } from '../../machines/run.ts'
import { openBranches } from '../catalog/branches.ts'
import type { RunId } from '../ids.ts'
import { announceSuccesses } from './announcements.ts'
import { ATTEMPT_LINES, type LogLine, seqAfter, storeLogLines } from './logs.ts'
import { completedOf, type LockedRun, lockedRuns, moveRun, type RunRow, saveRuns } from './moves.ts'
import type { RunCompleted } from './notices.ts'

export const branchOf = (runId: RunId, attempt: number) => `run-${runId}-${attempt}`
export const handleOf = (runId: RunId, attempt: number) => `${runId}:${attempt}`

/** Everything that submitting or following an open attempt needs. */
export interface OpenAttempt {
  runId: RunId
  attempt: number
  branch: string
  runnerUrl: string
  runnerBoot: string | null
  status: RunStatus
  namespace: string
  layer: string
  pipeline: string
  pipelineType: string
  trigger: string
  pins: PinnedFiles
  /** When the first attempt was opened. */
  runStartedAt: Date
  /** Number of the last stored log line, and how much the log holds already. */
  lastSeq: number
  logLines: number
  logBytes: number
  landing: { namespace: string; zone: string; files: LandingFile[] }[]
}

type LogState = 'lastSeq' | 'logLines' | 'logBytes'

interface LandingFile {
  id: string
  filename: string
  path: string
  versionId: string
  sizeBytes: number
}

/** What became of the runs that waited. */
export interface Started {
  started: RunId[]
  /** Runs that ended instead of being started. */
  completed: RunCompleted[]
  /** There may be more: as many as there were places have been looked at. */
  isFull: boolean
}

/**
 * Starts what waits: at most one run per pipeline, the oldest, and as many as there are places.
 * `places` are runner addresses, one per free slot. One transaction for all. A run whose input an earlier success has
 * taken ends here and takes no place.
 */
export const startWaiting = (sql: Sql, places: readonly string[], follower: string): Promise<Started> =>
  sql.begin(async (tx) => {
    // One statement, one view: the base is at least as new as the end of each pipeline's previous run.
    // Of each pipeline that waits, its running run or else its oldest: one probe per pipeline, however long its queue.
    const rows = await tx<(RunRow & AttemptStart)[]>`
      with recursive heads as (
        (select pipeline_id from run where waiting order by pipeline_id limit 1)
        union all
        select (select o.pipeline_id from run o where o.waiting and o.pipeline_id > h.pipeline_id
                order by o.pipeline_id limit 1)
        from heads h where h.pipeline_id is not null)
      select r.*, clock_timestamp() as now, (select number from lake_ref where name = 'main') as base,
        coalesce((select max(seq) from landing_file), 0) as watermark
      from heads h
      cross join lateral (
        (select o.id from run o where o.pipeline_id = h.pipeline_id and o.status = 'running' limit 1)
        union all
        (select o.id from run o where o.pipeline_id = h.pipeline_id and o.waiting order by o.created_at, o.id limit 1)
        limit 1) first
      join run r on r.id = first.id
      where r.waiting and (r.not_before is null or r.not_before <= clock_timestamp())
        and r.machine_version <= ${RUN_MACHINE_VERSION}
        and not exists (select 1 from run_attempt a where a.pipeline_id = r.pipeline_id and a.state = 'open')
      order by r.created_at, r.id limit ${places.length} for update of r skip locked`
    const [start] = rows
    if (start === undefined) return { started: [], completed: [], isFull: false }
    const waiting = [...lockedRuns(rows).values()]
    const taken = endTaken(waiting, await takenInputs(tx, waiting), start.now)
    const started = waiting.filter(
      (run) => !taken.has(run.id) && moveRun(run, { type: 'start' }, 'dispatcher', start.now),
    )
    for (const run of started) {
      run.follower = follower
      run.baseCommit = Number(start.base)
      run.notBefore = null
    }
    // Sent together, performed in this order.
    await Promise.all([
      ...(started.length > 0 ? openAttempts(tx, started, places, start) : []),
      storeLogLines(tx, [...taken.values()]),
      saveRuns(tx, waiting, start.now),
      announceSuccesses(tx, waiting),
    ])
    return {
      started: started.map((run) => run.id),
      completed: completedOf(waiting),
      isFull: rows.length === places.length,
    }
  })

/**
 * Of uploads that asked for these runs, those that a success has archived, and the run that did. Until this transaction
 * ends nobody archives the others: what a run is started for is there when its input is frozen.
 */
async function takenInputs(tx: SqlTx, waiting: readonly LockedRun[]): Promise<Map<string, TakenInput>> {
  const ids = waiting.flatMap(({ landingFileId }) => landingFileId ?? [])
  if (ids.length === 0) return new Map()
  const files = await tx<TakenInput[]>`
    select id, filename, archived_by_run as by from landing_file where id = any(${ids}::uuid[]) order by id for share`
  return new Map(files.flatMap((file) => (file.by === null ? [] : [[file.id, file]])))
}

type TakenInput = { id: string; filename: string; by: RunId | null }

/** Ends the runs that have nothing left to do; the answer is the line their logs get. */
function endTaken(waiting: readonly LockedRun[], inputs: Map<string, TakenInput>, now: Date) {
  const lines = new Map<RunId, LogLine>()
  for (const run of waiting) {
    const input = inputs.get(run.landingFileId ?? '')
    if (input === undefined) continue
    run.startedAt ??= now
    if (!moveRun(run, { type: 'inputTaken' }, `run ${input.by}`, now)) continue
    run.rowsWritten = 0
    run.notBefore = null
    lines.set(run.id, {
      runId: run.id,
      seq: seqAfter(run.snapshot.context.attempt, 9),
      at: now,
      level: 'info',
      message: `success: nothing to do, since run ${input.by} took ${input.filename}, whose upload asked for this run`,
    })
  }
  return lines
}

interface AttemptStart {
  now: Date
  base: string
  watermark: string
}

function openAttempts(
  tx: SqlTx,
  started: LockedRun[],
  places: readonly string[],
  { now, base, watermark }: AttemptStart,
) {
  const opened = started.map((run, place) => ({
    run_id: run.id,
    attempt: run.snapshot.context.attempt,
    pipeline_id: run.pipelineId,
    branch: branchOf(run.id, run.snapshot.context.attempt),
    runner_url: places[place] ?? '',
  }))
  const rows = tx.json(opened as unknown as JSONValue)
  return [
    tx`
      insert into run_attempt (run_id, attempt, pipeline_id, branch, base_commit, landing_watermark, runner_url)
      select a.run_id, a.attempt, a.pipeline_id, a.branch, ${base}, ${watermark}, a.runner_url
      from jsonb_to_recordset(${rows}) as a(run_id uuid, attempt int, pipeline_id uuid, branch text, runner_url text)`,
    openBranches(
      tx,
      opened.map((a) => ({ branch: a.branch, base: Number(base), runId: a.run_id, attempt: a.attempt })),
    ),
    // I5: the active files of every zone the pinned sources name, as they are now.
    tx`
      insert into run_file (run_id, attempt, landing_file_id, zone_id)
      select a.run_id, a.attempt, f.id, f.zone_id
      from jsonb_to_recordset(${rows}) as a(run_id uuid, attempt int)
      join run r on r.id = a.run_id
      cross join jsonb_array_elements_text(r.landing_zones) as zone_name
      join landing_zone z on z.namespace || '.' || z.name = zone_name
      join landing_file f on f.zone_id = z.id and f.archived_by_run is null`,
    // What a reader of the log wants to know first.
    tx`
      insert into run_log (run_id, seq, at, level, message)
      select a.run_id, a.attempt * ${ATTEMPT_LINES}::bigint + line.number, ${now}, line.level, line.message
      from jsonb_to_recordset(${rows}) as a(run_id uuid, attempt int)
      join run r on r.id = a.run_id
      join pipeline p on p.id = r.pipeline_id
      cross join lateral (
        select count(*) as landing from run_file f where f.run_id = a.run_id and f.attempt = a.attempt) files
      cross join lateral (values
        (1, 'info', format('attempt %s: %s on main at commit %s%s', a.attempt,
          coalesce('version ' || r.version_number, 'the draft'), ${base}::text,
          case when files.landing > 0 then format(', %s landing files', files.landing) else '' end)),
        (2, 'warn', case when r.version_number is null
          then 'the pipeline has never been published: this run executes its draft' end),
        (3, 'info', case when p.published_version > r.version_number
          then format('version %s has been published since this run was requested', p.published_version) end)
      ) as line(number, level, message)
      where line.message is not null`,
  ]
}

/** The open attempts of some runs, as they are stored: what has just been started, or is being adopted. */
export async function openAttemptsOf(sql: Sql, ids: readonly RunId[]): Promise<OpenAttempt[]> {
  if (ids.length === 0) return []
  const [attempts, files] = await Promise.all([
    sql<(Omit<OpenAttempt, 'landing' | LogState> & Record<LogState, string>)[]>`
      select r.id as "runId", a.attempt, a.branch, a.runner_url as "runnerUrl", a.runner_boot as "runnerBoot", r.status,
        r.namespace, r.layer, r.pipeline, r.pipeline_type as "pipelineType", r.trigger, r.pins,
        coalesce((select f.opened_at from run_attempt f where f.run_id = r.id and f.attempt = 1), a.opened_at) as "runStartedAt",
        log."lastSeq", log."logLines", log."logBytes"
      from run r join run_attempt a on a.run_id = r.id and a.state = 'open'
      cross join lateral (
        select coalesce(max(l.seq), 0) as "lastSeq", count(*) as "logLines",
          coalesce(sum(octet_length(l.message)), 0) as "logBytes"
        from run_log l where l.run_id = r.id) log
      where r.id = any(${ids as RunId[]}::uuid[])`,
    sql<
      {
        runId: RunId
        namespace: string
        zone: string
        id: string
        filename: string
        path: string
        versionId: string
        sizeBytes: string
      }[]
    >`
      select f.run_id as "runId", z.namespace, z.name as zone, l.id, l.filename, l.path, l.version_id as "versionId", l.size_bytes as "sizeBytes"
      from run_attempt a
      join run_file f on f.run_id = a.run_id and f.attempt = a.attempt
      join landing_file l on l.id = f.landing_file_id join landing_zone z on z.id = l.zone_id
      where a.run_id = any(${ids as RunId[]}::uuid[]) and a.state = 'open' order by l.seq`,
  ])
  return attempts.map((attempt) => {
    const zones = Map.groupBy(
      files.filter((file) => file.runId === attempt.runId),
      (file) => `${file.namespace}.${file.zone}`,
    )
    return {
      ...attempt,
      lastSeq: Number(attempt.lastSeq),
      logLines: Number(attempt.logLines),
      logBytes: Number(attempt.logBytes),
      landing: [...zones.values()].map((inZone) => ({
        namespace: inZone[0]?.namespace ?? '',
        zone: inZone[0]?.zone ?? '',
        files: inZone.map(({ id, filename, path, versionId, sizeBytes }) => ({
          id,
          filename,
          path,
          versionId,
          sizeBytes: Number(sizeBytes),
        })),
      })),
    }
  })
}

/** Takes over the attempts of replicas that have stopped renewing; a run is never executed again for that. */
export async function adoptOrphans(sql: Sql, follower: string, limit: number): Promise<RunId[]> {
  const rows = await sql<{ id: RunId }[]>`
    update run set follower = ${follower} where id in (
      select r.id from run r join run_attempt a on a.run_id = r.id and a.state = 'open'
      left join replica p on p.name = r.follower
      where r.status in ('pending', 'running') and r.machine_version <= ${RUN_MACHINE_VERSION}
        and (p.name is null or p.alive_until < clock_timestamp())
      order by r.id limit ${limit} for update of r skip locked)
    returning id`
  return rows.map((row) => row.id)
}

/** Open attempts that this replica is written down to follow. */
export const attemptsFollowedBy = (sql: Sql, follower: string) =>
  sql<{ runId: RunId; attempt: number }[]>`
    select r.id as "runId", a.attempt from run r join run_attempt a on a.run_id = r.id and a.state = 'open'
    where r.follower = ${follower}`
