import {
  type DuckDBDataChunk,
  DuckDBMaterializedResult,
  type DuckDBResult,
  ResultReturnType,
} from '@duckdb/node-api'
import { EngineError, mapped } from './error.ts'

/** A stream that ended early. Running the same SQL with `run` reports the reason. */
export class BrokenStream extends EngineError {
  constructor() {
    super('other', 'the query failed or was interrupted while its rows were computed')
  }
}

/**
 * Returns the next rows of a result, or undefined at the end. Throws `EngineError`.
 *
 * When a streaming result fails or is interrupted, these bindings only end the stream. They mark the result as invalid and lose
 * its message. So all rows are fetched through this function. `run` throws such an error itself, with the message.
 */
export async function nextChunk(result: DuckDBResult): Promise<DuckDBDataChunk | undefined> {
  const chunk = await mapped(() => result.fetchChunk())
  if (chunk !== null && chunk.rowCount > 0) return chunk
  if (result.returnType === ResultReturnType.INVALID) throw new BrokenStream()
  return undefined
}

/** Yields all rows of a result. Throws `EngineError`. Rows that are already in memory need no call of another thread. */
export async function* chunksOf(result: DuckDBResult): AsyncGenerator<DuckDBDataChunk> {
  if (result instanceof DuckDBMaterializedResult) {
    for (let index = 0; index < result.chunkCount; index += 1) yield result.getChunk(index)
    return
  }
  for (let chunk = await nextChunk(result); chunk !== undefined; chunk = await nextChunk(result)) yield chunk
}
