import { AuthorError } from '../../../lake/pipeline/author-error.ts'
import { usageOfDirectory, watchDirectory } from '../interpreter/directory-usage.ts'

/** Interval between two checks of the files. An engine writes some hundred MB per second. */
const LOOK_MS = 250

/**
 * Runs `write` with a signal that aborts it when the directory holds more than `bytes`. Throws AuthorError in that case, and
 * the errors of `write`. The caller must remove the written files.
 */
export async function withinOutput<Result>(
  { directory, bytes, signal }: { directory: string; bytes: number; signal: AbortSignal },
  write: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const limit = { bytes, files: Number.POSITIVE_INFINITY }
  const full = new AbortController()
  const usage = () => usageOfDirectory(directory, limit)
  const endWatch = watchDirectory(usage, { ...limit, everyMs: LOOK_MS }, () => full.abort(tooMuch(bytes)))
  try {
    const result = await write(AbortSignal.any([signal, full.signal]))
    // The last files may have been written after the last check.
    if ((await usage()).bytes > bytes) throw tooMuch(bytes)
    return result
  } finally {
    endWatch()
  }
}

const MIB = 1_048_576

const tooMuch = (bytes: number) =>
  new AuthorError(
    `the result needs more than ${Math.round(bytes / MIB)} MB of files (RUN_OUTPUT_LIMIT): write fewer rows or columns, or raise the limit`,
    { where: '' },
  )
