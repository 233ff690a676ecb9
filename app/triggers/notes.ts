import { limits } from '../core/limits.ts'
import type { Log } from '../core/log.ts'
import type { Fired } from './store/firing.ts'
import type { LockedTrigger, LockedTriggers } from './store/moves.ts'

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
    const { id, pipelineId } = firing.trigger
    const fields = { trigger_id: id, pipeline_id: pipelineId, cause: firing.text }
    if (outcome === 'unpublished')
      return [{ level: 'info', message: 'firing skipped: the pipeline has never been published', fields }]
    if (outcome === 'full') {
      const limit = limits.waitingRunsPerPipeline
      const message = 'firing skipped: too many runs of the pipeline are waiting'
      return [{ level: 'warn', message, fields: { ...fields, limit } }]
    }
    return []
  })
}

/** Reports due times that passed while the pipeline had an unfinished run. */
export const busyNotes = (triggers: readonly LockedTrigger[]): Note[] =>
  triggers.map(({ id, pipelineId }) => ({
    level: 'info',
    message: 'firing skipped: an earlier run of the pipeline is not finished',
    fields: { trigger_id: id, pipeline_id: pipelineId },
  }))

/** Reports triggers whose rows cannot be read. */
export const damagedNotes = (damaged: LockedTriggers['damaged']): Note[] =>
  damaged.map(({ id, error }) => ({
    level: 'error',
    message: 'trigger skipped: its stored state is damaged',
    fields: { trigger_id: id },
    error,
  }))

/** Maximum number of log lines per transaction. */
const NOTES_MAX = 20

export function logNotes(log: Log, notes: readonly Note[]) {
  for (const { level, message, fields, error } of notes.slice(0, NOTES_MAX))
    log[level](message, error === undefined ? fields : { ...fields, error })
  if (notes.length > NOTES_MAX)
    log.warn('trigger log lines omitted', { omitted: notes.length - NOTES_MAX, limit: NOTES_MAX })
}
