// The reasons why an instance does not move, in words, the most decisive reason first.
import type { Sql } from '../../drizzle/client.ts'
import type { Reason } from './schema.ts'
import type { Instance } from './store/instance.ts'
import { type Holdups, holdupsOf } from './store/runs.ts'
import { staleDependencies, type TriggerInstance } from './store/triggers.ts'

export type RunnerState = 'off' | 'silent' | 'serving'

export interface Waits {
  reasons: Reason[]
  /** Further facts about the instance. */
  facts?: Record<string, string | null>
}

const reason = (
  code: string,
  text: string,
  { until = null, runId = null }: { until?: Date | null; runId?: string | null } = {},
): Reason => ({ code, text, until: until?.toISOString() ?? null, run_id: runId })

export const NEWER_PROGRAM = reason(
  'newer_program',
  'A replica with a newer program: it wrote this instance, and this replica leaves it alone.',
)

export async function reasonsOfRun(
  sql: Sql,
  { id, state, tellsOfOthers }: { id: string; state: string; tellsOfOthers: boolean },
  askRunner: () => Promise<RunnerState>,
): Promise<Waits> {
  const [found, runner] = await Promise.all([holdupsOf(sql, id), askRunner()])
  if (found === undefined) return { reasons: [] }
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

export function reasonsOfDraft({ isPipelineDeleted }: Instance, state: string): Reason[] {
  if (isPipelineDeleted) return []
  if (state === 'unpublished')
    return [reason('publish', 'A publish. Until then triggers and schedules cannot run it.')]
  return state === 'dirty'
    ? [reason('publish', 'A publish, which brings what has been written since to its runs.')]
    : []
}

export async function reasonsOfTrigger(sql: Sql, trigger: TriggerInstance, state: string): Promise<Reason[]> {
  const { dueAt, now } = trigger
  if (trigger.isPipelineDeleted)
    return [reason('pipeline_deleted', 'Nothing: its pipeline has been deleted.')]
  if (state === 'disabled') return [reason('disabled', 'Somebody to enable it.')]
  const reasons: Reason[] = []
  if (trigger.publishedVersion === null)
    reasons.push(
      reason('never_published', 'A publish: its pipeline has never been published, so firings are skipped.'),
    )
  if (state === 'cooling')
    reasons.push(reason('cooldown', 'The end of its cooldown.', { until: trigger.coolingUntil }))
  const stale = trigger.type === 'cron_dependency' ? await staleDependencies(sql, trigger.id) : []
  const isDue = dueAt !== null && dueAt <= now
  return [
    ...reasons,
    // A trigger that is already due waits only for its dependencies, for any time.
    ...(stale.length > 0 && isDue ? [] : [heard(trigger)]),
    ...stale.map(({ source }) =>
      reason('dependency', `A new success of ${source.replace('pipeline:', '')}.`),
    ),
  ]
}

/** The event that a trigger listens for. */
function heard({ type, config, dueAt }: TriggerInstance): Reason {
  switch (type) {
    case 'landing_zone_upload':
      return reason('upload', `An upload to landing zone ${config.namespace}.${config.zone_name}.`)
    case 'file_pattern':
      return reason(
        'upload',
        `An upload to landing zone ${config.namespace}.${config.zone_name} whose name matches ${config.pattern}.`,
      )
    case 'pipeline_success':
      return reason('success', `A success of ${config.namespace}.${config.layer}.${config.pipeline}.`)
    case 'webhook':
      return reason('webhook', 'A call with its token.')
    default:
      return reason('due', `The next due time of ${config.cron_expr}.`, { until: dueAt })
  }
}
