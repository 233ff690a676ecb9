// Recorded events become firings. A transaction locks events, asks every trigger that listens for them, and requests the runs.
// The same transaction removes the events.
import assert from 'node:assert/strict'
import type { SqlTx } from '../../drizzle/client.ts'
import { matchesGlob } from '../../machines/glob.ts'
import type { ClientTrace } from '../../proto/trace.ts'
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

export interface ConsumeOptions {
  newId: NewId
  /** Maximum number of triggers per transaction. An event with more listeners continues after the last of them. */
  triggersMax?: number
  /** Processes only this event. */
  only?: number
  /** Events to skip. */
  except?: readonly number[]
}

export interface Consumed {
  /** Number of processed events. */
  events: number
  runs: number
  /** True if more events may wait. */
  hasMore: boolean
  /** Skipped events: one of their triggers was written by a newer program version. */
  left: number[]
  notes: Note[]
}

/** Processes the oldest events. Concurrent transactions lock different events. */
export async function consumeEvents(
  tx: SqlTx,
  { newId, triggersMax = limits.firingBatch, only, except = [] }: ConsumeOptions,
): Promise<Consumed> {
  const taken = await claimEvents(tx, storedEvents(tx, { only, except }), triggersMax)
  const now = latestNow(taken)
  if (now === null) return NOTHING
  const isCut = taken.length > triggersMax
  const asked = taken.slice(0, triggersMax)
  const events = new Set(asked.map(({ eventId: id }) => id))
  /** Only the last of the locked events can have listeners left. */
  const last = isCut ? asked.at(-1) : undefined
  const goesOn = last !== undefined && taken.at(-1)?.eventId === last.eventId ? last : undefined

  const notes: Note[] = []
  const hearing = asked.filter(isThere).filter((one) => hears(one, notes))
  const tooDeep = hearing.filter(
    ({ type, chainDepth }) => type === 'pipeline_success' && isTooDeep(chainDepth),
  )
  const heeded = hearing.filter((one) => !tooDeep.includes(one))
  const { triggers, newer, damaged } = lockedTriggers([
    ...new Map(heeded.map((one): [TriggerId, TriggerRow] => [one.id, one])).values(),
  ])
  notes.push(...damagedNotes(damaged))
  const left = new Set(heeded.filter(({ id }) => newer.includes(id)).map(({ eventId: id }) => id))

  const pairs = heeded.flatMap((event) => {
    const trigger = triggers.get(event.id)
    return trigger === undefined || left.has(event.eventId) ? [] : [{ event, trigger }]
  })
  const direct = pairs.filter(({ trigger }) => trigger.typed.type !== 'cron_dependency').map(firingOf)
  const dependents = new Map(
    pairs.flatMap(({ trigger, event }): [LockedTrigger, ClientTrace][] =>
      trigger.typed.type === 'cron_dependency' ? [[trigger, event]] : [],
    ),
  )
  const dependent = await dependentFirings(tx, dependents, now)
  for (const { trigger } of dependent) setNextDue(trigger, now)

  const done = [...events].filter((id) => !left.has(id) && id !== goesOn?.eventId)
  const refused = await refusedTooDeep(tx, tooDeep, now, notes)
  const fired = await fireAll(tx, [...direct, ...dependent], {
    now,
    newId,
    rescheduled: triggers.values(),
    also: [
      ...loggedPart(tx, refused),
      ...donePart(tx, done),
      ...(goesOn === undefined || left.has(goesOn.eventId)
        ? []
        : [goneOnPart(tx, goesOn.eventId, goesOn.heardBy)]),
    ],
  })
  return {
    events: done.length,
    runs: fired.filter(({ outcome }) => outcome === 'requested').length,
    hasMore: isCut || events.size === limits.eventBatch,
    left: [...left],
    notes: [...notes, ...notesOf(fired)],
  }
}

const NOTHING: Consumed = { events: 0, runs: 0, hasMore: false, left: [], notes: [] }

const isThere = (one: ClaimedRow): one is Listening & Timed & TriggerRow => one.id !== null

/** True if the event matches the trigger. A stored pattern was validated when the client sent it. */
function hears({ id, type, config, filename }: Listening & TriggerRow, notes: Note[]): boolean {
  if (type !== 'file_pattern') return true
  try {
    assert('pattern' in config && filename !== null)
    return matchesGlob(config.pattern, filename)
  } catch (error) {
    notes.push({ level: 'error', message: `trigger ${id} has no pattern`, error })
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
  if (next?.heardBy == null) await removeEvent(tx, id)
  else await goOnAfter(tx, id, next.heardBy)
  return next?.heardBy ?? null
}

const isTooDeep = (chainDepth: number) => chainDepth > limits.chainDepth

/** Ends a cycle of triggers. Reports this in the service's log and in the log of the run that ends the cycle. */
async function refusedTooDeep(
  tx: SqlTx,
  refused: readonly Listening[],
  now: Date,
  notes: Note[],
): Promise<LogLine[]> {
  if (refused.length === 0) return []
  const runs = [...new Set(refused.map(({ subject }) => subject as RunId))]
  const found = await endsOfChains(tx, runs)
  const message = `chain limit: this success is the ${limits.chainDepth + 1}th in a row that triggers have led to, and starts no further runs; a cycle of pipeline_success triggers is the usual reason`
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

/** Sorts after the closing line of a run. */
const CHAIN_LINE = 20
