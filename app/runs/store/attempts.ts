// Open attempts: the data to submit and follow them, their inputs, and the replicas that follow them.
import { alias } from 'drizzle-orm/pg-core'
import type { JSONValue } from 'postgres'
import type { Sql, SqlTx } from '../../../drizzle/client.ts'
import { computed, pick, type RowOf, returning, select, selected } from '../../../drizzle/rows.ts'
import { landingFiles, landingZones } from '../../../drizzle/schema/landing.ts'
import { runAttempts, runs } from '../../../drizzle/schema/run.ts'
import { restore } from '../../../machines/advance.ts'
import { executesAlone, migrateRun, RUN_MACHINE_VERSION, runMachine } from '../../../machines/run.ts'
import type { RunId } from '../../core/ids.ts'
import { asksForRunner } from '../placement.ts'

/** A replica whose sign of life is older than this counts as dead. */
const REPLICA_EXPIRY_MS = 6_000

export const branchOf = (runId: RunId, attempt: number) => `run-${runId}-${attempt}`
export const handleOf = (runId: RunId, attempt: number) => `${runId}:${attempt}`

/** Columns of a run that are needed to submit or follow an attempt. */
const OF_RUN = pick(
  alias(runs, 'r'),
  'status',
  'namespace',
  'layer',
  'pipeline',
  'pipelineType',
  'trigger',
  'traceparent',
  'tracestate',
  'pins',
  'createdAt',
)
const STORED = pick(alias(runs, 'r'), 'snapshot', 'machineVersion', 'placement')
const OF_ATTEMPT = pick(alias(runAttempts, 'a'), 'attempt', 'branch', 'runnerUrl', 'runnerBoot')
const FIRST_OPENED = '(select f.opened_at from run_attempt f where f.run_id = r.id and f.attempt = 1)'

/** Number of the last stored log line, and the size of the stored log. */
const LOG = {
  lastSeq: computed<number>('log.last_seq'),
  logLines: computed<number>('log.lines'),
  logBytes: computed<number>('log.bytes'),
}
const logOfRun = (sql: Sql | SqlTx) => sql`
  cross join lateral (
    select coalesce(max(l.seq), 0)::float8 as last_seq, count(*)::int as lines,
      coalesce(sum(octet_length(l.message)), 0)::float8 as bytes
    from run_log l where l.run_id = r.id) log`

const OPEN = {
  runId: computed<RunId>('r.id'),
  ...OF_ATTEMPT,
  ...OF_RUN,
  ...LOG,
  /** When the first attempt was opened. */
  runStartedAt: computed<Date>(`coalesce(${FIRST_OPENED}, a.opened_at)`),
  /**
   * Location of the written table's metadata at the attempt's base; '' if the table does not exist. A restarted runner may
   * execute the attempt again before its first execution is known. Then the second commit does not match this metadata, so
   * nothing is written twice.
   */
  tableMetadata: computed<string>(`coalesce((
    select c.metadata_location from lake_ref f
    left join branch_entry own on own.ref = f.name
      and own.namespace = r.namespace and own.layer = r.layer and own.name = r.pipeline
    left join main_entry e on own.ref is null
      and e.namespace = r.namespace and e.layer = r.layer and e.name = r.pipeline
      and e.from_commit <= f.base and (e.to_commit is null or e.to_commit > f.base)
    join lake_content c on c.id = case when own.ref is null then e.content_id else own.base_content end
    where f.name = a.branch and c.kind = 'table'), '')`),
}

/** All data to submit or follow an open attempt. */
export interface OpenAttempt extends RowOf<typeof OPEN> {
  /**
   * The runner must execute nothing beside this attempt, because earlier attempts shared lost runners with others, or because the
   * pipeline asks for memory.
   */
  isAlone: boolean
  landing: { namespace: string; zone: string; files: LandingFile[] }[]
}

const OF_FILE = pick(alias(landingFiles, 'l'), 'id', 'filename', 'path', 'versionId', 'sizeBytes')
type LandingFile = RowOf<typeof OF_FILE>
/** An input file of an attempt, with its zone. */
const FROZEN = {
  runId: computed<RunId>('f.run_id'),
  ...pick(alias(landingZones, 'z'), 'namespace'),
  zone: alias(landingZones, 'z').name,
  ...OF_FILE,
}
type FrozenRow = RowOf<typeof FROZEN>

/**
 * I5: the active files of each zone (`ns.zone`) in the pinned sources become the attempts' input. The watermark was read with
 * the base of the attempts: a later file belongs to a later run. If users see only some zones, `includesInputs` is false, and the
 * attempts do not contain their inputs. Then the runner requests its inputs from the catalog, which checks the visibility.
 */
export async function freezeInputs(
  tx: SqlTx,
  opened: readonly OpenAttempt[],
  watermark: string,
  zonesOf: (id: RunId) => readonly string[],
  includesInputs = true,
): Promise<void> {
  const reading = opened.flatMap(({ runId, attempt }) =>
    zonesOf(runId).map((zone) => {
      const [namespace, ...name] = zone.split('.')
      return { run_id: runId, attempt, namespace, name: name.join('.') }
    }),
  )
  if (reading.length === 0) return
  const files = await tx<FrozenRow[]>`
    with frozen as (
      select a.run_id, a.attempt, z.namespace, z.name as zone, f.*
      from jsonb_to_recordset(${tx.json(reading as unknown as JSONValue)}) as a(run_id uuid, attempt int, namespace text, name text)
      join landing_zone z on z.namespace = a.namespace and z.name = a.name
      join landing_file f on f.zone_id = z.id and f.archived_by_run is null and f.quarantined_at is null
        and f.seq <= ${watermark}),
    stored as (
      insert into run_file (run_id, attempt, landing_file_id, zone_id)
      select run_id, attempt, id, zone_id from frozen)
    select run_id as "runId", namespace, zone, ${selected(tx, OF_FILE)} from frozen l order by seq`
  const filesOf = Map.groupBy(files, (file) => file.runId)
  if (includesInputs) for (const attempt of opened) attempt.landing = byZone(filesOf.get(attempt.runId) ?? [])
}

/** Sets the first start and the log size of runs that had attempts before. */
export async function continueLogs(tx: SqlTx, opened: readonly OpenAttempt[]) {
  const later = opened.filter(({ attempt }) => attempt > 1)
  if (later.length === 0) return
  const states = await select(tx, {
    runId: OPEN.runId,
    ...LOG,
    firstOpened: computed<Date | null>(FIRST_OPENED),
  })`
    from run r ${logOfRun(tx)} where r.id = any(${later.map(({ runId }) => runId)}::uuid[])`
  for (const attempt of later) {
    const state = states.find(({ runId }) => runId === attempt.runId)
    if (state === undefined) continue
    const { firstOpened, ...log } = state
    Object.assign(attempt, log)
    attempt.runStartedAt = firstOpened ?? attempt.runStartedAt
  }
}

/** The stored open attempts of runs that have just started or are being adopted. */
export async function openAttemptsOf(
  sql: Sql,
  ids: readonly RunId[],
  includesInputs = true,
): Promise<OpenAttempt[]> {
  if (ids.length === 0) return []
  const [attempts, files] = await Promise.all([
    select(sql, { ...OPEN, ...STORED })`
      from run r join run_attempt a on a.run_id = r.id and a.state = 'open' ${logOfRun(sql)}
      where r.id = any(${ids as RunId[]}::uuid[]) and r.machine_version <= ${RUN_MACHINE_VERSION}`,
    select(sql, FROZEN)`
      from run_attempt a
      join run_file f on f.run_id = a.run_id and f.attempt = a.attempt
      join landing_file l on l.id = f.landing_file_id join landing_zone z on z.id = l.zone_id
      where a.run_id = any(${ids as RunId[]}::uuid[]) and a.state = 'open' order by l.seq`,
  ])
  const filesOf = Map.groupBy(files, (file) => file.runId)
  return attempts.map(({ snapshot, machineVersion, placement, ...attempt }) => ({
    ...attempt,
    isAlone:
      executesAlone(restore(runMachine, migrateRun(machineVersion, snapshot)).context) ||
      asksForRunner(placement),
    landing: includesInputs ? byZone(filesOf.get(attempt.runId) ?? []) : [],
  }))
}

const byZone = (files: readonly FrozenRow[]): OpenAttempt['landing'] => {
  const zones = new Map<string, OpenAttempt['landing'][number]>()
  for (const { runId: _, namespace, zone, ...file } of files) {
    const key = `${namespace}.${zone}`
    const zoneFiles = zones.get(key) ?? { namespace, zone, files: [] }
    zoneFiles.files.push(file)
    zones.set(key, zoneFiles)
  }
  return [...zones.values()]
}

/** Records that this replica is alive, and deletes replicas that expired more than an hour ago. */
export async function renewReplica(sql: Sql, replica: string): Promise<void> {
  await sql`
    insert into replica (name, alive_until)
    values (${replica}, ${expiry(sql)})
    on conflict (name) do update set alive_until = excluded.alive_until`
  await sql`delete from replica where alive_until < clock_timestamp() - interval '1 hour'`
}

/** A replica that expires later was recorded before the clock of the database went back. */
const expiry = (sql: Sql) => sql`clock_timestamp() + ${REPLICA_EXPIRY_MS} * interval '1 millisecond'`

/** Takes over the attempts of replicas that stopped renewing. No run is executed again because of this. */
export async function adoptOrphans(sql: Sql, follower: string, limit: number): Promise<RunId[]> {
  const rows = await returning(sql, { id: computed<RunId>('id') })`
    update run set follower = ${follower} where id in (
      select r.id from run r join run_attempt a on a.run_id = r.id and a.state = 'open'
      left join replica p on p.name = r.follower
      where r.status in ('pending', 'running') and r.machine_version <= ${RUN_MACHINE_VERSION}
        and (p.name is null or p.alive_until < clock_timestamp() or p.alive_until > ${expiry(sql)})
      order by r.id limit ${limit} for update of r skip locked)`
  return rows.map(({ id }) => id)
}

/** Open attempts that the database assigns to this replica. */
export const attemptsFollowedBy = (sql: Sql, follower: string) =>
  select(sql, { runId: OPEN.runId, attempt: OF_ATTEMPT.attempt })`
    from run r join run_attempt a on a.run_id = r.id and a.state = 'open' where r.follower = ${follower}`
