import { arrowToJson, type JsonOptions, type JsonRows, SchemaTooLarge } from '../../lake/engine/arrow-json.ts'
import { JsonTooLarge } from '../../lake/engine/json-bytes.ts'
import { AppError } from '../core/errors.ts'
import { limits } from '../core/limits.ts'
import { makeSlots, type Slots, TooMany } from '../core/slots.ts'

/** Makes the rows of an engine's answer JSON. Throws AppError: 400 for more than the API answers, 503 while it writes too many. */
export type EngineRows = (
  arrow: Uint8Array,
  options: Omit<JsonOptions, 'beforeLarge'> & { signal: AbortSignal },
) => Promise<JsonRows>

/**
 * `writing`: places for large answers. One answer may take `QUERY_ANSWER_LIMIT` of memory, and all that are written
 * together take turns, so that none would end before the others: only a few are written at once.
 */
export function makeEngineRows(
  writing: Slots = makeSlots(limits.largeAnswersWritten, limits.largeAnswersWaiting),
): EngineRows {
  return async (arrow, options) => {
    let leave: (() => void) | undefined
    const beforeLarge = async () => {
      leave = await writing.take(options.signal)
    }
    try {
      return await arrowToJson(arrow, { ...options, beforeLarge })
    } catch (error) {
      if (error instanceof TooMany)
        throw new AppError(503, 'UNAVAILABLE', 'too many large answers are being written: try again', {
          cause: error,
        })
      if (!(error instanceof JsonTooLarge) && !(error instanceof SchemaTooLarge)) throw error
      throw new AppError(400, 'INVALID_ARGUMENT', error.message, { cause: error })
    } finally {
      leave?.()
    }
  }
}
