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
  'A newer version of Sluice wrote this instance: only replicas with that version change it.',
)

export async function reasonsOfRun(
  sql: Sql,
  { id, state, disclosesOtherRuns }: { id: string; state: string; disclosesOtherRuns: boolean },
  runnerState: () => Promise<RunnerState>,
): Promise<Waits> {
  const [found, runner] = await Promise.all([holdupsOf(sql, id), runnerState()])
  if (found === undefined) return { reasons: [] }
  const holdups = disclosesOtherRuns ? found : { ...found, aheadElsewhere: 0 }
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
  if (holdups.dispatchers === 0) reasons.push(reason('no_dispatcher', 'No live replica can start the run.'))
  if (running !== null)
    reasons.push(
      reason(
        'pipeline_busy',
        'Another run of this pipeline is running: runs of one pipeline execute one at a time.',
        {
          runId: running,
        },
      ),
    )
  if (ahead > 0)
    reasons.push(
      reason('older_runs', `${runs(ahead)} of this pipeline ${ahead === 1 ? 'comes' : 'come'} first.`, {
        runId: holdups.firstAhead,
      }),
    )
  if (notBefore !== null && notBefore > now)
    reasons.push(reason('not_before', 'The run waits before its next attempt.', { until: notBefore }))
  reasons.push(...ofRunner(runner))
  if (reasons.length > 0) return reasons
  const others = ` ${runs(aheadElsewhere)} of other pipelines ${aheadElsewhere === 1 ? 'has' : 'have'} waited longer.`
  return [
    reason('free_place', `The run waits for a runner with a free slot.${aheadElsewhere > 0 ? others : ''}`),
  ]
}

function ofWorking(holdups: Holdups, runner: RunnerState, state: string): Reason[] {
  if (state === 'running.review')
    return [
      reason('review', 'The run waits for a reviewer to approve or reject it.', {
        until: holdups.reviewExpiresAt,
      }),
    ]
  const reasons = ofRunner(runner)
  if (!holdups.isFollowed)
    reasons.unshift(
      reason(
        'not_followed',
        'The replica that followed the run is gone: another replica takes over within seconds.',
      ),
    )
  if (state === 'pending.starting')
    reasons.push(reason('acceptance', 'The chosen runner has not accepted the attempt yet.'))
  if (state === 'running.merging')
    reasons.push(reason('merge', 'The run waits for its turn to merge into main.'))
  return reasons
}

const ofRunner = (runner: RunnerState): Reason[] => {
  if (runner === 'off')
    return [reason('runner_off', 'Runners are switched off (RUNNER_URLS=none): no run can execute.')]
  return runner === 'silent'
    ? [reason('no_runner', 'No runner answers: the run continues when a runner answers.')]
    : []
}

const runs = (count: number) => (count === 1 ? 'One older run' : `${count} older runs`)

export function reasonsOfDraft({ isPipelineDeleted }: Instance, state: string): Reason[] {
  if (isPipelineDeleted) return []
  if (state === 'unpublished')
    return [reason('publish', 'The pipeline was never published: triggers and schedules cannot run it yet.')]
  return state === 'dirty'
    ? [reason('publish', 'The draft has unpublished changes: runs use them after the next publish.')]
    : []
}

export async function reasonsOfTrigger(sql: Sql, trigger: TriggerInstance, state: string): Promise<Reason[]> {
  const { dueAt, now } = trigger
  if (trigger.isPipelineDeleted)
    return [reason('pipeline_deleted', 'The pipeline is deleted: the trigger never fires again.')]
  if (state === 'disabled')
    return [reason('disabled', 'The trigger is disabled: enable it to resume firing.')]
  const reasons: Reason[] = []
  if (trigger.publishedVersion === null)
    reasons.push(
      reason(
        'never_published',
        'The pipeline was never published: firings are skipped until it is published.',
      ),
    )
  if (state === 'cooling')
    reasons.push(
      reason('cooldown', 'The trigger waits for the end of its cooldown.', { until: trigger.coolingUntil }),
    )
  const stale = trigger.type === 'cron_dependency' ? await staleDependencies(sql, trigger.id) : []
  const isDue = dueAt !== null && dueAt <= now
  return [
    ...reasons,
    // A trigger that is already due waits only for its dependencies, however long that takes.
    ...(stale.length > 0 && isDue ? [] : [awaitedEvent(trigger)]),
    ...stale.map(({ source }) =>
      reason('dependency', `The trigger waits for a new success of ${source.replace('pipeline:', '')}.`),
    ),
  ]
}

/** The event that a trigger listens for. */
function awaitedEvent({ type, config, dueAt }: TriggerInstance): Reason {
  switch (type) {
    case 'landing_zone_upload':
      return reason(
        'upload',
        `The trigger waits for an upload to landing zone ${config.namespace}.${config.zone_name}.`,
      )
    case 'file_pattern':
      return reason(
        'upload',
        `The trigger waits for an upload to landing zone ${config.namespace}.${config.zone_name} whose name matches ${config.pattern}.`,
      )
    case 'pipeline_success':
      return reason(
        'success',
        `The trigger waits for a success of ${config.namespace}.${config.layer}.${config.pipeline}.`,
      )
    case 'webhook':
      return reason('webhook', 'The trigger waits for a webhook call with its token.')
    default:
      return reason('due', `The trigger waits for the next due time of ${config.cron_expr}.`, {
        until: dueAt,
      })
  }
}
