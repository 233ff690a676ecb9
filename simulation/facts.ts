// Reads the whole state of the database in one statement. The invariants are checked on it.
import type { Sql } from '../drizzle/client.ts'
import type { RunContext } from '../machines/run.ts'

export interface RunFact {
  id: string
  pipeline_id: string
  pipeline: string
  branch: string
  trigger: string
  status: string
  phase: string | null
  attempt: number
  waiting: boolean
  snapshot: {
    value: unknown
    context: RunContext
    status: string
  }
  follower: string | null
  version_number: number | null
  pins: Record<string, string>
  landing_zones: string[]
  base_commit: number | null
  merged_commit: number | null
  rows_written: number | null
  error: string | null
  finished_at: string | null
  created_at: string
  trigger_id: string | null
  trigger_event: string | null
  schedule_id: string | null
  schedule_due: string | null
  chain_depth: number
  landing_file_id: string | null
}
export interface AttemptFact {
  run_id: string
  attempt: number
  pipeline_id: string
  branch: string
  run_branch: string
  base_commit: number
  landing_watermark: number
  state: string
  opened_at: string
}
export interface RunFileFact {
  run_id: string
  attempt: number
  landing_file_id: string
}
export interface RefFact {
  name: string
  kind: string
  state: string
  parent: string | null
  kept_until: string | null
  number: number | null
  base: number | null
  head: string | null
  run_id: string | null
  attempt: number | null
}
export interface CommitFact {
  id: string
  ref: string
  number: number
  base: number
  /** Null for a merge of a branch of a user. */
  run_id: string | null
}
export interface EntryFact {
  name: string
  content_id: string
  from_commit: number
  to_commit: number | null
}
export interface BranchEntryFact {
  ref: string
  name: string
  content_id: string
  base_content: string | null
}
interface LandingFileFact {
  id: string
  zone: string
  seq: number
  archived_by_run: string | null
  archived_at: string | null
}
interface PipelineFact {
  id: string
  name: string
  draft_snapshot: { value: unknown; context: { revision: number }; status: string }
  draft_dirty: boolean
  draft_revision: number
  published_version: number | null
  max_versions: number
  deleted_at: string | null
}
interface VersionFact {
  pipeline_id: string
  version_number: number
  published_versions: Record<string, string>
}
interface TriggerFact {
  id: string
  pipeline_id: string
  type: string
  snapshot: {
    value: unknown
    context: { cooldownSeconds: number; firedAt: number | null }
    status: string
  }
  state: string
  cooldown_seconds: number
  cooling_until: string | null
  last_triggered_at: string | null
}
interface TransitionFact {
  id: number
  machine: string
  entity_id: string
  at: string
  event: string
  from: string
  to: string
}

export interface Facts {
  runs: RunFact[]
  attempts: AttemptFact[]
  runFiles: RunFileFact[]
  refs: RefFact[]
  commits: CommitFact[]
  entries: EntryFact[]
  branchEntries: BranchEntryFact[]
  files: LandingFileFact[]
  pipelines: PipelineFact[]
  versions: VersionFact[]
  triggers: TriggerFact[]
  /** Only transitions after the last that was read. */
  transitions: TransitionFact[]
  failedTests: { run_id: string; name: string }[]
  events: { id: number }[]
  outbox: { id: number; kind: string; tries: number }[]
  /** The maintained total of all runs. */
  runTotal: number
}

/** The facts, and `pg_current_snapshot()` at that time. An equal snapshot means that nothing was written. */
interface Reading {
  facts: Facts | null
  state: string
}

/** Null facts: nothing was written since the state `since`. */
export async function readFacts(
  sql: Sql,
  { afterTransition, since }: { afterTransition: number; since: string },
): Promise<Reading> {
  const [row] = await sql<Reading[]>`
    select pg_current_snapshot()::text as state, case when pg_current_snapshot()::text <> ${since} then json_build_object(
      'runs', (select coalesce(json_agg(r order by id), '[]') from (
        select id, pipeline_id, pipeline, branch, trigger, status, phase, attempt, waiting, snapshot, follower, version_number, pins,
          landing_zones, base_commit, merged_commit, rows_written, error, finished_at, created_at, trigger_id,
          trigger_event, schedule_id, schedule_due, chain_depth, landing_file_id from run) r),
      'attempts', (select coalesce(json_agg(a order by run_id, attempt), '[]') from (
        select run_id, attempt, pipeline_id, branch, run_branch, base_commit, landing_watermark, state, opened_at from run_attempt) a),
      'runFiles', (select coalesce(json_agg(f order by run_id, attempt, landing_file_id), '[]') from (
        select run_id, attempt, landing_file_id from run_file) f),
      'refs', (select coalesce(json_agg(l order by name), '[]') from (
        select name, kind, state, parent, kept_until, number, base, head, run_id, attempt from lake_ref) l),
      'commits', (select coalesce(json_agg(c order by number), '[]') from (
        select id, ref, number, base, run_id from lake_commit where number is not null) c),
      'entries', (select coalesce(json_agg(e order by name, from_commit), '[]') from (
        select name, content_id, from_commit, to_commit from main_entry) e),
      'branchEntries', (select coalesce(json_agg(b order by ref, name), '[]') from (
        select ref, name, content_id, base_content from branch_entry) b),
      'files', (select coalesce(json_agg(f order by seq), '[]') from (
        select f.id, z.namespace || '.' || z.name as zone, f.seq, f.archived_by_run,
          f.archived_at from landing_file f join landing_zone z on z.id = f.zone_id) f),
      'pipelines', (select coalesce(json_agg(p order by id), '[]') from (
        select id, name, draft_snapshot, draft_dirty, draft_revision, published_version, max_versions, deleted_at
        from pipeline) p),
      'versions', (select coalesce(json_agg(v order by pipeline_id, version_number), '[]') from (
        select pipeline_id, version_number, published_versions from pipeline_version) v),
      'triggers', (select coalesce(json_agg(t order by id), '[]') from (
        select id, pipeline_id, type, snapshot, state, cooldown_seconds, cooling_until, last_triggered_at
        from trigger) t),
      'transitions', (select coalesce(json_agg(t order by id), '[]') from (
        select id, machine, entity_id, at, event, "from", "to" from transition where id > ${afterTransition}) t),
      'failedTests', (select coalesce(json_agg(q), '[]') from (
        select run_id, name from quality_result where status = 'failed' and severity = 'error') q),
      'events', (select coalesce(json_agg(e order by id), '[]') from (select id from trigger_event) e),
      'outbox', (select coalesce(json_agg(o order by id), '[]') from (
        select id, kind, tries from outbox where kind <> 'abandonedUpload') o),
      'runTotal', (select coalesce(sum(change), 0) from run_total)) end as facts`
  if (row === undefined) throw new Error('the query of the facts returned no row')
  return row
}
