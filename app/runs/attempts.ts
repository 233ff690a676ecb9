// Attempts: each fixes together its base on main, its landing files and its branch, and opens all three in one transaction.
import type { JSONValue } from 'postgres'
import type { Sql, SqlTx } from '../../drizzle/client.ts'
import type { PinnedFiles } from '../../drizzle/schema/pipeline.ts'
import type { RunStatus } from '../../machines/run.ts'
import { headOfMain, openBranches } from '../catalog/branches.ts'
import type { RunId } from '../ids.ts'
import { type LogLine, seqBefore, storeLogLines } from './logs.ts'
import { databaseTime, type LockedRun, lockedRuns, moveRun, saveRuns } from './moves.ts'

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
  /** Number of the last stored log line. */
  lastSeq: number
  landing: { namespace: string; zone: string; files: LandingFile[] }[]
}

interface LandingFile {
  id: string
  filename: string
  path: string
  versionId: string
  sizeBytes: number
}

/**
 * Starts what waits: at most one run per pipeline, the oldest, and as many as there are places.
 * `places` are runner addresses, one per free slot. One transaction for all; the ids of the started runs come back.
 */
export const startWaiting = (sql: Sql, places: readonly string[], follower: string): Promise<RunId[]> =>
  sql.begin(async (tx) => {
    const locked = lockedRuns(
      await tx`
        select r.* from run r
        where r.waiting and (r.not_before is null or r.not_before <= clock_timestamp())
          and not exists (select 1 from run_attempt a where a.pipeline_id = r.pipeline_id and a.state = 'open')
          and not exists (select 1 from run o where o.pipeline_id = r.pipeline_id and o.waiting
                          and (o.created_at, o.id) < (r.created_at, r.id))
          and (r.status = 'running' or not exists
            (select 1 from run o where o.pipeline_id = r.pipeline_id and o.status = 'running'))
        order by r.created_at, r.id limit ${places.length} for update of r skip locked`,
    )
    if (locked.size === 0) return []
    const now = await databaseTime(tx)
    const started = [...locked.values()].filter((run) => moveRun(run, { type: 'start' }, 'dispatcher', now))
    await openAttempts(tx, started, places, follower)
    await saveRuns(tx, started, now)
    return started.map((run) => run.id)
  })

async function openAttempts(tx: SqlTx, started: LockedRun[], places: readonly string[], follower: string) {
  // The newest version published of a pipeline tells a queued run's log that its code is older.
  const [base, facts] = await Promise.all([
    headOfMain(tx),
    tx<{ watermark: string; now: Date }[]>`
      select coalesce(max(seq), 0) as watermark, clock_timestamp() as now from landing_file`,
  ])
  const opened = started.map((run, place) => ({
    run_id: run.id,
    attempt: run.snapshot.context.attempt,
    pipeline_id: run.pipelineId,
    branch: branchOf(run.id, run.snapshot.context.attempt),
    runner_url: places[place] ?? '',
  }))
  const rows = tx.json(opened as unknown as JSONValue)
  const watermark = facts[0]?.watermark ?? 0
  await tx`
    insert into run_attempt (run_id, attempt, pipeline_id, branch, base_commit, landing_watermark, runner_url)
    select a.run_id, a.attempt, a.pipeline_id, a.branch, ${base}, ${watermark}, a.runner_url
    from jsonb_to_recordset(${rows}) as a(run_id uuid, attempt int, pipeline_id uuid, branch text, runner_url text)`
  await openBranches(
    tx,
    opened.map((a) => ({ branch: a.branch, base, runId: a.run_id, attempt: a.attempt })),
  )
  // I5: the active files of every zone the pinned sources name, as they are now.
  await tx`
    insert into run_file (run_id, attempt, landing_file_id, zone_id)
    select a.run_id, a.attempt, f.id, f.zone_id
    from jsonb_to_recordset(${rows}) as a(run_id uuid, attempt int)
    join run r on r.id = a.run_id
    cross join jsonb_array_elements_text(r.landing_zones) as zone_name
    join landing_zone z on z.namespace || '.' || z.name = zone_name
    join landing_file f on f.zone_id = z.id and f.archived_by_run is null`
  for (const run of started) {
    run.follower = follower
    run.baseCommit = base
    run.notBefore = null
  }
  await storeLogLines(tx, await openingLines(tx, opened, base))
}

/** What a reader of the log wants to know first. */
async function openingLines(tx: SqlTx, opened: { run_id: RunId; attempt: number }[], base: number) {
  const ids = opened.map((a) => a.run_id)
  const runs = await tx<
    { id: RunId; version_number: number | null; published_version: number | null; files: number; now: Date }[]
  >`
    select r.id, r.version_number, p.published_version, clock_timestamp() as now,
      (select count(*)::int from run_file f where f.run_id = r.id and f.attempt = r.attempt + 1) as files
    from run r join pipeline p on p.id = r.pipeline_id where r.id = any(${ids}::uuid[])`
  const byId = new Map(runs.map((run) => [run.id, run]))
  return opened.flatMap(({ run_id, attempt }): LogLine[] => {
    const run = byId.get(run_id)
    if (run === undefined) return []
    const code = run.version_number === null ? 'the draft' : `version ${run.version_number}`
    const landing = run.files > 0 ? `, ${run.files} landing files` : ''
    const line = (n: number, level: 'info' | 'warn', message: string): LogLine => ({
      runId: run_id,
      seq: seqBefore(attempt, n),
      at: run.now,
      level,
      message,
    })
    const lines = [line(1, 'info', `attempt ${attempt}: ${code} on main at commit ${base}${landing}`)]
    if (run.version_number === null)
      lines.push(line(2, 'warn', 'the pipeline has never been published: this run executes its draft'))
    else if (run.published_version !== null && run.published_version > run.version_number)
      lines.push(
        line(2, 'info', `version ${run.published_version} has been published since this run was requested`),
      )
    return lines
  })
}

/** The open attempts of some runs, as they are stored: what has just been started, or is being adopted. */
export async function openAttemptsOf(sql: Sql, ids: readonly RunId[]): Promise<OpenAttempt[]> {
  if (ids.length === 0) return []
  const [attempts, files] = await Promise.all([
    sql<(Omit<OpenAttempt, 'landing' | 'lastSeq'> & { lastSeq: string })[]>`
      select r.id as "runId", a.attempt, a.branch, a.runner_url as "runnerUrl", a.runner_boot as "runnerBoot", r.status,
        r.namespace, r.layer, r.pipeline, r.pipeline_type as "pipelineType", r.trigger, r.pins,
        coalesce((select f.opened_at from run_attempt f where f.run_id = r.id and f.attempt = 1), a.opened_at) as "runStartedAt",
        coalesce((select max(l.seq) from run_log l where l.run_id = r.id), 0) as "lastSeq"
      from run r join run_attempt a on a.run_id = r.id and a.state = 'open'
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
      where r.status in ('pending', 'running') and (p.name is null or p.alive_until < clock_timestamp())
      order by r.id limit ${limit} for update of r skip locked)
    returning id`
  return rows.map((row) => row.id)
}
