// Why nothing happens: what an instance waits for, in words, the most decisive reason first.
import type { Sql } from '../../drizzle/client.ts'
import type { Reason } from './schema.ts'
import { type Holdups, holdupsOf, type InstanceRow, staleDependencies } from './store.ts'

export type RunnerState = 'off' | 'silent' | 'serving'

interface Waiting {
  row: InstanceRow
  state: string
}

const reason = (
  code: string,
  text: string,
  more: { until?: Date | string | null; runId?: string | null } = {},
): Reason => ({
  code,
  text,
  until: more.until instanceof Date ? more.until.toISOString() : (more.until ?? null),
  run_id: more.runId ?? null,
})

export async function reasonsOfRun(
  sql: Sql,
  { row, state, tellsOfOthers }: Waiting & { tellsOfOthers: boolean },
  askRunner: () => Promise<RunnerState>,
): Promise<{ reasons: Reason[]; facts: Record<string, unknown> }> {
  const [found, runner] = await Promise.all([holdupsOf(sql, row.id), askRunner()])
  if (found === null) return { reasons: [], facts: {} }
  const holdups = tellsOfOthers ? found : { ...found, aheadElsewhere: 0 }
  const facts = {
    not_before: holdups.notBefore?.toISOString() ?? null,
    last_log_at: holdups.lastLineAt?.toISOString() ?? null,
  }
  return {
    reasons: state.endsWith('.waiting') ? ofWaiting(holdups, runner) : ofWorking(holdups, runner, state),
    facts,
  }
}

function ofWaiting(holdups: Holdups, runner: RunnerState): Reason[] {
  const { ahead, aheadElsewhere, notBefore, now, running } = holdups
  const reasons: Reason[] = []
  if (holdups.dispatchers === 0)
    reasons.push(reason('no_dispatcher', 'No replica is alive that could start it.'))
  if (running !== null)
    reasons.push(
      reason('pipeline_busy', 'Another run of this pipeline is running: they run one at a time.', {
        runId: running,
      }),
    )
  if (ahead > 0)
    reasons.push(
      reason('older_runs', `${runs(ahead)} of this pipeline ${ahead === 1 ? 'comes' : 'come'} first.`, {
        runId: holdups.firstAhead,
      }),
    )
  if (notBefore !== null && notBefore > now)
    reasons.push(reason('not_before', 'It backs off before its next attempt.', { until: notBefore }))
  reasons.push(...ofRunner(runner))
  if (reasons.length > 0) return reasons
  const others = `; ${runs(aheadElsewhere)} of other pipelines ${aheadElsewhere === 1 ? 'has' : 'have'} waited longer`
  return [reason('free_place', `A runner with a free place${aheadElsewhere > 0 ? others : ''}.`)]
}

function ofWorking(holdups: Holdups, runner: RunnerState, state: string): Reason[] {
  const reasons = ofRunner(runner)
  if (!holdups.isFollowed)
    reasons.unshift(
      reason('not_followed', 'The replica that followed it is gone; another takes it over within seconds.'),
    )
  if (state === 'pending.starting')
    reasons.push(reason('acceptance', 'The answer of the runner that was asked.'))
  if (state === 'running.merging') reasons.push(reason('merge', 'Its turn to be merged into main.'))
  return reasons
}

const ofRunner = (runner: RunnerState): Reason[] => {
  if (runner === 'off')
    return [reason('runner_off', 'Runners are switched off (RUNNER_URLS=none): nothing can be executed.')]
  return runner === 'silent' ? [reason('no_runner', 'No runner answers: it goes on when one does.')] : []
}

const runs = (count: number) => (count === 1 ? 'One older run' : `${count} older runs`)

export function reasonsOfDraft({ row, state }: Waiting): Reason[] {
  if (row.pipeline_deleted) return []
  if (state === 'unpublished')
    return [reason('publish', 'A publish. Until then triggers and schedules cannot run it.')]
  return state === 'dirty'
    ? [reason('publish', 'A publish, which brings what has been written since to its runs.')]
    : []
}

export async function reasonsOfTrigger(sql: Sql, { row, state }: Waiting): Promise<Reason[]> {
  const { facts } = row
  if (row.pipeline_deleted) return [reason('pipeline_deleted', 'Nothing: its pipeline has been deleted.')]
  if (state === 'disabled') return [reason('disabled', 'Somebody to enable it.')]
  const reasons: Reason[] = []
  if (facts.published_version === null)
    reasons.push(
      reason('never_published', 'A publish: its pipeline has never been published, so firings are skipped.'),
    )
  if (state === 'cooling')
    reasons.push(reason('cooldown', 'The end of its cooldown.', { until: textOf(facts.cooling_until) }))
  const stale = facts.type === 'cron_dependency' ? await staleDependencies(sql, row.id) : []
  return [
    ...reasons,
    // One that is due already waits for its dependencies alone, for as long as they take.
    ...(stale.length > 0 && isPast(facts.due_at, row.now) ? [] : [heard(facts)]),
    ...stale.map(({ source }) =>
      reason('dependency', `A new success of ${source.replace('pipeline:', '')}.`),
    ),
  ]
}

/** What a trigger listens for. */
function heard({ type, config, due_at }: InstanceRow['facts']): Reason {
  const named = config as Record<string, unknown> | null
  switch (type) {
    case 'landing_zone_upload':
      return reason('upload', `An upload to landing zone ${named?.namespace}.${named?.zone_name}.`)
    case 'file_pattern':
      return reason(
        'upload',
        `An upload to landing zone ${named?.namespace}.${named?.zone_name} whose name matches ${named?.pattern}.`,
      )
    case 'pipeline_success':
      return reason('success', `A success of ${named?.namespace}.${named?.layer}.${named?.pipeline}.`)
    case 'webhook':
      return reason('webhook', 'A call with its token.')
    default:
      return reason('due', `The next due time of ${named?.cron_expr}.`, { until: textOf(due_at) })
  }
}

const isPast = (at: unknown, now: Date) => typeof at === 'string' && new Date(at) <= now

const textOf = (value: unknown) => (typeof value === 'string' ? value : null)
