import type { Column } from '../../../lake/iceberg/format/types.ts'
import { AuthorError } from '../../../lake/pipeline/author-error.ts'
import { EngineFault } from '../engine/engine-messages.ts'
import { usageOfDirectory, watchDirectory } from '../interpreter/directory-usage.ts'

// `engine: auto` executes a run in DuckDB, and again in Spark when DuckDB lacks memory for it.

/** DuckDB lacks memory for a run, which may be executed in Spark instead. */
export class NeedsLargerEngine extends Error {
  constructor(
    override readonly cause: unknown,
    /** The columns of the result in DuckDB. */
    readonly columns: readonly Column[],
  ) {
    super('the run needs a larger engine')
  }
}

/** The run spilled more than AUTO_SPILL_LIMIT. */
export class SpilledTooMuch extends AuthorError {}

export const lacksMemory = (error: unknown): boolean =>
  error instanceof SpilledTooMuch || (error instanceof EngineFault && error.kind === 'out_of_memory')

/** Interval between two checks of the spilled rows. */
const LOOK_MS = 250
const MIB = 1_048_576

/**
 * Runs `work` with a signal that aborts it when the directory holds more than `bytes` besides `written`, the result. Throws
 * SpilledTooMuch in that case, and the errors of `work`.
 */
export async function withinSpill<Result>(
  {
    directory,
    written,
    bytes,
    signal,
  }: { directory: string; written: string; bytes: number; signal: AbortSignal },
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const limit = { bytes: Number.POSITIVE_INFINITY, files: Number.POSITIVE_INFINITY }
  const full = new AbortController()
  const usage = async () => {
    const [all, result] = await Promise.all([directory, written].map((path) => usageOfDirectory(path, limit)))
    return { files: 0, bytes: (all?.bytes ?? 0) - (result?.bytes ?? 0) }
  }
  const message = `the run spilled more than ${Math.round(bytes / MIB)} MB (AUTO_SPILL_LIMIT)`
  const endWatch = watchDirectory(usage, { bytes, files: 1, everyMs: LOOK_MS }, () =>
    full.abort(new SpilledTooMuch(message, { where: '' })),
  )
  try {
    return await work(AbortSignal.any([signal, full.signal]))
  } catch (error) {
    signal.throwIfAborted()
    full.signal.throwIfAborted()
    throw error
  } finally {
    endWatch()
  }
}

/** Types whose values Spark converts to each other without a difference, in a session whose time zone is UTC. */
const CLASSES: readonly RegExp[] = [
  /^(U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|DECIMAL\(.*\))$/,
  /^TIMESTAMP(_S|_MS|_NS| WITH TIME ZONE)?$/,
]

/**
 * The columns of the result in DuckDB, which the table gets from Spark too. Throws AuthorError when the query has other columns in
 * Spark.
 */
export function sameColumns(duckdb: readonly Column[], spark: readonly Column[]): readonly Column[] {
  const refuse = (reason: string): never => {
    throw new AuthorError(`engine auto: ${reason}, so the run cannot move to Spark`, { where: '' })
  }
  if (duckdb.length !== spark.length)
    refuse(`the query has ${duckdb.length} columns in DuckDB and ${spark.length} in Spark`)
  for (const [index, { name, type }] of duckdb.entries()) {
    const other = spark[index]
    if (other?.name.toLowerCase() !== name.toLowerCase())
      refuse(
        `column ${index + 1} is ${JSON.stringify(name)} in DuckDB and ${JSON.stringify(other?.name)} in Spark`,
      )
    const isSame =
      other?.type === type || CLASSES.some((like) => like.test(type) && like.test(other?.type ?? ''))
    if (!isSame && other?.type !== '"NULL"')
      refuse(`column ${JSON.stringify(name)} is ${type} in DuckDB and ${other?.type} in Spark`)
  }
  return duckdb
}
