import { type DuckDBDataChunk, type DuckDBResult, ResultReturnType } from '@duckdb/node-api'
import { EngineError, mapped } from './error.ts'

/** A stream that has ended before its end. The same SQL, asked by `run`, tells why. */
export class BrokenStream extends EngineError {
  constructor() {
    super('other', 'the query failed or was interrupted while its rows were computed')
  }
}

/**
 * The next rows of a result; undefined at the end. Throws `EngineError`.
 *
 * A streaming result that fails on its way, also by an interrupt, just ends in these bindings: it is only marked as
 * invalid, and its message is lost. So rows are fetched through here and nowhere else. A result of `run` has failed
 * before, with its message.
 */
export async function nextChunk(result: DuckDBResult): Promise<DuckDBDataChunk | undefined> {
  const chunk = await mapped(() => result.fetchChunk())
  if (chunk !== null && chunk.rowCount > 0) return chunk
  if (result.returnType === ResultReturnType.INVALID) throw new BrokenStream()
  return undefined
}
