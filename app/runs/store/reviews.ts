// Reviews of runs: a run whose pipeline says `merge: review` waits for a person before it merges into main.

import { alias } from 'drizzle-orm/pg-core'
import type { SqlTx } from '../../../drizzle/client.ts'
import { cteStatement } from '../../../drizzle/cte-statement.ts'
import { rulesOf } from '../../../drizzle/protection.ts'
import { computed, insertRows, only, pick, returning, select } from '../../../drizzle/rows.ts'
import { landingFiles } from '../../../drizzle/schema/landing.ts'
import type { Review as Rule } from '../../../drizzle/schema/namespace.ts'
import { runReviews, type StaleInput } from '../../../drizzle/schema/run.ts'
import type { Part } from '../../../drizzle/sql.ts'
import { DEFAULT_NAMESPACE } from '../../../ground/names.ts'
import { parseTableName } from '../../../lake/pipeline/names.ts'
import { REVIEW_TIMEOUT_HOURS } from '../../../lake/pipeline/review.ts'
import { isTerminal, RUN_MACHINE_VERSION } from '../../../machines/run.ts'
import type { RunId } from '../../core/ids.ts'
import { MAIN } from '../../core/lake-version.ts'
import { isAllowed, strictest } from '../../protection/rule.ts'
import { lockedHead } from '../../versions/store/branches.ts'
import type { Executed } from '../outcome.ts'
import { announcedEvents, announcedPart } from './announcements.ts'
import { type LogLine, loggedPart, seqAfter } from './logs.ts'
import { type AppendLine, closingLine, conflicted, mergeTested } from './merging.ts'
import { type LockedRun, lockRuns, moveRun, savedParts } from './moves.ts'
import { settledParts } from './settle.ts'

type Review = typeof runReviews.$inferSelect

const REVIEW_COLUMNS = [
  'runId',
  'attempt',
  'enteredAt',
  'expiresAt',
  'timeoutHours',
  'fourEyes',
  'testedCommit',
  'rowsWritten',
  'inputTables',
  'landingFileIds',
  'archivesLandingZones',
] as const
type OpenedReview = Pick<Review, (typeof REVIEW_COLUMNS)[number]> & { runId: RunId }

/** The reviews that begin in this transaction. */
export const openedReviews = (
  runs: ReadonlyMap<RunId, LockedRun>,
  executed: ReadonlyMap<RunId, Executed>,
  now: Date,
): OpenedReview[] =>
  [...runs.values()].flatMap(({ id, effects, snapshot }) => {
    const facts = executed.get(id)
    if (!effects.includes('openReview') || !facts?.review || facts.testedCommit === null) return []
    const { timeoutHours, isFourEyes } = facts.review
    return {
      runId: id,
      attempt: snapshot.context.attempt,
      enteredAt: now,
      expiresAt: new Date(now.getTime() + timeoutHours * 3_600_000),
      timeoutHours,
      fourEyes: isFourEyes,
      testedCommit: facts.testedCommit,
      rowsWritten: facts.rowsWritten,
      inputTables: facts.inputTables,
      landingFileIds: facts.landingFileIds,
      archivesLandingZones: facts.archivesLandingZones,
    }
  })

/** The rules for the tables of those runs that merge into main. */
export async function rulesOfRuns(
  tx: SqlTx,
  ids: readonly RunId[],
): Promise<Map<RunId, readonly (Rule | null)[]>> {
  if (ids.length === 0) return new Map()
  const found = await select(tx, { id: computed<RunId>('r.id'), rules: rulesOf('r', 'pipeline') })`
    from run r where r.id = any(${ids as RunId[]}::uuid[]) and r.branch = ${MAIN}`
  return new Map(found.map(({ id, rules }) => [id, rules]))
}

/**
 * An executed attempt with the review that its code or the rules for its table demand. An approval before the demand of four
 * eyes is no approval of the same change.
 */
export function withReview(outcome: Executed, rules: readonly (Rule | null)[]): Executed {
  const { testedCommit, review } = outcome
  const rule = strictest([...rules, review && (review.isFourEyes ? 'four-eyes' : 'any')])
  if (testedCommit === null || rule === 'none') return outcome
  const { change, timeoutHours } = review ?? { change: testedCommit, timeoutHours: REVIEW_TIMEOUT_HOURS }
  const isFourEyes = rule === 'four-eyes'
  return {
    ...outcome,
    review: { change: isFourEyes ? `${rule}:${change}` : change, timeoutHours, isFourEyes },
  }
}

/** Stores reviews. A run that is reviewed again keeps the time of its earlier reviews. */
export const openedReviewsPart = (tx: SqlTx, reviews: readonly OpenedReview[]): Part[] =>
  reviews.length === 0
    ? []
    : [
        tx`opened_reviews as (
          ${insertRows(tx, runReviews, REVIEW_COLUMNS, reviews)}
          on conflict (run_id) do update set attempt = excluded.attempt, entered_at = excluded.entered_at,
            expires_at = excluded.expires_at, timeout_hours = excluded.timeout_hours, four_eyes = excluded.four_eyes,
            tested_commit = excluded.tested_commit, rows_written = excluded.rows_written,
            input_tables = excluded.input_tables,
            landing_file_ids = excluded.landing_file_ids, archives_landing_zones = excluded.archives_landing_zones)`,
      ]

interface Approval {
  /** The reviewer; null without a credential. */
  by: string | null
  message: string | null
  /** The reviewer as four eyes count people; null: callers cannot be told apart. */
  person: string | null
}

interface Approved {
  run: LockedRun
  staleInputs: StaleInput[]
}

/**
 * Approves a run and merges its branch in the same transaction. If main has changed the table of the run, the run executes again
 * and merges the same change without another review. `refused`: the requester may not approve. Null: the run is not in review.
 */
export async function approveRun(
  tx: SqlTx,
  id: RunId,
  { by, message, person }: Approval,
): Promise<Approved | 'refused' | null> {
  const { runs, now } = await lockRuns(tx, [id])
  const run = runs.get(id)
  if (run === undefined || !moveRun(run, { type: 'approved' }, by ?? 'reviewer', now)) return null
  const review = only(
    await select(tx, {
      ...pick(
        alias(runReviews, 'v'),
        'fourEyes',
        'testedCommit',
        'rowsWritten',
        'inputTables',
        'landingFileIds',
        'archivesLandingZones',
      ),
      // A run without a version executed the draft.
      authors: computed<string[]>(`array_remove(
        case when r.version_number is null then p.draft_authors else '{}' end || r.requested_by, null)`),
      rules: rulesOf('r', 'pipeline'),
    })`
      from run_review v join run r on r.id = v.run_id join pipeline p on p.id = r.pipeline_id where v.run_id = ${id}`,
  )
  const rule = strictest([review.fourEyes ? 'four-eyes' : 'any', ...review.rules])
  if (!isAllowed(rule, { authors: review.authors, by: person })) return 'refused'
  const lines: LogLine[] = []
  const appendLine: AppendLine = (moved, line, level, text) =>
    lines.push({
      runId: moved.id,
      seq: seqAfter(moved.snapshot.context.attempt, line),
      at: now,
      level,
      message: text,
    })
  appendLine(
    run,
    3,
    'info',
    `${by === null ? 'approved' : `approved by ${by}`}${message ? `: ${message}` : ''}`,
  )
  const executed = new Map([[id, { ...review, tests: [] }]])
  if (await areInputsTaken(tx, review))
    conflicted(run, 'another run archived its landing files', now, appendLine)
  else await mergeTested(tx, runs, executed, now, appendLine)
  const staleInputs = (await notedStaleInputs(tx, runs, executed, appendLine)).get(id) ?? []
  if (isTerminal(run.status)) appendLine(run, 9, ...closingLine(run))
  const announced = announcedPart(tx, [run])
  await cteStatement(
    tx,
    [
      ...settledParts(tx, runs, executed, [], now),
      endedReviewPart(tx, id, now),
      ...loggedPart(tx, lines),
      ...savedParts(tx, [run], now),
      ...announced,
    ],
    tx`select ${announcedEvents(tx, announced)}`,
  )
  return { run, staleInputs }
}

/**
 * Stores and logs the inputs of approved runs that main changed between the base of their attempt and their merge in this
 * transaction. Main is locked, and its states since an open branch's base are kept.
 */
export async function notedStaleInputs(
  tx: SqlTx,
  runs: ReadonlyMap<RunId, LockedRun>,
  executed: ReadonlyMap<RunId, Pick<Executed, 'inputTables'>>,
  appendLine: AppendLine,
): Promise<Map<RunId, StaleInput[]>> {
  const merged = [...runs.values()].filter(
    (run) => run.mergedCommit !== null && run.snapshot.context.approved !== null && executed.has(run.id),
  )
  if (merged.length === 0) return new Map()
  const reads = merged.flatMap(({ id, baseCommit, mergedCommit, ...own }) =>
    (executed.get(id)?.inputTables ?? []).flatMap((table) => {
      const { namespace, layer, name } = parseTableName(table, DEFAULT_NAMESPACE)
      const isOwn = namespace === own.namespace && layer === own.layer && name === own.pipeline
      return isOwn ? [] : { id, namespace, layer, name, base: baseCommit, merged: mergedCommit }
    }),
  )
  const stored = await returning(tx, {
    id: computed<RunId>('v.run_id'),
    inputs: computed<StaleInput[]>('v.stale_inputs'),
  })`
    with input as (
      select i.id, i.namespace || '.' || i.layer || '.' || i.name as "table", read.from_commit as read_commit,
        greatest(read.to_commit, (
          select max(later.from_commit) from main_entry later
          where later.namespace = i.namespace and later.layer = i.layer and later.name = i.name
            and later.from_commit < i.merged)) as latest_commit
      from jsonb_to_recordset(${tx.json(reads)})
        as i(id uuid, namespace text, layer text, name text, base bigint, merged bigint)
      join main_entry read on read.namespace = i.namespace and read.layer = i.layer and read.name = i.name
        and read.from_commit <= i.base and read.to_commit > i.base)
    update run_review v set stale_inputs = (
      select coalesce(jsonb_agg(jsonb_build_object(
        'table', "table", 'read_commit', read_commit, 'latest_commit', latest_commit) order by "table"), '[]')
      from input where input.id = v.run_id)
    where v.run_id = any(${merged.map(({ id }) => id)}::uuid[])`
  const found = new Map(stored.map(({ id, inputs }) => [id, inputs]))
  for (const run of merged) {
    const inputs = found.get(run.id) ?? []
    if (inputs.length > 0) appendLine(run, 6, 'warn', staleLine(inputs))
  }
  return found
}

/** Stale inputs in a log line. The answer about the run contains all of them. */
const STALE_SHOWN = 10

const staleLine = (inputs: readonly StaleInput[]) => {
  const shown = inputs
    .slice(0, STALE_SHOWN)
    .map((input) => `${input.table} (read commit ${input.read_commit}, latest ${input.latest_commit})`)
  return `input tables newer than the approved change: ${inputs.length}: ${shown.join(', ')}; run the pipeline again to include them`
}

/**
 * Whether another run has archived landing files of the run since its attempt, or somebody has put one in quarantine. Their rows stay locked, so nobody archives them
 * before this transaction ends. Main is locked first, as in every transaction that merges.
 */
async function areInputsTaken(
  tx: SqlTx,
  { archivesLandingZones, landingFileIds }: Pick<Review, 'archivesLandingZones' | 'landingFileIds'>,
): Promise<boolean> {
  if (!archivesLandingZones || landingFileIds.length === 0) return false
  await lockedHead(tx)
  const files = await select(tx, pick(alias(landingFiles, 'f'), 'archivedByRun', 'quarantinedAt'))`
    from landing_file f where f.id = any(${landingFileIds}::uuid[]) order by f.id for no key update`
  return files.some(({ archivedByRun, quarantinedAt }) => archivedByRun !== null || quarantinedAt !== null)
}

/** The time in review does not count as time of the run. */
const endedReviewPart = (tx: SqlTx, id: RunId, now: Date): Part => tx`
  ended_review as (
    update run_review set reviewed_ms = reviewed_ms + greatest(0, extract(epoch from ${now}::timestamptz - entered_at) * 1000)::bigint
    where run_id = ${id})`

/** Runs in review whose time is over. The text of their error names the setting. */
export const expiredReviews = (tx: SqlTx, limit: number) =>
  select(tx, { id: computed<RunId>('r.id'), timeoutHours: alias(runReviews, 'v').timeoutHours })`
    from run r join run_review v on v.run_id = r.id
    where r.status = 'running' and r.phase = 'review' and r.machine_version <= ${RUN_MACHINE_VERSION}
      and v.expires_at < clock_timestamp()
    order by r.id limit ${limit}`
