// Memory for parts of transfers that run beside the part a caller waits for. All transfers of a process share it, so many
// concurrent transfers take no more memory than a few. Without a spare buffer, a transfer sends or reads one part at a time.

/** The size of one part: the smallest that S3 accepts in an upload of several parts. */
export const PART_BYTES = 5 * 1_048_576
/** Together 20 MiB. A single transfer then has five parts under way. */
const SPARE_MAX = 4

let taken = 0

/** Takes one spare buffer and returns the function that gives it back, or returns null when all are taken. */
export function takeSpareBuffer(): (() => void) | null {
  if (taken === SPARE_MAX) return null
  taken += 1
  let isTaken = true
  return () => {
    if (isTaken) taken -= 1
    isTaken = false
  }
}
