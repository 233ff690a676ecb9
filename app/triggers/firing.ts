// A firing: the trigger's machine accepts it and one run is requested, in one statement. Many at once, whatever fires them.
import type { SqlTx } from '../../drizzle/client.ts'
import type { Part } from '../../drizzle/sql.ts'
import type { TriggerSnapshot } from '../../machines/trigger.ts'
import type { ClientTrace } from '../../proto/trace.ts'
import type { NewId, RunId } from '../core/ids.ts'
import { outcomesOf, type RequestOutcome, requestedRuns } from '../runs/service.ts'
import { type LockedTrigger, type Move, tryMove } from './moves.ts'
import { firingParts, perform, rememberedUsedPart } from './store/firings.ts'

/** What asks a locked trigger to fire. */
export interface Firing {
  trigger: LockedTrigger
  /** With the trigger's id the key against firing twice: the subject of an event, or a due time. */
  event: string
  /** Of the run: `webhook`, `trigger:<type>:<detail>`. */
  text: string
  chainDepth: number
  /** The upload that asks for it. */
  landingFileId: string | null
  /** Of what has led to it. */
  trace: ClientTrace
  /** Of a cron_dependency: the successes that its firing uses. */
  used?: readonly { source: string; runId: RunId }[]
}

export interface Fired {
  firing: Firing
  /**
   * `ignored`: it is cooling or disabled. Anything but `requested` has left no run. One that stood back for another's
   * cooldown, which then did not begin, has come to the same as that one.
   */
  outcome: RequestOutcome | 'ignored'
  runId: RunId
}

/** A firing that the trigger's machine accepts, with both of its histories: which of them is told, its run decides. */
interface Accepted extends Fired {
  move: Move
  skip: Move | null
}

export interface FiringOptions {
  /** The database's time, read under the locks. */
  now: Date
  newId: NewId
  /** Locked triggers that may be due at another time, whether or not they fire. */
  rescheduled?: Iterable<LockedTrigger>
  /** More for the same statement. */
  also?: readonly Part[]
}

/**
 * Fires in the given order. The machines are asked first and moved as if every run could be requested; the statement saves
 * a trigger as it was if none of its runs was. A trigger whose pipeline cannot run is skipped: its history says why, and
 * its cooldown does not begin.
 */
export async function fireAll(
  tx: SqlTx,
  firings: readonly Firing[],
  { now, newId, rescheduled = [], also = [] }: FiringOptions,
): Promise<Fired[]> {
  const before = new Map<LockedTrigger, TriggerSnapshot>()
  const { fired, accepted } = askMachines(firings, before, { now, newId })
  const changed = new Set([...before.keys(), ...[...rescheduled].filter(({ isDueChanged }) => isDueChanged)])
  const rows = [...changed].map((trigger) => ({
    id: trigger.id,
    dueAt: trigger.dueAt,
    kept: before.get(trigger) ?? trigger.snapshot,
    fired: before.has(trigger) ? trigger.snapshot : null,
  }))
  const histories = accepted.map(({ firing, runId, move, skip }) => ({
    run: runId,
    trigger: firing.trigger.id,
    cause: firing.text,
    fired: historyOf('fired', move),
    skipped: skip && historyOf('skipped', skip),
  }))
  if (accepted.length === 0 && rows.length + also.length === 0) return fired
  const parts = [...firingParts(tx, rows, histories, now), ...also]
  if (accepted.length === 0) await perform(tx, parts)
  else {
    const used = rememberedUsedPart(tx, accepted.flatMap(usedBy))
    settle(fired, accepted, outcomesOf(await requestedRuns(tx, accepted.map(requestOf), [...parts, ...used])))
  }
  return fired
}

/** Moves the triggers as if every run could be requested; `before` gets those that move as they were. */
function askMachines(
  firings: readonly Firing[],
  before: Map<LockedTrigger, TriggerSnapshot>,
  { now, newId }: FiringOptions,
) {
  const accepted: Accepted[] = []
  const fired = firings.map((firing): Fired => {
    const { trigger } = firing
    const one: Fired = { firing, outcome: 'ignored', runId: newId() as RunId }
    const move = tryMove(trigger.snapshot, { type: 'fired', at: now.getTime() })
    if (move === null) return one
    const skip = tryMove(trigger.snapshot, { type: 'skipped' })
    accepted.push(Object.assign(one, { outcome: 'requested' as const, move, skip }))
    if (!before.has(trigger)) before.set(trigger, trigger.snapshot)
    trigger.snapshot = move.next
    return one
  })
  return { fired, accepted }
}

function settle(
  fired: readonly Fired[],
  accepted: readonly Accepted[],
  outcomes: ReadonlyMap<RunId, RequestOutcome>,
) {
  const fruitless = new Map<LockedTrigger, Fired['outcome']>()
  for (const one of accepted) {
    one.outcome = outcomes.get(one.runId) ?? 'gone'
    if (one.outcome !== 'requested') fruitless.set(one.firing.trigger, one.outcome)
  }
  for (const one of fired)
    if (one.outcome === 'ignored') one.outcome = fruitless.get(one.firing.trigger) ?? 'ignored'
}

const usedBy = ({ firing: { trigger, used = [] }, runId }: Fired) =>
  used.map(({ source, runId: latest }) => ({ trigger_id: trigger.id, source, used: latest, run: runId }))

const requestOf = ({ firing, runId }: Fired) => ({
  id: runId,
  pipelineId: firing.trigger.pipelineId,
  trigger: firing.text,
  cause: { triggerId: firing.trigger.id, event: firing.event },
  chainDepth: firing.chainDepth,
  landingFileId: firing.landingFileId,
  trace: firing.trace,
})

const historyOf = (event: 'fired' | 'skipped', { from, to, effects }: Move) => ({ event, from, to, effects })
