import { readFile, rm } from 'node:fs/promises'
import type { DuckDBPreparedStatement } from '@duckdb/node-api'
import { mapped } from '../../../lake/engine/error.ts'
import type { Engine } from '../../../lake/engine/instance.ts'
import { nextChunk } from '../../../lake/engine/rows.ts'
import { type AnswerOf, RESULT, type RequestOf } from './engine-messages.ts'
import { columnsOf, namesOf, Refused, refuseParameters, refuseTwins, selectOf } from './select.ts'

type Input = Omit<RequestOf<'preview'>, 'kind' | 'number'>

/** Executes one SELECT to its end and returns its first rows. Throws Refused for a text that no run could write. */
export async function previewSelect(engine: Engine, request: Input): Promise<AnswerOf<'preview'>> {
  const { sql, profilePath } = request
  const statement = await selectOf(engine, sql)
  refuseParameters(statement)
  refuseTwins(namesOf(statement))
  // SHOW and PRAGMA prepare as SELECT statements but cannot stand in a view. This statement is only parsed.
  await mapped(() => engine.connection.extractStatements(`CREATE TEMP VIEW ${RESULT} AS ${sql}`))
  // The statements above have written a profile to this path.
  await rm(profilePath, { force: true })
  return execute(statement, request)
}

async function execute(
  statement: DuckDBPreparedStatement,
  { profilePath, rowsLimit, bytesLimit }: Input,
): Promise<AnswerOf<'preview'>> {
  // Loading this module takes 0.1 s and some megabytes, and few processes run previews.
  const { arrowBytes } = await import('../../../lake/engine/arrow.ts')
  const started = performance.now()
  const result = await mapped(() => statement.stream())
  try {
    const { bytes, rowsRead, truncated } = await arrowBytes(result, { rowsLimit, bytesLimit })
    let rowCount = rowsRead
    // A stream must not be read again after its end.
    let chunk = truncated ? await nextChunk(result) : undefined
    for (; chunk !== undefined; chunk = await nextChunk(result)) rowCount += chunk.rowCount
    const executeMs = performance.now() - started
    const profile = await profileAt(profilePath)
    return { arrow: bytes, columns: columnsOf(result), rowCount, executeMs, profile }
  } catch (error) {
    if (error instanceof Error && error.name === 'ResultTooLarge') throw new Refused(error.message)
    // A stream loses the message of its error. Running the statement again throws it.
    await mapped(() => statement.run())
    throw error
  }
}

const NO_PROFILE = JSON.stringify({
  system_peak_buffer_memory: 0,
  system_peak_temp_dir_size: 0,
  children: [],
})

/** The engine writes no profile for a plan that consists of values only. */
async function profileAt(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return NO_PROFILE
    throw error
  }
}
