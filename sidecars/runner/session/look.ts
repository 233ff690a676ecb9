import type { EngineLease } from '../engine/engine-lease.ts'
import type { SqlParameters } from '../engine/engine-messages.ts'
import type { Level } from './attempt-log.ts'

interface LookIn {
  engine: Pick<EngineLease, 'call'>
  /** An open instance that can read the files. */
  instance: number
  /** Called with each line for the log. */
  write(level: Level, text: string): void
  signal: AbortSignal
  /** The result becomes a new table, so no columns of a table show that the files were read as another one. */
  isNewTable?: boolean
}

/**
 * The text with readers that look at all values of their files. Only texts that name a landing zone need this. Throws
 * EngineFault for files that no type keeps.
 */
export async function lookedAt(
  sql: string,
  { engine, instance, write, signal, isNewTable = false }: LookIn,
  params: SqlParameters = [],
): Promise<string> {
  const { sql: text, notes } = await engine.call(
    { kind: 'look', number: instance, sql, params, isNewTable },
    signal,
  )
  for (const note of notes) write(note.level, note.text)
  return text
}
