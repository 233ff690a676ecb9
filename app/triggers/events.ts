// Events become firings: those that were recorded with a fact are taken, every trigger that hears one is asked, and the
// event is gone in the transaction that requests the runs.
import type { SqlTx } from '../../drizzle/client.ts'
import { lastly } from '../../drizzle/session.ts'
import { together } from '../../drizzle/together.ts'
import { matchesGlob } from '../../machines/glob.ts'
import type { NewId, RunId, TriggerId } from '../ids.ts'
import { limits } from '../limits.ts'
import { seqAfter, storeLogLines } from '../runs/logs.ts'
import { dependentFirings, rememberedUsedPart, setNextDue } from './due.ts'
import { type Fired, type Firing, fireAll } from './firing.ts'
import { type LockedTrigger, lockTriggers, savedTriggersParts } from './moves.ts'
import { type Note, notesOf } from './notes.ts'
import type { TriggerType } from './schema.ts'

export interface HearOptions {
  newId: NewId
  /** Triggers asked in this transaction; an event that more of them hear goes on after the last one. */
  triggersMax?: number
  /** This event alone. */
  only?: number
  /** Not these. */
  except?: readonly number[]
}

export interface Heard {
  /** Events done with. */
  events: number
  runs: number
  /** More may wait. */
  hasMore: boolean
  /** Events that concern a trigger of a newer program: left as they are. */
  left: number[]
  notes: Note[]
}

interface Listening {
  id: number
  kind: 'fileUploaded' | 'runSucceeded'
  source: string
  subject: string
  filename: string | null
  chain_depth: number
  trigger_id: TriggerId | null
  type: TriggerType | null
  pattern: string | null
}

/** Takes the oldest events. Two transactions at once take different ones. */
export async function hearEvents(
  tx: SqlTx,
  { newId, triggersMax = limits.firingBatch, only, except = [] }: HearOptions,
): Promise<Heard> {
  const listening = await take(tx, { triggersMax, only, except })
  const isCut = listening.length > triggersMax
  const asked = listening.slice(0, triggersMax)
  const events = new Map(asked.map((event) => [event.id, event]))
  /** Of all events that are taken, only the last one can have listeners left. */
  const last = isCut ? asked.at(-1) : undefined
  const goesOn = last !== undefined && listening.at(-1)?.id === last.id ? last : undefined

  const notes: Note[] = []
  const hearing = asked.filter((one): one is Listening & { trigger_id: TriggerId } => hears(one, notes))
  const tooDeep = hearing.filter(
    ({ type, chain_depth }) => type === 'pipeline_success' && isTooDeep(chain_depth),
  )
  const ids = hearing.filter((one) => !tooDeep.includes(one)).map(({ trigger_id }) => trigger_id)
  const { triggers, newer, damaged, now } = await lockTriggers(tx, ids)
  notes.push(
    ...damaged.map(({ id, error }) => ({
      level: 'error' as const,
      message: `trigger ${id} cannot be read`,
      error,
    })),
  )
  const left = new Set(hearing.filter(({ trigger_id }) => newer.includes(trigger_id)).map(({ id }) => id))

  const pairs = hearing.flatMap((event) => {
    const trigger = triggers.get(event.trigger_id)
    return trigger === undefined || left.has(event.id) || tooDeep.includes(event) ? [] : [{ event, trigger }]
  })
  const direct = pairs.filter(({ trigger }) => trigger.typed.type !== 'cron_dependency').map(firingOf)
  const dependents = new Set(
    pairs.filter(({ trigger }) => trigger.typed.type === 'cron_dependency').map(({ trigger }) => trigger),
  )
  const dependent = await dependentFirings(tx, dependents, now)
  const fired: Fired<Firing>[] = await fireAll(tx, [...direct, ...dependent], { now, newId })
  for (const { trigger } of dependent) setNextDue(trigger, now)
  notes.push(...notesOf(fired))

  const done = [...events.keys()].filter((id) => !left.has(id) && id !== goesOn?.id)
  await refuseTooDeep(tx, tooDeep, now, notes)
  const parts = [
    ...savedTriggersParts(tx, triggers.values(), now),
    ...rememberedUsedPart(tx, fired),
    ...(done.length === 0 ? [] : [tx`done as (delete from trigger_event where id = any(${done}::bigint[]))`]),
    ...(goesOn === undefined || left.has(goesOn.id)
      ? []
      : [tx`gone_on as (${goOnAfter(tx, goesOn.id, goesOn.trigger_id)})`]),
  ]
  const heard: Heard = {
    events: done.length,
    runs: fired.filter(({ outcome }) => outcome === 'requested').length,
    hasMore: isCut || events.size === limits.eventBatch,
    left: [...left],
    notes,
  }
  // Without it the runs stand, and are `repeated` when the events are taken again.
  return lastly(tx, together(tx, parts, tx`select 1`), () => heard)
}

/**
 * Events, oldest first, each with those that hear it, in the order of their ids: at most one row more than `triggersMax`. An
 * event that nobody hears is one row. Rows that are not read are not locked.
 */
const take = (
  tx: SqlTx,
  { triggersMax, only, except }: { triggersMax: number; only?: number; except: readonly number[] },
) => tx<Listening[]>`
  with taken as materialized (
    select id, kind, source, subject, filename, chain_depth, after_trigger from trigger_event
    where ${only === undefined ? tx`id <> all(${except as number[]}::bigint[])` : tx`id = ${only}`}
    order by id limit ${limits.eventBatch} for update skip locked)
  select e.id::float8 as id, e.kind, e.source, e.subject, e.filename, e.chain_depth, h.trigger_id, h.type, h.pattern
  from taken e
  left join lateral (
    (select t.id as trigger_id, t.type, t.config ->> 'pattern' as pattern from trigger t
     where t.source = e.source and t.state <> 'disabled' and (e.after_trigger is null or t.id > e.after_trigger)
     order by t.id limit ${triggersMax + 1})
    union all
    (select t.id, t.type, null from trigger_dependency d join trigger t on t.id = d.trigger_id
     where e.kind = 'runSucceeded' and d.source = e.source and t.state <> 'disabled' and t.due_at <= (select clock_timestamp())
       and (e.after_trigger is null or t.id > e.after_trigger)
     order by t.id limit ${triggersMax + 1})
    order by trigger_id limit ${triggersMax + 1}) h on true
  limit ${triggersMax + 1}`

/** Whether it is the trigger's business. A stored pattern was checked when it was given. */
function hears(event: Listening, notes: Note[]): event is Listening & { trigger_id: TriggerId } {
  if (event.trigger_id === null) return false
  if (event.type !== 'file_pattern') return true
  try {
    return matchesGlob(event.pattern ?? '', event.filename ?? '')
  } catch (error) {
    notes.push({ level: 'error', message: `trigger ${event.trigger_id} has no pattern`, error })
    return false
  }
}

function firingOf({ event, trigger }: { event: Listening; trigger: LockedTrigger }): Firing {
  const name = event.source.slice(event.source.indexOf(':') + 1)
  const isFile = event.kind === 'fileUploaded'
  return {
    trigger,
    event: event.subject,
    text: `trigger:${trigger.typed.type}:${isFile ? `${name}/${event.filename}` : name}`,
    chainDepth: event.chain_depth,
    landingFileId: isFile ? event.subject : null,
  }
}

/** The triggers up to this one have been asked about the event. */
const goOnAfter = (tx: SqlTx, id: number, triggerId: TriggerId | null) =>
  tx`update trigger_event set after_trigger = ${triggerId} where id = ${id}`

/**
 * Leaves out the next trigger of an event, for one that cannot be fired whatever is tried. Answers its id; null when none is
 * left, and then the event is gone.
 */
export async function passOver(tx: SqlTx, id: number): Promise<TriggerId | null> {
  const [next] = await take(tx, { triggersMax: 1, only: id, except: [] })
  if (next?.trigger_id == null) await tx`delete from trigger_event where id = ${id}`
  else await goOnAfter(tx, id, next.trigger_id)
  return next?.trigger_id ?? null
}

const isTooDeep = (chainDepth: number) => chainDepth > limits.chainDepth

/** A cycle ends here, and says so where people look: in the service's log, and in that of the run which ends it. */
async function refuseTooDeep(tx: SqlTx, refused: readonly Listening[], now: Date, notes: Note[]) {
  if (refused.length === 0) return
  const runs = [...new Set(refused.map(({ subject }) => subject as RunId))]
  const found = await tx<{ id: RunId; attempt: number; name: string }[]>`
    select id, attempt, namespace || '.' || layer || '.' || pipeline as name from run where id = any(${runs}::uuid[])`
  const message = `chain limit: this success is the ${limits.chainDepth + 1}th in a row that triggers have led to, and starts no further runs; a cycle of pipeline_success triggers is the usual reason`
  notes.push(
    ...found.map(({ id, name }) => ({
      level: 'warn' as const,
      message,
      fields: { run_id: id, pipeline: name },
    })),
  )
  await storeLogLines(
    tx,
    found.map(({ id, attempt }) => ({
      runId: id,
      seq: seqAfter(attempt, CHAIN_LINE),
      at: now,
      level: 'warn',
      message,
    })),
  )
}

/** After the closing line of a run. */
const CHAIN_LINE = 20
