// Due times become firings. A cron fires once, however many of its times have passed. A cron_dependency stays due until each
// dependency has a success that the last firing did not use. Successes are compared by run id, not by time.
import assert from 'node:assert/strict'
import type { SqlTx } from '../../drizzle/client.ts'
import { type ClientTrace, NO_TRACE } from '../../ground/telemetry/trace.ts'
import { nextAfter } from '../../machines/cron.ts'
import type { NewId, TriggerId } from '../core/ids.ts'
import { cronOf } from './config.ts'
import { busyNotes, damagedNotes, type Note, notesOf } from './notes.ts'
import { activePipelines, dependenciesOf } from './store/due.ts'
import { type Firing, fireAll } from './store/firing.ts'
import { type LockedTrigger, lockTriggers, setDue } from './store/moves.ts'

export {
  type DuePosition,
  type DueTrigger,
  dueTriggers,
  lookAhead,
  type Outlook,
  skipDue,
} from './store/due.ts'
export { endCooldowns } from './store/moves.ts'

interface Due {
  runs: number
  notes: Note[]
}

/** Fires the due triggers among `ids` and sets the next time of each. The due time is used up whatever the outcome. */
export async function fireDue(
  tx: SqlTx,
  ids: readonly TriggerId[],
  { newId }: { newId: NewId },
): Promise<Due> {
  const locked = await lockTriggers(tx, ids)
  if (locked === null) return { runs: 0, notes: [] }
  const { triggers, damaged, now } = locked
  const due = [...triggers.values()].filter((trigger) => isDue(trigger, now))
  const { free, busy } = await byPipeline(
    tx,
    due.filter(({ typed }) => typed.type === 'cron'),
  )
  const crons = free.map((trigger) => clockFiring(trigger, NO_TRACE))
  const dependents = due.flatMap((trigger): [LockedTrigger, ClientTrace][] =>
    trigger.typed.type === 'cron_dependency' ? [[trigger, NO_TRACE]] : [],
  )
  const firings: Firing[] = [...crons, ...(await dependentFirings(tx, dependents, now))]
  for (const trigger of [...busy, ...firings.map(({ trigger }) => trigger)]) setNextDue(trigger, now)
  const fired = await fireAll(tx, firings, { now, newId, rescheduled: triggers.values() })
  return {
    runs: fired.filter(({ outcome }) => outcome === 'requested').length,
    notes: [...notesOf(fired), ...busyNotes(busy), ...damagedNotes(damaged)],
  }
}

/**
 * Cron triggers whose pipeline is free, one of each pipeline, and the others. A pipeline that is slower than its cron gets no
 * queue of runs, as with a schedule.
 */
async function byPipeline(tx: SqlTx, crons: readonly LockedTrigger[]) {
  const taken = await activePipelines(
    tx,
    crons.map(({ pipelineId }) => pipelineId),
  )
  const [free, busy]: [LockedTrigger[], LockedTrigger[]] = [[], []]
  for (const trigger of crons) {
    const isBusy = taken.has(trigger.pipelineId)
    taken.add(trigger.pipelineId)
    if (isBusy) busy.push(trigger)
    else free.push(trigger)
  }
  return { free, busy }
}

const isDue = ({ dueAt, snapshot }: LockedTrigger, now: Date) =>
  dueAt !== null && dueAt <= now && snapshot.value !== 'disabled'

/**
 * Firings of the due triggers whose dependencies all have a new success, each with its trace. The caller has locked the
 * triggers.
 */
export async function dependentFirings(
  tx: SqlTx,
  triggers: Iterable<[LockedTrigger, ClientTrace]>,
  now: Date,
): Promise<Firing[]> {
  const due = [...triggers].filter(([trigger]) => isDue(trigger, now))
  if (due.length === 0) return []
  const rows = await dependenciesOf(
    tx,
    due.map(([{ id }]) => id),
  )
  const byTrigger = Map.groupBy(rows, ({ triggerId }) => triggerId)
  return due.flatMap(([trigger, trace]) => {
    const dependencies = byTrigger.get(trigger.id) ?? []
    const used = dependencies.flatMap(({ source, used, latest }) =>
      latest === null || latest === used ? [] : [{ source, runId: latest }],
    )
    return dependencies.length === 0 || used.length < dependencies.length
      ? []
      : [{ ...clockFiring(trigger, trace), used }]
  })
}

/** A firing by the clock. Its chain depth is 0, even if the success of a dependency came last. */
function clockFiring(trigger: LockedTrigger, trace: ClientTrace): Firing {
  assert(trigger.dueAt)
  return {
    trigger,
    event: trigger.dueAt.toISOString(),
    text: `trigger:${trigger.typed.type}:${cronOf(trigger.typed)}`,
    chainDepth: 0,
    landingFileId: null,
    trace,
  }
}

/** Null: the cron has no further time. */
export function setNextDue(trigger: LockedTrigger, now: Date) {
  const cron = cronOf(trigger.typed)
  setDue(trigger, cron === null ? null : nextAfter(cron, now))
}
