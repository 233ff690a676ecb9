import type { Log } from '../core/log.ts'
import type { Fired } from './store/firing.ts'
import type { LockedTriggers } from './store/moves.ts'

/** A line for the service's log, written after the transaction of the triggers has committed. */
export interface Note {
  level: 'info' | 'warn' | 'error'
  message: string
  fields?: Record<string, unknown>
  error?: unknown
}

/** Reports firings that created no run, except those that a cooldown ignored, which is normal. */
export function notesOf(fired: readonly Fired[]): Note[] {
  return fired.flatMap(({ firing, outcome }): Note[] => {
    const fields = { trigger_id: firing.trigger.id, pipeline_id: firing.trigger.pipelineId }
    if (outcome === 'unpublished')
      return [
        { level: 'info', message: `${firing.text} skipped: its pipeline has never been published`, fields },
      ]
    if (outcome === 'full')
      return [
        {
          level: 'warn',
          message: `${firing.text} skipped: too many runs of its pipeline are waiting`,
          fields,
        },
      ]
    return []
  })
}

/** Reports triggers whose rows cannot be read. */
export const damagedNotes = (damaged: LockedTriggers['damaged']): Note[] =>
  damaged.map(({ id, error }) => ({ level: 'error', message: `trigger ${id} cannot be read`, error }))

/** Maximum number of log lines per transaction. */
const NOTES_MAX = 20

export function logNotes(log: Log, notes: readonly Note[]) {
  for (const { level, message, fields, error } of notes.slice(0, NOTES_MAX))
    log[level](message, error === undefined ? fields : { ...fields, error })
  if (notes.length > NOTES_MAX) log.warn(`${notes.length - NOTES_MAX} more of these are not told`)
}
