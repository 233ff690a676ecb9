import { arrowToJson, type JsonOptions, type JsonRows, SchemaTooLarge } from '../../lake/engine/arrow-json.ts'
import { JsonTooLarge } from '../../lake/engine/json-bytes.ts'
import { AppError } from '../http/errors.ts'

/** The rows of an engine's answer as JSON. 400 where they are more than the API answers. */
export async function engineRows(arrow: Uint8Array, options: JsonOptions): Promise<JsonRows> {
  try {
    return await arrowToJson(arrow, options)
  } catch (error) {
    if (!(error instanceof JsonTooLarge) && !(error instanceof SchemaTooLarge)) throw error
    throw new AppError(400, 'INVALID_ARGUMENT', error.message, { cause: error })
  }
}
