// A firing: the trigger's machine accepts it, and one run is requested, in one transaction. Many at once, whatever fires them.
import type { SqlTx } from '../../drizzle/client.ts'
import type { NewId, RunId } from '../ids.ts'
import { type RequestOutcome, requestRuns } from '../runs/requests.ts'
import { type LockedTrigger, moveTrigger, tryMove } from './moves.ts'

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
}

export interface Fired<F extends Firing> {
  firing: F
  /**
   * `ignored`: it is cooling or disabled. Anything but `requested` has left no run. One that stood back for another's
   * cooldown, which then did not begin, has come to the same as that one.
   */
  outcome: RequestOutcome | 'ignored'
  runId: RunId
}

/**
 * Fires in the given order at the time `now` (the database's, read under the locks). The caller saves the triggers. A
 * trigger whose pipeline cannot run is skipped: its history says why, and its cooldown does not begin.
 */
export async function fireAll<F extends Firing>(
  tx: SqlTx,
  firings: readonly F[],
  { now, newId }: { now: Date; newId: NewId },
): Promise<Fired<F>[]> {
  const at = now.getTime()
  // The machine is asked before there are runs, and moved after it is known which there are.
  const expected = new Map<LockedTrigger, LockedTrigger['snapshot']>()
  const fired = firings.map((firing): Fired<F> => {
    const move = tryMove(expected.get(firing.trigger) ?? firing.trigger.snapshot, { type: 'fired', at })
    if (move !== null) expected.set(firing.trigger, move.next)
    return { firing, outcome: move === null ? 'ignored' : 'requested', runId: newId() as RunId }
  })
  const accepted = fired.filter(({ outcome }) => outcome === 'requested')
  const outcomes = await requestRuns(
    tx,
    accepted.map(({ firing, runId }) => ({
      id: runId,
      pipelineId: firing.trigger.pipelineId,
      trigger: firing.text,
      cause: { triggerId: firing.trigger.id, event: firing.event },
      chainDepth: firing.chainDepth,
      landingFileId: firing.landingFileId,
    })),
  )
  const fruitless = new Map<LockedTrigger, RequestOutcome>()
  for (const one of accepted) {
    const { trigger, text } = one.firing
    one.outcome = outcomes.get(one.runId) ?? 'gone'
    if (one.outcome === 'requested') {
      if (!moveTrigger(trigger, { type: 'fired', at }, text))
        throw new Error(`trigger ${trigger.id} fired twice`)
      trigger.lastRunId = one.runId
    } else fruitless.set(trigger, one.outcome)
    const why = SKIPPED[one.outcome]
    if (why !== undefined) moveTrigger(trigger, { type: 'skipped' }, `${text}: ${why}`)
  }
  for (const one of fired)
    if (one.outcome === 'ignored') one.outcome = fruitless.get(one.firing.trigger) ?? 'ignored'
  return fired
}

const SKIPPED: Partial<Record<RequestOutcome, string>> = {
  unpublished: 'the pipeline has never been published',
  full: 'too many of its runs are waiting',
}
