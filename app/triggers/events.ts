// Recorded events become firings. A transaction locks events, asks every trigger that listens for them, and requests the runs.
// The same transaction removes the events.
import assert from 'node:assert/strict'
import type { SqlTx } from '../../drizzle/client.ts'
import type { ClientTrace } from '../../ground/telemetry/trace.ts'
import { matchesGlob } from '../../lake/pipeline/glob.ts'
import type { NewId, RunId, TriggerId } from '../core/ids.ts'
import { limits } from '../core/limits.ts'
import { type LogLine, loggedPart, seqAfter } from '../runs/service.ts'
import { dependentFirings, setNextDue } from './due.ts'
import { damagedNotes, type Note, notesOf } from './notes.ts'
import {
  type ClaimedRow,
  claimEvents,
  donePart,
  endsOfChains,
  goneOnPart,
  goOnAfter,
  type Listening,
  removeEvent,
  storedEvents,
} from './store/events.ts'
import { type Firing, fireAll } from './store/firing.ts'
import { type LockedTrigger, latestNow, lockedTriggers, type Timed, type TriggerRow } from './store/moves.ts'

export { waitingEvents } from './store/events.ts'

interface ConsumeOptions {
  newId: NewId
  /** Maximum number of triggers per transaction. An event with more listeners continues after the last of them. */
  triggersMax?: number
  /** Processes only this event. */
  only?: number
  /** Events to skip. */
  except?: readonly number[]
}

interface Consumed {
  /** Number of processed events. */
  events: number
  runs: number
  /** True if more events may wait. */
  hasMore: boolean
  /** Skipped events: one of their triggers was written by a newer program version. */
  unhandled: number[]
  notes: Note[]
}

/** Processes the oldest events. Concurrent transactions lock different events. */
export async function consumeEvents(
  tx: SqlTx,
  { newId, triggersMax = limits.firingBatch, only, except = [] }: ConsumeOptions,
): Promise<Consumed> {
  const claimed = await claimEvents(tx, storedEvents(tx, { only, except }), triggersMax)
  const now = latestNow(claimed)
  if (now === null) return NOTHING
  const isCut = claimed.length > triggersMax
  const batch = claimed.slice(0, triggersMax)
  const events = new Set(batch.map(({ eventId: id }) => id))
  /** Only the last of the locked events can have listeners left. */
  const last = isCut ? batch.at(-1) : undefined
  const unfinished = last !== undefined && claimed.at(-1)?.eventId === last.eventId ? last : undefined

  const notes: Note[] = []
  const matching = batch.filter(hasTrigger).filter((row) => matches(row, notes))
  const tooDeep = matching.filter(
    ({ type, chainDepth }) => type === 'pipeline_success' && isTooDeep(chainDepth),
  )
  const accepted = matching.filter((row) => !tooDeep.includes(row))
  const { triggers, newer, damaged } = lockedTriggers([
    ...new Map(accepted.map((row): [TriggerId, TriggerRow] => [row.id, row])).values(),
  ])
  notes.push(...damagedNotes(damaged))
  const unhandled = new Set(accepted.filter(({ id }) => newer.includes(id)).map(({ eventId: id }) => id))

  const pairs = accepted.flatMap((event) => {
    const trigger = triggers.get(event.id)
    return trigger === undefined || unhandled.has(event.eventId) ? [] : [{ event, trigger }]
  })
  const direct = pairs.filter(({ trigger }) => trigger.typed.type !== 'cron_dependency').map(firingOf)
  const dependents = new Map(
    pairs.flatMap(({ trigger, event }): [LockedTrigger, ClientTrace][] =>
      trigger.typed.type === 'cron_dependency' ? [[trigger, event]] : [],
    ),
  )
  const dependent = await dependentFirings(tx, dependents, now)
  for (const { trigger } of dependent) setNextDue(trigger, now)

  const done = [...events].filter((id) => !unhandled.has(id) && id !== unfinished?.eventId)
  const chainLines = await chainLimitLines(tx, tooDeep, now, notes)
  const fired = await fireAll(tx, [...direct, ...dependent], {
    now,
    newId,
    rescheduled: triggers.values(),
    also: [
      ...loggedPart(tx, chainLines),
      ...donePart(tx, done),
      ...(unfinished === undefined || unhandled.has(unfinished.eventId)
        ? []
        : [goneOnPart(tx, unfinished.eventId, unfinished.consumedBy)]),
    ],
  })
  return {
    events: done.length,
    runs: fired.filter(({ outcome }) => outcome === 'requested').length,
    hasMore: isCut || events.size === limits.eventBatch,
    unhandled: [...unhandled],
    notes: [...notes, ...notesOf(fired)],
  }
}

const NOTHING: Consumed = { events: 0, runs: 0, hasMore: false, unhandled: [], notes: [] }

const hasTrigger = (row: ClaimedRow): row is Listening & Timed & TriggerRow => row.id !== null

/** True if the event matches the trigger. A stored pattern was validated when the client sent it. */
function matches({ id, type, config, filename }: Listening & TriggerRow, notes: Note[]): boolean {
  if (type !== 'file_pattern') return true
  try {
    assert('pattern' in config && filename !== null)
    return matchesGlob(config.pattern, filename)
  } catch (error) {
    const message = 'trigger skipped: its file pattern is missing or invalid'
    notes.push({ level: 'error', message, fields: { trigger_id: id }, error })
    return false
  }
}

function firingOf({ event, trigger }: { event: Listening; trigger: LockedTrigger }): Firing {
  const name = event.eventSource.slice(event.eventSource.indexOf(':') + 1)
  const isFile = event.kind === 'fileUploaded'
  return {
    trigger,
    event: event.subject,
    text: `trigger:${trigger.typed.type}:${isFile ? `${name}/${event.filename}` : name}`,
    chainDepth: event.chainDepth,
    landingFileId: isFile ? event.subject : null,
    trace: event,
  }
}

/**
 * Skips the next trigger of an event, because that trigger cannot be fired. Returns its id. Null: no trigger is left, so the
 * event was removed.
 */
export async function skipListener(tx: SqlTx, id: number): Promise<TriggerId | null> {
  const events = storedEvents(tx, { only: id, except: [] })
  const [next] = await claimEvents(tx, events, 1)
  if (next?.consumedBy == null) await removeEvent(tx, id)
  else await goOnAfter(tx, id, next.consumedBy)
  return next?.consumedBy ?? null
}

const isTooDeep = (chainDepth: number) => chainDepth > limits.chainDepth

/** Ends a cycle of triggers. Reports this in the service's log and in the log of the run that ends the cycle. */
async function chainLimitLines(
  tx: SqlTx,
  refused: readonly Listening[],
  now: Date,
  notes: Note[],
): Promise<LogLine[]> {
  if (refused.length === 0) return []
  const runs = [...new Set(refused.map(({ subject }) => subject as RunId))]
  const found = await endsOfChains(tx, runs)
  const message = `chain limit: this success is number ${limits.chainDepth + 1} in a chain of triggers and fires no further trigger: check the pipeline_success triggers for a cycle`
  notes.push(
    ...found.map(({ id, name }) => ({
      level: 'warn' as const,
      message,
      fields: { run_id: id, pipeline: name },
    })),
  )
  return found.map(({ id, attempt }) => ({
    runId: id,
    seq: seqAfter(attempt, CHAIN_LINE),
    at: now,
    level: 'warn',
    message,
  }))
}

/** The number of this log line, which sorts it after the last line of its run. */
const CHAIN_LINE = 20
